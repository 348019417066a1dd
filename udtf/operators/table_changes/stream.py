"""The updates of a table, live: `TableChangesLogic`, called with whole micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from udtf.columns.records import RecordBacked, keys_in, late_table, one_by_one, times_of, tuples
from udtf.columns.updates import as_rows, orders_of
from udtf.logic import StreamEmission
from udtf.operators.table_changes.logic import TableChangesConfig, TableChangesLogic
from udtf.record import Row, Update

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


class TableChangesStream(RecordBacked[TableChangesLogic]):
    """The record-by-record logic of one task over columns.

    The input has `__k0 ..`, `__time`, `__deleted` where rows can delete, `_l0 ..` (the table's columns) and `__o0 ..`.
    The output has rows of updates, see `udtf.columns.updates`.

    Args:
        config: the table.
        schema: of the output.
        keys: which of the table's columns are its key.
        kept: how many order columns of the input the output keeps.
    """

    def __init__(self, config: TableChangesConfig, schema: pa.Schema, keys: tuple[int, ...], kept: int) -> None:
        """Start without state."""
        super().__init__(TableChangesLogic(config))
        self.config, self._schema, self._keys, self._kept = config, schema, keys, kept
        self._payload = [name for name in schema.names if name.startswith("_l")]

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing."""
        table, before = inputs[0], dict(self._logic.metrics)
        causes, updates, late = one_by_one(self._logic, self._rows(table))
        orders = orders_of(table, causes, self._kept)
        rows = as_rows([self._shown(u) for u in updates], self._schema, orders, shows_gone=self.config.is_versioned)
        delta = self.snapshot() if len(table) else None
        return StreamEmission(rows, (late_table(table, late),), self._counted(before), delta)

    def _shown(self, update: Update) -> Update:
        gone: list[Any] = [None] * len(self._payload)
        for place, value in zip(self._keys, update.key, strict=True):
            gone[place] = value
        return update._replace(gone=tuple(gone))

    def _rows(self, table: pa.Table) -> list[Row]:
        """The rows, each with its number after its payload."""
        keys, times = keys_in(table, self.config.n_keys), times_of(table)
        columns = [table[name].to_pylist() for name in self._payload]
        payloads = tuples([*columns, list(range(len(table)))], len(table))
        has_deletes = "__deleted" in table.column_names
        deletes = table["__deleted"].to_pylist() if has_deletes else [False] * len(table)
        found = zip(keys, times, payloads, deletes, strict=True)
        return [
            Row("R", key, when, payload, event_time=when, is_tombstone=gone is True)
            for key, when, payload, gone in found
        ]
