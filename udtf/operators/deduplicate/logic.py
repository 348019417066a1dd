"""Deduplication within an interval: the record-by-record logic, and the entry point to the bounded answer.

Source: KIP-655, semantics.md section 16, A and B.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any, NamedTuple

from udtf import rules
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.deduplicate import rules as kernel
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.record import Change, Key, Row, canonical_key, order_key
from udtf.state.buffer import stored_bytes
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros, StreamTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


def deduplicate_table(config: DeduplicateConfig, rows: pa.Table, is_ordered: bool = False) -> pa.Table:
    """The bounded answer of one task: the same rows as a stream in this order of arrival, at its end.

    Args:
        config: the deduplication.
        rows: columns `__k0 ..`, `__time`, `__seq` (with `has_sequence`) and the output's; `__hash` if it is known.
            The order of arrival is `__seq`, without it `__time`, then `__arrival0 ..` where there are any.
        is_ordered: the rows stand in the order of arrival already.

    Returns:
        the output's columns, in any order.

    Source: semantics.md A ("Batch").
    """
    from udtf.operators.deduplicate.batch import deduplicate_table as deduplicate  # numba costs a second to import

    return deduplicate(config, rows, is_ordered)


class _Entry(NamedTuple):
    """What the store knows of a key: the time that opened the interval, and the row."""

    time: Micros
    row: Row


class DeduplicateLogic:
    """Deduplication record by record. The SEQUENCE BY value of a row is the only one of its `ties`."""

    def __init__(self, config: DeduplicateConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._stream_time = StreamTime()
        self._entries: dict[Key, _Entry] = {}
        self._by_time: list[tuple[Micros, tuple[Any, ...], Key]] = []  # a heap of the entries; the time tells which
        self._max_future = -1 if config.max_future_us is None else config.max_future_us
        self._waiting_bytes = 0
        self._emission = Emission()

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows in arrival order."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        for row in rows:
            self._on_row(row)
        if self.config.keeps_last:
            self.metrics.set("buffered_rows", len(self._entries))
            self.metrics.set("buffered_bytes", self._waiting_bytes)
        emission.metrics = self.metrics.since(before)
        return emission

    def close_idle(self) -> Emission:
        """Give out what KEEP LAST still holds: stream time moves as far as that needs, as for windows."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        if self.config.keeps_last and self._entries:
            newest = max(entry.time for entry in self._entries.values())
            now = self._stream_time.observe(kernel.completing(newest, self.config.interval_us))
            self._purge(rules.horizon(now, self.config.interval_us))
            self.metrics.add("idle_closed", len(emission.rows))
            self.metrics.set("buffered_rows", 0)
            self.metrics.set("buffered_bytes", 0)
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """Entries, stream time and metrics."""
        state = {
            "entries": [(entry.time, entry.row) for entry in self._entries.values()],
            "stream_time": self._stream_time.snapshot(),
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._entries, self._by_time, self._waiting_bytes = {}, [], 0
        for time, row in parts["entries"]:
            self._store(canonical_key(row.key), _Entry(time, row))
        self._stream_time.restore(parts["stream_time"])
        self.metrics = Metrics(parts["metrics"])

    def _on_row(self, row: Row) -> None:
        now, time = self._stream_time.now_us, row.time
        if time is None:
            self._refuse(row, "null_time")
        elif now is not None and rules.is_ahead(time, now, self._max_future):
            self._refuse(row, "future")
        else:
            oldest = rules.horizon(self._stream_time.observe(time), self.config.interval_us)
            self._purge(oldest)
            if row.has_null_key:
                self._emit(row)  # whatever its time: nothing is known of its duplicates (16.2)
            else:
                self._decide(row, time, oldest)

    def _purge(self, oldest: Micros) -> None:
        """Entries leave before the look-up (16.1); a group that is complete is given out."""
        while self._by_time and not kernel.is_live(self._by_time[0][0], oldest):
            key = heapq.heappop(self._by_time)[2]
            entry = self._entries.pop(key)
            if self.config.keeps_last:
                self._waiting_bytes -= stored_bytes(entry.row)
                self._emit(entry.row)

    def _decide(self, row: Row, time: Micros, oldest: Micros) -> None:
        key = canonical_key(row.key)
        entry = self._entries.get(key)
        same = entry is not None and not self.config.keeps_last and _is_same(row, entry.row)
        entry_time = 0 if entry is None else entry.time
        found = kernel.outcome(entry is not None, entry_time, same, time, oldest, self.config.interval_us)
        if found == kernel.STORED:
            self._store(key, _Entry(time, row))
        elif found == kernel.DUPLICATE:
            self.metrics.add("duplicates")
            if entry is not None and self.config.keeps_last:
                self._waiting_bytes += stored_bytes(row) - stored_bytes(entry.row)
                self._entries[key] = _Entry(entry_time, row)
        elif found == kernel.LATE and not self.config.forwards_late:
            self._refuse(row, "late")
            return
        self.metrics.add("late", int(found == kernel.LATE))
        if found != kernel.DUPLICATE and not self.config.keeps_last:
            self._emit(row)

    def _store(self, key: Key, entry: _Entry) -> None:
        if self.config.keeps_last:
            self._waiting_bytes += stored_bytes(entry.row)
        else:
            entry = _Entry(entry.time, entry.row._replace(payload=()))  # it was given out: only its key and time count
        self._entries[key] = entry
        heapq.heappush(self._by_time, (entry.time, order_key(entry.row.key), key))

    def _emit(self, row: Row) -> None:
        self._emission.rows.append(Change("insert", row.event_time, row.payload))

    def _refuse(self, row: Row, reason: str) -> None:
        self.metrics.add(reason)
        self._emission.refuse(row, row.time, reason, self.config.name, self._stream_time)


def _is_same(one: Row, other: Row) -> bool:
    """Whether two rows are one, seen twice; a row without a sequence never is (16.3)."""
    return bool(one.ties and one.ties[0] is not None and canonical_key(one.ties) == canonical_key(other.ties))
