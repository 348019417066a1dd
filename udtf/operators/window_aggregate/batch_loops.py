"""Sliding windows of sorted rows, two pointers over the rows of a key: compiled by `compiled.py`.

The windows of a key are the different sets of rows that lie within `size` of each other as time goes on: they change
where a row comes, which is the end of [t - size, t], and right after a row has left, which is the end of
[t + 1, t + 1 + size]; a set without rows is no window (semantics.md 13.1). Rows are numbered by their place in the
order of key and time; a key's begin at `starts[code]`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from udtf.operators.window_aggregate.folds import copy_states, fold_row, merge_states

# Where a loop goes on: the numbers of `cursor`.
CODE: Final = 0
LOW: Final = 1  # the first member of the window
HIGH: Final = 2  # after its last one
MIDDLE: Final = 3  # of `fold_windows`: before it rows are in the front, from it on in the back
BASE: Final = 4  # of `fold_windows`: the row of the front's first slot
MEMBER: Final = 3  # of `list_members`: the next one to list
END: Final = 4
CURSOR_SIZE: Final = 5

# The columns of `measures`, which has a row for every key.
WINDOWS: Final = 0
MEMBERS: Final = 1
WIDEST: Final = 2

_MOST: Final = 2**63 - 1


class Stack(NamedTuple):
    """States of the front, of which each row has that of itself and those after it; then of the back, and a spare."""

    ints: Any
    floats: Any


def advance(times: Any, low: Any, high: Any, stop: Any, size: int) -> Any:
    """The next end of a window, and its members; there may be none."""
    leaves = leaving(times[low], size) if low < high else _MOST
    end = min(times[high], leaves) if high < stop else leaves
    while high < stop and times[high] == end:
        high += 1
    while low < high and leaving(times[low], size) == end:
        low += 1
    return end, low, high


def leaving(time: Any, size: int) -> Any:
    """The end of the first window that a row is too old for."""
    return time + size + 1 if time < _MOST - size else _MOST


def measure_windows(times: Any, starts: Any, size: int, measures: Any) -> None:
    """Count the windows of each key and their members, and the members of its widest one."""
    for code in range(len(starts) - 1):
        low = high = starts[code]
        stop = starts[code + 1]
        while low < stop:
            _, low, high = advance(times, low, high, stop, size)
            measures[code, WINDOWS] += low < high
            measures[code, MEMBERS] += high - low
            measures[code, WIDEST] = max(measures[code, WIDEST], high - low)


def fold_windows(
    batch: Any, starts: Any, size: int, folds: Any, is_narrow: Any, cursor: Any, stack: Any,
    codes: Any, ends: Any, ints: Any, floats: Any,
) -> int:  # fmt: skip
    """Fold the members of windows, from the cursor on, until the output is full.

    Where windows are narrow each is folded on its own, in the order of time. Elsewhere a row is folded a few times
    however many windows hold it: those that came lately in the back; when the front is used up, the back becomes it.

    Args:
        batch: the rows in order; of them the arguments.
        starts: where keys begin.
        size: of the windows.
        folds: of the aggregates.
        is_narrow: by key.
        cursor: where to go on; it is moved.
        stack: see `Stack`.
        codes: of the keys of the windows, output.
        ends: of the windows, output.
        ints: with `floats` their states, output.
        floats: see `ints`.

    Returns:
        the number of windows; less than there is room for: it is done.
    """
    place, back = 0, len(stack.ints) - 2
    code, low, high = cursor[CODE], cursor[LOW], cursor[HIGH]
    while place < len(codes) and code < len(starts) - 1:
        if low == starts[code + 1]:
            code += 1
            cursor[MIDDLE], cursor[BASE] = low, low
            clear(stack.ints, stack.floats, back)
            continue
        before = high
        end, low, high = advance(batch.times, low, high, starts[code + 1], size)
        if not is_narrow[code]:
            for row in range(before, high):
                fold_row(row, batch, folds, stack.ints, stack.floats, back)
            if low > cursor[MIDDLE]:
                turn_over(batch, folds, low, high, cursor, stack)
        if low < high:
            codes[place], ends[place] = code, end
            clear(ints, floats, place)
            if is_narrow[code]:
                for row in range(low, high):
                    fold_row(row, batch, folds, ints, floats, place)
            else:
                put_together(folds, low, high, cursor, stack, ints, floats, place)
            place += 1
    cursor[CODE], cursor[LOW], cursor[HIGH] = code, low, high
    return place


def clear(ints: Any, floats: Any, slot: Any) -> None:
    """A state without rows."""
    for column in range(ints.shape[1]):
        ints[slot, column] = 0
    for column in range(floats.shape[1]):
        floats[slot, column] = 0.0


def turn_over(batch: Any, folds: Any, low: Any, high: Any, cursor: Any, stack: Any) -> None:
    """All members become the front, each with the state of itself and those after it; the back is empty."""
    for row in range(high - 1, low - 1, -1):
        slot = row - low
        clear(stack.ints, stack.floats, slot)
        fold_row(row, batch, folds, stack.ints, stack.floats, slot)
        if row + 1 < high:
            merge_states(folds, stack.ints, stack.floats, slot, slot + 1)
    clear(stack.ints, stack.floats, len(stack.ints) - 2)
    cursor[BASE], cursor[MIDDLE] = low, high


def put_together(
    folds: Any, low: Any, high: Any, cursor: Any, stack: Any, ints: Any, floats: Any, place: int
) -> None:  # fmt: skip
    """The state of a window from that of its members in the front and of those in the back."""
    slot = back = len(stack.ints) - 2
    if low < cursor[MIDDLE]:
        slot = low - cursor[BASE]
        if high > cursor[MIDDLE]:
            copy_states(stack.ints, stack.floats, slot, stack.ints, stack.floats, back + 1)
            slot = back + 1
            merge_states(folds, stack.ints, stack.floats, slot, back)
    copy_states(stack.ints, stack.floats, slot, ints, floats, place)


def list_members(times: Any, starts: Any, size: int, cursor: Any, ends: Any, members: Any) -> int:
    """List the members of windows one by one, from the cursor on, until the output is full.

    Args:
        times: of the rows in order.
        starts: where keys begin.
        size: of the windows.
        cursor: where to go on; it is moved.
        ends: of the window of each member, output.
        members: their rows, output.

    Returns:
        the number of members; less than there is room for: it is done.
    """
    place = 0
    while place < len(ends) and cursor[CODE] < len(starts) - 1:
        stop = starts[cursor[CODE] + 1]
        if cursor[MEMBER] < cursor[HIGH]:
            ends[place], members[place] = cursor[END], cursor[MEMBER]
            cursor[MEMBER] += 1
            place += 1
        elif cursor[LOW] == stop:
            cursor[CODE] += 1
        else:
            cursor[END], cursor[LOW], cursor[HIGH] = advance(times, cursor[LOW], cursor[HIGH], stop, size)
            cursor[MEMBER] = cursor[LOW]
    return place
