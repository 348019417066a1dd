"""The loop of an AS OF join with corrections over a micro-batch; compiled by `stream.py`.

Versions and left rows stand in pools by key, see `udtf.operators.as_of_join.loops`; a left row is a time and the number
of its payload row.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.operators.as_of_join.loops import CELL, LENGTH, START, TIME, last_before, put_version, reason_of
from udtf.operators.as_of_join.rules import BACKWARD, FORWARD, MATCH, first_after, first_not_before, look_up
from udtf.rules import UNSET, horizon, is_behind

#: Columns of what is given out: the place among the rows of both sides of the row that caused it, the left row, and
#: before and now the reason (NOTHING: not answered yet) and the payload row of the version.
CAUSE: Final = 0
LEFT: Final = 1
OLD_REASON: Final = 2
OLD: Final = 3
NEW_REASON: Final = 4
NEW: Final = 5
GIVEN_WIDTH: Final = 6
NOTHING: Final = -1

ASKED: Final = 0
PUT: Final = 1
VERSIONS: Final = 2

_ALL: Final = -1  # of the history: what may answer a row that is kept has not been dropped


def answer_row(
    versions: Any, times: Any, no_tree: Any, low: int, high: int, as_of: Any, now: Any, history: Any, tolerance: Any,
    direction: int, exclusive: bool, given: Any, row: int, column: int,
) -> None:  # fmt: skip
    """Write the reason and the payload row that answer a time, from the versions in [low, high)."""
    place = look_up(times, no_tree, low, high, as_of, now, history, direction, exclusive)
    reason = reason_of(versions, place, as_of, tolerance)
    given[row, column] = reason
    given[row, column + 1] = versions[place, CELL] >> 2 if reason == MATCH else NOTHING


def first_affected(
    times: Any, start: int, end: int, left_times: Any, low: int, high: int, time: Any, direction: int, settled: Any
) -> int:
    """The first left row in [low, high) that a version of that time may answer, of a key with versions [start, end).

    Rows before `settled` are not corrected any more, and may still be there.
    """
    first = time
    if start == end:
        first = settled
    elif direction != BACKWARD:
        earlier = first_not_before(times, start, end, time) - 1
        first = settled if earlier < start else max(times[earlier], settled)
    return first_not_before(left_times, last_before(left_times, low, high, first), high, first)


def end_of_affected(
    times: Any, start: int, end: int, left_times: Any, low: int, high: int, time: Any, direction: int
) -> int:
    """The first left row in [low, high] after those that a version of that time may answer."""
    last = time
    if start == end:
        return high
    if direction != FORWARD:
        if times[end - 1] <= time:
            return high
        last = times[first_after(times, start, end, time)]
    return first_after(left_times, low, high, last)


def correct_put(
    put: int, codes: Any, coming: Any, places: Any, befores: Any, meta: Any, versions: Any, left_meta: Any, left: Any,
    no_tree: Any, history: Any, tolerance: Any, direction: int, exclusive: bool, given: Any, count: int,
) -> tuple[int, int]:  # fmt: skip
    """Put a version, and give what it answers otherwise than before anew.

    These are rows from its time to the next version's, ahead from the one before to it. With the first version of a key
    all its rows are looked at: they had none, and have none on their side now.

    Returns:
        how many rows are given then, and how many versions there are more.
    """
    code, time, before = codes[put], coming[put, TIME], befores[put]
    times, left_times = versions[:, TIME], left[:, TIME]
    start, end = meta[code, START], meta[code, START] + meta[code, LENGTH]
    low = left_meta[code, START]
    high = low + left_meta[code, LENGTH]
    settled = horizon(before, history) if history >= 0 and before != UNSET else UNSET
    low = first_affected(times, start, end, left_times, low, high, time, direction, settled)
    high = end_of_affected(times, start, end, left_times, low, high, time, direction)
    for row in range(low, high):
        at = count + row - low
        answer_row(
            versions, times, no_tree, start, end, left_times[row], before, _ALL, tolerance, direction, exclusive, given,
            at, OLD_REASON,
        )  # fmt: skip
    more = put_version(meta, versions, times, code, coming, put, False)
    end = start + meta[code, LENGTH]
    first = count
    for row in range(low, high):
        at = first + row - low
        answer_row(
            versions, times, no_tree, start, end, left_times[row], before, _ALL, tolerance, direction, exclusive, given,
            at, NEW_REASON,
        )  # fmt: skip
        if given[at, OLD_REASON] == given[at, NEW_REASON] and given[at, OLD] == given[at, NEW]:
            continue
        for column in range(OLD_REASON, GIVEN_WIDTH):
            given[count, column] = given[at, column]
        given[count, CAUSE] = places[put]
        given[count, LEFT] = left[row, CELL]
        count += 1
    return count, more


def correct_stream(
    codes: Any, coming: Any, places: Any, befores: Any, ask_codes: Any, asking: Any, ask_places: Any, ask_nows: Any,
    ask_reasons: Any, meta: Any, versions: Any, left_meta: Any, left: Any, no_tree: Any, history: Any, tolerance: Any,
    direction: int, exclusive: bool, done: Any, given: Any, stays: Any,
) -> int:  # fmt: skip
    """Put versions and answer left rows as in the order of arrival, key by key; goes on from what is `done`.

    Versions and left rows come by code (-1 is none), then by arrival. Of versions there are their pool rows, their
    places among the rows of both sides, and stream time before each; of left rows the same with stream time when each
    came, and the reason where it is settled, else MATCH. `done` says how many left rows are asked, how many versions
    are put, and how many of these there are more; `given` gets what is given out, key by key, `stays` which left rows
    are kept. Returns how many rows are given; where `done` is not all, `given` was too short: call again with another.
    """
    count = 0
    times, left_times = versions[:, TIME], left[:, TIME]
    while done[ASKED] < len(ask_codes) or done[PUT] < len(codes):
        ask, put = done[ASKED], done[PUT]
        is_put = put < len(codes)
        if is_put and ask < len(ask_codes):
            is_put = codes[put] < ask_codes[ask] or (codes[put] == ask_codes[ask] and places[put] < ask_places[ask])
        if is_put:
            if count + left_meta[codes[put], LENGTH] > len(given):
                return count
            count, more = correct_put(
                put, codes, coming, places, befores, meta, versions, left_meta, left, no_tree, history, tolerance,
                direction, exclusive, given, count,
            )  # fmt: skip
            done[VERSIONS] += more
            done[PUT] += 1
            continue
        if count == len(given):
            return count
        code, time = ask_codes[ask], asking[ask, TIME]
        given[count, CAUSE] = ask_places[ask]
        given[count, LEFT] = asking[ask, CELL]
        given[count, OLD_REASON] = NOTHING
        given[count, OLD] = NOTHING
        if ask_reasons[ask] != MATCH:
            given[count, NEW_REASON] = ask_reasons[ask]
            given[count, NEW] = NOTHING
        else:
            start, end = meta[code, START], meta[code, START] + meta[code, LENGTH]
            low = last_before(times, start, end, time)
            answer_row(
                versions, times, no_tree, low, end, time, ask_nows[ask], history, tolerance, direction, exclusive,
                given, count, NEW_REASON,
            )  # fmt: skip
            if not is_behind(time, ask_nows[ask], history):
                put_version(left_meta, left, left_times, code, asking, ask, True)
                stays[ask] = True
        count += 1
        done[ASKED] += 1
    return count
