"""The updates of an upsert table, live: `TableChangesLogic` behind the door of whole micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.logic import Segment, StreamEmission
from udtf.operators.record_stream import keys_in, late_table, segment_of, state_of, times_of, tuples
from udtf.operators.stream_rows import ordered, table_of
from udtf.operators.table_changes import TableChangesConfig, TableChangesLogic
from udtf.record import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.record import Update


class TableChangesStream:
    """The record-by-record logic of one task over columns.

    The input has `__k0 ..`, `__time`, `__deleted` where rows can delete, `_l0 ..` (the table's columns) and `__o0 ..`.
    The output has `__k0 ..`, `_l0 ..` (the row now), `_b0 ..` (the row before), `__was`, `__is` and `__time` (µs).

    Args:
        config: the table.
        emit_order: how many order columns `__o0 ..` the output ends in, see `StreamEmission`; 0 is none.
    """

    def __init__(self, config: TableChangesConfig, emit_order: int = 0) -> None:
        """Start without state."""
        self.config, self._emit_order = config, emit_order
        self._logic = TableChangesLogic(config)
        self._bytes = 0

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing."""
        table, before = inputs[0], dict(self._logic.metrics)
        emissions = [self._logic.on_batch([row]) for row in self._rows(table)]
        causes = [number for number, one in enumerate(emissions) for _ in one.updates]
        output = self._output(table, causes, [update for one in emissions for update in one.updates])
        late = late_table(table, [row for one in emissions for row in one.late])
        delta = self.snapshot() if len(emissions) else None
        metrics = {**self._logic.metrics.since(before), "state_bytes": self._bytes}
        return StreamEmission(output, (late,), metrics, delta)

    def snapshot(self) -> Segment:
        """All state."""
        state = self._logic.snapshot()
        self._bytes = len(state)
        return segment_of(state)

    def apply(self, segment: Segment) -> None:
        """Continue from a segment: each holds all state."""
        state = state_of(segment)
        self._bytes = len(state)
        self._logic.restore(state)

    @property
    def stored_bytes(self) -> int:
        """About what the state takes: as many bytes as it was written in."""
        return self._bytes

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
        columns: dict[str, Any] = {
            f"__k{n}": pa.array([update.key[n] for update in updates], table[f"__k{n}"].type)
            for n in range(self.config.n_keys)
        }
        for prefix, rows in (("_l", [u.new for u in updates]), ("_b", [u.old for u in updates])):
            for n, name in enumerate(self._payload(table)):
                values = [None if row is None else row[n] for row in rows]
                columns[f"{prefix}{n}"] = pa.array(values, table[name].type)
        columns["__was"] = pa.array([update.old is not None for update in updates], pa.bool_())
        columns["__is"] = pa.array([update.new is not None for update in updates], pa.bool_())
        columns["__time"] = pa.array([update.time for update in updates], pa.int64())
        if self._emit_order:
            order, names = ordered(table, np.array(causes, np.int64), self._emit_order)
            columns |= dict(zip(names, order, strict=True))
        return table_of(list(columns.values()), list(columns), len(updates))
