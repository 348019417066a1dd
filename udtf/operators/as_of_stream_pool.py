"""Loops over the pool of versions: make room, put, expire. Compiled by `compiled_stream`.

`meta` has one row per key: where its versions start, how many there are, how many fit, and how many are about to come.
`versions` has one row per version: its time, what is left of it (see `CELL`), and where the join needs them, when it
became known and its rank among those of its time.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.operators.as_of_kernel import first_after, first_not_before

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
