"""Loops over codes of keys, which are numbers from 0 on: counting, sorting, looking up. Compiled by `compiled`.

This file imports nothing, see `as_of_kernel`.
"""

from __future__ import annotations

from typing import Any


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
