"""The loop's part for sessions: compiled by `window_aggregate_compiled`. Source: semantics.md 13.6 to 13.8, B3, B4."""

from __future__ import annotations

from typing import Any

from udtf.operators.window_aggregate_stream_batch import fold_into, note, shut
from udtf.operators.window_aggregate_stream_folds import copy_states, merge_states, value_bytes
from udtf.operators.window_aggregate_stream_slots import (
    ACCEPTED,
    BYTES,
    BYTES_OPEN,
    CODE,
    END,
    EXPIRED,
    LATE,
    LIFE,
    MERGED,
    NEXT,
    OVERFLOWN,
    START,
    STOP,
    TIME,
    UPDATES,
    hang_in,
    horizon,
    open_slot,
    push,
    take_out,
)


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
