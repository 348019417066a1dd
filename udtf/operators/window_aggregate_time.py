"""Which time windows a row belongs to: tumbling, hopping and cumulating ones; and groups without windows.

Source: semantics.md 11, 12, B1.
"""

from __future__ import annotations

from typing import Any

from udtf.operators.window_aggregate_config import Window
from udtf.operators.window_aggregate_open import Added, Bounds, OpenWindows, Record
from udtf.record import Key, Update
from udtf.time import Micros


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
