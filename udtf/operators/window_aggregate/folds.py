"""Folding of rows into the states of aggregates, one row after the other: compiled by `compiled.py`.

A state is a few numbers of a slot's row in `ints` and `floats`; its first int counts the arguments that were folded.
Folding is strictly in the order of arrival, so that sums of floats do not depend on how batches are cut. This file
imports nothing of ours, see `udtf.numba_cache`.
"""

from __future__ import annotations

from typing import Any, Final

# Which fold an aggregate is; those from SUM_FLOAT on go over floats.
COUNT: Final = 0
SUM: Final = 1
SUM_WIDE: Final = 2  # 128 bits, for decimals
MIN: Final = 3
MAX: Final = 4
BIT_AND: Final = 5
BIT_OR: Final = 6
BIT_XOR: Final = 7
SUM_FLOAT: Final = 8
MIN_FLOAT: Final = 9
MAX_FLOAT: Final = 10
MOMENTS: Final = 11

# The columns of `folds`, which has a row for every aggregate.
FOLD: Final = 0
ARGUMENT: Final = 1  # row of the batch's ints or floats
INTS: Final = 2  # where its ints begin
FLOATS: Final = 3
WIDTH: Final = 4  # bytes of its value (semantics.md B5)
NEEDS: Final = 5  # with fewer arguments its value is NULL

#: A sum has left 64 bits.
OVERFLOW: Final = -1

_LEAST: Final = -(2**63)


def fold_row(row: int, batch: Any, folds: Any, ints: Any, floats: Any, slot: int) -> int:
    """Fold one row into a slot.

    Returns:
        the bytes by which the values of the slot have grown, or OVERFLOW.
    """
    grown = 0
    for number in range(len(folds)):
        if not batch.counted[number, row]:
            continue
        at = folds[number, INTS]
        count = ints[slot, at] + 1
        ints[slot, at] = count
        if count == folds[number, NEEDS]:
            grown += folds[number, WIDTH]
        fold = folds[number, FOLD]
        if fold >= SUM_FLOAT:
            fold_float(
                fold, batch.floats[folds[number, ARGUMENT], row], floats, slot, folds[number, FLOATS], float(count)
            )
        elif fold == SUM_WIDE:
            value = batch.ints[folds[number, ARGUMENT], row]
            add_wide(value, value >> 63, ints, slot, at + 1)
        elif fold != COUNT and not fold_int(
            fold, batch.ints[folds[number, ARGUMENT], row], ints, slot, at + 1, count == 1
        ):
            return OVERFLOW
    return grown


def fold_int(fold: int, value: Any, ints: Any, slot: int, at: int, is_first: bool) -> bool:
    """Fold an integer; False where the sum does not fit."""
    now = ints[slot, at]
    if is_first:
        ints[slot, at] = value
    elif fold == SUM:
        total = now + value
        ints[slot, at] = total
        return bool(((now ^ total) & (value ^ total)) >= 0)  # compiled integers wrap around
    elif fold == MIN:
        ints[slot, at] = min(now, value)
    elif fold == MAX:
        ints[slot, at] = max(now, value)
    elif fold == BIT_AND:
        ints[slot, at] = now & value
    elif fold == BIT_OR:
        ints[slot, at] = now | value
    else:
        ints[slot, at] = now ^ value
    return True


def add_wide(low: Any, high: Any, ints: Any, slot: int, at: int) -> None:
    """Add to a number of 128 bits: the low word at `at`, the high one after it."""
    total = ints[slot, at] + low
    ints[slot, at] = total
    carries = (total ^ _LEAST) < (low ^ _LEAST)  # compared without sign
    ints[slot, at + 1] += high + (1 if carries else 0)


def fold_float(fold: int, value: Any, floats: Any, slot: int, at: int, count: float) -> None:
    """Fold a float, the `count`-th one; NaN is the greatest (Spark)."""
    now = floats[slot, at]
    if fold == SUM_FLOAT:
        floats[slot, at] = now + value
    elif fold == MOMENTS:  # Welford: mean and sum of squared distances from it; to the bit as `Variance`
        delta = value - now
        step = delta / count
        floats[slot, at] = now + step
        floats[slot, at + 1] += delta * (delta - step)
    elif (
        count == 1.0
        or (fold == MIN_FLOAT and (value < now or (now != now and value == value)))
        or (fold == MAX_FLOAT and (value > now or (value != value and now == now)))
    ):
        floats[slot, at] = value


def merge_states(folds: Any, ints: Any, floats: Any, into: int, other: int) -> bool:
    """Merge a slot's states into an earlier one's; False where a sum does not fit."""
    fits = True
    for number in range(len(folds)):
        at = folds[number, INTS]
        before, more = ints[into, at], ints[other, at]
        if more == 0:
            continue
        ints[into, at] = before + more
        fold = folds[number, FOLD]
        if fold == MOMENTS:
            merge_moments(floats, into, other, folds[number, FLOATS], float(before), float(more))
        elif fold >= SUM_FLOAT:
            place = folds[number, FLOATS]
            fold_float(fold, floats[other, place], floats, into, place, float(before + 1))
        elif fold == SUM_WIDE:
            add_wide(ints[other, at + 1], ints[other, at + 2], ints, into, at + 1)
        elif fold != COUNT:
            fits &= fold_int(fold, ints[other, at + 1], ints, into, at + 1, before == 0)
    return fits


def merge_moments(floats: Any, into: int, other: int, at: int, before: float, more: float) -> None:
    """Chan's formula."""
    delta = floats[other, at] - floats[into, at]
    step = delta / (before + more)
    floats[into, at] += step * more
    floats[into, at + 1] += floats[other, at + 1] + delta * step * before * more


def value_bytes(folds: Any, ints: Any, slot: int) -> int:
    """Bytes of a slot's values; NULL takes none."""
    total = 0
    for number in range(len(folds)):
        if ints[slot, folds[number, INTS]] >= folds[number, NEEDS]:
            total += folds[number, WIDTH]
    return total


def copy_states(ints: Any, floats: Any, slot: int, to_ints: Any, to_floats: Any, place: int) -> None:
    """Copy a slot's states."""
    # NB: number by number, since a slice of an array counts references, which costs more than all the rest.
    for column in range(ints.shape[1]):
        to_ints[place, column] = ints[slot, column]
    for column in range(floats.shape[1]):
        to_floats[place, column] = floats[slot, column]
