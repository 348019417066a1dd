"""The loops of aggregations, compiled by numba on first use. Imported late: numba costs a second to import."""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable

from udtf.operators import window_aggregate_stream_batch as batches
from udtf.operators import window_aggregate_stream_folds as folds
from udtf.operators import window_aggregate_stream_loops as loops
from udtf.operators import window_aggregate_stream_sessions as sessions
from udtf.operators import window_aggregate_stream_slots as slots
from udtf.operators import window_aggregate_table_loops as tables
from udtf.operators.compiled import compiled

for _part in (
    folds.fold_row,
    folds.fold_int,
    folds.add_wide,
    folds.fold_float,
    folds.merge_states,
    folds.merge_moments,
    folds.value_bytes,
    folds.copy_states,
    slots.horizon,
    slots.open_slot,
    slots.touch,
    slots.place_of,
    slots.push,
    slots.replace_top,
    slots.close_until,
    slots.take_out,
    slots.hang_in,
    slots.replaced,
    loops.lacks_room,
    loops.arrive,
    batches.shut,
    loops.fullness,
    loops.add,
    loops.add_to_cumulating,
    loops.add_to_window,
    batches.leave_away,
    batches.fold_into,
    batches.note,
    sessions.add_to_session,
    sessions.give_out_old,
    sessions.absorb,
    tables.advance,
    tables.leaving,
    tables.clear,
    tables.turn_over,
    tables.put_together,
):
    register_jitable(forceinline=True)(_part)


def _compiled(function: Any) -> Any:
    """Compile without counting references to arrays: the loops allocate nothing, and would count most of the time."""
    found = compiled(function, batches, folds, loops, sessions, slots, tables)
    found.targetoptions["_nrt"] = False
    return found


fold_rows = _compiled(loops.fold_rows)
open_slots = _compiled(loops.open_slots)
close_until = _compiled(slots.close_until)
place_all = _compiled(slots.place_all)
put_slots = _compiled(slots.put_slots)
measure_windows = _compiled(tables.measure_windows)
fold_windows = _compiled(tables.fold_windows)
list_members = _compiled(tables.list_members)
