"""The pick rule of the AS OF join, written once, and the loops that apply it to whole tables.

Plain functions over indexable numbers: the record-by-record logic calls them on short lists as they are, the bounded
join calls them compiled (`udtf.operators.compiled`). This file imports nothing, since numba's cache of compiled code is
renewed when the file of a function changes, and only then.

Source: semantics.md C1 to C5. Versions are sorted by (key, time, ties, arrival); `low` and `high` enclose one key.
"""

from __future__ import annotations

from typing import Any, Final

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

#: Names of the codes above (semantics.md C5); None on a match.
REASONS: Final = (
    None,
    "null_time",
    "no_key",
    "beyond_retention",
    "before_first",
    "after_last",
    "tombstone",
    "beyond_tolerance",
    "condition",
)

_FARTHEST: Final = 2**63 - 1


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


def distance(one: Any, other: Any) -> Any:
    """How far apart two spots are; what does not fit into 64 bits is farthest."""
    apart = one - other if one >= other else other - one
    if apart < 0:  # only compiled: int64 wraps around
        return _FARTHEST
    return apart


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
    # A tie goes backward (C1).
    return after if distance(spots[after], spot) < distance(spots[before], spot) else before


def verdict(is_tombstone: Any, passes: Any, apart: Any, tolerance: Any) -> int:
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


def join_rows(
    codes: Any,
    as_of: Any,
    has_time: Any,
    spot: Any,
    known: Any,
    starts: Any,
    times: Any,
    spots: Any,
    tree: Any,
    tombstones: Any,
    passes: Any,
    direction: int,
    exclusive: bool,
    tolerance: Any,
    places: Any,
    reasons: Any,
) -> int:
    """Answer every left row: its place among the sorted versions (-1: no match) and its reason; returns the matches.

    Empty arrays stand for "all": `has_time` (all have one), `known`, `tombstones` (none is), `passes` (all do).
    `starts` has one entry more than there are keys; code -1 is a NULL key or one that no version has.
    """
    matches = 0
    for row in range(len(codes)):
        code = codes[row]
        places[row] = -1
        if len(has_time) > 0 and not has_time[row]:
            reasons[row] = NULL_TIME
            continue
        if code < 0:
            reasons[row] = NO_KEY
            continue
        low, high = starts[code], starts[code + 1]
        then = known[row] if len(known) > 0 else 0
        place = pick(times, spots, tree, low, high, as_of[row], spot[row], then, direction, exclusive)
        if place < 0:
            reasons[row] = reason_without_pick(tree, low, high, then, direction)
            continue
        reason = verdict(
            len(tombstones) > 0 and tombstones[place],
            len(passes) == 0 or passes[place],
            distance(spot[row], spots[place]) if tolerance >= 0 else tolerance,
            tolerance,
        )
        reasons[row] = reason
        if reason == MATCH:
            places[row] = place
            matches += 1
    return matches


def count_codes(codes: Any, starts: Any) -> None:
    """Turn `starts` (zeros, one more than there are keys) into where each key begins; codes below 0 do not count."""
    for row in range(len(codes)):
        if codes[row] >= 0:
            starts[codes[row] + 1] += 1
    for code in range(1, len(starts)):
        starts[code] += starts[code - 1]


def place_by_code(codes: Any, arrivals: Any, starts: Any, order: Any) -> None:
    """Counting sort: `order` gets the rows key by key, within a key in the order of `arrivals` (empty: as they are)."""
    ends = starts[:-1].copy()
    for index in range(len(codes)):
        row = arrivals[index] if len(arrivals) > 0 else index
        code = codes[row]
        if code >= 0:
            order[ends[code]] = row
            ends[code] += 1


def sort_each_key(times: Any, starts: Any, order: Any) -> None:
    """Sort each key's rows by time where they are not yet, stably. `times` is by row, `order` by place."""
    for code in range(len(starts) - 1):
        low, high = starts[code], starts[code + 1]
        for place in range(low + 1, high):
            if times[order[place]] < times[order[place - 1]]:
                rows = order[low:high].copy()
                order[low:high] = rows[times[rows].argsort(kind="mergesort")]
                break


def dense_codes(keys: Any, lowest: int, table: Any, codes: Any) -> None:
    """Look int keys up in a table of codes by their distance from the lowest key; outside of it: -1."""
    highest = lowest + (len(table) - 1)  # NB: the length first, since the highest key may be the last int64
    for row in range(len(keys)):
        key = keys[row]
        codes[row] = table[key - lowest] if lowest <= key <= highest else -1
