"""Slots of open windows, and the loops that open, find and close them: compiled by `window_aggregate_compiled`.

A window of a key is a slot. Time windows are found by (code of the key, end) in an open addressing table; sessions hang
in a list per key, the latest first. All that can close stands in a heap by its end; where a session has grown since, or
was merged into another one, the heap learns of it when its turn comes. Slots are free again after their batch.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from udtf.operators.window_aggregate_stream_folds import copy_states, value_bytes

# The columns of `slots`.
CODE: Final = 0
START: Final = 1
END: Final = 2  # of a session its last time
TIME: Final = 3  # greatest time of its rows
NEXT: Final = 4  # the session before it
MARK: Final = 5  # it stands in `touched`
BYTES: Final = 6
LIFE: Final = 7

FREE: Final = 0
OPEN: Final = 1
MERGED: Final = 2
CLOSED: Final = 3

# The numbers of `clock`.
NOW: Final = 0
IS_SET: Final = 1
USED: Final = 2  # slots that were ever used
SPARE: Final = 3  # of these in `free`
HEAP: Final = 4
PLACES: Final = 5  # of the table, gone ones too
COUNT_OPEN: Final = 6
BYTES_OPEN: Final = 7
MOST_OPEN: Final = 8
MOST_BYTES: Final = 9
TOUCHED: Final = 10
LEAVING: Final = 11
UPDATES: Final = 12
EXPIRED: Final = 13
LATENESS: Final = 14
MOST_LATENESS: Final = 15
STOP: Final = 16  # why a loop ended before its last row
ALIGNED: Final = 17  # where some time window starts
SPILLED: Final = 18  # windows that are open, but not here
AWAY: Final = 19  # the first of `Batch.away` that is still open
PUTS: Final = 20  # rows of this batch that were counted in a window
TOTAL_OPEN: Final = 21  # COUNT_OPEN behind each of them, added up
TOTAL_BYTES: Final = 22  # the same of BYTES_OPEN
CLOCK_SIZE: Final = 23
OF_A_BATCH: Final = (TOUCHED, LEAVING, UPDATES, EXPIRED, LATENESS, AWAY, PUTS, TOTAL_OPEN, TOTAL_BYTES)

# Why a loop ended.
DONE: Final = 0
ROOM: Final = 1
OVERFLOWN: Final = 2
FULL_ROWS: Final = 3
FULL_BYTES: Final = 4

# Fates of rows, as `stream_rows.refused` names them.
ACCEPTED: Final = 0
NULL_TIME: Final = 1
FUTURE: Final = 3
LATE: Final = 5

_EMPTY: Final = -1
_GONE: Final = -2
_LEAST: Final = -(2**63)


class State(NamedTuple):
    """All slots.

    Attributes:
        slots: see the columns above.
        ints, floats: the states of their aggregates.
        heap: (end, slot), the least end first.
        table: slots by (code, end); empty for sessions.
        heads: the latest session of each code; empty for others.
        leaving: (slot, row that closed it or -1) of this batch.
        touched: slots that this batch has changed.
        free: slots to use again.
        key_bytes: of each code, with all that a window takes besides its values.
    """

    slots: Any
    ints: Any
    floats: Any
    heap: Any
    table: Any
    heads: Any
    leaving: Any
    touched: Any
    free: Any
    key_bytes: Any


def horizon(time: Any, interval: Any) -> Any:
    """`time - interval`; what does not fit into 64 bits is the least."""
    return _LEAST if time < _LEAST + interval else time - interval


def open_slot(state: Any, clock: Any, code: int, start: Any, end: Any, folds: Any) -> int:
    """A new slot without rows, in no table yet."""
    if clock[SPARE] > 0:
        clock[SPARE] -= 1
        slot = state.free[clock[SPARE]]
    else:
        slot = clock[USED]
        clock[USED] += 1
    for column in range(state.ints.shape[1]):
        state.ints[slot, column] = 0
    for column in range(state.floats.shape[1]):
        state.floats[slot, column] = 0.0
    state.slots[slot, CODE], state.slots[slot, START], state.slots[slot, END] = code, start, end
    state.slots[slot, TIME], state.slots[slot, NEXT], state.slots[slot, MARK] = _LEAST, -1, 0
    state.slots[slot, LIFE] = OPEN
    state.slots[slot, BYTES] = state.key_bytes[code] + value_bytes(folds, state.ints, slot)
    clock[COUNT_OPEN] += 1
    clock[BYTES_OPEN] += state.slots[slot, BYTES]
    return int(slot)


def touch(state: Any, clock: Any, slot: int) -> None:
    """Remember that this batch has changed a slot."""
    if state.slots[slot, MARK] == 0:
        state.slots[slot, MARK] = 1
        state.touched[clock[TOUCHED]] = slot
        clock[TOUCHED] += 1


def place_of(state: Any, code: int, end: Any) -> int:
    """The place of a time window in the table, or the empty one where it belongs."""
    mask = len(state.table) - 1
    mixed = (code * 0x2545F4914F6CDD1D) ^ (end * 0x1E3779B97F4A7C15)
    place = (mixed ^ (mixed >> 29)) & mask
    while True:
        slot = state.table[place]
        if slot == _EMPTY or (slot >= 0 and state.slots[slot, CODE] == code and state.slots[slot, END] == end):
            return int(place)
        place = (place + 1) & mask


def push(heap: Any, clock: Any, end: Any, slot: int) -> None:
    """Put a slot into the heap."""
    place = clock[HEAP]
    clock[HEAP] += 1
    while place > 0 and heap[(place - 1) >> 1, 0] > end:
        above = (place - 1) >> 1
        heap[place, 0], heap[place, 1] = heap[above, 0], heap[above, 1]
        place = above
    heap[place, 0], heap[place, 1] = end, slot


def replace_top(heap: Any, count: int, end: Any, slot: int) -> None:
    """Put another slot in the place of the first one."""
    place = 0
    while True:
        below = 2 * place + 1
        if below >= count:
            break
        if below + 1 < count and heap[below + 1, 0] < heap[below, 0]:
            below += 1
        if heap[below, 0] >= end:
            break
        heap[place, 0], heap[place, 1] = heap[below, 0], heap[below, 1]
        place = below
    heap[place, 0], heap[place, 1] = end, slot


def close_until(shut: Any, row: int, state: Any, clock: Any) -> None:
    """Close every window whose end is below `shut`, because of a row; -1 is none."""
    heap = state.heap
    while clock[HEAP] > 0 and heap[0, 0] < shut:
        slot = heap[0, 1]
        life, end = state.slots[slot, LIFE], state.slots[slot, END]
        if life == OPEN and end >= shut:
            replace_top(heap, clock[HEAP], end, slot)  # a session that has grown
            continue
        clock[HEAP] -= 1
        last = clock[HEAP]
        replace_top(heap, last, heap[last, 0], heap[last, 1])
        if life == OPEN:
            take_out(state, clock, slot)
            state.slots[slot, LIFE] = CLOSED
        state.leaving[clock[LEAVING], 0] = slot
        state.leaving[clock[LEAVING], 1] = row if life == OPEN else -1
        clock[LEAVING] += 1


def take_out(state: Any, clock: Any, slot: int) -> None:
    """Nothing finds the slot any more; its states stay until the end of the batch."""
    code = state.slots[slot, CODE]
    clock[COUNT_OPEN] -= 1
    clock[BYTES_OPEN] -= state.slots[slot, BYTES]
    if len(state.table) > 0:
        state.table[place_of(state, code, state.slots[slot, END])] = _GONE
        return
    following = state.slots[slot, NEXT]
    if state.heads[code] == slot:
        state.heads[code] = following
        return
    before = state.heads[code]
    while state.slots[before, NEXT] != slot:
        before = state.slots[before, NEXT]
    state.slots[before, NEXT] = following


def hang_in(state: Any, slot: int) -> None:
    """Put a session into the list of its key."""
    code, first = state.slots[slot, CODE], state.slots[slot, START]
    before, following = -1, state.heads[code]
    while following >= 0 and state.slots[following, START] > first:
        before, following = following, state.slots[following, NEXT]
    state.slots[slot, NEXT] = following
    if before < 0:
        state.heads[code] = slot
    else:
        state.slots[before, NEXT] = slot


def place_all(state: Any, clock: Any) -> None:
    """Fill an empty table, or empty lists, from the open slots."""
    for slot in range(clock[USED]):
        if state.slots[slot, LIFE] == OPEN:
            if len(state.table) > 0:
                place = place_of(state, state.slots[slot, CODE], state.slots[slot, END])
                state.table[place] = slot
                clock[PLACES] += 1
            else:
                hang_in(state, slot)


def put_slots(
    codes: Any, windows: Any, ints: Any, floats: Any, state: Any, folds: Any, clock: Any, closes: bool
) -> None:
    """Put slots of a segment, each instead of what it has grown from; there is room for all.

    Args:
        codes: of the keys.
        windows: (start, end, time) of each.
        ints: with `floats` their states.
        floats: see `ints`.
        state: to put into.
        folds: of the aggregates.
        clock: of the state.
        closes: they are windows, which close.
    """
    for entry in range(len(codes)):
        code, start, end = codes[entry], windows[entry, 0], windows[entry, 1]
        slot = replaced(state, clock, code, start, end, folds)
        if slot < 0:
            slot = open_slot(state, clock, code, start, end, folds)
            if len(state.table) > 0:
                state.table[place_of(state, code, end)] = slot
                clock[PLACES] += 1
            else:
                hang_in(state, slot)
            if closes:
                push(state.heap, clock, end, slot)
        state.slots[slot, TIME] = windows[entry, 2]
        copy_states(ints, floats, entry, state.ints, state.floats, slot)
        now = state.key_bytes[code] + value_bytes(folds, state.ints, slot)
        clock[BYTES_OPEN] += now - state.slots[slot, BYTES]
        state.slots[slot, BYTES] = now


def replaced(state: Any, clock: Any, code: int, start: Any, end: Any, folds: Any) -> int:
    """The slot of a time window, or -1; sessions that a longer one covers are taken out."""
    if len(state.table) > 0:
        return int(state.table[place_of(state, code, end)])
    slot = state.heads[code]
    while slot >= 0:
        following = state.slots[slot, NEXT]
        if state.slots[slot, START] >= start and state.slots[slot, END] <= end:
            take_out(state, clock, slot)
            state.slots[slot, LIFE] = MERGED
        slot = following
    return -1
