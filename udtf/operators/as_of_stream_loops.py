"""Loops of the AS OF join over micro-batches: fates, waiting rows, versions. Compiled by `compiled_stream`.

The rules themselves are `as_of_kernel`'s. `meta` has one row per key: where its versions start, how many there are, how
many fit, and how many are about to come. `versions` has one row per version: its time, what is left of it (see `CELL`),
when it became known, and its rank among those of its time.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.operators.as_of_kernel import (
    ACCEPTED,
    MATCH,
    WAITS,
    distance,
    due_until,
    fate_of_left,
    fate_of_right,
    first_after,
    first_not_before,
    look_up,
    verdict,
)

START: Final = 0
LENGTH: Final = 1
ROOM: Final = 2
COMING: Final = 3

TIME: Final = 0
CELL: Final = 1  # number of the payload row times 4, plus 2 for a tombstone, plus 1 where the filter is true
KNOWN: Final = 2
RANK: Final = 3


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

    `times` are those of the waiting rows, all of which leave; `entered` is the stream row that each of them is itself,
    -1 when it waits since before; `entering` are the stream rows that enter the buffer, `clock` is by stream row.
    """
    for index in range(len(times)):
        low, high = 0, len(entering)
        while low < high:
            middle = (low + high) >> 1
            if due_until(clock[entering[middle]], wait) < times[index]:
                low = middle + 1
            else:
                high = middle
        causes[index] = max(entering[low], entered[index])


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
                versions[used + place] = versions[start + place]
            meta[code, START] = used
            meta[code, ROOM] = room
            used += room
    return used


def put_version(meta: Any, versions: Any, code: int, version: Any, keep_equal_times: bool) -> int:
    """Put a version in order of (time, rank, arrival); of equal times only the last stays, unless all are kept.

    Returns how many versions there are more.
    """
    start = meta[code, START]
    end = start + meta[code, LENGTH]
    place = end
    if end > start and versions[end - 1, TIME] >= version[TIME]:
        place = first_after(versions[:, TIME], start, end, version[TIME])
        while (
            place > start and versions[place - 1, TIME] == version[TIME] and versions[place - 1, RANK] > version[RANK]
        ):
            place -= 1
        if not keep_equal_times:
            if place > start and versions[place - 1, TIME] == version[TIME]:
                versions[place - 1] = version
                return 0
            if place < end and versions[place, TIME] == version[TIME]:
                return 0  # the one there wins
        for moved in range(end, place, -1):
            versions[moved] = versions[moved - 1]
    versions[place] = version
    meta[code, LENGTH] += 1
    return 1


def put_versions(codes: Any, coming: Any, meta: Any, versions: Any, keep_equal_times: bool) -> int:
    """Put versions in the order of arrival, there is room for all; returns how many there are more."""
    more = 0
    for row in range(len(codes)):
        more += put_version(meta, versions, codes[row], coming[row], keep_equal_times)
    return more


def known_versions(versions: Any, start: int, end: int, known: Any, places: Any, times: Any) -> int:
    """Copy places and times of the versions known by then (C4); returns how many they are."""
    count = 0
    for place in range(start, end):
        if versions[place, KNOWN] <= known:
            places[count] = place
            times[count] = versions[place, TIME]
            count += 1
    return count


def join_stream(
    codes: Any,
    coming: Any,
    clock: Any,
    now: Any,
    ask_codes: Any,
    ask_times: Any,
    ask_known: Any,
    puts_before: Any,
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
    """Put the versions and answer the rows that ask, in the order of arrival: what came before counts, nothing else.

    `codes`, `coming` and `clock` are the accepted versions and the store's stream time after each, `now` the one before
    them. The rows that ask stand in the order of emission (code -1 is an unknown key), after `puts_before` versions
    each; where a reason is not MATCH the answer is settled already. `scratch` has room for two numbers per version of
    any key. `rows` gets the payload row of every answer, -1 for none, `reasons` why; returns how many versions there
    are more.
    """
    put = 0
    more = 0
    for ask in range(len(ask_codes)):
        while put < puts_before[ask]:
            more += put_version(meta, versions, codes[put], coming[put], has_known)
            now = clock[put]
            put += 1
        rows[ask] = -1
        if reasons[ask] != MATCH:
            continue
        low, high = 0, 0
        if ask_codes[ask] >= 0:
            low = meta[ask_codes[ask], START]
            high = low + meta[ask_codes[ask], LENGTH]
        as_of = ask_times[ask]
        if has_known:
            count = known_versions(versions, low, high, ask_known[ask], scratch[0], scratch[1])
            place = look_up(scratch[1], no_tree, 0, count, as_of, now, retention, direction, exclusive)
            if place >= 0:
                place = scratch[0, place]
        else:
            place = look_up(versions[:, TIME], no_tree, low, high, as_of, now, retention, direction, exclusive)
        if place < 0:
            reasons[ask] = -place
            continue
        cell = versions[place, CELL]
        apart = distance(as_of, versions[place, TIME])
        reasons[ask] = verdict((cell & 2) != 0, (cell & 1) != 0, apart, tolerance)
        if reasons[ask] == MATCH:
            rows[ask] = cell >> 2
    while put < len(codes):
        more += put_version(meta, versions, codes[put], coming[put], has_known)
        put += 1
    return more


def expire_key(meta: Any, versions: Any, code: int, horizon: Any) -> None:
    """Drop what no look-up at or after the horizon can pick: the rule of `Versions.expire`."""
    start = meta[code, START]
    length = meta[code, LENGTH]
    end = first_not_before(versions[:, TIME], start, start + length, horizon)
    kept = end  # versions in [kept, end) stay; written from the back
    for place in range(end - 1, start - 1, -1):
        if kept == end or versions[place, KNOWN] < versions[kept, KNOWN]:
            kept -= 1
            versions[kept] = versions[place]
    meta[code, START] = kept
    meta[code, LENGTH] = start + length - kept
    meta[code, ROOM] -= kept - start


def pack(meta: Any, size: int, versions: Any, horizon: Any, expires: bool, packed: Any, payload: Any) -> int:
    """Expire all keys, copy what is left to `packed` key by key, and number its payload rows anew.

    `payload` gets the old numbers of the payload rows in the new order; returns how many versions are left.
    """
    used = 0
    for code in range(size):
        if expires:
            expire_key(meta, versions, code, horizon)
        start, length = meta[code, START], meta[code, LENGTH]
        for place in range(start, start + length):
            packed[used] = versions[place]
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
    for row in range(len(codes)):
        start = meta[codes[row], START]
        end = start + meta[codes[row], LENGTH]
        place = first_not_before(versions[:, TIME], start, end, coming[row, TIME])
        while place < end and versions[place, TIME] == coming[row, TIME]:
            if count < len(places):
                places[count] = place
            count += 1
            place += 1
    return count
