"""What a running query has counted, from the progress that Spark reports after each micro-batch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from udtf.metrics import GAUGES as METRIC_GAUGES
from udtf.stream.spec import MAXIMA

#: Counters that say how things are, not what was added.
GAUGES = METRIC_GAUGES | {"state_rows", "state_bytes"}
_LATEST = "max_event_time"
_RESTORES = ("restored_cache", "restored_tail", "restored_snapshot")
_SHOWN = ("late", "expired", "null_key", "null_time", "future", "matched", "unmatched")


@dataclass
class Totals:
    """The sums over all micro-batches since the start.

    Attributes:
        batch_id: the last micro-batch that was counted.
        batches, rows: how many there were.
        rows_per_second, batch_ms: of the last one.
        reported: when the last one was reported.
        observed: the counters of each operator, by its name.
    """

    batch_id: int = -1
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    reported: str = ""
    observed: dict[str, dict[str, int]] = field(default_factory=dict)
    _event_time: str = ""
    _spark_state: tuple[int, int] = (0, 0)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def fold(self, progress_json: str) -> None:
        """Add a micro-batch; one that was added before, or brought nothing, changes no count."""
        progress: dict[str, Any] = json.loads(progress_json)
        with self._lock:
            took_ms = progress.get("durationMs", {})
            if int(progress["batchId"]) <= self.batch_id or "addBatch" not in took_ms:  # without: nothing was read
                return
            self.batch_id = int(progress["batchId"])
            self.batches += 1
            self.rows += int(progress.get("numInputRows", 0))
            self.rows_per_second = float(progress.get("processedRowsPerSecond") or 0.0)
            self.batch_ms = int(took_ms.get("triggerExecution", 0))
            self.reported = str(progress.get("timestamp", ""))
            self._event_time = str(progress.get("eventTime", {}).get("max", self._event_time))
            operators = progress.get("stateOperators", [])
            self._spark_state = tuple(  # type: ignore[assignment]
                sum(int(operator.get(name, 0)) for operator in operators)
                for name in ("numRowsTotal", "memoryUsedBytes")
            )
            for name, counted in progress.get("observedMetrics", {}).items():
                self._add(self.observed.setdefault(name, {}), counted)

    def _add(self, total: dict[str, int], counted: Mapping[str, Any]) -> None:
        for name, value in counted.items():
            if not isinstance(value, int):
                continue
            if name in GAUGES:
                total[name] = value
            elif name in MAXIMA:
                total[name] = max(value, total.get(name, value))
            else:
                total[name] = total.get(name, 0) + value

    def sum(self, name: str) -> int:
        """A counter over all operators."""
        return sum(counters.get(name, 0) for counters in self.observed.values())

    @property
    def state_rows(self) -> int:
        """Rows in state: those of our operators, or else of Spark's."""
        return self.sum("state_rows") if self.observed else self._spark_state[0]

    @property
    def state_bytes(self) -> int:
        """Their bytes."""
        return self.sum("state_bytes") if self.observed else self._spark_state[1]

    def lag_us(self, now: datetime | None = None) -> int | None:
        """From the latest event time to now, in microseconds; None where no event time is known."""
        latest = max((c[_LATEST] for c in self.observed.values() if _LATEST in c), default=None)
        if latest is None and self._event_time:
            latest = int(datetime.fromisoformat(self._event_time).timestamp() * 1e6)
        return None if latest is None else int((now or datetime.now(UTC)).timestamp() * 1e6) - latest

    def lines(self) -> Iterator[tuple[str, str]]:
        """Name and value of each metric, for DESCRIBE STREAMING QUERY."""
        yield "batches", str(self.batches)
        yield "rows", str(self.rows)
        yield "rows_per_second", f"{self.rows_per_second:.1f}"
        yield "last_batch", f"{self.batch_ms} ms"
        lag_us = self.lag_us()
        yield "event_time_lag", "NULL" if lag_us is None else f"{lag_us / 1e6:.1f} seconds"
        for name in _SHOWN:
            yield name, str(self.sum(name))
        names = sorted(
            {name for counters in self.observed.values() for name in counters if name.startswith("unmatched_")}
        )
        yield from ((name, str(self.sum(name))) for name in names)
        if any("malformed" in counters for counters in self.observed.values()):
            yield "malformed", str(self.sum("malformed"))
        for name in ("buffered_rows", "buffered_bytes"):
            yield name, str(self.sum(name))
        if any("records" in counters for counters in self.observed.values()):
            yield from self._of_suppression()
        yield "state_rows", str(self.state_rows)
        yield "state_bytes", str(self.state_bytes)
        yield from ((name, str(self.sum(name))) for name in _RESTORES)
        yield "restore_time", f"{self.sum('restore_us') / 1000:.0f} ms"

    def _of_suppression(self) -> Iterator[tuple[str, str]]:
        """The metrics of KIP-328, by its names; lateness is of event time."""
        yield "record_lateness_avg", _milliseconds(self.sum("record_lateness_total") / max(1, self.sum("records")))
        yield "record_lateness_max", _milliseconds(self.sum("record_lateness_max"))
        for name in ("late_record_drop", "expired_window_record_drop"):
            yield name, str(self.sum(name))
        puts = max(1, self.sum("suppression_buffer_puts"))
        for name, current in (("count", "buffered_rows"), ("size", "buffered_bytes")):
            yield f"suppression_buffer_{name}_current", str(self.sum(current))
            yield f"suppression_buffer_{name}_avg", f"{self.sum(f'suppression_buffer_{name}_total') / puts:.1f}"
            yield f"suppression_buffer_{name}_max", str(self.sum(f"suppression_buffer_{name}_max"))
        yield "suppression_emit", str(self.sum("emitted"))
        for name in ("evicted_early", "spilled_rows"):
            yield name, str(self.sum(name))


def _milliseconds(micros: float) -> str:
    return f"{micros / 1000:.1f} ms"
