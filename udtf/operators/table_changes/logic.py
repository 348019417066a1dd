"""A table as a stream of updates, old row and new.

In an UPSERT table each row replaces the one of its key, by arrival, whatever its time. In a VERSIONED table the row of
the greatest time is the current one: what comes out of order is an update too, but not of the current row.

Source: semantics.md 2.1, 4, 5, B12; KIP-914 ("table-table joins", "versioned and unversioned tables").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from udtf import rules
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.record import Key, Row, Update, canonical_key
from udtf.state.snapshot import seal, unseal
from udtf.table import TableConfig
from udtf.time import Micros, StreamTime


@dataclass(frozen=True)
class TableChangesConfig(TableConfig):
    """A table whose updates are asked for.

    Attributes:
        is_latest_only: rows that are older than the current one of their key give no update (8.2, 10.1).
    """

    is_latest_only: bool = False


class _Latest(NamedTuple):
    """What a key shows: its row, or None after a tombstone, and the time of that."""

    time: Micros
    row: tuple[Any, ...] | None


class TableChangesLogic:
    """The current row of each key; every accepted row is an update, a tombstone of an absent key too (4.2, 4.3)."""

    def __init__(self, config: TableChangesConfig) -> None:
        """Start without state."""
        self.config = config
        self._max_future, self._retention = rules.limit(config.max_future_us), rules.limit(config.retention_us)
        self.metrics = Metrics()
        self._current: dict[Key, _Latest] = {}
        self._stream_time = StreamTime()  # only for outliers (B9) and for what is refused by retention (2.1)
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
        self._forget_tombstones()
        state = {
            "rows": {key: tuple(latest) for key, latest in self._current.items()},
            "stream_time": self._stream_time.snapshot(),
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        # NB: keys again, since a NaN in one equals itself only as the one object of this process.
        self._current = {canonical_key(key): _Latest(*latest) for key, latest in parts["rows"].items()}
        self._stream_time.restore(parts["stream_time"])
        self.metrics = Metrics(parts["metrics"])

    def _on_row(self, row: Row) -> None:
        self.metrics.add("records")
        now = rules.UNSET if self._stream_time.now_us is None else self._stream_time.now_us
        has_time, has_key = row.time is not None, not row.has_null_key
        outcome = rules.outcome_of_right(has_time, has_key, row.time or 0, now, self._max_future, self._retention)
        if row.time is None or outcome != rules.ACCEPTED:
            self._refuse(row, rules.OUTCOMES[outcome])
            return
        self._stream_time.observe(row.time)
        update = self._put(row, row.time)
        if update is not None:
            self._emission.updates.append(update)

    def _put(self, row: Row, time: Micros) -> Update | None:
        key, new = canonical_key(row.key), None if row.is_tombstone else row.payload
        found = self._current.get(key)
        old = found.row if found is not None else None
        if self.config.is_versioned and found is not None and time < found.time:
            self.metrics.add("out_of_order")
            return None if self.config.is_latest_only else Update(row.key, time, old, new)
        self._current.pop(key, None)
        if new is not None or self.config.is_versioned:
            self._current[key] = _Latest(time, new)
        return Update(row.key, time, old, new)

    def _forget_tombstones(self) -> None:
        """A tombstone says that what is older comes out of order; what would be is refused some time later."""
        if self.config.is_versioned and self._stream_time.now_us is not None:
            now = self._stream_time.now_us
            gone = [
                key
                for key, (time, row) in self._current.items()
                if row is None and rules.is_behind(time, now, self._retention)
            ]
            for key in gone:
                del self._current[key]

    def _refuse(self, row: Row, reason: str) -> None:
        self.metrics.add(reason)
        self._emission.refuse(row, row.time, reason, self.config.name, self._stream_time)
