"""Aggregation of a stream over windows, record by record: the definition of what it answers.

Per row: stream time moves, the windows of the row are judged and count it, and those that stream time has passed close.
Source: KIP-328, KIP-450, semantics.md sections 11 to 15 and 17, A and B.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from udtf.aggregates import Accumulator, Aggregates, Arguments, Evaluate
from udtf.errors import OperatorError
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.window_aggregate import rules
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.record import Change, Key, Row, Update, canonical_key, order_key
from udtf.rules import UNSET, horizon
from udtf.state.buffer import bytes_of
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros, StreamTime

# The windows (or groups) that are open: what each has counted, their rows as they are shown, and who leaves first.
#
# A window is known by its key and two bounds, microseconds: its start, and the number that stream time closes it by.
# That is the end of a time or sliding window; a session has its first and its last time. Source: semantics.md 13, 14,
# B13.


Bounds: TypeAlias = tuple[Micros, Micros]
WindowState: TypeAlias = tuple[Key, Bounds, Micros, list[Accumulator]]


class Record(NamedTuple):
    """What windows count of a row: its key as it came, its time, and the arguments of all aggregates."""

    key: Key
    time: Micros
    payload: Arguments


class Added(NamedTuple):
    """What became of a row.

    Attributes:
        is_accepted: some window took it.
        refused: windows of it that are closed already.
        updates: of the windows that it changed, in order; none with emit='final'.
    """

    is_accepted: bool
    refused: int
    updates: list[Update]


class OpenWindow:
    """One window of one key, and what it has counted."""

    __slots__ = ("bounds", "key", "states", "stored_bytes", "time")

    def __init__(self, key: Key, bounds: Bounds, time: Micros, states: list[Accumulator]) -> None:
        """Know the key as its first row had it, and the result's time."""
        self.key, self.bounds, self.time, self.states = key, bounds, time, states
        self.stored_bytes = 0


class OpenWindows:
    """All open windows of a task."""

    def __init__(self, config: WindowAggregateConfig, evaluate: Evaluate | None) -> None:
        """Start without any."""
        self.aggregates = Aggregates(config.aggregates, evaluate)
        self._sends_updates, self._is_session = not config.is_final, config.window.kind == "session"
        self._has_windows = config.window.kind != "none"
        self._gap_us = config.window.size_us if self._is_session else 0
        self._keeps_us = config.keeps_us
        self._clear()

    def _clear(self) -> None:
        self._by_key: dict[Key, dict[Bounds, OpenWindow]] = {}
        # Sessions that were closed, the first to close first; those that were merged since are passed over.
        self._kept: dict[Key, dict[Bounds, OpenWindow]] = {}
        self._closed: deque[tuple[Micros, Key, OpenWindow]] = deque()
        # A heap in the order of leaving. NB: windows that a session has absorbed stay after in it and are passed over.
        self._leaving: list[tuple[Micros, Micros, tuple[Any, ...], int, Key]] = []
        self._pushed = 0
        self.rows = self.stored_bytes = 0

    def of_key(self, key: Key) -> dict[Bounds, OpenWindow]:
        """The windows of a canonical key; to be read only."""
        return self._by_key.get(key, {})

    def sessions(self, key: Key, bound_us: Micros) -> list[OpenWindow]:
        """The sessions of a canonical key, open or kept, in the order of their starts, which is that of their ends."""
        since_us = horizon(bound_us, self._keeps_us)
        found = {**self._kept.get(key, {}), **self.of_key(key)}
        return [found[bounds] for bounds in sorted(found) if bounds[1] >= since_us]

    def forget(self, bound_us: Micros) -> None:
        """Drop the closed sessions that no row will join any more."""
        since_us = horizon(bound_us, self._keeps_us)
        while self._closed and self._closed[0][0] < since_us:
            _, key, window = self._closed.popleft()
            if self._kept.get(key, {}).get(window.bounds) is window:
                self._let_go(key, window)

    def count(self, key: Key, bounds: Bounds, records: Iterable[Record]) -> list[Update]:
        """Count records in a window, which is opened by them if it is not yet; its update, if updates go out."""
        window = self.of_key(key).get(bounds)
        old = self.shown(window) if window and self._sends_updates else None
        for record in records:
            window = window or OpenWindow(record.key, bounds, record.time, self.aggregates.new())
            window.time = bounds[1] if self._is_session else max(window.time, record.time)
            self.aggregates.add(window.states, record.payload)
        assert window is not None, "a window is opened by a record"
        self._put(key, window)
        return [self._update(window, old, self.shown(window))] if self._sends_updates else []

    def absorb(self, key: Key, merged: Sequence[OpenWindow], bounds: Bounds, record: Record) -> list[Update]:
        """Make one session of several, in the order of their starts, and count the record in it.

        Returns:
            the tombstones of what they were, then the new session.
        """
        tombstones = (
            [self._update(window, self.shown(window), None) for window in merged] if self._sends_updates else []
        )
        for window in merged:
            (self._remove if self.of_key(key).get(window.bounds) is window else self._let_go)(key, window)
        session = OpenWindow(merged[0].key, bounds, bounds[1], merged[0].states)
        for window in merged[1:]:
            for state, later in zip(session.states, window.states, strict=True):
                state.merge(later)
        self.aggregates.add(session.states, record.payload)
        self._put(key, session)
        return [*tombstones, self._update(session, None, self.shown(session))] if self._sends_updates else []

    def close(self, bound_us: Micros | None) -> Iterator[OpenWindow]:
        """Take out the windows that are closed by a number below the bound (None: all), in order."""
        while self._leaving and (bound_us is None or self._leaving[0][0] < bound_us):
            closes_us, start, _, _, key = heapq.heappop(self._leaving)
            window = self.of_key(key).get((start, closes_us))
            if window is not None:
                self._remove(key, window)
                if self._keeps_us:
                    self._keep(key, window)
                yield window

    def last_closing_us(self) -> Micros | None:
        """The number that the last of all windows is closed by; None where none is open."""
        return max((bounds[1] for windows in self._by_key.values() for bounds in windows), default=None)

    def shown(self, window: OpenWindow) -> tuple[Any, ...]:
        """The row of a window: key, bounds, aggregates."""
        return (*self._shown_key(window), *self.aggregates.values(window.states))

    def state(self) -> tuple[list[WindowState], list[WindowState]]:
        """All windows: those that are open, and the closed sessions that are kept, the first to close first."""
        opened = [window for windows in self._by_key.values() for window in windows.values()]
        kept = [window for _, key, window in self._closed if self._kept.get(key, {}).get(window.bounds) is window]
        found = [[(w.key, w.bounds, w.time, w.states) for w in windows] for windows in (opened, kept)]
        return found[0], found[1]

    def restore_state(self, state: tuple[list[WindowState], list[WindowState]]) -> None:
        """Replace all windows by those of `state()`."""
        self._clear()
        opened, kept = state
        for parts in opened:
            self._put(canonical_key(parts[0]), OpenWindow(*parts))
        for parts in kept:
            self._keep(canonical_key(parts[0]), OpenWindow(*parts))

    def _shown_key(self, window: OpenWindow) -> Key:
        if not self._has_windows:
            return window.key
        return (*window.key, window.bounds[0], window.bounds[1] + self._gap_us)

    def _update(self, window: OpenWindow, old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> Update:
        return Update(self._shown_key(window), window.time, old, new)

    def _put(self, key: Key, window: OpenWindow) -> None:
        windows = self._by_key.setdefault(key, {})
        if window.bounds not in windows:
            windows[window.bounds] = window
            self.rows += 1
            if self._has_windows:
                start, closes_us = window.bounds
                heapq.heappush(self._leaving, (closes_us, start, order_key(window.key), self._pushed, key))
                self._pushed += 1
        if not self._sends_updates:
            now = 8 + bytes_of(self._shown_key(window)) + sum(state.stored_bytes for state in window.states)
            self.stored_bytes += now - window.stored_bytes
            window.stored_bytes = now

    def _keep(self, key: Key, window: OpenWindow) -> None:
        self._kept.setdefault(key, {})[window.bounds] = window
        self._closed.append((window.bounds[1], key, window))

    def _let_go(self, key: Key, window: OpenWindow) -> None:
        del self._kept[key][window.bounds]
        if not self._kept[key]:
            del self._kept[key]

    def _remove(self, key: Key, window: OpenWindow) -> None:
        windows = self._by_key[key]
        del windows[window.bounds]
        if not windows:
            del self._by_key[key]
        self.rows -= 1
        self.stored_bytes -= window.stored_bytes
        window.stored_bytes = 0


# Sessions: rows of a key that follow each other within the gap. Source: semantics.md 13.6 to 13.9, B3, B4.


class SessionPlacement:
    """A row is a session of its own, merged with all of its key that lie within the gap; exactly the gap merges."""

    def __init__(self, gap_us: Micros, open_windows: OpenWindows) -> None:
        """Place rows in `open_windows`, whose bounds are the first and the last time of a session."""
        self._gap_us, self._open = gap_us, open_windows

    def add(self, key: Key, record: Record, bound_us: Micros) -> Added:
        """Count a record, unless the merged session is closed: its last time lies below the bound (13.7).

        What it merges may be closed itself: final results of that went out, and those of the longer session follow.
        """
        sessions, gap_us = self._open.sessions(key, bound_us), self._gap_us
        merged = [w for w in sessions if record.time - gap_us <= w.bounds[1] and w.bounds[0] - gap_us <= record.time]
        first = min([record.time, *(window.bounds[0] for window in merged)])
        last = max([record.time, *(window.bounds[1] for window in merged)])
        if last < bound_us:
            return Added(False, 1, [])
        if not merged or first == last:  # a session of one point in time is updated in its place (13.8)
            return Added(True, 0, self._open.count(key, (first, last), [record]))
        return Added(True, 0, self._open.absorb(key, merged, (first, last), record))

    def forget(self, bound_us: Micros) -> None:
        """Drop the closed sessions that no row will join any more."""
        self._open.forget(bound_us)

    def state(self) -> Any:
        """Nothing is kept but the sessions."""

    def restore_state(self, state: Any) -> None:
        """Nothing is kept but the sessions."""


def netted(updates: Sequence[Update]) -> list[Update]:
    """The updates of one row, without a deletion of what it makes again: a session that grew within its bounds."""
    made = {update.key: update for update in updates if update.new is not None}
    before = {update.key: update.old for update in updates if update.new is None and update.key in made}
    return [
        update._replace(old=before.get(update.key, update.old))
        for update in updates
        if update.new is not None or update.key not in made
    ]


# Sliding windows: both ends inclusive, one that ends at each row, and one that starts after it if that has a row.
#
# By the definition (semantics.md 13.5) a window counts the rows of its span that came while it was open. A window that
# is created now is open now, so it was open whenever an older row came: it takes all of its span, and no row needs to
# remember the stream time that it came at. Source: KIP-450, semantics.md 13.1 to 13.5, B3.


class SlidingPlacement:
    """Windows [start, start + size] of each key, and the rows that windows may yet be made of, by arrival."""

    def __init__(self, size_us: Micros, open_windows: OpenWindows) -> None:
        """Place rows in `open_windows`."""
        self._size_us, self._open = size_us, open_windows
        self._records: dict[Key, dict[int, Record]] = {}
        self._by_time: list[tuple[Micros, int, Key]] = []
        self._arrivals = 0

    def add(self, key: Key, record: Record, bound_us: Micros) -> Added:
        """Count a record, unless even the window that starts with it is closed: it ends below the bound (13.2).

        Of the windows that refuse it only its own, [t - size, t], is counted: which of the others there were is
        forgotten when they close.
        """
        is_own_closed = int(record.time < bound_us)
        if record.time + self._size_us < bound_us:
            return Added(False, is_own_closed, [])
        updates: list[Update] = []
        for start in sorted(self._touched(key, record.time, bound_us) | self._created(key, record.time, bound_us)):
            updates += self._count(key, start, record)
        self._keep(key, record)
        return Added(True, is_own_closed, updates)

    def forget(self, bound_us: Micros) -> None:
        """Drop the rows that no open window can hold or follow."""
        while self._by_time and self._by_time[0][0] + self._size_us + 1 < bound_us:
            _, arrival, key = heapq.heappop(self._by_time)
            del self._records[key][arrival]
            if not self._records[key]:
                del self._records[key]

    def state(self) -> list[Record]:
        """The rows in the order of arrival."""
        kept = ((arrival, record) for records in self._records.values() for arrival, record in records.items())
        return [record for _, record in sorted(kept, key=lambda pair: pair[0])]

    def restore_state(self, state: list[Record]) -> None:
        """Replace all rows by those of `state()`."""
        self._records, self._by_time, self._arrivals = {}, [], 0
        for record in state:
            self._keep(canonical_key(record.key), record)

    def _keep(self, key: Key, record: Record) -> None:
        self._records.setdefault(key, {})[self._arrivals] = record
        heapq.heappush(self._by_time, (record.time, self._arrivals, key))
        self._arrivals += 1

    def _times(self, key: Key) -> set[Micros]:
        return {record.time for record in self._records.get(key, {}).values()}

    def _touched(self, key: Key, time: Micros, bound_us: Micros) -> set[Micros]:
        """Starts of the windows that are there, open, and hold the time."""
        windows = self._open.of_key(key)
        return {start for start, end in windows if start <= time <= end and end >= bound_us}

    def _created(self, key: Key, time: Micros, bound_us: Micros) -> set[Micros]:
        """Starts of the windows that a row at this time calls for, if they are open; they may be there already."""
        times = self._times(key)
        starts = {time - self._size_us} | {
            before + 1 for before in times if before < time <= before + 1 + self._size_us
        }
        is_followed = any(time < after <= time + 1 + self._size_us for after in times)
        has_right = is_followed and (time + 1, time + 1 + self._size_us) not in self._open.of_key(key)
        starts |= {time + 1} if has_right else set()
        return {start for start in starts if start + self._size_us >= bound_us}

    def _count(self, key: Key, start: Micros, record: Record) -> list[Update]:
        """Count the record where it lies in the window, after the older ones where the window is new."""
        bounds = (start, start + self._size_us)
        older = [] if bounds in self._open.of_key(key) else list(self._records.get(key, {}).values())
        inside = [each for each in (*older, record) if bounds[0] <= each.time <= bounds[1]]
        return self._open.count(key, bounds, inside)


# Which time windows a row belongs to: tumbling, hopping and cumulating ones; and groups without windows.
#
# Source: semantics.md 11, 12, B1.


def time_bounds(window: Window, time: Micros) -> list[Bounds]:
    """The time windows [start, end) that a time lies in, in the order of start.

    Starts are multiples of the slide, plus the offset; they may be negative (B1).

    >>> time_bounds(Window("time", 10, 4), 9)
    [(0, 10), (4, 14), (8, 18)]
    """
    last = time - (time - window.offset_us) % window.slide_us
    count = (last - time + window.size_us - 1) // window.slide_us
    first = last - count * window.slide_us
    return [(start, start + window.size_us) for start in range(first, last + 1, window.slide_us)]


def cumulate_bounds(window: Window, time: Micros) -> list[Bounds]:
    """The windows of one start that grow by the slide up to the size, and that a time lies in, in the order of end.

    >>> cumulate_bounds(Window("cumulate", 10, 4), 5)
    [(0, 8), (0, 10)]
    """
    start = time - (time - window.offset_us) % window.size_us
    steps = range((time - start) // window.slide_us + 1, -(-window.size_us // window.slide_us) + 1)
    return [(start, start + min(step * window.slide_us, window.size_us)) for step in steps]


class TimePlacement:
    """Each window of a row takes it if it is still open (12.3); the groups of kind 'none' always are."""

    def __init__(self, window: Window, open_windows: OpenWindows) -> None:
        """Place rows in `open_windows`."""
        self._window, self._open = window, open_windows

    def add(self, key: Key, record: Record, bound_us: Micros) -> Added:
        """Count a record; windows closed by a number below the bound are closed."""
        if self._window.kind == "none":
            return Added(True, 0, self._open.count(key, (0, 0), [record]))
        is_time = self._window.kind == "time"
        bounds = (time_bounds if is_time else cumulate_bounds)(self._window, record.time)
        accepted = [window for window in bounds if window[1] >= bound_us]
        updates: list[Update] = []
        for window in accepted:
            updates += self._open.count(key, window, [record])
        return Added(bool(accepted), len(bounds) - len(accepted), updates)

    def forget(self, bound_us: Micros) -> None:
        """Nothing is kept but the windows."""

    def state(self) -> Any:
        """Nothing is kept but the windows."""

    def restore_state(self, state: Any) -> None:
        """Nothing is kept but the windows."""


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
    arguments of the aggregates, each with its filter after it; whatever follows is only carried to the late rows.
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
        self._closed_us: Micros = UNSET  # what is closed by a number below it has closed, by whichever grace period
        self._open = OpenWindows(config, evaluate)
        self._open.aggregates.new()  # so that a function that is not known fails now
        self._placement = _placement(config, self._open)
        has_limit = (config.max_rows, config.max_bytes) != (None, None)
        self._can_be_full = config.is_final and config.when_full == "fail" and has_limit
        self._emission = Emission()

    @property
    def stream_time(self) -> Micros | None:
        """The greatest time so far."""
        return self._stream_time.now_us

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows in arrival order.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL`, a row did not fit; the state is that before this row, and the error's
                `emission` what the rows before it sent out. `OPERATOR.ARITHMETIC_OVERFLOW`, `OPERATOR.WINDOW_OVERFLOW`.
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
            "closed": self._closed_us,
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._open.restore_state(parts["windows"])
        self._placement.restore_state(parts["placement"])
        self._stream_time.restore(parts["stream_time"])
        self._closed_us = parts["closed"]
        self.metrics = Metrics(parts["metrics"])

    def _on_row(self, row: Row) -> None:
        self.metrics.add("records")
        if row.time is None:
            self._refuse(row, "null_time")
        elif self._stream_time.is_future(row.time, self.config.max_future_us):
            self._refuse(row, "future")
        else:
            self.config.window.check_time(row.time)
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
        """What is closed by a number below this is closed."""
        by_rule_us = int(rules.close_bound(now_us, self.config.horizon_us, self.config.window.is_inclusive))
        return max(by_rule_us, self._closed_us)

    def _close(self, now_us: Micros) -> None:
        bound_us = self._closed_us = self._bound_us(now_us)
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
        self._emission.refuse(row, row.time, reason, self.config.name, self._stream_time)

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
