"""The loops of deduplication, compiled by numba on first use. Imported late: numba costs a second to import."""

from __future__ import annotations

from numba.extending import register_jitable

from udtf.operators import deduplicate_kernel as kernel
from udtf.operators.compiled import compiled

for _part in (
    kernel.horizon,
    kernel.is_live,
    kernel.is_within,
    kernel.is_outlier,
    kernel.verdict,
    kernel.place_of,
    kernel.close_group,
):
    register_jitable(_part)

deduplicate_rows = compiled(kernel.deduplicate_rows)
put_entries = compiled(kernel.put_entries)
equal_bytes = compiled(kernel.equal_bytes)
