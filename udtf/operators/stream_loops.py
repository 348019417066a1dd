"""Loops over the keys of live streams: an open-addressing table from hashes to codes. Compiled by `compiled_stream`.

This file imports nothing. A slot is (hash, code); code -1 is a free one. The number of slots is a power of two, and at
least half of them are free.
"""

from __future__ import annotations

from typing import Any


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
