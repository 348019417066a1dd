"""The loops of an aggregation over the rows of a micro-batch: compiled by `window_aggregate_compiled`.

Per row, in the order of arrival: stream time, its windows, then the windows that it closes. Source: semantics.md 11 to
14, B3, B9.
"""

from __future__ import annotations

from typing import Any, Final

from udtf.operators.window_aggregate_stream_batch import (
    CUMULATE,
    NONE,
    SESSION,
    fold_into,
    leave_away,
    note,
    shut,
)
from udtf.operators.window_aggregate_stream_folds import copy_states
from udtf.operators.window_aggregate_stream_sessions import add_to_session
from udtf.operators.window_aggregate_stream_slots import (
    ACCEPTED,
    ALIGNED,
    BYTES_OPEN,
    COUNT_OPEN,
    DONE,
    EXPIRED,
    FULL_BYTES,
    FULL_ROWS,
    FUTURE,
    IS_SET,
    LATE,
    LATENESS,
    LIFE,
    MOST_BYTES,
    MOST_LATENESS,
    MOST_OPEN,
    NOW,
    NULL_TIME,
    OPEN,
    PLACES,
    PUTS,
    ROOM,
    SPARE,
    STOP,
    TIME,
    TOTAL_BYTES,
    TOTAL_OPEN,
    UPDATES,
    USED,
    close_until,
    horizon,
    open_slot,
    place_of,
    push,
)

_LEAST: Final = -(2**63)


def fold_rows(row: int, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any) -> int:
    """Take rows from `row` on; returns where it stopped, and `clock` says why."""
    clock[STOP] = DONE
    while row < len(batch.times):
        if lacks_room(state, found, shape, clock):
            clock[STOP] = ROOM
            return row
        fate = arrive(row, batch, shape, clock)
        if fate == ACCEPTED:
            fate = add(row, batch, state, found, shape, folds, clock)
            if fate == ACCEPTED:
                clock[PUTS] += 1
                clock[TOTAL_OPEN] += clock[COUNT_OPEN]
                clock[TOTAL_BYTES] += clock[BYTES_OPEN]
            clock[MOST_OPEN] = max(clock[MOST_OPEN], clock[COUNT_OPEN])
            clock[MOST_BYTES] = max(clock[MOST_BYTES], clock[BYTES_OPEN])
            if shape.kind != NONE:
                closed = shut(shape, clock)
                close_until(closed, row, state, clock)
                leave_away(closed, batch, clock)
            if clock[STOP] == DONE:
                clock[STOP] = fullness(shape, clock)
            if clock[STOP] != DONE:
                return row
        found.fates[row] = fate
        found.stream_times[row] = clock[NOW] if clock[IS_SET] else _LEAST
        row += 1
    return row


def lacks_room(state: Any, found: Any, shape: Any, clock: Any) -> bool:
    """Whether the next row might not find room for its windows or updates."""
    if clock[USED] - clock[SPARE] + shape.most_windows > len(state.slots):
        return True
    places = len(state.table)
    if places > 0 and clock[PLACES] + shape.most_windows > places >> 1:
        return True
    return bool(clock[UPDATES] + shape.most_updates > len(found.updates))


def arrive(row: int, batch: Any, shape: Any, clock: Any) -> int:
    """Move stream time, unless the row is refused at sight (B9)."""
    if len(batch.absent) > 0 and batch.absent[row]:
        return NULL_TIME
    time = batch.times[row]
    if clock[IS_SET] and shape.max_future >= 0 and horizon(time, shape.max_future) > clock[NOW]:
        return FUTURE
    clock[NOW] = max(clock[NOW], time) if clock[IS_SET] else time
    clock[IS_SET] = 1
    clock[LATENESS] += clock[NOW] - time
    clock[MOST_LATENESS] = max(clock[MOST_LATENESS], clock[NOW] - time)
    return ACCEPTED


def fullness(shape: Any, clock: Any) -> int:
    """Which limit is passed (15.6)."""
    if shape.max_rows >= 0 and clock[COUNT_OPEN] > shape.max_rows:
        return FULL_ROWS
    return FULL_BYTES if shape.max_bytes >= 0 and clock[BYTES_OPEN] > shape.max_bytes else DONE


def add(row: int, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any) -> int:
    """Count a row in its windows; ACCEPTED, or LATE where all of them are closed."""
    time = batch.times[row]
    if shape.kind == SESSION:
        return add_to_session(row, time, batch, state, found, shape, folds, clock)
    if shape.kind == NONE:
        add_to_window(row, 0, 0, batch, state, found, shape, folds, clock)
        return ACCEPTED
    if shape.kind == CUMULATE:
        return add_to_cumulating(row, time, batch, state, found, shape, folds, clock)
    closed, fate = shut(shape, clock), LATE
    start = clock[ALIGNED]
    if time < start or time - start >= shape.slide:  # divisions cost: most rows are in the window of the one before
        start = time - (time - shape.offset) % shape.slide
        clock[ALIGNED] = start
    if shape.slide < shape.size:
        start -= (start + shape.size - 1 - time) // shape.slide * shape.slide
    while start <= time:
        if start + shape.size >= closed:
            add_to_window(row, start, start + shape.size, batch, state, found, shape, folds, clock)
            fate = ACCEPTED
        else:
            clock[EXPIRED] += 1
        start += shape.slide
    return fate


def add_to_cumulating(
    row: int, time: Any, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any
) -> int:
    """Windows of one start, of ever later ends."""
    closed, fate = shut(shape, clock), LATE
    start = time - (time - shape.offset) % shape.size
    last = start + shape.size
    end = min(start + ((time - start) // shape.slide + 1) * shape.slide, last)
    while True:
        if end >= closed:
            add_to_window(row, start, end, batch, state, found, shape, folds, clock)
            fate = ACCEPTED
        else:
            clock[EXPIRED] += 1
        if end == last:
            return fate
        end = min(end + shape.slide, last)


def add_to_window(
    row: int, start: Any, end: Any, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any
) -> None:
    """Count a row in one window, which is opened if it is not yet."""
    place = place_of(state, batch.codes[row], end)
    slot = state.table[place]
    was = slot >= 0
    if not was:
        slot = open_slot(state, clock, batch.codes[row], start, end, folds)
        state.table[place] = slot
        clock[PLACES] += 1
        if shape.kind != NONE:
            push(state.heap, clock, end, slot)
    elif not shape.is_final:
        copy_states(state.ints, state.floats, slot, found.old_ints, found.old_floats, clock[UPDATES])
    fold_into(slot, row, batch, state, folds, clock)
    state.slots[slot, TIME] = max(state.slots[slot, TIME], batch.times[row])
    if not shape.is_final:
        copy_states(state.ints, state.floats, slot, found.new_ints, found.new_floats, clock[UPDATES])
        note(found, clock, row, state.slots, slot, was, True)


def open_slots(state: Any, clock: Any, slots: Any) -> int:
    """Write down the slots that are open; returns how many."""
    count = 0
    for slot in range(clock[USED]):
        if state.slots[slot, LIFE] == OPEN:
            slots[count] = slot
            count += 1
    return count
