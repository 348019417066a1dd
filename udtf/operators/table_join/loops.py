"""The loop of a join by foreign key over the rows of a micro-batch; compiled where it runs, plain in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udtf.operators.table_join.rules import asks_new, shows_left

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
        asked = new if asks_new(keeps_left, new >= 0, has) else old
        if asked >= 0 and finds[asked]:
            times[update] = max(times[update], right_times[asked])
