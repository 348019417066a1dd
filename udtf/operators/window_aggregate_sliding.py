"""Sliding windows: both ends inclusive, one that ends at each row, and one that starts after it if that has a row.

By the definition (semantics.md 13.5) a window counts the rows of its span that came while it was open. A window that is
created now is open now, so it was open whenever an older row came: it takes all of its span, and no row needs to
remember the stream time that it came at. Source: KIP-450, semantics.md 13.1 to 13.5, B3.
"""

from __future__ import annotations

import heapq

from udtf.operators.window_aggregate_open import Added, OpenWindows, Record
from udtf.record import Key, Update, canonical_key
from udtf.time import Micros


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
