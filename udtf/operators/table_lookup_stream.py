"""A live stream joined with an UPSERT table, whole micro-batches at a time, with the answers of `TableLookupLogic`.

Source: semantics.md 6.1, 6.2 (unversioned), 4.1, 4.2; design.md section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.logic import Segment, StreamEmission
from udtf.metrics import Metrics
from udtf.operators.stream_rows import Decided, count_refused, flags_of, ordered, puts_before, table_of, taken
from udtf.operators.table_lookup_state import CurrentRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.table_lookup import TableLookupConfig


class TableLookupStream:
    """The join of one task.

    Args:
        config: the join.
        emit_order: how many order columns the left input has, when they are to be in the output; 0 leaves them out.
    """

    def __init__(self, config: TableLookupConfig, emit_order: int = 0) -> None:
        """Start without state."""
        self.config = config
        self._emit_order = emit_order
        self._current: CurrentRows | None = None  # types are known with the first rows
        self._times: dict[str, int | None] = {"left_time": None, "right_time": None}  # only for outliers (B9)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        config, (left, right) = self.config, inputs
        before = self._times
        lefts = Decided(
            left, "__event_time", config.n_keys, before["left_time"], config.left_max_future_us, config.is_left
        )
        rights = Decided(right, "__time", config.n_keys, before["right_time"], config.right_max_future_us)
        put = self._kept(right).take(pa.array(rights.accepted))
        current = self._known_current(put.schema)
        answers = current.join(put, left, lefts, puts_before(sides, rights.is_accepted)[lefts.accepted])
        self._times = {"left_time": lefts.now, "right_time": rights.now}
        late = (lefts.refused(left, config.name), rights.refused(right, config.name))
        delta = Segment({"rows": put}, dict(self._times)) if len(put) or before != self._times else None
        metrics = self._metrics(late, answers)
        return StreamEmission(self._rows(left, lefts.accepted, answers), late, metrics, delta)

    def snapshot(self) -> Segment:
        """The current rows and both stream times."""
        tables = {} if self._current is None else {"rows": self._current.table()}
        return Segment(tables, dict(self._times))

    def apply(self, segment: Segment) -> None:
        """Put rows again."""
        if (table := segment.tables.get("rows")) is not None:
            self._known_current(table.schema).put(table)
        self._times = dict(segment.numbers)

    @property
    def stored_bytes(self) -> int:
        """Memory of the rows."""
        return 0 if self._current is None else self._current.nbytes

    def _known_current(self, schema: pa.Schema) -> CurrentRows:
        if self._current is None:
            self._current = CurrentRows(schema, self.config.n_keys)
        return self._current

    def _kept(self, right: pa.Table) -> pa.Table:
        """Table rows as segments hold them: key, hash, `__flags` as `flags_of`, payload."""
        names = [*(f"__k{number}" for number in range(self.config.n_keys)), "__hash"]
        columns = [right[name] for name in (*names, *self.config.right_columns)]
        columns.insert(len(names), pa.chunked_array([pa.array(flags_of(right))]))
        return pa.table(columns, names=[*names, "__flags", *self.config.right_columns])

    def _rows(self, left: pa.Table, sources: NDArray[np.int64], answers: NDArray[np.int64]) -> pa.Table:
        """The output, in the order of arrival."""
        config, present = self.config, answers >= 0
        if not config.is_left:
            sources, answers = sources[present], answers[present]
        assert self._current is not None, "on_batch has made it"
        is_full = not config.is_left or bool(present.all())
        columns = [taken(left[name], None, sources) for name in config.left_columns]
        columns += self._current.payload.take(answers, None if is_full else present, config.right_columns)
        names = [*config.left_columns, *config.right_columns]
        if self._emit_order:
            order, order_names = ordered(left, sources, self._emit_order)
            columns, names = [*columns, *order], [*names, *order_names]
        return table_of(columns, names, len(sources))

    def _metrics(self, late: tuple[pa.Table, ...], answers: NDArray[np.int64]) -> dict[str, int]:
        metrics = Metrics()
        count_refused(metrics, late)
        metrics.add("matched", int(np.count_nonzero(answers >= 0)))
        metrics.add("unmatched", len(answers) - metrics["matched"])
        assert self._current is not None, "on_batch has made it"
        metrics.set("state_rows", self._current.count)
        metrics.set("state_bytes", self.stored_bytes)
        if (now := self._times["left_time"]) is not None:
            metrics.set("max_event_time", now)
        return dict(metrics)
