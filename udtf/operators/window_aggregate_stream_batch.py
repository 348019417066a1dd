"""A micro-batch as the loops see it, and what they do to one window: compiled by `window_aggregate_compiled`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from udtf.operators.window_aggregate_stream_folds import OVERFLOW, fold_row
from udtf.operators.window_aggregate_stream_slots import (
    AWAY,
    BYTES,
    BYTES_OPEN,
    CODE,
    COUNT_OPEN,
    END,
    NOW,
    OVERFLOWN,
    SPILLED,
    START,
    STOP,
    TIME,
    UPDATES,
    horizon,
    touch,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST: Final = -(2**63)

# What `Shape.kind` can be.
NONE: Final = 0
TIMES: Final = 1
CUMULATE: Final = 2
SESSION: Final = 3

# The columns of `Found.updates`.
ROW: Final = 0
OF_CODE: Final = 1
FROM: Final = 2
UNTIL: Final = 3
AT: Final = 4
WAS: Final = 5
IS: Final = 6


class Shape(NamedTuple):
    """The operator as numbers; limits below 0 are none.

    Attributes:
        kind: of the windows.
        size, slide, offset: of the windows, µs.
        wait: how long behind stream time they close after their end, µs.
        inclusive: 1 where a window is still open at that very time, else 0.
        max_future: how far ahead of stream time a row may be, µs.
        is_final: no updates go out.
        max_rows, max_bytes: of what is open.
        most_windows: of one row.
        most_updates: by one row.
    """

    kind: int
    size: int
    slide: int
    offset: int
    wait: int
    inclusive: int
    max_future: int
    is_final: bool
    max_rows: int
    max_bytes: int
    most_windows: int
    most_updates: int


class Away(NamedTuple):
    """Spilled windows that no row of a batch is for, but that it may close: how many of each end, and their bytes."""

    ends: Any
    rows: Any
    sizes: Any


NOTHING: Final = np.empty(0, np.int64)
NOTHING_AWAY: Final = Away(NOTHING, NOTHING, NOTHING)


class Batch(NamedTuple):
    """Rows: codes of their keys, times, those without a time (empty: none), arguments, and which aggregates count."""

    codes: Any
    times: Any
    absent: Any
    ints: Any
    floats: Any
    counted: Any
    away: Any = NOTHING_AWAY


class Found(NamedTuple):
    """What became of rows, stream time after each, and the updates with the states before and after."""

    fates: Any
    stream_times: Any
    updates: Any
    old_ints: Any
    old_floats: Any
    new_ints: Any
    new_floats: Any


def shut(shape: Any, clock: Any) -> Any:
    """Windows whose end is below this are closed (B3)."""
    return horizon(clock[NOW], shape.wait) + (0 if shape.inclusive else 1)


def shuts(shape: Shape, stream_times: NDArray[np.int64]) -> NDArray[np.int64]:
    """`shut` after each row."""
    behind = np.where(stream_times < _LEAST + shape.wait, _LEAST, stream_times - shape.wait)
    return behind + (0 if shape.inclusive else 1)


def leave_away(closed: Any, batch: Any, clock: Any) -> None:
    """What is spilled is open too, until it closes."""
    away, place = batch.away, clock[AWAY]
    while place < len(away.ends) and away.ends[place] < closed:
        clock[SPILLED] -= away.rows[place]
        clock[COUNT_OPEN] -= away.rows[place]
        clock[BYTES_OPEN] -= away.sizes[place]
        place += 1
    clock[AWAY] = place


def fold_into(slot: int, row: int, batch: Any, state: Any, folds: Any, clock: Any) -> None:
    """Fold a row into a slot that is open."""
    touch(state, clock, slot)
    grown = fold_row(row, batch, folds, state.ints, state.floats, slot)
    if grown == OVERFLOW:
        clock[STOP] = OVERFLOWN
    else:
        state.slots[slot, BYTES] += grown
        clock[BYTES_OPEN] += grown


def note(found: Any, clock: Any, row: int, slots: Any, slot: int, was: bool, is_there: bool) -> None:
    """An update of a window goes out; its states were copied."""
    update = clock[UPDATES]
    clock[UPDATES] += 1
    found.updates[update, ROW], found.updates[update, OF_CODE] = row, slots[slot, CODE]
    found.updates[update, FROM], found.updates[update, UNTIL] = slots[slot, START], slots[slot, END]
    found.updates[update, AT] = slots[slot, TIME]
    found.updates[update, WAS], found.updates[update, IS] = int(was), int(is_there)
