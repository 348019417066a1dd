"""The loops of aggregations, compiled by numba on first use. Imported late: numba costs a second to import."""

from __future__ import annotations

from typing import Any

from udtf.numba_cache import compiled, inlined
from udtf.operators.window_aggregate import batch_loops, folds, loops, rules

inlined(
    rules.close_bound,
    folds.fold_row,
    folds.fold_int,
    folds.add_wide,
    folds.fold_float,
    folds.merge_states,
    folds.merge_moments,
    folds.value_bytes,
    folds.copy_states,
    loops.open_slot,
    loops.touch,
    loops.place_of,
    loops.push,
    loops.replace_top,
    loops.close_until,
    loops.is_held,
    loops.count_out,
    loops.take_out,
    loops.weigh,
    loops.hang_in,
    loops.replaced,
    loops.lacks_room,
    loops.arrive,
    loops.close_bound,
    loops.fullness,
    loops.add,
    loops.add_to_cumulating,
    loops.add_to_window,
    loops.close_spilled,
    loops.fold_into,
    loops.note,
    loops.add_to_session,
    loops.give_out_old,
    loops.reopen,
    loops.absorb,
    batch_loops.advance,
    batch_loops.leaving,
    batch_loops.clear,
    batch_loops.turn_over,
    batch_loops.put_together,
)


def _compiled(function: Any) -> Any:
    """Compile without counting references to arrays: the loops allocate nothing, and would count most of the time."""
    found = compiled(function, batch_loops, folds, loops, rules)
    found.targetoptions["_nrt"] = False
    return found


fold_rows = _compiled(loops.fold_rows)
held_slots = _compiled(loops.held_slots)
close_until = _compiled(loops.close_until)
place_all = _compiled(loops.place_all)
put_slots = _compiled(loops.put_slots)
measure_windows = _compiled(batch_loops.measure_windows)
fold_windows = _compiled(batch_loops.fold_windows)
list_members = _compiled(batch_loops.list_members)
