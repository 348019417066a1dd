"""What running queries have counted, as plain facts: for a terminal, a page, and Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlx.streaming.registry import GAUGES, RunningQuery
from udtf.stream.spec import MAXIMA

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_PREFIX: Final = "sqlx_"
_OF_QUERY: Final = {
    "batches": "Micro-batches since the start.",
    "rows": "Rows that were read since the start.",
    "rows_per_second": "Rows a second of the last micro-batch.",
    "batch_ms": "Milliseconds that the last micro-batch took.",
    "lag_ms": "Milliseconds from the latest event time to now.",
    "partitions": "Partitions over which the state is spread.",
    "state_rows": "Rows in state.",
    "state_bytes": "Bytes of state.",
    "refused": "Rows that were refused since the start, for any reason.",
}
_SUMS: Final = frozenset({"batches", "rows", "refused"})


@dataclass(frozen=True)
class Snapshot:
    """One query at one moment.

    Attributes:
        name, status, sink, trigger, started, error: as SHOW STREAMING QUERIES says.
        batches, rows: since the start.
        rows_per_second, batch_ms: of the last micro-batch.
        lag_ms: from the latest event time to now; None where none is known.
        partitions, state_rows, state_bytes: of its state.
        refused: rows that were refused since the start.
        operators: the counters of each operator, by its name.
    """

    name: str
    status: str
    sink: str
    trigger: str
    started: str
    error: str | None
    batches: int
    rows: int
    rows_per_second: float
    batch_ms: int
    lag_ms: int | None
    partitions: int
    state_rows: int
    state_bytes: int
    refused: int
    operators: dict[str, dict[str, int]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def snapshot(query: RunningQuery) -> Snapshot:
    """A query as it is now."""
    totals, error = query.refresh(), query.error()
    lag_us = totals.lag_us()
    return Snapshot(
        query.name,
        query.status,
        query.sink,
        str(query.trigger),
        query.started.isoformat(timespec="seconds"),
        None if error is None else str(error).splitlines()[0],
        totals.batches,
        totals.rows,
        totals.rows_per_second,
        totals.batch_ms,
        None if lag_us is None else lag_us // 1000,
        totals.partitions,
        totals.state_rows,
        totals.state_bytes,
        totals.refused,
        {name: dict(counters) for name, counters in totals.observed.items()},
    )


def families(snapshots: Iterable[Snapshot]) -> Iterator[Metric]:
    """The same for Prometheus: a family for each number of a query, and one for each counter of operators."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    known = list(snapshots)
    running = GaugeMetricFamily(f"{_PREFIX}query_running", "1 while the query runs.", labels=["query"])
    for one in known:
        running.add_metric([one.name], float(one.status == "running"))
    yield running
    for name, meaning in _OF_QUERY.items():
        kind = CounterMetricFamily if name in _SUMS else GaugeMetricFamily
        family = kind(f"{_PREFIX}query_{name}", meaning, labels=["query"])
        for one in known:
            value = getattr(one, name)
            if value is not None:
                family.add_metric([one.name], float(value))
        yield family
    for name in sorted({name for one in known for counters in one.operators.values() for name in counters}):
        kind = GaugeMetricFamily if name in GAUGES or name in MAXIMA else CounterMetricFamily
        family = kind(f"{_PREFIX}operator_{name}", f"The counter {name} of an operator.", labels=["query", "operator"])
        for one in known:
            for operator, counters in one.operators.items():
                if name in counters:
                    family.add_metric([one.name, operator], float(counters[name]))
        yield family
