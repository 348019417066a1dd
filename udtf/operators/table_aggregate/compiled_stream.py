"""Counts, sums and averages of whole numbers over a live table, whole micro-batches at a time.

The answers are those of `TableAggregateLogic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.columns.arrays import ints_of, one_chunk, truth_of
from udtf.columns.batch import hashes_of, is_present, keys_of
from udtf.columns.keys import GroupKeys
from udtf.columns.updates import GONE, OLD, ReadUpdates, UpdateRows, orders_of, times_in
from udtf.errors import OperatorError
from udtf.logic import Segment, StreamEmission
from udtf.metrics import of_table
from udtf.numba_cache import compiled, inlined
from udtf.operators.table_aggregate import loops
from udtf.operators.table_aggregate.loops import SHOWN, TIME
from udtf.rules import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.aggregates import Aggregate
    from udtf.operators.table_aggregate.logic import TableAggregateConfig

inlined(loops.copy_group, loops.count_row)
_regroup = compiled(loops.regroup, loops)
_EXACT = 1 << 53  # a double has every whole number up to here


class CompiledTableAggregate:
    """The groups of one task, with the columns of `TableAggregateStream`.

    Args:
        config: the aggregation, see `is_compiled`.
        schema: of the output.
        kept: how many order columns of the input the output keeps.
    """

    def __init__(self, config: TableAggregateConfig, schema: pa.Schema, kept: int) -> None:
        """Start without groups."""
        self.config, self._schema, self._kept = config, schema, kept
        self._groups = GroupKeys([schema.field(f"__u{n}").type for n in range(config.n_keys)])
        width = len(config.aggregates)
        self._facts = np.zeros((3, 0), np.int64)
        self._totals, self._counted = np.zeros((width, 0), np.int64), np.zeros((width, 0), np.int64)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`; this object must not be used then.
        """
        (table,), width = inputs, len(self.config.aggregates)
        codes = self._place(keys_of(table, self.config.n_keys), hashes_of(table))
        read = ReadUpdates(table)
        updates = np.column_stack([read.rows[:, :2], read.first])
        arguments = [self._arguments(table, number) for number in range(width)]
        values = np.array([value for value, _ in arguments], np.int64).reshape(width, len(table))
        counts = np.array([counted for _, counted in arguments], np.bool_).reshape(width, len(table))
        most = 2 * len(read)
        changed = np.empty((5, most), np.int64)
        before, after = np.empty((width, 2, most), np.int64), np.empty((width, 2, most), np.int64)
        sent = int(_regroup(
            updates, codes, times_in(table), values, counts, self.config.n_keys > 0, self._facts, self._totals,
            self._counted, changed, before, after,
        ))  # fmt: skip
        if sent < 0:
            raise OperatorError.arithmetic_overflow("sum", self.config.aggregates[-1 - sent].type)
        rows = self._output(table, changed[:, :sent], before[:, :, :sent], after[:, :, :sent])
        delta = Segment({"groups": self._table(np.unique(codes))}, {}) if len(table) else None
        metrics = of_table(len(read), sent, int(np.count_nonzero(self._facts[SHOWN])), self.stored_bytes)
        return StreamEmission(rows, (), dict(metrics), delta)

    def snapshot(self) -> Segment:
        """All groups; one without rows is kept for its time, which never goes back (10.5)."""
        return Segment({"groups": self._table(np.arange(self._groups.size))}, {})

    def apply(self, segment: Segment) -> None:
        """Put groups again."""
        table = segment.tables["groups"]
        codes = self._place(keys_of(table, self.config.n_keys), hashes_of(table))
        for place in range(len(self._facts)):
            self._facts[place, codes] = one_chunk(table[f"fact{place}"]).to_numpy()
        for number in range(len(self._totals)):
            self._totals[number, codes] = one_chunk(table[f"total{number}"]).to_numpy()
            self._counted[number, codes] = one_chunk(table[f"counted{number}"]).to_numpy()

    @property
    def stored_bytes(self) -> int:
        """Memory of the groups."""
        return self._groups.nbytes + self._facts.nbytes + self._totals.nbytes + self._counted.nbytes

    def _place(self, keys: Sequence[pa.Array], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = self._groups.place(keys, hashes)
        known = self._facts.shape[1]
        if self._groups.size > known:
            room = ((0, 0), (0, max(self._groups.size, 2 * known) - known))
            self._facts, self._totals, self._counted = (
                np.pad(array, room) for array in (self._facts, self._totals, self._counted)
            )
            self._facts[TIME, known:] = UNSET
        return codes

    def _arguments(self, table: pa.Table, number: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What each row adds to an aggregate, and whether it counts."""
        aggregate = self.config.aggregates[number]
        columns = [one_chunk(table[f"__a{number}_{m}"]) for m in range(aggregate.arguments)]
        counts = np.ones(len(table), np.bool_)
        for column in columns:
            counts = counts & is_present(column)
        if aggregate.function == "count_if":
            counts = counts & truth_of(columns[0])
        if aggregate.has_filter:
            counts = counts & truth_of(one_chunk(table[f"__a{number}_f"]))
        values = ints_of(columns[0]) if aggregate.function in ("sum", "avg") else None
        return np.zeros(len(table), np.int64) if values is None else values, counts

    def _output(
        self, table: pa.Table, changed: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
    ) -> pa.Table:
        codes, causes, times, was, is_now = changed
        sent = UpdateRows(was == 1, is_now == 1, shows_gone=False)
        keys, _ = self._groups.take(codes)
        columns: dict[str, Any] = sent.hidden(times, orders_of(table, causes, self._kept), keys)
        rows = pa.array(sent.update)
        columns |= {f"__k{n}": key.take(rows) for n, key in enumerate(keys)}
        is_old, is_gone = sent.kind == OLD, sent.kind == GONE
        for number, aggregate in enumerate(self.config.aggregates):
            total, counted = np.where(is_old, before[number][:, sent.update], after[number][:, sent.update])
            columns[f"__a{number}"] = _result(aggregate, total, counted, is_gone)
        schema = self._schema
        return pa.table([columns[name].cast(schema.field(name).type) for name in schema.names], schema=schema)

    def _table(self, codes: NDArray[np.int64]) -> pa.Table:
        keys, hashes = self._groups.take(codes)
        columns = {f"__k{n}": key for n, key in enumerate(keys)} | {"__hash": hashes}
        columns |= {f"fact{place}": pa.array(fact[codes]) for place, fact in enumerate(self._facts)}
        columns |= {f"total{number}": pa.array(total[codes]) for number, total in enumerate(self._totals)}
        columns |= {f"counted{number}": pa.array(counted[codes]) for number, counted in enumerate(self._counted)}
        return pa.table(columns)


def _result(
    aggregate: Aggregate, total: NDArray[np.int64], counted: NDArray[np.int64], is_gone: NDArray[np.bool_]
) -> pa.Array:
    if aggregate.function in ("count", "count_if"):
        return pa.array(counted, mask=is_gone)
    is_null = is_gone | (counted == 0)
    if aggregate.function == "sum":
        return pa.array(total, mask=is_null)
    ratio = total / np.maximum(counted, 1)
    for row in np.flatnonzero(np.abs(total) > _EXACT).tolist():  # rounded once, not twice
        ratio[row] = int(total[row]) / max(1, int(counted[row]))
    return pa.array(ratio, mask=is_null)
