"""The loops of the first step of a join by foreign key; compiled where they run, plain in tests.

Left rows that point to one key are a list: its first is by that key, the next and the one before by left row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from udtf.operators.table_join.rules import is_joined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Columns of events. Of a left one: that of its row, whether there was one, what it pointed to and its payload row, and
#: the same of the row now; -1 is nothing. Of a right one: its key, and the payload row now, less than 0 where deleted.
SIDE, CODE, HAD, OLD_KEY, OLD_ROW, HAS, NEW_KEY, NEW_ROW, NUMBER = range(9)
#: Columns of what is sent: the event, the left row, its last update in this micro-batch, the kind of the row, payload
#: rows of both sides, whether it is a row of the result, whether it points to something, whether both ends are one.
EVENT, LEFT, LAST, KIND, LEFT_ROW, RIGHT_ROW, IS, HAS_KEY, IS_SAME = range(9)
WIDTH: Final = 9
#: Columns of the lists, by left row: what it points to, its payload row, the next one and the one before.
TO, ROW, NEXT, BEFORE = range(4)
_OLD, _NEW, _GONE = 0, 1, 2


def unlink(left: int, lists: NDArray[np.int64], firsts: NDArray[np.int64]) -> None:
    """Take a left row off the list that it is in."""
    key = lists[left, TO]
    if key < 0:
        return
    after, before = lists[left, NEXT], lists[left, BEFORE]
    if before >= 0:
        lists[before, NEXT] = after
    else:
        firsts[key] = after
    if after >= 0:
        lists[after, BEFORE] = before
    lists[left, TO] = -1


def link(left: int, key: int, row: int, lists: NDArray[np.int64], firsts: NDArray[np.int64]) -> None:
    """Put a left row, which is in no list, into that of a key."""
    after = firsts[key]
    lists[left, TO], lists[left, ROW], lists[left, NEXT], lists[left, BEFORE] = key, row, after, -1
    if after >= 0:
        lists[after, BEFORE] = left
    firsts[key] = left


def point(
    lefts: NDArray[np.int64], keys: NDArray[np.int64], rows: NDArray[np.int64], lists: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> None:  # fmt: skip
    """Let left rows point to keys, to none where those are less than 0.

    Args:
        lefts: the left rows.
        keys: per row the key.
        rows: per row its payload row.
        lists: of all left rows, see above.
        firsts: of all keys.
    """
    for place in range(len(lefts)):
        unlink(lefts[place], lists, firsts)
        if keys[place] >= 0:
            link(lefts[place], keys[place], rows[place], lists, firsts)


def send(  # a compiled loop takes arrays, not objects
    sent: NDArray[np.int64], place: int, event: int, left: int, last: int, kind: int, left_row: int, right_row: int,
) -> None:  # fmt: skip
    """Write what all rows that are sent have; see above."""
    sent[place, EVENT], sent[place, LEFT], sent[place, LAST], sent[place, KIND] = event, left, last, kind
    sent[place, LEFT_ROW], sent[place, RIGHT_ROW] = left_row, right_row


def take_left(  # a compiled loop takes arrays, not objects
    keeps_left: bool,
    event: int,
    events: NDArray[np.int64],
    cells: NDArray[np.int64],
    key_times: NDArray[np.int64],
    lists: NDArray[np.int64],
    firsts: NDArray[np.int64],
    sent: NDArray[np.int64],
    right_times: NDArray[np.int64],
    used: int,
) -> int:
    """Take a left update, and send what each of its ends tells; returns how many rows are sent then."""
    left, number = events[event, CODE], events[event, NUMBER]
    had, has = events[event, HAD] == 1, events[event, HAS] == 1
    is_same = had and has and events[event, OLD_KEY] == events[event, NEW_KEY]
    unlink(left, lists, firsts)
    if has and events[event, NEW_KEY] >= 0:
        link(left, events[event, NEW_KEY], events[event, NEW_ROW], lists, firsts)
    for kind, is_end, key, row in (
        (_OLD, had, events[event, OLD_KEY], events[event, OLD_ROW]),
        (_NEW, has, events[event, NEW_KEY], events[event, NEW_ROW]),
    ):
        if is_end:
            right = cells[key] if key >= 0 else -1
            send(sent, used, event, left, number, kind, row, right)
            sent[used, IS] = is_joined(keeps_left, False, True, right >= 0)
            sent[used, HAS_KEY], sent[used, IS_SAME] = key >= 0, is_same
            right_times[used] = key_times[key] if right >= 0 else 0
            used += 1
    return used


def take_right(  # a compiled loop takes arrays, not objects
    keeps_left: bool,
    event: int,
    before: int,
    now: int,
    first: int,
    lists: NDArray[np.int64],
    last: NDArray[np.int64],
    sent: NDArray[np.int64],
    used: int,
) -> int:
    """Send what an update of a right row changes of each row that points to it; returns how many are sent then."""
    was = is_joined(keeps_left, False, True, before >= 0)
    is_now = is_joined(keeps_left, False, True, now >= 0)
    left = first
    while left >= 0:
        for kind, is_row in ((_OLD, was), (_NEW, is_now), (_GONE, not was and not is_now)):
            if is_row:
                send(sent, used, event, left, last[left], kind, lists[left, ROW], before if kind == _OLD else now)
                sent[used, IS], sent[used, HAS_KEY], sent[used, IS_SAME] = kind != _GONE, 1, 0
                used += 1
        left = lists[left, NEXT]
    return used


def length(first: int, lists: NDArray[np.int64]) -> int:
    """How many rows are in a list."""
    found = 0
    while first >= 0:
        found += 1
        first = lists[first, NEXT]
    return found


def meet_foreign(  # a compiled loop takes arrays, not objects
    keeps_left: bool,
    is_versioned: bool,
    events: NDArray[np.int64],
    times: NDArray[np.int64],
    cells: NDArray[np.int64],
    key_times: NDArray[np.int64],
    lists: NDArray[np.int64],
    firsts: NDArray[np.int64],
    last: NDArray[np.int64],
    sent: NDArray[np.int64],
    right_times: NDArray[np.int64],
    begin: int,
    counted: NDArray[np.int64],
) -> int:
    """Take updates of both sides in order, as long as there is room for what they send.

    Args:
        keeps_left: left rows without a match are in the result.
        is_versioned: a right row that is older than the current one changes nothing (8.2).
        events: the updates, see above.
        times: per update, microseconds.
        cells: by key that of the right row, see `udtf.columns.current`.
        key_times: by key the time of that, microseconds.
        lists: of all left rows, see above.
        firsts: of all keys.
        last: by left row its last update in this micro-batch, -1 is none.
        sent: written: what goes to the second step, see above; those of a right update in any order of left rows.
        right_times: written per row of `sent` of a left update: the time of the right row, microseconds.
        begin: the first update.
        counted: written: how many rows were sent, and how many right rows were out of order.

    Returns:
        the first update that there was no room for.
    """
    used, late = 0, 0
    for event in range(begin, len(events)):
        code, is_left = events[event, CODE], events[event, SIDE] == 0
        if used + 2 * (1 if is_left else length(firsts[code], lists)) > len(sent):
            counted[0], counted[1] = used, late
            return event
        if is_left:
            last[code] = events[event, NUMBER]
            used = take_left(keeps_left, event, events, cells, key_times, lists, firsts, sent, right_times, used)
            continue
        before, now, time = cells[code], events[event, NEW_ROW], times[event]
        if is_versioned and before != -1 and time < key_times[code]:
            late += 1
            continue
        cells[code], key_times[code] = now, time
        used = take_right(keeps_left, event, before, now, firsts[code], lists, last, sent, used)
    counted[0], counted[1] = used, late
    return len(events)
