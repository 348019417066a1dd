"""The loop of Spark's hash over strings; compiled where it runs, since plain numbers do not wrap around."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

P1, P2, P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
P4, P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)


def rotate(value: np.uint64, by: int) -> np.uint64:
    """The bits of a number, moved around to the left."""
    return (value << np.uint64(by)) | (value >> np.uint64(64 - by))


def word(data: NDArray[np.uint8], at: int, width: int) -> np.uint64:
    """Some bytes as a number, the lowest first."""
    found = np.uint64(0)
    for place in range(width):
        found |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return found


def one_round(lane: np.uint64, value: np.uint64) -> np.uint64:
    """A lane after a word."""
    return rotate(lane + value * P2, 31) * P1


def merged(state: np.uint64, lane: np.uint64) -> np.uint64:
    """The state after a lane."""
    return (state ^ one_round(np.uint64(0), lane)) * P1 + P4


def mixed(state: np.uint64) -> np.uint64:
    """The state at the end: all bits count."""
    state = (state ^ (state >> np.uint64(33))) * P2
    state = (state ^ (state >> np.uint64(29))) * P3
    return state ^ (state >> np.uint64(32))


def hash_texts(
    data: NDArray[np.uint8], ends: NDArray[np.int64], present: NDArray[np.bool_], states: NDArray[np.uint64]
) -> None:
    """Hash values one after the other in `data`; what is NULL leaves its state as it is.

    Args:
        data: their bytes.
        ends: where each begins, and the last one ends.
        present: which are not NULL.
        states: per value the seed; written: the hash.
    """
    for row in range(len(states)):
        if not present[row]:
            continue
        at, end, seed = ends[row], ends[row + 1], states[row]
        size = end - at
        if size >= 32:
            one, two, three, four = seed + P1 + P2, seed + P2, seed, seed - P1
            while at + 32 <= end:
                one, two = one_round(one, word(data, at, 8)), one_round(two, word(data, at + 8, 8))
                three, four = one_round(three, word(data, at + 16, 8)), one_round(four, word(data, at + 24, 8))
                at += 32
            state = rotate(one, 1) + rotate(two, 7) + rotate(three, 12) + rotate(four, 18)
            state = merged(merged(merged(merged(state, one), two), three), four)
        else:
            state = seed + P5
        state += np.uint64(size)
        while at + 8 <= end:
            state = rotate(state ^ one_round(np.uint64(0), word(data, at, 8)), 27) * P1 + P4
            at += 8
        if at + 4 <= end:
            state = rotate(state ^ (word(data, at, 4) * P1), 23) * P2 + P3
            at += 4
        while at < end:
            state = rotate(state ^ (np.uint64(data[at]) * P5), 11) * P1
            at += 1
        states[row] = mixed(state)
