"""The updates of an upsert table, live: `TableChangesLogic` behind the door of whole micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from udtf.columns.records import (
    RecordBacked,
    as_table,
    key_columns,
    keys_in,
    late_table,
    one_by_one,
    times_of,
    tuples,
    update_flags,
)
from udtf.logic import StreamEmission
from udtf.operators.table_changes.logic import TableChangesConfig, TableChangesLogic
from udtf.record import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udtf.record import Update


class TableChangesStream(RecordBacked[TableChangesLogic]):
    """The record-by-record logic of one task over columns.

    The input has `__k0 ..`, `__time`, `__deleted` where rows can delete, `_l0 ..` (the table's columns) and `__o0 ..`.
    The output has `__k0 ..`, `_l0 ..` (the row now), `_b0 ..` (the row before), `__was`, `__is` and `__time` (µs).

    Args:
        config: the table.
        emit_order: how many order columns `__o0 ..` the output ends in, see `StreamEmission`; 0 is none.
    """

    def __init__(self, config: TableChangesConfig, emit_order: int = 0) -> None:
        """Start without state."""
        super().__init__(TableChangesLogic(config))
        self.config, self._emit_order = config, emit_order

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing."""
        table, before = inputs[0], dict(self._logic.metrics)
        causes, updates, late = one_by_one(self._logic, self._rows(table))
        delta = self.snapshot() if len(table) else None
        output = self._output(table, causes, updates)
        return StreamEmission(output, (late_table(table, late),), self._counted(before), delta)

    def _payload(self, table: pa.Table) -> list[str]:
        return [name for name in table.column_names if name.startswith("_l")]

    def _rows(self, table: pa.Table) -> list[Row]:
        """The rows, each with its number behind its payload."""
        keys, times = keys_in(table, self.config.n_keys), times_of(table)
        columns = [table[name].to_pylist() for name in self._payload(table)]
        payloads = tuples([*columns, list(range(len(table)))], len(table))
        has_deletes = "__deleted" in table.column_names
        deletes = table["__deleted"].to_pylist() if has_deletes else [False] * len(table)
        found = zip(keys, times, payloads, deletes, strict=True)
        return [
            Row("R", key, when, payload, event_time=when, is_tombstone=gone is True)
            for key, when, payload, gone in found
        ]

    def _output(self, table: pa.Table, causes: list[int], updates: Sequence[Update]) -> pa.Table:
        columns = key_columns(table, [update.key for update in updates], self.config.n_keys)
        for prefix, rows in (("_l", [u.new for u in updates]), ("_b", [u.old for u in updates])):
            for n, name in enumerate(self._payload(table)):
                values = [None if row is None else row[n] for row in rows]
                columns[f"{prefix}{n}"] = pa.array(values, table[name].type)
        columns |= update_flags(updates)
        columns["__time"] = pa.array([update.time for update in updates], pa.int64())
        return as_table(columns, table, causes, self._emit_order, len(updates))
