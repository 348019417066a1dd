"""The loops of an aggregation over the rows of a micro-batch: compiled by `window_aggregate_compiled`.

Per row, in the order of arrival: stream time, its windows, then the windows that it closes. Source: semantics.md 11 to
14, B3, B9.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from udtf.operators.window_aggregate_stream_folds import OVERFLOW, copy_states, fold_row, merge_states, value_bytes
from udtf.operators.window_aggregate_stream_slots import (
    ACCEPTED,
    ALIGNED,
    BYTES,
    BYTES_OPEN,
    CODE,
    COUNT_OPEN,
    DONE,
    END,
    EXPIRED,
    FULL_BYTES,
    FULL_ROWS,
    FUTURE,
    IS_SET,
    LATE,
    LATENESS,
    LIFE,
    MERGED,
    MOST_BYTES,
    MOST_LATENESS,
    MOST_OPEN,
    NEXT,
    NOW,
    NULL_TIME,
    OPEN,
    OVERFLOWN,
    PLACES,
    ROOM,
    SPARE,
    START,
    STOP,
    TIME,
    UPDATES,
    USED,
    close_until,
    hang_in,
    horizon,
    open_slot,
    place_of,
    push,
    take_out,
    touch,
)

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

_LEAST: Final = -(2**63)


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


class Batch(NamedTuple):
    """Rows: codes of their keys, times, those without a time (empty: none), arguments, and which aggregates count."""

    codes: Any
    times: Any
    absent: Any
    ints: Any
    floats: Any
    counted: Any


class Found(NamedTuple):
    """What became of rows, stream time after each, and the updates with the states before and after."""

    fates: Any
    stream_times: Any
    updates: Any
    old_ints: Any
    old_floats: Any
    new_ints: Any
    new_floats: Any


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
            clock[MOST_OPEN] = max(clock[MOST_OPEN], clock[COUNT_OPEN])
            clock[MOST_BYTES] = max(clock[MOST_BYTES], clock[BYTES_OPEN])
            if shape.kind != NONE:
                close_until(shut(shape, clock), row, state, clock)
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


def shut(shape: Any, clock: Any) -> Any:
    """Windows whose end is below this are closed (B3)."""
    return horizon(clock[NOW], shape.wait) + (0 if shape.inclusive else 1)


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


def add_to_session(row: int, time: Any, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any) -> int:
    """Count a row in the session that it makes of those within the gap (13.6 to 13.8).

    At most two lie there, since they are more than a gap apart. None of them is closed: `time` would be so, too.
    """
    slots = state.slots
    later = state.heads[batch.codes[row]]
    while later >= 0 and horizon(slots[later, START], shape.size) > time:
        later = slots[later, NEXT]
    if later < 0 or slots[later, END] < horizon(time, shape.size):
        if time < shut(shape, clock):
            clock[EXPIRED] += 1
            return LATE
        slot = open_slot(state, clock, batch.codes[row], time, time, folds)
        hang_in(state, slot)
        push(state.heap, clock, time, slot)
        was = False
    else:
        earlier = slots[later, NEXT]
        is_two = earlier >= 0 and slots[earlier, END] >= horizon(time, shape.size)
        slot = earlier if is_two else later
        was = not is_two and slots[slot, START] == slots[slot, END] and slots[slot, START] == time
        if not shape.is_final:
            give_out_old(row, slot, later, is_two, was, state, found, clock)
        if is_two:
            absorb(slot, later, state, folds, clock)
        slots[slot, START], slots[slot, END] = min(slots[slot, START], time), max(slots[slot, END], time)
    slots[slot, TIME] = slots[slot, END]
    fold_into(slot, row, batch, state, folds, clock)
    if not shape.is_final:
        copy_states(state.ints, state.floats, slot, found.new_ints, found.new_floats, clock[UPDATES])
        note(found, clock, row, slots, slot, was, True)
    return ACCEPTED


def give_out_old(row: int, slot: int, later: int, is_two: bool, was: bool, state: Any, found: Any, clock: Any) -> None:
    """Tombstones of what is merged; of a session of one moment only its states, for its update."""
    copy_states(state.ints, state.floats, slot, found.old_ints, found.old_floats, clock[UPDATES])
    if not was:
        note(found, clock, row, state.slots, slot, True, False)
    if is_two:
        copy_states(state.ints, state.floats, later, found.old_ints, found.old_floats, clock[UPDATES])
        note(found, clock, row, state.slots, later, True, False)


def absorb(slot: int, later: int, state: Any, folds: Any, clock: Any) -> None:
    """Merge the following session into one."""
    take_out(state, clock, later)
    state.slots[later, LIFE] = MERGED
    if not merge_states(folds, state.ints, state.floats, slot, later):
        clock[STOP] = OVERFLOWN
    state.slots[slot, END] = state.slots[later, END]
    grown = state.key_bytes[state.slots[slot, CODE]] + value_bytes(folds, state.ints, slot) - state.slots[slot, BYTES]
    state.slots[slot, BYTES] += grown
    clock[BYTES_OPEN] += grown


def open_slots(state: Any, clock: Any, slots: Any) -> int:
    """Write down the slots that are open; returns how many."""
    count = 0
    for slot in range(clock[USED]):
        if state.slots[slot, LIFE] == OPEN:
            slots[count] = slot
            count += 1
    return count
