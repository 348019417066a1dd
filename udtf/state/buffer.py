"""The time-ordered buffer of a stream-table join with grace.

Rows leave in the order timestamp, then key "bytes" (column by column in Spark's ordering, NULL first, strings by UTF-8
bytes), then arrival; equal rows are not merged. Source: KIP-923, semantics.md section 7.4 and B13.
"""

from __future__ import annotations

import heapq
from decimal import Decimal
from typing import Any

from udtf.record import Row, order_key


class TimeOrderedBuffer:
    """Rows that wait, by (time, key, arrival); knows how many and how many bytes they are.

    >>> from udtf.record import left_row
    >>> buffer = TimeOrderedBuffer()
    >>> for key in ("b", "a"): buffer.put(left_row((key,), 5))
    >>> [row.key for row in buffer.evict_until(5)], buffer.rows
    ([('a',), ('b',)], 0)
    """

    __slots__ = ("_arrivals", "_heap", "stored_bytes")

    def __init__(self) -> None:
        """Start empty."""
        self._heap: list[tuple[int, tuple[Any, ...], int, Row]] = []
        self._arrivals = 0
        self.stored_bytes = 0

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return len(self._heap)

    def put(self, row: Row) -> None:
        """Add a row; its time must not be None."""
        assert row.time is not None, "the operator answers or refuses rows without a time"
        # NB: the arrival number is unique, so that two rows are never compared themselves.
        heapq.heappush(self._heap, (row.time, order_key(row.key), self._arrivals, row))
        self._arrivals += 1
        self.stored_bytes += stored_bytes(row)

    def evict_until(self, bound_us: int) -> list[Row]:
        """Take out all rows with time <= bound, in order."""
        leaving = []
        while self._heap and self._heap[0][0] <= bound_us:
            row = heapq.heappop(self._heap)[3]
            self.stored_bytes -= stored_bytes(row)
            leaving.append(row)
        return leaving

    def state(self) -> list[Row]:
        """The rows in the order they would leave; arrival is implied by it."""
        return [entry[3] for entry in sorted(self._heap)]

    def restore_state(self, rows: list[Row]) -> None:
        """Replace all rows by those of `state()`."""
        self.__init__()  # type: ignore[misc]  # back to empty
        for row in rows:
            self.put(row)


def stored_bytes(row: Row) -> int:
    """Bytes of key and values as Arrow's value buffers would hold them, plus 8 for the time (semantics.md B5).

    A function of the row alone, so that limits and metrics are stable across restarts and splits.

    >>> from udtf.record import left_row
    >>> stored_bytes(left_row(("EUR",), 5, (1, None)))
    19
    """
    return 8 + bytes_of(row.key) + bytes_of(row.payload)


def bytes_of(value: Any) -> int:
    """Bytes of one value."""
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    if isinstance(value, (tuple, list)):
        return sum(bytes_of(item) for item in value)
    if isinstance(value, dict):
        return sum(bytes_of(key) + bytes_of(item) for key, item in value.items())
    if isinstance(value, bool):
        return 1
    return 16 if isinstance(value, Decimal) else 8
