"""The loops of deduplication, compiled by numba on first use. Imported late: numba costs a second to import."""

from __future__ import annotations

from numba.extending import register_jitable

from udtf.numba_cache import compiled
from udtf.operators.deduplicate import rules

for _part in (
    rules.is_live,
    rules.is_within,
    rules.outcome,
    rules.place_of,
    rules.close_group,
):
    register_jitable(_part)

deduplicate_rows = compiled(rules.deduplicate_rows)
put_entries = compiled(rules.put_entries)
equal_bytes = compiled(rules.equal_bytes)
