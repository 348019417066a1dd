"""Aggregations of live streams that are not compiled: `WindowAggregateLogic` behind the door of whole micro-batches.

Correct, and slow: rows become Python's values, and every segment of the changelog holds all state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from udtf.logic import Segment, StreamEmission
from udtf.operators.stream_rows import keys_of, micros_of, ordered, table_of
from udtf.operators.window_aggregate import WindowAggregateLogic
from udtf.operators.window_aggregate_stream_columns import one_array
from udtf.operators.window_aggregate_stream_types import arrow_type
from udtf.record import Change, LateRow, Row, Update

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate_config import Aggregate, WindowAggregateConfig
    from udtf.operators.window_aggregate_sums import Evaluate

_STATE: Final = "state"
_STATE_PIECE: Final = 1 << 28  # one value of a column of bytes ends at 2 GB
_STAMP: Final = pa.timestamp("us", "UTC")
#: Aggregates whose result is of their first argument's type; that of the others is named by the configuration.
_OF_ARGUMENT: Final = ("min", "max", "first", "first_value", "any_value", "last", "last_value", "max_by", "min_by")
_OF_LIST: Final = ("collect_list", "collect_set", "array_agg")


class RecordStream:
    """The record-by-record logic of one task, with the columns of `WindowAggregateStream`.

    Args:
        config: the aggregation.
        emit_order: how many order columns `__o0 ..` the output ends in, see `StreamEmission`; 0 is none.
        evaluate: computes aggregates of kind 'rows', see `WindowAggregateLogic`.
    """

    def __init__(self, config: WindowAggregateConfig, emit_order: int = 0, evaluate: Evaluate | None = None) -> None:
        """Start without state."""
        self.config = config
        self._emit_order = emit_order
        self._logic = WindowAggregateLogic(config, evaluate)
        self._has_windows = config.window.kind != "none"
        self._bytes = 0

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL` and `OPERATOR.ARITHMETIC_OVERFLOW`; this object must not be used then.
        """
        table, before = inputs[0], dict(self._logic.metrics)
        rows = self._rows(table)
        if self.config.is_final:
            emission = self._logic.on_batch(rows)
            causes = self._causes(rows, emission.late, emission.rows)
            output, late = self._finals(table, causes, emission.rows), emission.late
        else:
            emissions = [self._logic.on_batch([row]) for row in rows]
            causes = [number for number, one in enumerate(emissions) for _ in one.updates]
            output = self._updates(table, causes, [update for one in emissions for update in one.updates])
            late = [row for one in emissions for row in one.late]
        delta = self.snapshot() if len(rows) else None
        metrics = {**self._logic.metrics.since(before), "state_bytes": self._bytes}
        return StreamEmission(output, (self._late(table, late),), metrics, delta)

    def close_idle(self, rows: pa.Table) -> StreamEmission:
        """Give out everything that is open; `rows` is an input without rows, for its types."""
        before, emit_order = dict(self._logic.metrics), self._emit_order
        emission = self._logic.close_idle()
        self._emit_order = 0  # no row causes this
        output = self._finals(rows, [], emission.rows)
        self._emit_order = emit_order
        return StreamEmission(output, (), self._logic.metrics.since(before), self.snapshot())

    def snapshot(self) -> Segment:
        """All state."""
        state = self._logic.snapshot()
        self._bytes = len(state)
        pieces = [state[start : start + _STATE_PIECE] for start in range(0, len(state), _STATE_PIECE)]
        return Segment({_STATE: pa.table({_STATE: pa.array(pieces, pa.large_binary())})}, {})

    def apply(self, segment: Segment) -> None:
        """Continue from a segment: each holds all state."""
        state = b"".join(segment.tables[_STATE][_STATE].to_pylist())
        self._bytes = len(state)
        self._logic.restore(state)

    @property
    def stored_bytes(self) -> int:
        """About what the state takes: as many bytes as it was written in."""
        return self._bytes

    def _rows(self, table: pa.Table) -> list[Row]:
        """The rows, each with its number behind its payload."""
        time = one_array(table["__time"])
        times = pa.array(micros_of(time), mask=time.is_null().to_numpy(zero_copy_only=False)).to_pylist()
        keys = _tuples([key.to_pylist() for key in keys_of(table, self.config.n_keys)], len(table))
        arguments = [table[name].to_pylist() for name in self._arguments()]
        payloads = _tuples([*arguments, list(range(len(table)))], len(table))
        found = zip(keys, times, payloads, strict=True)
        return [Row("L", key, when, payload, event_time=when) for key, when, payload in found]

    def _arguments(self) -> list[str]:
        names = []
        for number, aggregate in enumerate(self.config.aggregates):
            names += [f"__a{number}_{place}" for place in range(aggregate.arguments)]
            names += [f"__a{number}_f"] if aggregate.has_filter else []
        return names

    def _causes(self, rows: Sequence[Row], late: Sequence[LateRow], finals: Sequence[Change]) -> list[int]:
        """The row that closed each window: the first after which stream time was far enough."""
        config, now = self.config, -(2**63)
        refused = {row.row.payload[-1] for row in late if row.reason == "future"}
        bounds = []
        for number, row in enumerate(rows):
            now = max(now, row.time) if row.time is not None and number not in refused else now
            bounds.append(max(now - config.horizon_us + (not config.window.is_inclusive), -(2**63)))
        gap = config.window.size_us if config.window.kind == "session" else 0
        ends = [final.values[config.n_keys + 1] - gap for final in finals]
        causes: list[int] = np.searchsorted(np.array(bounds, np.int64), np.array(ends, np.int64), side="right").tolist()
        return causes

    def _finals(self, table: pa.Table, causes: list[int], finals: Sequence[Change]) -> pa.Table:
        values = self._values(table, "__a", [final.values for final in finals])
        return self._output(table, causes, [final.values for final in finals], values, [final.time for final in finals])

    def _updates(self, table: pa.Table, causes: list[int], updates: Sequence[Update]) -> pa.Table:
        columns = self._values(table, "__a", [update.new for update in updates])
        columns["__was"] = pa.array([update.old is not None for update in updates], pa.bool_())
        columns["__is"] = pa.array([update.new is not None for update in updates], pa.bool_())
        columns |= self._values(table, "__b", [update.old for update in updates])
        return self._output(table, causes, [u.key for u in updates], columns, [u.time for u in updates])

    def _values(self, table: pa.Table, prefix: str, rows: Sequence[tuple[Any, ...] | None]) -> dict[str, Any]:
        """The aggregates of output rows, NULL where there is none."""
        columns, first = {}, self.config.n_keys + 2 * self._has_windows
        for number, aggregate in enumerate(self.config.aggregates):
            values = [None if row is None else row[first + number] for row in rows]
            columns[f"{prefix}{number}"] = pa.array(values, _type_of(aggregate, table, number))
        return columns

    def _output(
        self, table: pa.Table, causes: list[int], keys: Sequence[Any], values: dict[str, Any], times: list[Any]
    ) -> pa.Table:
        """Key, bounds, values, time, and the order columns where they are wanted."""
        n_keys, columns = self.config.n_keys, {}
        for number in range(n_keys):
            columns[f"__k{number}"] = pa.array([key[number] for key in keys], table[f"__k{number}"].type)
        for place, name in enumerate(("__ws", "__we") if self._has_windows else ()):
            columns[name] = pa.array([key[n_keys + place] for key in keys], pa.int64())
        columns |= {**values, "__time": pa.array(times, pa.int64())}
        if self._emit_order:
            order, names = ordered(table, np.array(causes, np.int64), self._emit_order)
            columns |= dict(zip(names, order, strict=True))
        return table_of(list(columns.values()), list(columns), len(keys))

    def _late(self, table: pa.Table, late: Sequence[LateRow]) -> pa.Table:
        """The refused rows: the payload, and the columns of semantics.md B7."""
        names = [name for name in table.column_names if name.startswith("_l")]
        numbers = pa.array([row.row.payload[-1] for row in late], pa.int64())
        columns = {name: one_array(table[name]).take(numbers) for name in names}
        columns["_reason"] = pa.array([row.reason for row in late], pa.string())
        columns["_operator"] = pa.array([row.operator for row in late], pa.string())
        columns["_stream_time"] = pa.array([row.stream_time for row in late], pa.int64()).cast(_STAMP)
        columns["_lateness"] = pa.array([row.lateness for row in late], pa.int64())
        return pa.table(columns)


def _tuples(columns: Sequence[list[Any]], rows: int) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True)) if columns else [()] * rows


def _type_of(aggregate: Aggregate, table: pa.Table, number: int) -> pa.DataType:
    """The type of a result."""
    if aggregate.function in _OF_ARGUMENT:
        return table[f"__a{number}_0"].type
    if aggregate.function in _OF_LIST:
        return pa.list_(table[f"__a{number}_0"].type)
    return arrow_type(aggregate.type)
