"""Sessions: rows of a key that follow each other within the gap. Source: semantics.md 13.6 to 13.9, B3, B4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udtf.operators.window_aggregate_open import Added, OpenWindow, OpenWindows, Record
from udtf.record import Key, Update
from udtf.time import Micros

if TYPE_CHECKING:
    from collections.abc import Sequence


class SessionPlacement:
    """A row is a session of its own, merged with all of its key that lie within the gap; exactly the gap merges."""

    def __init__(self, gap_us: Micros, open_windows: OpenWindows) -> None:
        """Place rows in `open_windows`, whose bounds are the first and the last time of a session."""
        self._gap_us, self._open = gap_us, open_windows

    def add(self, key: Key, record: Record, bound_us: Micros) -> Added:
        """Count a record, unless the merged session is closed: its last time lies below the bound (13.7)."""
        merged = self._within_gap(key, record.time)
        first = min([record.time, *(window.bounds[0] for window in merged)])
        last = max([record.time, *(window.bounds[1] for window in merged)])
        if last < bound_us:
            return Added(False, 1, [])
        if not merged or first == last:  # a session of one point in time is updated in its place (13.8)
            return Added(True, 0, self._open.count(key, (first, last), [record]))
        return Added(True, 0, self._open.absorb(key, merged, (first, last), record))

    def _within_gap(self, key: Key, time: Micros) -> list[OpenWindow]:
        """In the order of their starts, which is that of their ends: sessions of a key lie apart."""
        sessions = self._open.of_key(key).items()
        near = (
            (first, last)
            for (first, last), _ in sessions
            if time - self._gap_us <= last and first - self._gap_us <= time
        )
        return [self._open.of_key(key)[bounds] for bounds in sorted(near)]

    def forget(self, bound_us: Micros) -> None:
        """Nothing is kept but the sessions."""

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
