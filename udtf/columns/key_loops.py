"""Loops over keys and over the rows of a micro-batch, compiled by `udtf.columns.compiled`.

Codes of keys are numbers from 0 on: they are counted, sorted and looked up. An open-addressing table leads from hashes
to codes: a slot is (hash, code), code -1 is a free one; the number of slots is a power of two, and at least half of
them are free.
"""

from __future__ import annotations

from typing import Any

from udtf.rules import ACCEPTED, WAITS, outcome_of_left, outcome_of_right


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


def find_codes(hashes: Any, wanted: Any, slots: Any, codes: Any) -> None:
    """The code of every wanted hash, -1 where it has none or is not wanted."""
    mask = len(slots) - 1
    for row in range(len(hashes)):
        codes[row] = -1
        if not wanted[row]:
            continue
        key = hashes[row]
        slot = (
            (key >> 32) ^ (key >> 11)
        ) & mask  # NB: the lowest bits chose the task, they are alike in all of its keys
        while slots[slot, 1] >= 0:
            if slots[slot, 0] == key:
                codes[row] = slots[slot, 1]
                break
            slot = (slot + 1) & mask


def place_codes(hashes: Any, slots: Any, size: int, codes: Any, firsts: Any) -> int:
    """The code of every hash, a new one from `size` on where it has none; `firsts` gets the rows that brought them.

    Returns:
        how many codes there are then.
    """
    mask = len(slots) - 1
    before = size
    for row in range(len(hashes)):
        key = hashes[row]
        slot = ((key >> 32) ^ (key >> 11)) & mask
        while slots[slot, 1] >= 0 and slots[slot, 0] != key:
            slot = (slot + 1) & mask
        if slots[slot, 1] < 0:
            slots[slot, 0] = key
            slots[slot, 1] = size
            firsts[size - before] = row
            size += 1
        codes[row] = slots[slot, 1]
    return size


def move_slots(old: Any, slots: Any) -> None:
    """Fill a larger table of slots from a smaller one."""
    mask = len(slots) - 1
    for place in range(len(old)):
        if old[place, 1] >= 0:
            key = old[place, 0]
            slot = ((key >> 32) ^ (key >> 11)) & mask
            while slots[slot, 1] >= 0:
                slot = (slot + 1) & mask
            slots[slot, 0] = key
            slots[slot, 1] = old[place, 1]


# The loop that decides what happens to each stream row of a micro-batch, compiled by `udtf.columns.compiled`.


def decide_left(
    times: Any, has_time: Any, has_key: Any, now: Any, max_future: Any, wait: Any, outcomes: Any, clock: Any
) -> Any:
    """Outcome of every stream row, and the stream time after it; returns the last one."""
    for row in range(len(times)):
        outcome = outcome_of_left(has_time[row], has_key[row], times[row], now, max_future, wait)
        if (outcome in (ACCEPTED, WAITS)) and times[row] > now:
            now = times[row]
        outcomes[row] = outcome
        clock[row] = now
    return now


def decide_right(
    times: Any, has_time: Any, has_key: Any, now: Any, max_future: Any, retention: Any, outcomes: Any, clock: Any
) -> Any:
    """Outcome of every table row, and the store's stream time after it; returns the last one."""
    for row in range(len(times)):
        outcome = outcome_of_right(has_time[row], has_key[row], times[row], now, max_future, retention)
        if outcome == ACCEPTED and times[row] > now:
            now = times[row]
        outcomes[row] = outcome
        clock[row] = now
    return now
