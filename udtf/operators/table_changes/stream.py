"""The updates of a table, live: whole micro-batches at a time, with the answers of `TableChangesLogic`.

Source: semantics.md 2.1, 4, 5, B12; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.columns.batch import count_refused, keys_of
from udtf.columns.current import CurrentRows
from udtf.columns.live_table import cell_of_deleted, forget_tombstones, put_rows
from udtf.columns.updates import UpdateRows, as_payload, orders_of, payload_columns
from udtf.logic import Segment, StreamEmission
from udtf.metrics import of_table
from udtf.numba_cache import compiled
from udtf.operators.table_changes import loops
from udtf.operators.table_changes.logic import TableChangesConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

_change = compiled(loops.change)


class TableChangesStream:
    """The table of one task.

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
        self.config, self._schema, self._keys, self._kept = config, schema, keys, kept
        key_types = [schema.field(f"__u{n}").type for n in range(config.n_keys)]
        self._payload = payload_columns(schema.names)
        self._current = CurrentRows(key_types, [pa.schema([schema.field(name) for name in self._payload])])
        self._now: int | None = None  # stream time, only for outliers (B9) and for what retention refuses (2.1)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing."""
        (table,), config, current, before = inputs, self.config, self._current, self._now
        current.make_room()
        put = put_rows(current, 0, config, table, before)
        self._now = put.now
        replaced, is_sent = np.empty(len(put.rows), np.int64), np.empty(len(put.rows), np.bool_)
        out_of_order = _change(
            put.codes, put.times, put.cells, config.is_versioned, config.is_latest_only, current.cells[0],
            current.times[0], replaced, is_sent,
        )  # fmt: skip
        sent = np.flatnonzero(is_sent)
        output = self._output(put.table, sent, put.cells[sent], replaced[sent], put.times[sent])
        has_changed = len(put.rows) > 0 or before != self._now
        delta = Segment({"rows": current.table(0, np.unique(put.codes))}, self._numbers) if has_changed else None
        metrics = of_table(len(table), len(sent), current.count, self.stored_bytes)
        count_refused(metrics, (put.late,))
        metrics.add("out_of_order", int(out_of_order))
        return StreamEmission(output, (put.late,), dict(metrics), delta)

    def snapshot(self) -> Segment:
        """What is known of all keys, and stream time."""
        forget_tombstones(self._current, 0, self.config, self._now)
        return Segment({"rows": self._current.table(0)}, self._numbers)

    def apply(self, segment: Segment) -> None:
        """Put rows again."""
        self._current.put(0, segment.tables["rows"], cell_of_deleted(self.config))
        self._now = segment.numbers["stream_time"]

    @property
    def stored_bytes(self) -> int:
        """Memory of the rows."""
        return self._current.nbytes

    @property
    def _numbers(self) -> dict[str, int | None]:
        return {"stream_time": self._now}

    def _output(
        self, put: pa.Table, sent: NDArray[np.int64], now: NDArray[np.int64], before: NDArray[np.int64],
        times: NDArray[np.int64],
    ) -> pa.Table:  # fmt: skip
        config, schema = self.config, self._schema
        found = UpdateRows(before >= 0, now >= 0, shows_gone=config.is_versioned)
        keys = [key.take(pa.array(sent)) for key in keys_of(put, config.n_keys)]
        columns = found.hidden(times, orders_of(put, sent, self._kept), keys)
        source = np.stack([before, now, np.full_like(now, -1)], axis=1)[found.update, found.kind]
        payload = self._current.rows[0].take(np.maximum(source, 0), source >= 0)
        columns |= as_payload(self._payload, payload, found, keys, ((place, n) for n, place in enumerate(self._keys)))
        return pa.table([columns[name] for name in schema.names], schema=schema)
