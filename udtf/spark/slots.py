"""Numbers that Spark's hash partitioning spreads evenly: one for each task."""

from __future__ import annotations

from functools import cache
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SEED: Final = 42


@cache
def slots(tasks: int) -> tuple[int, ...]:
    """Per task a number whose hash falls on it: `pmod(murmur3(slot), tasks) == task`.

    Grouped by these, tasks lie evenly over any number of partitions that divides their own.
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(murmur3(number) % tasks, number)
        number += 1
    return tuple(found[task] for task in range(tasks))


def murmur3(number: int) -> int:
    """Spark's hash of an int column (Murmur3 x86 32, seed 42), as a signed number.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    block = number * 0xCC9E2D51 & _MASK
    block = _rotated(block, 15) * 0x1B873593 & _MASK
    state = _rotated(_SEED ^ block, 13) * 5 + 0xE6546B64 & _MASK
    state ^= 4  # the length in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK
