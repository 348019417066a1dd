"""Suppression of a live table's updates: `SuppressLogic` behind the door of whole micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from udtf.columns.records import RecordBacked, as_table, key_columns, keys_in, times_of
from udtf.logic import StreamEmission
from udtf.operators.suppress.logic import SuppressConfig, SuppressLogic
from udtf.record import Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

_ROWS: Final = ("__old", "__new", "__gone")


class SuppressStream(RecordBacked[SuppressLogic]):
    """The record-by-record logic of one task over columns.

    Input and output have `__k0 ..` (with the bounds of a window, µs, as the last two), `__time` (µs), and the structs
    `__old`, `__new`, `__gone`: the result's row before, now, and what a deletion shows.

    Args:
        config: the suppression.
        n_keys: how many columns `__k0 ..` there are.
    """

    def __init__(self, config: SuppressConfig, n_keys: int) -> None:
        """Start without state."""
        super().__init__(SuppressLogic(config))
        self.config, self._n_keys = config, n_keys

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL`; this object must not be used then.
        """
        table, before = inputs[0], dict(self._logic.metrics)
        emission = self._logic.on_batch(self._updates(table))
        delta = self.snapshot() if len(table) else None
        return StreamEmission(self._output(table, emission.updates), (), self._counted(before), delta)

    def close_idle(self, rows: pa.Table) -> StreamEmission:
        """Give out everything that waits; `rows` is an input without rows, for its types."""
        before = dict(self._logic.metrics)
        emission = self._logic.close_idle()
        output = self._output(rows, emission.updates)
        return StreamEmission(output, (), self._logic.metrics.since(before), self.snapshot())

    def _updates(self, table: pa.Table) -> list[Update]:
        keys, times = keys_in(table, self._n_keys), times_of(table)
        old, new, gone = ([_values(row) for row in table[name].to_pylist()] for name in _ROWS)
        return [Update(*parts) for parts in zip(keys, times, old, new, gone, strict=True)]

    def _output(self, table: pa.Table, updates: Sequence[Update]) -> pa.Table:
        columns = key_columns(table, [update.key for update in updates], self._n_keys)
        columns["__time"] = pa.array([update.time for update in updates], pa.int64())
        rows = ([u.old for u in updates], [u.new for u in updates], [u.gone for u in updates])
        for name, found in zip(_ROWS, rows, strict=True):
            columns[name] = _struct(found, table[name].type)
        return as_table(columns, table, (), 0, len(updates))


def _values(row: dict[str, Any] | None) -> tuple[Any, ...] | None:
    return None if row is None else tuple(row.values())


def _struct(rows: Sequence[tuple[Any, ...] | None], kind: pa.DataType) -> pa.Array:
    names = [field.name for field in kind]
    return pa.array([None if row is None else dict(zip(names, row, strict=True)) for row in rows], kind)
