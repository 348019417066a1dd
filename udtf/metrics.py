"""Named counters of one operator in one task; they travel in its snapshot.

| name | counts |
|---|---|
| `late` | stream rows past the grace (a join answers them at once, semantics.md 7.2) |
| `expired` | table rows refused as older than the history retention |
| `null_key`, `null_time`, `future` | rows refused for that reason |
| `matched`, `unmatched` | answers of a join; `unmatched_<reason>` splits the latter (semantics.md C5) |
| `corrected` | results that a late version changed |
| `buffered_rows`, `buffered_bytes` | what waits now (gauges) |
| `evicted_early` | rows a full buffer gave out before their time |
| `records`, `emitted` | rows or updates that came, changes that went out |
| `late_record_drop`, `expired_window_record_drop` | rows that no window took; (row, window) pairs refused (KIP-328) |
| `idle_closed` | rows given out since nothing came for a while |
| `spilled_rows` | what is open beyond a limit and may leave memory (gauge) |
| `suppression_buffer_count_max`, `suppression_buffer_size_max` | the most that ever waited: rows, bytes (maxima) |
| `suppression_buffer_count_total`, `suppression_buffer_size_total` | what waited after each row put, added up |
| `suppression_buffer_puts` | how many rows were put |
| `record_lateness_total`, `record_lateness_max` | microseconds that rows were behind stream time |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

GAUGES: Final = frozenset({"buffered_rows", "buffered_bytes", "spilled_rows"})
#: The greatest value so far; those of several tasks combine by their maximum.
MAXIMA: Final = frozenset({"suppression_buffer_count_max", "suppression_buffer_size_max", "record_lateness_max"})
#: Why a row of a join found no version (semantics.md C5), in the order of the join's codes.
UNMATCHED: Final = (
    "null_time",
    "no_key",
    "beyond_retention",
    "before_first",
    "after_last",
    "tombstone",
    "beyond_tolerance",
    "condition",
)
_AS_THEY_ARE: Final = GAUGES | MAXIMA
#: Always present, so that a reader need not guess whether a counter exists.
ALWAYS: Final = ("late", "expired", "null_key", "null_time", "buffered_rows", "buffered_bytes", "evicted_early")


class Metrics(Mapping[str, int]):
    """A read-only mapping of names to numbers for its readers, counters and gauges for its operator.

    >>> metrics = Metrics(); metrics.add("late"); metrics["late"], metrics["never_counted"]
    (1, 0)
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, int] | None = None) -> None:
        """Start at zero, or where a snapshot left off."""
        self._values: dict[str, int] = dict.fromkeys(ALWAYS, 0)
        self._values.update(values or {})

    def __getitem__(self, name: str) -> int:
        """The value; a counter nobody has added to is 0."""
        return self._values.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        """The names that exist so far."""
        return iter(self._values)

    def __len__(self) -> int:
        """How many names exist so far."""
        return len(self._values)

    def waiting(self, rows: int, size: int) -> None:
        """A row was put into a suppression buffer, in which so many rows of so many bytes wait now (KIP-328)."""
        self.add("suppression_buffer_puts")
        for name, value in (("count", rows), ("size", size)):
            self.add(f"suppression_buffer_{name}_total", value)
            self.peak(f"suppression_buffer_{name}_max", value)

    def add(self, name: str, count: int = 1) -> None:
        """Add to a counter."""
        self._values[name] = self._values.get(name, 0) + count

    def set(self, name: str, value: int) -> None:
        """Set a gauge."""
        self._values[name] = value

    def peak(self, name: str, value: int) -> None:
        """Raise a maximum to `value` where that is more."""
        self._values[name] = max(self._values.get(name, value), value)

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """What was counted since `before = dict(metrics)`; gauges and maxima as they are now."""
        return {
            name: value - (0 if name in _AS_THEY_ARE else before.get(name, 0)) for name, value in self._values.items()
        }

    def snapshot(self) -> dict[str, int]:
        """The state."""
        return dict(self._values)


def of_table(records: int, emitted: int, state_rows: int, state_bytes: int) -> Metrics:
    """What an operator over tables counted in a micro-batch, and its gauges after it."""
    metrics = Metrics()
    metrics.add("records", records)
    metrics.add("emitted", emitted)
    metrics.set("state_rows", state_rows)
    metrics.set("state_bytes", state_bytes)
    return metrics
