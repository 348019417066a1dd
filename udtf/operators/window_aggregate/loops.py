"""The loops of an aggregation over the rows of a micro-batch: compiled by `compiled.py`.

Per row, in the order of arrival: stream time, its windows, then the windows that it closes. Source: semantics.md 11 to
14, B3, B9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from udtf.operators.window_aggregate import rules
from udtf.operators.window_aggregate.folds import OVERFLOW, copy_states, fold_row, merge_states, value_bytes
from udtf.rules import UNSET, horizon, is_ahead

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Slots of open windows, and the loops that open, find and close them: compiled by `compiled.py`.
#
# A window of a key is a slot. Time windows are found by (code of the key, end) in an open addressing table; sessions
# hang in a list per key, the latest first. All that can close is in a heap by its end; where a session has grown
# since, or was merged into another one, the heap learns of it when its turn comes. A session that has closed stays in
# its list for a while, since a row may yet make a longer one of it; that one has a slot of its own, for what went out
# of the closed one is read at the end of the batch. Slots are free again after their batch.


# The columns of `slots`.
CODE: Final = 0
START: Final = 1
END: Final = 2  # of a session its last time
TIME: Final = 3  # greatest time of its rows
NEXT: Final = 4  # the session before it
MARK: Final = 5  # it is in `touched`
BYTES: Final = 6
LIFE: Final = 7

FREE: Final = 0
OPEN: Final = 1
MERGED: Final = 2
CLOSED: Final = 3
KEPT: Final = 4  # a session that has closed, and may become part of a longer one

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
SPILLED_CLOSED: Final = 19  # the first of `Batch.spilled_ends` that is still open
PUTS: Final = 20  # rows of this batch that were counted in a window
TOTAL_OPEN: Final = 21  # COUNT_OPEN after each of them, added up
TOTAL_BYTES: Final = 22  # the same of BYTES_OPEN
CLOSED_BEFORE: Final = 23  # windows that end below this closed before this batch; UNSET: none did
KEPT_HERE: Final = 24
CLOCK_SIZE: Final = 25
OF_A_BATCH: Final = (TOUCHED, LEAVING, UPDATES, EXPIRED, LATENESS, SPILLED_CLOSED, PUTS, TOTAL_OPEN, TOTAL_BYTES)

# Why a loop ended.
DONE: Final = 0
ROOM: Final = 1
OVERFLOWN: Final = 2
FULL_ROWS: Final = 3
FULL_BYTES: Final = 4

# Outcomes of rows, as `stream_rows.refused` names them.
ACCEPTED: Final = 0
NULL_TIME: Final = 1
FUTURE: Final = 3
LATE: Final = 5

_EMPTY: Final = -1
_GONE: Final = -2


class State(NamedTuple):
    """All slots.

    Attributes:
        slots: see the columns above.
        ints, floats: the states of their aggregates.
        heap: (end, slot), the least end first.
        table: slots by (code, end); empty for sessions.
        heads: the latest session of each code; empty for others.
        leaving: (slot, row that closed it or -1) of this batch; -1 too where a closed session is kept no longer.
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
    state.slots[slot, TIME], state.slots[slot, NEXT], state.slots[slot, MARK] = UNSET, -1, 0
    state.slots[slot, LIFE] = OPEN
    state.slots[slot, BYTES] = state.key_bytes[code] + value_bytes(folds, state.ints, slot)
    clock[COUNT_OPEN] += 1
    clock[BYTES_OPEN] += state.slots[slot, BYTES]
    return int(slot)


def is_held(lives: Any) -> Any:
    """Whether slots are open, or kept: of one, or of many."""
    return (lives == OPEN) | (lives == KEPT)


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


def close_until(close_bound: Any, keeps: Any, row: int, state: Any, clock: Any) -> None:
    """Close every window whose end is below `close_bound`, because of a row; -1 is none.

    Args:
        close_bound: µs.
        keeps: how long a session that has closed is kept, µs; 0 for other windows.
        row: of the batch.
        state: the slots.
        clock: of the state.
    """
    heap = state.heap
    while clock[HEAP] > 0 and heap[0, 0] < close_bound:
        slot = heap[0, 1]
        life, end = state.slots[slot, LIFE], state.slots[slot, END]
        if life == OPEN and end >= close_bound:
            replace_top(heap, clock[HEAP], end, slot)  # a session that has grown
            continue
        state.leaving[clock[LEAVING], 0] = slot
        state.leaving[clock[LEAVING], 1] = row if life == OPEN else -1
        clock[LEAVING] += 1
        if life == OPEN and end + keeps >= close_bound:
            count_out(state, clock, slot)
            state.slots[slot, LIFE] = KEPT
            clock[KEPT_HERE] += 1
            replace_top(heap, clock[HEAP], end + keeps, slot)
            continue
        clock[HEAP] -= 1
        last = clock[HEAP]
        replace_top(heap, last, heap[last, 0], heap[last, 1])
        if life != MERGED:
            take_out(state, clock, slot)
            state.slots[slot, LIFE] = CLOSED


def count_out(state: Any, clock: Any, slot: int) -> None:
    """One open window less."""
    clock[COUNT_OPEN] -= 1
    clock[BYTES_OPEN] -= state.slots[slot, BYTES]


def take_out(state: Any, clock: Any, slot: int) -> None:
    """Nothing finds the slot any more; its states stay until the end of the batch."""
    code = state.slots[slot, CODE]
    if state.slots[slot, LIFE] == KEPT:
        clock[KEPT_HERE] -= 1
    else:
        count_out(state, clock, slot)
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
    """Fill an empty table, or empty lists, from the slots."""
    for slot in range(clock[USED]):
        if is_held(state.slots[slot, LIFE]):
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
        weigh(state, clock, slot, folds)


def weigh(state: Any, clock: Any, slot: int, folds: Any) -> None:
    """Count the bytes of an open slot anew."""
    now = state.key_bytes[state.slots[slot, CODE]] + value_bytes(folds, state.ints, slot)
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


# A micro-batch as the loops see it, and what they do to one window: compiled by `compiled.py`.


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
        keeps: how long a session that has closed may become part of a longer one, µs.
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
    keeps: int
    inclusive: int
    max_future: int
    is_final: bool
    max_rows: int
    max_bytes: int
    most_windows: int
    most_updates: int


class SpilledEnds(NamedTuple):
    """Spilled windows that no row of a batch is for, but that it may close: how many of each end, and their bytes."""

    ends: Any
    rows: Any
    sizes: Any


NOTHING: Final = np.empty(0, np.int64)
NOTHING_SPILLED: Final = SpilledEnds(NOTHING, NOTHING, NOTHING)


class Batch(NamedTuple):
    """Rows: codes of their keys, times, those without a time (empty: none), arguments, and which aggregates count."""

    codes: Any
    times: Any
    absent: Any
    ints: Any
    floats: Any
    counted: Any
    spilled_ends: Any = NOTHING_SPILLED


class Found(NamedTuple):
    """What became of rows, stream time after each, and the updates with the states before and after."""

    outcomes: Any
    stream_times: Any
    updates: Any
    old_ints: Any
    old_floats: Any
    new_ints: Any
    new_floats: Any


def close_bound(shape: Any, clock: Any) -> Any:
    """Windows whose end is below this are closed (B3)."""
    return max(rules.close_bound(clock[NOW], shape.wait, shape.inclusive), clock[CLOSED_BEFORE])


def close_bounds(shape: Shape, found: Found, closed_before: int) -> NDArray[np.int64]:
    """`close_bound` after each row; one that is refused at sight closes nothing."""
    behind = np.where(found.stream_times < UNSET + shape.wait, UNSET, found.stream_times - shape.wait)
    behind += 0 if shape.inclusive else 1
    behind[(found.outcomes == NULL_TIME) | (found.outcomes == FUTURE)] = UNSET
    bounds: NDArray[np.int64] = np.maximum.accumulate(np.maximum(behind, closed_before))
    return bounds


def close_spilled(closed: Any, batch: Any, clock: Any) -> None:
    """What is spilled is open too, until it closes."""
    spilled_ends, place = batch.spilled_ends, clock[SPILLED_CLOSED]
    while place < len(spilled_ends.ends) and spilled_ends.ends[place] < closed:
        clock[SPILLED] -= spilled_ends.rows[place]
        clock[COUNT_OPEN] -= spilled_ends.rows[place]
        clock[BYTES_OPEN] -= spilled_ends.sizes[place]
        place += 1
    clock[SPILLED_CLOSED] = place


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


# The loop's part for sessions: compiled by `compiled.py`. Source: semantics.md 13.6 to 13.8, B3, B4.


def add_to_session(row: int, time: Any, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any) -> int:
    """Count a row in the session that it makes of those within the gap (13.6 to 13.8), unless that one is closed.

    At most two lie there, since they are more than a gap apart, and they may be closed themselves. The one that they
    make can be closed, too: of a row that is late, or of the first one since an edit made the grace period shorter.
    """
    slots = state.slots
    closed = close_bound(shape, clock)
    earliest = max(horizon(time, shape.size), horizon(closed, shape.keeps))
    later = state.heads[batch.codes[row]]
    while later >= 0 and horizon(slots[later, START], shape.size) > time:
        later = slots[later, NEXT]
    is_alone = later < 0 or slots[later, END] < earliest
    if (time if is_alone else max(time, slots[later, END])) < closed:
        clock[EXPIRED] += 1
        return LATE
    if is_alone:
        slot = open_slot(state, clock, batch.codes[row], time, time, folds)
        hang_in(state, slot)
        push(state.heap, clock, time, slot)
        was = False
    else:
        earlier = slots[later, NEXT]
        is_two = earlier >= 0 and slots[earlier, END] >= earliest
        slot = earlier if is_two else later
        was = not is_two and slots[slot, START] == slots[slot, END] and slots[slot, START] == time
        if not shape.is_final:
            give_out_old(row, slot, later, is_two, was, state, found, clock)
        if slots[slot, LIFE] == KEPT:
            slot = reopen(slot, state, folds, clock)
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


def reopen(kept: int, state: Any, folds: Any, clock: Any) -> int:
    """The slot of a session that goes on where a closed one is."""
    slots = state.slots
    slot = open_slot(state, clock, slots[kept, CODE], slots[kept, START], slots[kept, END], folds)
    copy_states(state.ints, state.floats, kept, state.ints, state.floats, slot)
    weigh(state, clock, slot, folds)
    take_out(state, clock, kept)
    slots[kept, LIFE] = MERGED
    hang_in(state, slot)
    push(state.heap, clock, slots[slot, END], slot)
    return slot


def absorb(slot: int, later: int, state: Any, folds: Any, clock: Any) -> None:
    """Merge the following session into one."""
    take_out(state, clock, later)
    state.slots[later, LIFE] = MERGED
    if not merge_states(folds, state.ints, state.floats, slot, later):
        clock[STOP] = OVERFLOWN
    state.slots[slot, END] = state.slots[later, END]
    weigh(state, clock, slot, folds)


def fold_rows(row: int, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any) -> int:
    """Take rows from `row` on; returns where it stopped, and `clock` says why."""
    clock[STOP] = DONE
    while row < len(batch.times):
        if lacks_room(state, found, shape, clock):
            clock[STOP] = ROOM
            return row
        outcome = arrive(row, batch, shape, clock)
        if outcome == ACCEPTED:
            outcome = add(row, batch, state, found, shape, folds, clock)
            if outcome == ACCEPTED:
                clock[PUTS] += 1
                clock[TOTAL_OPEN] += clock[COUNT_OPEN]
                clock[TOTAL_BYTES] += clock[BYTES_OPEN]
            clock[MOST_OPEN] = max(clock[MOST_OPEN], clock[COUNT_OPEN])
            clock[MOST_BYTES] = max(clock[MOST_BYTES], clock[BYTES_OPEN])
            if shape.kind != NONE:
                closed = close_bound(shape, clock)
                close_until(closed, shape.keeps, row, state, clock)
                close_spilled(closed, batch, clock)
            if clock[STOP] == DONE:
                clock[STOP] = fullness(shape, clock)
            if clock[STOP] != DONE:
                return row
        found.outcomes[row] = outcome
        found.stream_times[row] = clock[NOW] if clock[IS_SET] else UNSET
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
    if clock[IS_SET] and is_ahead(time, clock[NOW], shape.max_future):
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
    closed, outcome = close_bound(shape, clock), LATE
    start = clock[ALIGNED]
    if time < start or time - start >= shape.slide:  # divisions cost: most rows are in the window of the one before
        start = time - (time - shape.offset) % shape.slide
        clock[ALIGNED] = start
    if shape.slide < shape.size:
        start -= (start + shape.size - 1 - time) // shape.slide * shape.slide
    while start <= time:
        if start + shape.size >= closed:
            add_to_window(row, start, start + shape.size, batch, state, found, shape, folds, clock)
            outcome = ACCEPTED
        else:
            clock[EXPIRED] += 1
        start += shape.slide
    return outcome


def add_to_cumulating(
    row: int, time: Any, batch: Any, state: Any, found: Any, shape: Any, folds: Any, clock: Any
) -> int:
    """Windows of one start, of ever later ends."""
    closed, outcome = close_bound(shape, clock), LATE
    start = time - (time - shape.offset) % shape.size
    last = start + shape.size
    end = min(start + ((time - start) // shape.slide + 1) * shape.slide, last)
    while True:
        if end >= closed:
            add_to_window(row, start, end, batch, state, found, shape, folds, clock)
            outcome = ACCEPTED
        else:
            clock[EXPIRED] += 1
        if end == last:
            return outcome
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


def held_slots(state: Any, clock: Any, slots: Any) -> int:
    """Write down the slots that are open or kept; returns how many."""
    count = 0
    for slot in range(clock[USED]):
        if is_held(state.slots[slot, LIFE]):
            slots[count] = slot
            count += 1
    return count
