"""Loops of the AS OF join over micro-batches: outcomes, waiting rows, answers. Compiled by `compiled.py`.

The rules themselves are in `rules.py`.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.operators.as_of_join.rules import (
    MATCH,
    NO_KEY,
    NULL_TIME,
    first_after,
    first_not_before,
    look_up,
    match_outcome,
    pick,
    reason_without_pick,
)
from udtf.rules import distance, due_until

# Loops over the pool of versions: make room, put, expire. Compiled by `compiled.py`.
#
# `meta` has one row per key: where its versions start, how many there are, how many fit, and how many are about to
# come. `versions` has one row per version: its time, what is left of it (see `CELL`), and where the join needs them,
# when it became known and its rank among those of its time.


START: Final = 0
LENGTH: Final = 1
ROOM: Final = 2
COMING: Final = 3

TIME: Final = 0
CELL: Final = 1  # number of the payload row times 4, plus 2 for a tombstone, plus 1 where the filter is true
KNOWN: Final = 2
RANK: Final = 3


def make_coming(codes: Any, meta: Any) -> int:
    """Count what comes to each key, and return how much room of the pool it takes where it does not fit."""
    for code in codes:
        meta[code, COMING] += 1
    more = 0
    for code in codes:
        coming = meta[code, COMING]
        if coming > 0:
            if meta[code, LENGTH] + coming > meta[code, ROOM]:
                more += max(2 * meta[code, ROOM], meta[code, LENGTH] + coming)
            meta[code, COMING] = -coming  # seen
    return more


def make_room(codes: Any, meta: Any, versions: Any, used: int) -> int:
    """Move the keys whose versions will not fit to the end of the pool; returns how much of it is used then."""
    for code in codes:
        coming = -meta[code, COMING]
        meta[code, COMING] = 0
        if coming > 0 and meta[code, LENGTH] + coming > meta[code, ROOM]:
            start, length = meta[code, START], meta[code, LENGTH]
            room = max(2 * meta[code, ROOM], length + coming)
            for place in range(length):
                copy_version(versions, start + place, versions, used + place)
            meta[code, START] = used
            meta[code, ROOM] = room
            used += room
    return used


def copy_version(source: Any, at: int, target: Any, to: int) -> None:
    """Copy one version."""
    # NB: number by number, since a slice of an array counts references, which costs more than all the rest.
    for column in range(target.shape[1]):
        target[to, column] = source[at, column]


def put_version(meta: Any, versions: Any, times: Any, code: int, coming: Any, row: int, keep_equal_times: bool) -> int:
    """Put a version in order of (time, rank, arrival); of equal times only the last stays, unless all are kept.

    Returns how many versions there are more.
    """
    start = meta[code, START]
    end = start + meta[code, LENGTH]
    time = coming[row, TIME]
    place = end
    if end > start and times[end - 1] >= time:
        place = first_after(times, start, end, time)
        if coming.shape[1] > RANK:
            while place > start and times[place - 1] == time and versions[place - 1, RANK] > coming[row, RANK]:
                place -= 1
        if not keep_equal_times:
            if place > start and times[place - 1] == time:
                copy_version(coming, row, versions, place - 1)
                return 0
            if place < end and times[place] == time:
                return 0  # the one there wins
        for moved in range(end, place, -1):
            copy_version(versions, moved - 1, versions, moved)
    copy_version(coming, row, versions, place)
    meta[code, LENGTH] += 1
    return 1


def put_versions(codes: Any, coming: Any, meta: Any, versions: Any, keep_equal_times: bool) -> int:
    """Put versions in the order of arrival, there is room for all; returns how many there are more."""
    more = 0
    times = versions[:, TIME]
    for row in range(len(codes)):
        more += put_version(meta, versions, times, codes[row], coming, row, keep_equal_times)
    return more


def expire_key(meta: Any, versions: Any, times: Any, code: int, horizon: Any) -> None:
    """Drop what no look-up at or after the horizon can pick: the rule of `Versions.expire`."""
    start = meta[code, START]
    length = meta[code, LENGTH]
    end = first_not_before(times, start, start + length, horizon)
    kept = end  # versions in [kept, end) stay; written from the back
    has_known = versions.shape[1] > KNOWN
    for place in range(end - 1, start - 1, -1):
        if kept == end or (has_known and versions[place, KNOWN] < versions[kept, KNOWN]):
            kept -= 1
            copy_version(versions, place, versions, kept)
        elif not has_known:
            break
    meta[code, START] = kept
    meta[code, LENGTH] = start + length - kept
    meta[code, ROOM] -= kept - start


def pack(meta: Any, size: int, versions: Any, horizon: Any, expires: bool, packed: Any, payload: Any) -> int:
    """Expire all keys, copy what is left to `packed` key by key, and number its payload rows anew.

    `payload` gets the old numbers of the payload rows in the new order; returns how many versions are left.
    """
    used = 0
    times = versions[:, TIME]
    for code in range(size):
        if expires:
            expire_key(meta, versions, times, code, horizon)
        start, length = meta[code, START], meta[code, LENGTH]
        for place in range(start, start + length):
            copy_version(versions, place, packed, used)
            payload[used] = versions[place, CELL] >> 2
            packed[used, CELL] = used * 4 + (versions[place, CELL] & 3)
            used += 1
        meta[code, START] = used - length
        meta[code, ROOM] = length
    return used


def places_of_equal_time(codes: Any, coming: Any, meta: Any, versions: Any, places: Any) -> int:
    """The places of stored versions that some coming version has key and time of; returns how many, with repetitions.

    With `places` too short nothing beyond its end is written; then call again.
    """
    count = 0
    times = versions[:, TIME]
    for row in range(len(codes)):
        time = coming[row, TIME]
        end = meta[codes[row], START] + meta[codes[row], LENGTH]
        place = first_not_before(times, meta[codes[row], START], end, time)
        while place < end and times[place] == time:
            if count < len(places):
                places[count] = place
            count += 1
            place += 1
    return count


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
        reasons[ask] = reason_of(versions, place, ask_times[ask], tolerance)
        if reasons[ask] == MATCH:
            rows[ask] = versions[place, CELL] >> 2
    return more + put_versions(codes[put:], coming[put:], meta, versions, has_known)


def reason_of(versions: Any, place: int, as_of: Any, tolerance: Any) -> int:
    """The reason of an answer, from what `look_up` says."""
    if place < 0:
        return -place
    flags = versions[place, CELL] & 3
    return match_outcome(flags & 2 != 0, flags & 1 != 0, distance(as_of, versions[place, TIME]), tolerance)


# The loop of the bounded AS OF join: every left row of a table against all versions. Compiled by `compiled`.


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
        reason = match_outcome(
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
