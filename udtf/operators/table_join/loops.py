"""The loops of joins of tables over the rows of a micro-batch; compiled where they run, plain in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udtf.operators.table_join.rules import asks_new, is_joined, shows, shows_left

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def left_updates(  # a compiled loop takes arrays, not objects
    keeps_left: bool,
    rows: NDArray[np.int64],
    is_right: NDArray[np.bool_],
    is_row: NDArray[np.bool_],
    has_key: NDArray[np.bool_],
    is_same: NDArray[np.bool_],
    finds: NDArray[np.bool_],
    right_times: NDArray[np.int64],
    shown: NDArray[np.bool_],
    was: NDArray[np.bool_],
    is_now: NDArray[np.bool_],
    times: NDArray[np.int64],
) -> None:
    """Which updates of the result there are, which rows they have, and when they are.

    Args:
        keeps_left: rows without a match are in the result.
        rows: per update the row before, the row now, and that of nothing but the key; -1 is none.
        is_right: per update: a right row caused it.
        is_row: per row: it is in the result.
        has_key: per row: the left row points to something.
        is_same: per row: both ends of its update are one.
        finds: per row: there is a right row.
        right_times: per row the time of that, microseconds.
        shown: written per update: it is one of the result.
        was: written per update: there was a row in the result.
        is_now: written per update: there is one now.
        times: per update its time, microseconds; that of the right row where it is later.
    """
    for update in range(len(rows)):
        old, new = rows[update, 0], rows[update, 1]
        was[update] = old >= 0 and is_row[old]
        is_now[update] = new >= 0 and is_row[new]
        shown[update] = True
        if is_right[update]:
            continue
        had, has = old >= 0 and has_key[old], new >= 0 and has_key[new]
        same, found = new >= 0 and is_same[new], new >= 0 and finds[new]
        shown[update] = shows_left(keeps_left, had, has, same, found)
        asked = new if asks_new(keeps_left, has) else old
        if asked >= 0 and finds[asked]:
            times[update] = max(times[update], right_times[asked])


def meet(  # a compiled loop takes arrays, not objects
    keeps_left: bool,
    keeps_right: bool,
    is_versioned: NDArray[np.bool_],
    sides: NDArray[np.int8],
    codes: NDArray[np.int64],
    times: NDArray[np.int64],
    has_key: NDArray[np.bool_],
    coming: NDArray[np.int64],
    cells: NDArray[np.int64],
    key_times: NDArray[np.int64],
    found: NDArray[np.int64],
    shown: NDArray[np.bool_],
    was: NDArray[np.bool_],
    is_now: NDArray[np.bool_],
) -> int:
    """Put the updates of both sides of a join by primary key, in order, and say what each makes of the result.

    Args:
        keeps_left: left rows without a match are in the result.
        keeps_right: right rows without a match are.
        is_versioned: per side: what is older than the current row of its key changes nothing (8.2).
        sides: per update 0 of the left, 1 of the right.
        codes: per update that of its key.
        times: per update its time, microseconds; that of the row which it meets where that is later.
        has_key: per update: no column of its key is NULL, which meets nothing (B10).
        coming: per update its cell: the number of a payload row, less than 0 where it is deleted.
        cells: by side and key, see `udtf.columns.current`.
        key_times: by side and key, microseconds.
        found: written per update: the payload rows of the left before and now, and of the right before and now.
        shown: written per update: it is one of the result.
        was: written per update: there was a row in the result.
        is_now: written per update: there is one now.

    Returns:
        how many updates changed nothing.
    """
    late = 0
    for update in range(len(codes)):
        side, code = sides[update], codes[update]
        own = cells[side, code]
        if is_versioned[side] and own != -1 and times[update] < key_times[side, code]:
            late += 1
            shown[update] = was[update] = is_now[update] = False
            continue
        other = cells[1 - side, code] if has_key[update] else -1
        time = times[update]
        if other >= 0:
            times[update] = max(time, key_times[1 - side, code])
        cells[side, code] = coming[update]
        key_times[side, code] = time
        mine, theirs = (0, 2) if side == 0 else (2, 0)
        found[update, mine], found[update, mine + 1] = own, coming[update]
        found[update, theirs] = found[update, theirs + 1] = other
        keeps_own = keeps_left if side == 0 else keeps_right
        shown[update] = shows(keeps_own, own >= 0 or coming[update] >= 0, other >= 0)
        was[update] = is_joined(keeps_left, keeps_right, found[update, 0] >= 0, found[update, 2] >= 0)
        is_now[update] = is_joined(keeps_left, keeps_right, found[update, 1] >= 0, found[update, 3] >= 0)
    return late
