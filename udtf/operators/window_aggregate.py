"""Aggregation of a stream over windows, record by record: the definition of what it answers.

Per row: stream time moves, the windows of the row are judged and count it, and those that stream time has passed close.
Source: KIP-328, KIP-450, semantics.md sections 11 to 15 and 17, A and B.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from udtf.errors import OperatorError
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.window_aggregate_config import WindowAggregateConfig
from udtf.operators.window_aggregate_open import Added, OpenWindows, Record
from udtf.operators.window_aggregate_session import SessionPlacement, netted
from udtf.operators.window_aggregate_sliding import SlidingPlacement
from udtf.operators.window_aggregate_sums import Evaluate
from udtf.operators.window_aggregate_time import TimePlacement
from udtf.record import Change, Key, LateRow, Row, canonical_key
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros, StreamTime


class Placement(Protocol):
    """Which windows a row belongs to: the part of the logic that depends on the kind of window."""

    def add(self, key: Key, record: Record, bound_us: Micros) -> Added:
        """Count a record in its windows that are not closed by a number below the bound."""
        ...

    def forget(self, bound_us: Micros) -> None:
        """Drop what only closed windows could need."""
        ...

    def state(self) -> Any:
        """What it keeps beside the windows."""
        ...

    def restore_state(self, state: Any) -> None:
        """Continue from `state()`."""
        ...


class WindowAggregateLogic:
    """Aggregation record by record.

    A row's key are the grouping columns, its time is the one that windows and stream time go by, and its payload the
    arguments of the aggregates, each with its filter behind it; whatever follows is only carried to the late rows.
    """

    def __init__(self, config: WindowAggregateConfig, evaluate: Evaluate | None = None) -> None:
        """Start without state.

        Args:
            config: the aggregation.
            evaluate: computes aggregates of kind 'rows': number of the aggregate, arguments of its rows -> value.

        Raises:
            OperatorError: `OPERATOR.INVALID_OPTION`, an aggregate is not known, or needs `evaluate`.
        """
        self.config = config
        self.metrics = Metrics()
        self._stream_time = StreamTime()
        self._open = OpenWindows(config, evaluate)
        self._open.aggregates.new()  # so that a function that is not known fails now
        self._placement = _placement(config, self._open)
        has_limit = (config.max_rows, config.max_bytes) != (None, None)
        self._can_be_full = config.is_final and config.when_full == "fail" and has_limit
        self._emission = Emission()

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows in arrival order.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL`, a row did not fit; the state is that before this row, and the error's
                `emission` what the rows before it sent out. `OPERATOR.ARITHMETIC_OVERFLOW`.
        """
        before = dict(self.metrics)
        # What did not fit is undone by going back to the batch's begin; limits bound what this copies.
        begin = self.snapshot() if self._can_be_full else b""
        self._emission = Emission()
        for number, row in enumerate(rows):
            self._on_row(row)
            if self._can_be_full and (error := self._excess()):
                self.restore(begin)
                self._emission = Emission()
                for accepted in rows[:number]:
                    self._on_row(accepted)
                error.emission = self._sent(before)
                raise error
        return self._sent(before)

    def close_idle(self) -> Emission:
        """Give out everything that is open, since nothing came for a while: stream time moves as far as that needs."""
        before = dict(self.metrics)
        self._emission = Emission()
        last_us = self._open.last_closing_us()
        if self.config.is_final and last_us is not None:
            self._close(self._stream_time.observe(last_us + self.config.horizon_us + self.config.window.is_inclusive))
            self.metrics.add("idle_closed", len(self._emission.rows))
        return self._sent(before)

    def snapshot(self) -> bytes:
        """Open windows, what the kind of window keeps beside them, stream time and metrics."""
        state = {
            "windows": self._open.state(),
            "placement": self._placement.state(),
            "stream_time": self._stream_time.snapshot(),
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._open.restore_state(parts["windows"])
        self._placement.restore_state(parts["placement"])
        self._stream_time.restore(parts["stream_time"])
        self.metrics = Metrics(parts["metrics"])

    def _on_row(self, row: Row) -> None:
        self.metrics.add("records")
        if row.time is None:
            self._refuse(row, "null_time")
        elif self._stream_time.is_future(row.time, self.config.max_future_us):
            self._refuse(row, "future")
        else:
            now_us = self._stream_time.observe(row.time)
            self.metrics.add("record_lateness_total", now_us - row.time)
            self.metrics.peak("record_lateness_max", now_us - row.time)
            self._count(row, row.time, now_us)
            self._close(now_us)

    def _count(self, row: Row, time: Micros, now_us: Micros) -> None:
        record = Record(row.key, time, row.payload[: self._open.aggregates.width])
        added = self._placement.add(canonical_key(row.key), record, self._bound_us(now_us))
        self.metrics.add("expired_window_record_drop", added.refused)
        self._emission.updates += netted(added.updates) if self.config.nets_updates else added.updates
        if not added.is_accepted:
            self.metrics.add("late_record_drop")
            self._refuse(row, "late")
        elif self.config.is_final:
            self.metrics.waiting(self._open.rows, self._open.stored_bytes)

    def _bound_us(self, now_us: Micros) -> Micros:
        """What is closed by a number below this is closed: [start, end) at its end and the grace, others after (B3)."""
        return now_us - self.config.horizon_us + (not self.config.window.is_inclusive)

    def _close(self, now_us: Micros) -> None:
        bound_us = self._bound_us(now_us)
        for window in self._open.close(bound_us):
            if self.config.is_final:
                self._emission.rows.append(Change("insert", window.time, self._open.shown(window)))
        self._placement.forget(bound_us)

    def _excess(self) -> OperatorError | None:
        config = self.config
        if config.max_rows is not None and self._open.rows > config.max_rows:
            return OperatorError.buffer_full(config.name, "rows", config.max_rows, self._open.rows)
        if config.max_bytes is not None and self._open.stored_bytes > config.max_bytes:
            return OperatorError.buffer_full(config.name, "bytes", config.max_bytes, self._open.stored_bytes)
        return None

    def _refuse(self, row: Row, reason: str) -> None:
        self.metrics.add(reason)
        lateness_us = self._stream_time.lateness_us(row.time)
        late = LateRow(row, reason, self.config.name, self._stream_time.now_us, lateness_us)
        self._emission.late.append(late)

    def _sent(self, before: dict[str, int]) -> Emission:
        """The emission with its metrics."""
        emission = self._emission
        self.metrics.add("emitted", len(emission.rows) + len(emission.updates))
        if self.config.is_final:
            self.metrics.set("buffered_rows", self._open.rows)
            self.metrics.set("buffered_bytes", self._open.stored_bytes)
        if self.config.max_rows is not None and self.config.when_full == "spill":
            self.metrics.set("spilled_rows", max(0, self._open.rows - self.config.max_rows))
        emission.metrics = self.metrics.since(before)
        return emission


def _placement(config: WindowAggregateConfig, open_windows: OpenWindows) -> Placement:
    if config.window.kind == "session":
        return SessionPlacement(config.window.size_us, open_windows)
    if config.window.kind == "sliding":
        return SlidingPlacement(config.window.size_us, open_windows)
    return TimePlacement(config.window, open_windows)
