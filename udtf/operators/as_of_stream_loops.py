"""Loops of the AS OF join over micro-batches: fates, waiting rows, answers. Compiled by `compiled_stream`.

The rules themselves are `as_of_kernel`'s.
"""

from __future__ import annotations

from typing import Any

from udtf.operators.as_of_kernel import (
    ACCEPTED,
    MATCH,
    WAITS,
    distance,
    due_until,
    fate_of_left,
    fate_of_right,
    look_up,
    verdict,
)
from udtf.operators.as_of_stream_pool import CELL, KNOWN, LENGTH, START, TIME, put_version, put_versions


def decide_left(
    times: Any, has_time: Any, has_key: Any, now: Any, max_future: Any, wait: Any, fates: Any, clock: Any
) -> Any:
    """Fate of every stream row, and the stream time after it; returns the last one."""
    for row in range(len(times)):
        fate = fate_of_left(has_time[row], has_key[row], times[row], now, max_future, wait)
        if (fate in (ACCEPTED, WAITS)) and times[row] > now:
            now = times[row]
        fates[row] = fate
        clock[row] = now
    return now


def decide_right(
    times: Any, has_time: Any, has_key: Any, now: Any, max_future: Any, retention: Any, fates: Any, clock: Any
) -> Any:
    """Fate of every table row, and the store's stream time after it; returns the last one."""
    for row in range(len(times)):
        fate = fate_of_right(has_time[row], has_key[row], times[row], now, max_future, retention)
        if fate == ACCEPTED and times[row] > now:
            now = times[row]
        fates[row] = fate
        clock[row] = now
    return now


def find_causes(times: Any, entered: Any, entering: Any, clock: Any, wait: Any, causes: Any) -> None:
    """The stream row that releases each waiting row: the first to enter, it or a later one, that makes it due.

    `times` are those of the waiting rows, ascending, all of which leave; `entered` is the stream row that each of them
    is itself, -1 when it waits since before; `entering` are the stream rows that enter the buffer, of which the last
    makes all due; `clock` is by stream row.
    """
    low = 0
    for index in range(len(times)):
        while low + 1 < len(entering) and due_until(clock[entering[low]], wait) < times[index]:
            low += 1
        causes[index] = max(entering[low], entered[index])


def last_before(times: Any, low: int, high: int, time: Any) -> int:
    """A place in [low, high) from which on nothing is missed: a version before `time`, or `low`.

    Looked for from the back in growing steps, since streams ask for what is recent.
    """
    step = 1
    while high - step > low:
        if times[high - step] < time:
            return high - step
        step *= 2
    return low


def known_versions(versions: Any, start: int, end: int, known: Any, scratch: Any) -> int:
    """Copy places and times of the versions known by then (C4) to `scratch`; returns how many they are."""
    count = 0
    for place in range(start, end):
        if versions[place, KNOWN] <= known:
            scratch[0, count] = place
            scratch[1, count] = versions[place, TIME]
            count += 1
    return count


def join_stream(
    codes: Any,
    coming: Any,
    arrivals: Any,
    ask_codes: Any,
    ask_times: Any,
    ask_known: Any,
    puts_before: Any,
    nows: Any,
    reasons: Any,
    meta: Any,
    versions: Any,
    scratch: Any,
    no_tree: Any,
    retention: Any,
    tolerance: Any,
    direction: int,
    exclusive: bool,
    has_known: bool,
    rows: Any,
) -> int:
    """Put the versions and answer the rows that ask, as in the order of arrival: what came before counts, nothing else.

    Keys know nothing of each other but the store's stream time, so they are gone through one after the other: versions
    and rows that ask stand by code, then as they come. Memory is read forward, which is several times as fast.

    `codes`, `coming` and `arrivals` (0, 1, .. by arrival) are of the accepted versions. A row that asks comes after
    `puts_before` versions, when the store's stream time is in `nows`; where its reason is not MATCH the answer is
    settled already. `scratch` has room for two numbers per version of any key. `rows` (-1 throughout) gets
    the payload row of every match, `reasons` why there is none; returns how many versions there are more.
    """
    put = more = 0
    times = versions[:, TIME]
    for ask in range(len(ask_codes)):
        code = ask_codes[ask]
        while put < len(codes) and codes[put] <= code:
            if codes[put] == code and arrivals[put] >= puts_before[ask]:
                break
            more += put_version(meta, versions, times, codes[put], coming, put, has_known)
            put += 1
        if reasons[ask] != MATCH:
            continue
        low = meta[code, START] if code >= 0 else 0
        high = low + meta[code, LENGTH] if code >= 0 else 0
        if has_known:
            high = known_versions(versions, low, high, ask_known[ask], scratch)
            place = look_up(scratch[1], no_tree, 0, high, ask_times[ask], nows[ask], retention, direction, exclusive)
            place = scratch[0, place] if place >= 0 else place
        else:
            low = last_before(times, low, high, ask_times[ask])
            place = look_up(times, no_tree, low, high, ask_times[ask], nows[ask], retention, direction, exclusive)
        reasons[ask] = judge(versions, place, ask_times[ask], tolerance)
        if reasons[ask] == MATCH:
            rows[ask] = versions[place, CELL] >> 2
    return more + put_versions(codes[put:], coming[put:], meta, versions, has_known)


def judge(versions: Any, place: int, as_of: Any, tolerance: Any) -> int:
    """The reason of an answer, from what `look_up` says."""
    if place < 0:
        return -place
    flags = versions[place, CELL] & 3
    return verdict(flags & 2 != 0, flags & 1 != 0, distance(as_of, versions[place, TIME]), tolerance)
