"""Aggregations of live streams that are not compiled: `WindowAggregateLogic`, called with whole micro-batches.

Correct, and slow: rows become Python's values, and every segment of the changelog holds all state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from udtf.columns.batch import uncaused
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
from udtf.operators.window_aggregate import rules
from udtf.operators.window_aggregate.config import arrow_type
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.record import Change, LateRow, Row, Update
from udtf.rules import UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.aggregates import Aggregate, Evaluate
    from udtf.operators.window_aggregate.config import WindowAggregateConfig

#: Aggregates whose result is of their first argument's type; that of the others is named by the configuration.
_OF_ARGUMENT: Final = ("min", "max", "first", "first_value", "any_value", "last", "last_value", "max_by", "min_by")
_OF_LIST: Final = ("collect_list", "collect_set", "array_agg")


class RecordStream(RecordBacked[WindowAggregateLogic]):
    """The record-by-record logic of one task, with the columns of `WindowAggregateStream`.

    Args:
        config: the aggregation.
        emit_order: how many order columns `__o0 ..` the output ends in, see `StreamEmission`; 0 is none.
        evaluate: computes aggregates of kind 'rows', see `WindowAggregateLogic`.
    """

    def __init__(self, config: WindowAggregateConfig, emit_order: int = 0, evaluate: Evaluate | None = None) -> None:
        """Start without state."""
        super().__init__(WindowAggregateLogic(config, evaluate))
        self.config = config
        self._emit_order = emit_order
        self._has_windows = config.window.kind != "none"

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL` and `OPERATOR.ARITHMETIC_OVERFLOW`; this object must not be used then.
        """
        table, before = inputs[0], dict(self._logic.metrics)
        rows = self._rows(table)
        if self.config.is_final:
            stream_time = self._logic.stream_time
            emission = self._logic.on_batch(rows)
            causes = self._causes(stream_time, rows, emission.late, emission.rows)
            output, late = self._finals(table, causes, emission.rows), emission.late
        else:
            causes, updates, late = one_by_one(self._logic, rows)
            output = self._updates(table, causes, updates)
        delta = self.snapshot() if len(rows) else None
        return StreamEmission(output, (late_table(table, late),), self._counted(before), delta)

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Give out everything that is open; `inputs` is one without rows, for its types."""
        before, emit_order = dict(self._logic.metrics), self._emit_order
        emission = self._logic.close_idle()
        self._emit_order = 0  # no row causes this
        output = uncaused(self._finals(inputs[0], [], emission.rows), inputs[0], emit_order)
        self._emit_order = emit_order
        return StreamEmission(output, (), self._logic.metrics.since(before), self.snapshot())

    def _rows(self, table: pa.Table) -> list[Row]:
        """The rows, each with its number after its payload."""
        keys, times = keys_in(table, self.config.n_keys), times_of(table)
        arguments = [table[name].to_pylist() for name in self._arguments()]
        payloads = tuples([*arguments, list(range(len(table)))], len(table))
        found = zip(keys, times, payloads, strict=True)
        return [Row("L", key, when, payload, event_time=when) for key, when, payload in found]

    def _arguments(self) -> list[str]:
        names = []
        for number, aggregate in enumerate(self.config.aggregates):
            names += [f"__a{number}_{place}" for place in range(aggregate.arguments)]
            names += [f"__a{number}_f"] if aggregate.has_filter else []
        return names

    def _causes(
        self, before: int | None, rows: Sequence[Row], late: Sequence[LateRow], finals: Sequence[Change]
    ) -> list[int]:
        """The row that closed each window: the first after which stream time was far enough.

        Args:
            before: stream time before the rows.
            rows: of the micro-batch.
            late: those that were refused.
            finals: the results of the windows.
        """
        config, bound = self.config, UNSET
        refused = {row.row.payload[-1] for row in late if row.reason == "future"}
        bounds = []
        for number, row in enumerate(rows):
            if row.time is not None and number not in refused:
                now = row.time if before is None else max(before, row.time)
                bound = max(bound, rules.close_bound(now, config.horizon_us, config.window.is_inclusive))
            bounds.append(bound)
        gap = config.window.size_us if config.window.kind == "session" else 0
        ends = [final.values[config.n_keys + 1] - gap for final in finals]
        causes: list[int] = np.searchsorted(np.array(bounds, np.int64), np.array(ends, np.int64), side="right").tolist()
        return causes

    def _finals(self, table: pa.Table, causes: list[int], finals: Sequence[Change]) -> pa.Table:
        values = self._values(table, "__a", [final.values for final in finals])
        return self._output(table, causes, [final.values for final in finals], values, [final.time for final in finals])

    def _updates(self, table: pa.Table, causes: list[int], updates: Sequence[Update]) -> pa.Table:
        columns = self._values(table, "__a", [update.new for update in updates])
        columns |= update_flags(updates)
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
        n_keys = self.config.n_keys
        columns = key_columns(table, keys, n_keys)
        for place, name in enumerate(("__ws", "__we") if self._has_windows else ()):
            columns[name] = pa.array([key[n_keys + place] for key in keys], pa.int64())
        columns |= {**values, "__time": pa.array(times, pa.int64())}
        return as_table(columns, table, causes, self._emit_order, len(keys))


def _type_of(aggregate: Aggregate, table: pa.Table, number: int) -> pa.DataType:
    """The type of a result."""
    if aggregate.function in _OF_ARGUMENT:
        return table[f"__a{number}_0"].type
    if aggregate.function in _OF_LIST:
        return pa.list_(table[f"__a{number}_0"].type)
    return arrow_type(aggregate.type)
