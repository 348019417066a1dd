"""The rules of the AS OF join, written once: what happens to a row, and which version answers it.

Plain functions over indexable numbers: the record-by-record logic calls them on short lists as they are, the loops over
whole tables call them compiled (`udtf.numba_cache`). This file imports nothing.

Source: semantics.md C1 to C5, sections 2, 6, 7. Versions are sorted by (key, time, ties, arrival); `low` and `high`
enclose one key.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.metrics import UNMATCHED
from udtf.rules import FARTHEST, distance, is_behind

BACKWARD: Final = 0
FORWARD: Final = 1
NEAREST: Final = 2

MATCH: Final = 0
NULL_TIME: Final = 1
NO_KEY: Final = 2
BEYOND_RETENTION: Final = 3
BEFORE_FIRST: Final = 4
AFTER_LAST: Final = 5
TOMBSTONE: Final = 6
BEYOND_TOLERANCE: Final = 7
CONDITION: Final = 8

#: Names of the reasons above (semantics.md C5); None on a match.
REASONS: Final = (None, *UNMATCHED)


def first_not_before(times: Any, low: int, high: int, time: Any) -> int:
    """The first place in [low, high) whose time is >= `time`; high if none."""
    while low < high:
        middle = (low + high) >> 1
        if times[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


def first_after(times: Any, low: int, high: int, time: Any) -> int:
    """The first place in [low, high) whose time is > `time`; high if none."""
    while low < high:
        middle = (low + high) >> 1
        if times[middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


def last_known(tree: Any, low: int, place: int, known: Any) -> int:
    """The last place in [low, place] that was known then; -1 if none. An empty tree: everything is known.

    `tree` is a segment tree of minima over the versions' sequences: leaf i at size + i, node i over 2i and 2i + 1.
    """
    if place < low:
        return -1
    if len(tree) == 0:
        return place
    size = len(tree) >> 1
    node = place + size
    while tree[node] > known:
        while node & 1 == 0:  # a left child: everything before it lies left of its parent
            node >>= 1
        if node == 1:
            return -1
        node -= 1
        # NB: 1 is odd and has no sibling; any other odd node has its left sibling at node - 1.
    while node < size:
        node = 2 * node + 1 if tree[2 * node + 1] <= known else 2 * node
    return node - size if node - size >= low else -1


def first_known(tree: Any, place: int, high: int, known: Any) -> int:
    """The first place in [place, high) that was known then; -1 if none."""
    if place >= high:
        return -1
    if len(tree) == 0:
        return place
    size = len(tree) >> 1
    node = place + size
    while tree[node] > known:
        while node & 1 == 1:  # a right child: everything after it lies right of its parent
            node >>= 1
        if node == 0:
            return -1
        node += 1
    while node < size:
        node = 2 * node if tree[2 * node] <= known else 2 * node + 1
    return node - size if node - size < high else -1


def pick(
    times: Any,
    spots: Any,
    tree: Any,
    low: int,
    high: int,
    as_of: Any,
    spot: Any,
    known: Any,
    direction: int,
    exclusive: bool,
) -> int:
    """The place of the version that answers, -1 if none (C1, C3, C4).

    Args:
        times: order of the versions; any numbers that compare as the times do.
        spots: the same as numbers that can be subtracted; only NEAREST looks.
        tree: see `last_known`.
        low: first place of the key.
        high: one past the last place of the key.
        as_of: the row's AS OF time, comparable with `times`.
        spot: the same, comparable with `spots`.
        known: the row's KNOWN AS OF.
        direction: BACKWARD, FORWARD or NEAREST.
        exclusive: a version at exactly `as_of` does not count.
    """
    before = -1
    after = -1
    if direction != FORWARD:
        end = first_not_before(times, low, high, as_of) if exclusive else first_after(times, low, high, as_of)
        before = last_known(tree, low, end - 1, known)
    if direction != BACKWARD:
        start = first_after(times, low, high, as_of) if exclusive else first_not_before(times, low, high, as_of)
        after = first_known(tree, start, high, known)
        if after >= 0:  # of equal times the last in order wins (C3)
            after = last_known(tree, after, first_after(times, after, high, times[after]) - 1, known)
    if before < 0 or after < 0:
        return max(before, after)
    to_after, to_before = distance(spots[after], spot), distance(spots[before], spot)
    if to_after == to_before == FARTHEST:  # both as far as can be said: the sum of such ends does fit
        return after if spots[after] + spots[before] < spot + spot else before
    return after if to_after < to_before else before  # a tie goes backward (C1)


def match_outcome(is_tombstone: Any, passes: Any, apart: Any, tolerance: Any) -> int:
    """Why a picked version is no match after all, or MATCH; the order is C5's. A tolerance below 0 is none."""
    if is_tombstone:
        return TOMBSTONE
    if tolerance >= 0 and apart > tolerance:
        return BEYOND_TOLERANCE
    return MATCH if passes else CONDITION


def reason_without_pick(tree: Any, low: int, high: int, known: Any, direction: int) -> int:
    """Why there is no version to look at: none of the key (known), or all on the wrong side."""
    if last_known(tree, low, high - 1, known) < 0:
        return NO_KEY
    return AFTER_LAST if direction == FORWARD else BEFORE_FIRST


def look_up(
    times: Any,
    tree: Any,
    low: int,
    high: int,
    as_of: Any,
    stream_time: Any,
    retention: Any,
    direction: int,
    exclusive: bool,
) -> int:
    """The place of the version to look at, or minus the reason why there is none. All of [low, high) are known."""
    if low >= high:
        return -NO_KEY
    newest = times[high - 1]
    # Where history is gone, only the newest version still answers, when it begins by then (2.3).
    is_too_new = newest > as_of or (newest == as_of and exclusive and direction != FORWARD)
    if is_too_new and is_behind(as_of, stream_time, retention):
        return -BEYOND_RETENTION
    place = pick(times, times, tree, low, high, as_of, as_of, 0, direction, exclusive)
    return place if place >= 0 else -reason_without_pick(tree, low, high, 0, direction)
