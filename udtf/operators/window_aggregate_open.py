"""The windows (or groups) that are open: what each has counted, their rows as they are shown, and who leaves first.

A window is known by its key and two bounds, microseconds: its start, and the number that stream time closes it by. That
is the end of a time or sliding window; a session has its first and its last time. Source: semantics.md 13, 14, B13.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from udtf.errors import OperatorError
from udtf.operators.window_aggregate_accumulators import Accumulator, Arguments
from udtf.operators.window_aggregate_config import WindowAggregateConfig
from udtf.operators.window_aggregate_sums import Evaluate, new_accumulator
from udtf.record import Key, Update, canonical_key, order_key
from udtf.state.buffer import bytes_of
from udtf.time import Micros

Bounds: TypeAlias = tuple[Micros, Micros]


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


class Aggregates:
    """All aggregates of a group: where their arguments lie in a payload, and their values."""

    def __init__(self, config: WindowAggregateConfig, evaluate: Evaluate | None) -> None:
        """Lay out the payload."""
        self._aggregates, self._evaluate = config.aggregates, evaluate
        self._places: list[tuple[int, int, int | None]] = []
        self.width = 0
        for aggregate in config.aggregates:
            if aggregate.function == "rows" and evaluate is None:
                raise OperatorError.invalid_option("evaluate", None, "a function, for aggregates of kind 'rows'")
            start, stop = self.width, self.width + aggregate.arguments
            self._places.append((start, stop, stop if aggregate.has_filter else None))
            self.width = stop + aggregate.has_filter

    def new(self) -> list[Accumulator]:
        """Of a group without rows."""
        return [new_accumulator(aggregate) for aggregate in self._aggregates]

    def add(self, states: Sequence[Accumulator], payload: Arguments) -> None:
        """Count a row."""
        for state, (start, stop, condition) in zip(states, self._places, strict=True):
            if condition is None or payload[condition]:
                state.add(payload[start:stop])

    def values(self, states: Sequence[Accumulator]) -> tuple[Any, ...]:
        """The results so far."""
        return tuple(self._value(number, state) for number, state in enumerate(states))

    def _value(self, number: int, state: Accumulator) -> Any:
        is_kept = self._aggregates[number].function == "rows"
        return self._evaluate(number, state.value()) if is_kept and self._evaluate else state.value()


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
        self.aggregates = Aggregates(config, evaluate)
        self._sends_updates, self._is_session = not config.is_final, config.window.kind == "session"
        self._has_windows = config.window.kind != "none"
        self._gap_us = config.window.size_us if self._is_session else 0
        self._clear()

    def _clear(self) -> None:
        self._by_key: dict[Key, dict[Bounds, OpenWindow]] = {}
        # A heap in the order of leaving. NB: windows that a session has absorbed stay behind in it and are passed over.
        self._leaving: list[tuple[Micros, Micros, tuple[Any, ...], int, Key]] = []
        self._pushed = 0
        self.rows = self.stored_bytes = 0

    def of_key(self, key: Key) -> dict[Bounds, OpenWindow]:
        """The windows of a canonical key; to be read only."""
        return self._by_key.get(key, {})

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
            self._remove(key, window)
        first = merged[0]
        for window in merged[1:]:
            for state, later in zip(first.states, window.states, strict=True):
                state.merge(later)
        first.bounds, first.time = bounds, bounds[1]
        self.aggregates.add(first.states, record.payload)
        self._put(key, first)
        return [*tombstones, self._update(first, None, self.shown(first))] if self._sends_updates else []

    def close(self, bound_us: Micros | None) -> Iterator[OpenWindow]:
        """Take out the windows that are closed by a number below the bound (None: all), in order."""
        while self._leaving and (bound_us is None or self._leaving[0][0] < bound_us):
            closes_us, start, _, _, key = heapq.heappop(self._leaving)
            window = self.of_key(key).get((start, closes_us))
            if window is not None:
                self._remove(key, window)
                yield window

    def last_closing_us(self) -> Micros | None:
        """The number that the last of all windows is closed by; None where none is open."""
        return max((bounds[1] for windows in self._by_key.values() for bounds in windows), default=None)

    def shown(self, window: OpenWindow) -> tuple[Any, ...]:
        """The row of a window: key, bounds, aggregates."""
        return (*self._shown_key(window), *self.aggregates.values(window.states))

    def state(self) -> list[tuple[Key, Bounds, Micros, list[Accumulator]]]:
        """All windows."""
        windows = (window for windows in self._by_key.values() for window in windows.values())
        return [(window.key, window.bounds, window.time, window.states) for window in windows]

    def restore_state(self, state: list[tuple[Key, Bounds, Micros, list[Accumulator]]]) -> None:
        """Replace all windows by those of `state()`."""
        self._clear()
        for parts in state:
            self._put(canonical_key(parts[0]), OpenWindow(*parts))

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

    def _remove(self, key: Key, window: OpenWindow) -> None:
        windows = self._by_key[key]
        del windows[window.bounds]
        if not windows:
            del self._by_key[key]
        self.rows -= 1
        self.stored_bytes -= window.stored_bytes
        window.stored_bytes = 0
