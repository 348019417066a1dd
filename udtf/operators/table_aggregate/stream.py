"""An aggregation of a live table, whole micro-batches at a time: `TableAggregateLogic`, update by update.

Source: semantics.md 10; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from udtf.columns.records import RecordBacked, keys_in, values_in
from udtf.columns.updates import ReadUpdates, as_rows, key_columns, orders_of, times_in
from udtf.logic import StreamEmission
from udtf.operators.table_aggregate.logic import Grouped, GroupedUpdate, TableAggregateConfig, TableAggregateLogic

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from udtf.record import Update


class TableAggregateStream(RecordBacked[TableAggregateLogic]):
    """The groups of one task.

    The input has `__k0 ..` (the group), per aggregate `__a<n>_0 ..` and `__a<n>_f`?, and what rows of updates carry
    along, see `udtf.columns.updates`; of an update the row before and the row now may be in different tasks. The output
    has `__k0 ..`, `__a0 ..` and what rows of updates carry along.

    Args:
        config: the aggregation.
        schema: of the output.
        kept: how many order columns of the input the output keeps.
    """

    def __init__(self, config: TableAggregateConfig, schema: pa.Schema, kept: int) -> None:
        """Start without state."""
        super().__init__(TableAggregateLogic(config))
        self.config, self._schema, self._kept = config, schema, kept

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing."""
        table, before = inputs[0], dict(self._logic.metrics)
        read = ReadUpdates(table)
        causes, updates = [], []
        given = self._updates(table, read)
        for first, update in zip(read.first.tolist(), given, strict=True):
            answered = self._logic.on_update(update)
            causes += [first] * len(answered)
            updates += answered
        rows = as_rows([self._shown(update) for update in updates], self._schema, orders_of(table, causes, self._kept))
        self._logic.metrics.add("emitted", len(updates))
        delta = self.taken(given) if len(table) else None
        return StreamEmission(rows, (), self._counted(before), delta)

    def _updates(self, table: pa.Table, read: ReadUpdates) -> list[GroupedUpdate]:
        names = [name for name in table.column_names if name.startswith("__a")]
        groups = keys_in(table, self.config.n_keys)
        arguments = values_in(table, names)
        keys = values_in(table, key_columns(table.column_names))
        times = times_in(table).tolist()
        found = []
        for first, (old, new, _) in zip(read.first.tolist(), read.rows.tolist(), strict=True):
            before, now = (None if n < 0 else Grouped(groups[n], arguments[n]) for n in (old, new))
            found.append(GroupedUpdate(keys[first], times[first], before, now))
        return found

    def _shown(self, update: Update) -> Update:
        return update._replace(gone=update.key + (None,) * len(self.config.aggregates))
