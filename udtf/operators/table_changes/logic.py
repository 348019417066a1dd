"""An UPSERT table as a stream of updates: each row replaces the one of its key, by arrival, whatever its time.

Source: semantics.md 4.1, 4.2, 5, B12; KIP-914 ("unversioned tables").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.record import Key, LateRow, Row, Update, canonical_key
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros, StreamTime


@dataclass(frozen=True)
class TableChangesConfig:
    """Everything that is to be known of the table.

    Attributes:
        n_keys: how many key columns it has.
        max_future_us: refuse rows further ahead of stream time (B9); None is no limit.
        name: the operator's name in `_operator` and in messages.
    """

    n_keys: int = 1
    max_future_us: Micros | None = None
    name: str = "table_changes"


class TableChangesLogic:
    """The current row of each key; every accepted row is an update, a tombstone of an absent key too (4.2)."""

    def __init__(self, config: TableChangesConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._current: dict[Key, tuple[Any, ...]] = {}
        self._stream_time = StreamTime()  # only for outliers (B9)
        self._emission = Emission()

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows in arrival order; a row's payload are the table's columns."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        for row in rows:
            self._on_row(row)
        self.metrics.add("emitted", len(emission.updates))
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """The current rows, stream time and metrics."""
        state = {
            "rows": self._current,
            "stream_time": self._stream_time.snapshot(),
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        # NB: keys again, since a NaN in one equals itself only as the one object of this process.
        self._current = {canonical_key(key): row for key, row in parts["rows"].items()}
        self._stream_time.restore(parts["stream_time"])
        self.metrics = Metrics(parts["metrics"])

    def _on_row(self, row: Row) -> None:
        self.metrics.add("records")
        if row.has_null_key:
            self._refuse(row, "null_key")
        elif row.time is None:
            self._refuse(row, "null_time")
        elif self._stream_time.is_future(row.time, self.config.max_future_us):
            self._refuse(row, "future")
        else:
            self._stream_time.observe(row.time)
            self._emission.updates.append(self._put(row))

    def _put(self, row: Row) -> Update:
        key = canonical_key(row.key)
        old = self._current.pop(key, None)
        if row.is_tombstone:
            return Update(row.key, row.time, old, None)
        self._current[key] = row.payload
        return Update(row.key, row.time, old, row.payload)

    def _refuse(self, row: Row, reason: str) -> None:
        self.metrics.add(reason)
        lateness_us = self._stream_time.lateness_us(row.time)
        self._emission.late.append(LateRow(row, reason, self.config.name, self._stream_time.now_us, lateness_us))
