"""Suppression: updates of a key wait, the later replacing the earlier, and leave when stream time is so far on.

Source: KIP-328, semantics.md section 15, B5, B6.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from udtf.columns.records import RecordBacked, as_table, key_columns, keys_in, times_of
from udtf.errors import OperatorError, require
from udtf.logic import Emission, StreamEmission
from udtf.metrics import Metrics
from udtf.record import Key, Update, canonical_key, order_key
from udtf.state.buffer import bytes_of
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros, StreamTime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SuppressConfig:
    """Everything a suppression needs to know.

    Attributes:
        wait_us: how long a key's first update waits, in stream time.
        max_rows, max_bytes: limits of what waits; None is no limit.
        when_full: what happens at a limit: 'emit' (the oldest leave early), 'fail' or 'spill'.
        by_window: 'time' or 'session' where the last two key columns are the bounds of such a window; else None.
        values: places of the output columns that are not keys; they are what counts as stored beside the key.
        name: the operator's name in messages.
    """

    wait_us: Micros
    max_rows: int | None = None
    max_bytes: int | None = None
    when_full: str = "emit"
    by_window: str | None = None
    values: tuple[int, ...] = ()
    name: str = "suppress"

    def __post_init__(self) -> None:
        require(self, "wait_us", self.wait_us >= 0, ">= 0")
        require(self, "when_full", self.when_full in ("emit", "fail", "spill"), "'emit', 'fail' or 'spill'")
        require(self, "by_window", self.by_window in (None, "time", "session"), "'time', 'session' or None")
        for name in ("max_rows", "max_bytes"):
            value = getattr(self, name)
            require(self, name, value is None or value >= 0, "None or >= 0")

    @property
    def remembered(self) -> SuppressConfig:
        """What its state depends on: limits are asked of each update anew."""
        return replace(self, max_rows=None, max_bytes=None, when_full="emit")


class _Entry(NamedTuple):
    """What waits of a key: since when, and the update that is to leave, with what was there before the first."""

    since: Micros
    update: Update
    stored_bytes: int


class SuppressLogic:
    """One entry per key; its wait begins with its first update and is not prolonged by others (15.1)."""

    def __init__(self, config: SuppressConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._stream_time = StreamTime()
        self._clear()
        self._emission = Emission()

    def on_batch(self, updates: Sequence[Update]) -> Emission:
        """Take updates in arrival order.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL`, an update did not fit; the state is that before it, and the error's
                `emission` what the updates before it sent out.
        """
        before = dict(self.metrics)
        self._emission = Emission()
        for update in updates:
            error = self._on_update(update)
            if error is not None:
                error.emission = self._sent(before)
                raise error
        return self._sent(before)

    def close_idle(self) -> Emission:
        """Give out everything, since nothing came for a while; stream time stays."""
        before = dict(self.metrics)
        self._emission = Emission()
        while self._entries:
            self._leave()
        self.metrics.add("idle_closed", len(self._emission.updates))
        return self._sent(before)

    def snapshot(self) -> bytes:
        """Entries, stream time and metrics."""
        state = {
            "entries": list(self._entries.values()),
            "stream_time": self._stream_time.snapshot(),
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._clear()
        for entry in parts["entries"]:
            self._store(canonical_key(entry.update.key), entry)
        self._stream_time.restore(parts["stream_time"])
        self.metrics = Metrics(parts["metrics"])

    def _clear(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._order: list[tuple[Micros, tuple[Any, ...], Key]] = []  # a heap with one item per entry
        self._stored_bytes = 0

    def _on_update(self, update: Update) -> OperatorError | None:
        if update.time is None:
            self.metrics.add("records")
            self.metrics.add("null_time")
            return None
        if self.config.when_full == "fail" and (error := self._refusal(update, update.time)):
            return error
        self.metrics.add("records")
        now_us = self._stream_time.observe(update.time)
        self._buffer(update, update.time)
        self._evict(now_us - self.config.wait_us)
        return None

    def _refusal(self, update: Update, time: Micros) -> OperatorError | None:
        """Whether more than a limit would be left after this update, and the evictions that it brings about."""
        entry = self._entry(update, time)
        if not self._excess(len(self._entries) + 1, self._stored_bytes + entry.stored_bytes):
            return None
        now_us = time if self._stream_time.now_us is None else max(time, self._stream_time.now_us)
        kept = {key: entry for key, entry in self._entries.items() if entry.since > now_us - self.config.wait_us}
        if entry.since > now_us - self.config.wait_us:
            kept[canonical_key(update.key)] = entry
        size = sum(entry.stored_bytes for entry in kept.values())
        return self._excess(len(kept), size)

    def _entry(self, update: Update, time: Micros) -> _Entry:
        """The entry that an update opens, or makes of the one that waits."""
        entry = self._entries.get(canonical_key(update.key))
        since, prior = (time, update.old) if entry is None else (entry.since, entry.update.old)
        values = () if update.new is None else [update.new[place] for place in self.config.values]
        return _Entry(since, update._replace(old=prior), 8 + bytes_of(update.key) + bytes_of(values))

    def _buffer(self, update: Update, time: Micros) -> None:
        self._store(canonical_key(update.key), self._entry(update, time))
        self.metrics.waiting(len(self._entries), self._stored_bytes)

    def _store(self, key: Key, entry: _Entry) -> None:
        if key in self._entries:
            self._stored_bytes -= self._entries[key].stored_bytes
        else:
            heapq.heappush(self._order, (entry.since, self._place(entry.update.key), key))
        self._entries[key] = entry
        self._stored_bytes += entry.stored_bytes

    def _place(self, key: Key) -> tuple[Any, ...]:
        """The order among entries of one time: by key, then by window, as the bytes of the library's keys (15.11)."""
        if self.config.by_window is None:
            return order_key(key)
        *columns, start, end = key
        return (*order_key(columns), *((start, end) if self.config.by_window == "time" else (end, start)))

    def _evict(self, bound_us: Micros) -> None:
        """First what has waited long enough, then, while over a limit, the oldest (15.2)."""
        while self._order and self._order[0][0] <= bound_us:
            self._leave()
        while self.config.when_full == "emit" and self._excess(len(self._entries), self._stored_bytes):
            self._leave()
            self.metrics.add("evicted_early")

    def _leave(self) -> None:
        entry = self._entries.pop(heapq.heappop(self._order)[2])
        self._stored_bytes -= entry.stored_bytes
        self._emission.updates.append(entry.update)

    def _excess(self, rows: int, size: int) -> OperatorError | None:
        config = self.config
        if config.max_rows is not None and rows > config.max_rows:
            return OperatorError.buffer_full(config.name, "rows", config.max_rows, rows)
        if config.max_bytes is not None and size > config.max_bytes:
            return OperatorError.buffer_full(config.name, "bytes", config.max_bytes, size)
        return None

    def _sent(self, before: dict[str, int]) -> Emission:
        """The emission with its metrics."""
        self.metrics.add("emitted", len(self._emission.updates))
        self.metrics.set("buffered_rows", len(self._entries))
        self.metrics.set("buffered_bytes", self._stored_bytes)
        if self.config.max_rows is not None and self.config.when_full == "spill":
            self.metrics.set("spilled_rows", max(0, len(self._entries) - self.config.max_rows))
        self._emission.metrics = self.metrics.since(before)
        return self._emission


# Suppression of a live table's updates: `SuppressLogic`, called with whole micro-batches.


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

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Give out everything that waits; `inputs` is one without rows, for its types."""
        before = dict(self._logic.metrics)
        emission = self._logic.close_idle()
        output = self._output(inputs[0], emission.updates)
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
