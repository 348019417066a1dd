"""Aggregates over a live table whose rows come and go, whole micro-batches at a time.

The answers are those of `TableAggregateLogic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.columns.arrays import as_type, is_present, longs_in, one_chunk, truth_of
from udtf.columns.batch import hashes_of, keys_of
from udtf.columns.keys import GroupKeys
from udtf.columns.updates import GONE, OLD, ReadUpdates, UpdateRows, orders_of, times_in
from udtf.logic import Segment, StreamEmission
from udtf.metrics import of_table
from udtf.numba_cache import compiled
from udtf.operators.table_aggregate import loops
from udtf.operators.table_aggregate.compiled_aggregates import Distinct, Extreme, Values, kept_of
from udtf.operators.table_aggregate.loops import ROW, SHOWN, SIGN, TIME
from udtf.rules import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udtf.operators.table_aggregate.logic import TableAggregateConfig

_move = compiled(loops.move)


class CompiledTableAggregate:
    """The groups of one task, with the columns of `TableAggregateStream`.

    Args:
        config: the aggregation, see `is_compiled`.
        schema: of the output.
        kept: how many order columns of the input the output keeps.
        arguments: per aggregate the types of its arguments.
    """

    def __init__(
        self, config: TableAggregateConfig, schema: pa.Schema, kept: int, arguments: Sequence[Sequence[pa.DataType]]
    ) -> None:
        """Start without groups."""
        self.config, self._schema, self._kept = config, schema, kept
        self._groups = GroupKeys([schema.field(f"__u{n}").type for n in range(config.n_keys)])
        self._facts = np.zeros((3, 0), np.int64)
        self._aggregates = [
            kept_of(number, aggregate, types, schema.field(f"__a{number}").type)
            for number, (aggregate, types) in enumerate(zip(config.aggregates, arguments, strict=True))
        ]
        self._distinct = {
            number: Distinct(types)
            for number, (kept_as, types) in enumerate(zip(self._aggregates, arguments, strict=True))
            if kept_as.aggregate.distinct and not isinstance(kept_as, Extreme)
        }

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`; this object must not be used then.
        """
        (table,) = inputs
        codes = self._place(keys_of(table, self.config.n_keys), hashes_of(table))
        read = ReadUpdates(table)
        updates = np.column_stack([read.rows[:, :2], read.first])
        moves, changed = np.empty((5, 2 * len(read)), np.int64), np.empty((5, 2 * len(read)), np.int64)
        moved, sent = _move(updates, codes, times_in(table), self.config.n_keys > 0, self._facts, moves, changed)
        found = [self._taken(number, table, moves[:, :moved], sent) for number in range(len(self._aggregates))]
        rows = self._output(table, changed[:, :sent], found)
        values = {number: values.changed for number, values in self._values()}
        delta = self._segment(np.unique(codes), values) if len(table) else None
        metrics = of_table(len(read), sent, int(np.count_nonzero(self._facts[SHOWN])), self.stored_bytes)
        return StreamEmission(rows, (), dict(metrics), delta)

    def snapshot(self) -> Segment:
        """All groups; one without rows is kept for its time, which never goes back (10.5)."""
        values = {number: values.current() for number, values in self._values()}
        return self._segment(np.arange(self._groups.size), values)

    def apply(self, segment: Segment) -> None:
        """Put groups again."""
        table = segment.tables["groups"]
        codes = self._place(keys_of(table, self.config.n_keys), hashes_of(table))
        for place in range(len(self._facts)):
            self._facts[place, codes] = longs_in(table, f"fact{place}")
        for kept in self._aggregates:
            kept.put(codes, table)
        for number, values in self._values():
            table = segment.tables[f"values{number}"]
            groups = self._place(keys_of(table, self.config.n_keys), hashes_of(table))
            columns = [one_chunk(table[name]) for name in table.column_names if name.startswith("value")]
            values.put(groups, columns, longs_in(table, "rows"))

    @property
    def stored_bytes(self) -> int:
        """Memory of the groups."""
        kept = sum(kept.nbytes for kept in self._aggregates) + sum(values.nbytes for _, values in self._values())
        return self._groups.nbytes + self._facts.nbytes + kept

    def _values(self) -> Iterator[tuple[int, Values]]:
        """The values that aggregates keep, by the number of the aggregate."""
        for number, kept in enumerate(self._aggregates):
            if isinstance(kept, Extreme):
                yield number, kept.values
            elif number in self._distinct:
                yield number, self._distinct[number].values

    def _place(self, keys: Sequence[pa.Array], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        codes = self._groups.place(keys, hashes)
        known = self._facts.shape[1]
        if self._groups.size > known:
            more = max(self._groups.size, 2 * known) - known
            self._facts = np.pad(self._facts, ((0, 0), (0, more)))
            self._facts[TIME, known:] = UNSET
            for kept in self._aggregates:
                kept.grow(more)
        return codes

    def _taken(self, number: int, table: pa.Table, moves: NDArray[np.int64], sent: int) -> Any:
        """Let an aggregate take the rows that count for it."""
        aggregate, kept = self.config.aggregates[number], self._aggregates[number]
        columns = [one_chunk(table[f"__a{number}_{m}"]) for m in range(aggregate.arguments)]
        counts = np.ones(len(table), np.bool_)
        for column in columns:
            counts = counts & is_present(column)
        if aggregate.function == "count_if":
            counts = counts & truth_of(columns[0])
        if aggregate.has_filter:
            counts = counts & truth_of(one_chunk(table[f"__a{number}_f"]))
        own = moves.copy()
        own[SIGN] *= counts[own[ROW]]
        if number in self._distinct:
            self._distinct[number].filter(columns, own)
        return kept.take(columns, own, sent)

    def _output(self, table: pa.Table, changed: NDArray[np.int64], found: Sequence[Any]) -> pa.Table:
        codes, causes, times, was, is_now = changed
        sent = UpdateRows(was == 1, is_now == 1, shows_gone=False)
        keys, _ = self._groups.take(codes)
        columns: dict[str, Any] = sent.hidden(times, orders_of(table, causes, self._kept), keys)
        rows = pa.array(sent.update)
        columns |= {f"__k{n}": key.take(rows) for n, key in enumerate(keys)}
        at = (sent.kind != OLD).astype(np.int64), sent.update
        for number, kept in enumerate(self._aggregates):
            columns[f"__a{number}"] = kept.shown(found[number], at, sent.kind == GONE)
        schema = self._schema
        return pa.table([as_type(columns[name], schema.field(name).type) for name in schema.names], schema=schema)

    def _segment(self, codes: NDArray[np.int64], values: Mapping[int, NDArray[np.int64]]) -> Segment:
        """Groups, and values of groups by the number of their aggregate."""
        columns = self._keys_of(codes) | {
            f"fact{place}": pa.array(fact[codes]) for place, fact in enumerate(self._facts)
        }
        for kept in self._aggregates:
            columns |= kept.columns(codes)
        tables = {"groups": pa.table(columns)}
        for number, kept_values in self._values():
            groups, shown = kept_values.take(values[number])
            of_values = {f"value{n}": value for n, value in enumerate(shown)}
            rows = pa.array(kept_values.rows[values[number]])
            tables[f"values{number}"] = pa.table(self._keys_of(groups) | of_values | {"rows": rows})
        return Segment(tables, {})

    def _keys_of(self, codes: NDArray[np.int64]) -> dict[str, pa.Array]:
        keys, hashes = self._groups.take(codes)
        return {f"__k{n}": key for n, key in enumerate(keys)} | {"__hash": hashes}
