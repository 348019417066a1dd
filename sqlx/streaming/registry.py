"""The streaming queries that this process has started: those that run, and those that ended."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from posixpath import normpath
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException

from sqlx.errors import TemporalSqlError
from sqlx.sql.definitions import StreamingTable, Trigger
from sqlx.streaming.failures import failure_of
from sqlx.streaming.tables import folder_of
from udtf.engine import engine_of, is_remote
from udtf.engine.java import Py4JError
from udtf.metrics import GAUGES as METRIC_GAUGES
from udtf.stream.spec import MAXIMA

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from udtf.engine.placement import StatePlacement
    from udtf.engine.watching import Watched


# What a running query has counted, from the progress that Spark reports after each micro-batch.


#: Counters that say how things are, not what was added.
GAUGES = METRIC_GAUGES | {"state_rows", "state_bytes"}
_LATEST = "max_event_time"
_RESTORES = ("restored_cache", "restored_tail", "restored_snapshot", "from_sibling")
#: Refused rows, by reason.
_REFUSED = ("late", "expired", "null_key", "null_time", "future")
_SHOWN = (*_REFUSED, "matched", "unmatched")


@dataclass
class Totals:
    """The sums over all micro-batches since the start.

    Attributes:
        batch_id: the last micro-batch that was counted.
        batches, rows: how many there were.
        rows_per_second, batch_ms: of the last one.
        reported: when the last one was reported.
        partitions: over how many its state was spread; 0 where it has none.
        moved: how many of those went to another executor, so that all have equally many.
        observed: the counters of each operator, by its name.
    """

    batch_id: int = -1
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    reported: str = ""
    partitions: int = 0
    moved: int = 0
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
            self.partitions = max(
                (int(one.get("numShufflePartitions", 0)) for one in operators), default=self.partitions
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
    def refused(self) -> int:
        """Rows that were refused, whatever the reason."""
        return sum(map(self.sum, _REFUSED))

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
        yield "partitions", str(self.partitions) if self.partitions else "NULL"
        if self.moved:
            yield "moved", str(self.moved)
        lag_us = self.lag_us()
        yield "event_time_lag", "NULL" if lag_us is None else f"{lag_us / 1e6:.1f} seconds"
        for name in _SHOWN:
            yield name, str(self.sum(name))
        names = sorted(
            {name for counters in self.observed.values() for name in counters if name.startswith("unmatched_")}
        )
        yield from ((name, str(self.sum(name))) for name in names)
        for name in ("corrected", "malformed"):
            if any(name in counters for counters in self.observed.values()):
                yield name, str(self.sum(name))
        for name in ("buffered_rows", "buffered_bytes", "idle_closed"):
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


def _reads_nothing(progress: Mapping[str, Any]) -> bool:
    """Whether a micro-batch had no new rows from any source."""
    sources = progress.get("sources", ())
    return bool(sources) and all(one.get("startOffset") == one.get("endOffset") for one in sources)


Status = Literal["running", "stopped", "finished", "failed"]


@dataclass
class RunningQuery:
    """One streaming query of this process.

    Attributes:
        name: the qualified name of its table, or of its sink.
        sink: the format that it writes.
        checkpoint: the folder of its checkpoint, for people.
        trigger: when its micro-batches start.
        query: Spark's handle.
        watched: how to ask it.
        failures: what a Python part of the query raised, with its own type.
        tables: database and name of its tables of files, as SQL.
        started: when.
        totals: what it has counted.
        was_stopped: whether somebody asked it to stop.
        owner: the user of a server who started it.
        start_again: starts what was stopped, from its checkpoint.
        changelog: where its state is; "" is Spark's state store.
        blobs: where rows of a micro-batch are on their way between workers; "" is in Spark alone.
        placement: what spreads its state over the executors of a cluster.
    """

    name: str
    sink: str
    checkpoint: str
    trigger: Trigger
    query: StreamingQuery
    watched: Watched
    failures: list[Exception] = field(default_factory=list)
    tables: tuple[str, ...] = ()
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    totals: Totals = field(default_factory=Totals)
    was_stopped: bool = False
    owner: str | None = None
    start_again: Callable[[], RunningQuery | None] = lambda: None
    changelog: str = ""
    blobs: str = ""
    placement: StatePlacement | None = None

    @cached_property
    def id(self) -> str:
        """Spark's id of the query: the same after each restart from its checkpoint."""
        return str(self.query.id)

    @property
    def status(self) -> Status:
        """How it is."""
        if self.query.isActive:
            return "running"
        if self.watched.causes() is not None:
            return "failed"
        return "stopped" if self.was_stopped else "finished"

    def error(self) -> TemporalSqlError | None:
        """Why it failed, as a sqlx error; None where it did not."""
        causes = self.watched.causes()
        return None if causes is None else failure_of(self.name, causes, self.failures)

    def refresh(self) -> Totals:
        """The totals with all that Spark has reported by now."""
        for report in self.watched.reports(self.totals.batch_id):  # a micro-batch counts only after those before it
            self.totals.fold(report)
        return self.totals

    def is_in_batch(self) -> bool:
        """Whether a micro-batch is being computed now."""
        return self.watched.is_in_batch()

    def is_starting(self) -> bool:
        """Whether it has not looked at its sources yet."""
        return self.watched.is_starting()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends; whether it has.

        Raises:
            TemporalSqlError: it failed.
        """
        waited = threading.Event()
        left = float("inf") if seconds is None else seconds
        while self.query.isActive and left > 0:
            waited.wait(self.watched.look_seconds)
            left -= self.watched.look_seconds
        self.clear()
        error = self.error()
        if error is not None:
            raise error
        return not self.query.isActive

    def end_when_read(self) -> None:
        """Let it end once it has read what there was: Spark would go on, since it has timers (IDLE TIMEOUT)."""
        threading.Thread(target=self._end_when_read, name=f"sqlx end of {self.name}", daemon=True).start()

    def _end_when_read(self) -> None:
        waited = threading.Event()
        with suppress(PySparkException, Py4JError, OSError):  # the session has ended, and the query with it
            seen = -1
            while self.query.isActive:
                reports = [json.loads(report) for report in self.watched.reports(seen)]
                if any(map(_reads_nothing, reports)):
                    break
                seen = max([seen, *(int(report["batchId"]) for report in reports)])
                waited.wait(self.watched.look_seconds)
            self._wait_for_commit()
            self._end()

    def stop(self) -> None:
        """Stop it between two micro-batches: the running one is finished and committed first."""
        self._wait_for_commit()
        self.was_stopped = self.was_stopped or self.query.isActive
        self._end()

    def _wait_for_commit(self) -> None:
        batch, waited = self.refresh().batch_id, threading.Event()
        while self.is_in_batch() and self.refresh().batch_id == batch:
            waited.wait(self.watched.look_seconds)

    def _end(self) -> None:
        self.query.stop()
        self.refresh()
        self.clear()

    def clear(self) -> None:
        """Remove what was on its way in the last micro-batch, once it has ended."""
        if self.blobs and not self.query.isActive:
            shutil.rmtree(self.blobs, ignore_errors=True)
            self.blobs = ""


class Keeper(Protocol):
    """Who wants to know which queries are to run: a server starts them again when it comes back."""

    def started(self, spark: SparkSession, statement: StreamingTable, query: RunningQuery) -> None:
        """A statement has started a query."""

    def stopped(self, query: RunningQuery) -> None:
        """A statement has stopped a query."""


class Owning(Protocol):
    """Who knows whose session it is, and who may end which query: a server with users."""

    def user_of(self, spark: SparkSession) -> str | None:
        """The user of a session; None where it is nobody's."""

    def check(self, spark: SparkSession, query: RunningQuery) -> None:
        """Raise where the user of a session may not end a query."""


class Registry:
    """The queries of one Spark application, by name.

    Attributes:
        keeper: who wants to know of starts and stops by statements.
        owners: who knows whose they are; None where all are everybody's.
        folders: URIs of the folders in which statements may write; None is anywhere.
        pages: what shows them on Spark's UI, see `sqlx.streaming.pages`; None before the first one.
    """

    keeper: Keeper | None = None
    owners: Owning | None = None
    folders: tuple[str, ...] | None = None
    pages: object | None = None

    def __init__(self) -> None:
        self._queries: dict[str, RunningQuery] = {}
        self._lock = threading.Lock()

    def add(self, query: RunningQuery) -> None:
        """Note a query; one of the same name that ended before is forgotten."""
        for one in self.all():
            one.clear()
        with self._lock:
            self._queries[query.name.lower()] = query

    def outside(self, spark: SparkSession, path: str) -> str | None:
        """The whole path of a place where statements may not write or read; None where they may."""
        if self.folders is None:
            return None
        scheme, colon, rest = folder_of(spark, path).path.partition(":")
        found = f"{scheme}{colon}{normpath(rest)}"
        return None if any(found == folder or found.startswith(f"{folder}/") for folder in self.folders) else found

    def user_of(self, spark: SparkSession) -> str | None:
        """The user of a session; None where nobody knows users."""
        return None if self.owners is None else self.owners.user_of(spark)

    def check_may_end(self, spark: SparkSession, query: RunningQuery) -> None:
        """Refuse to stop or replace a query that is somebody else's.

        Raises:
            TemporalSqlError: it is.
        """
        if self.owners is not None:
            self.owners.check(spark, query)

    def find(self, name: str) -> RunningQuery | None:
        """The query of that qualified name."""
        found = self._queries.get(name.lower())
        return found if found is None or found.watched.is_reachable else None

    def forget(self, name: str) -> None:
        """Drop a query from the list."""
        with self._lock:
            self._queries.pop(name.lower(), None)

    def all(self) -> list[RunningQuery]:
        """All queries that can be asked, in the order of their start."""
        known = (query for query in tuple(self._queries.values()) if query.watched.is_reachable)
        return sorted(known, key=lambda query: query.started)

    def by_id(self, identity: str) -> RunningQuery | None:
        """The query with that id of Spark's."""
        return next((query for query in self.all() if query.id == identity), None)


_OF_CLIENT = "_sqlx_queries"
_registries: WeakKeyDictionary[Any, Registry] = WeakKeyDictionary()
_making = threading.Lock()


def registry(context: SparkContext) -> Registry:
    """The queries of an application."""
    with _making:
        return _registries.setdefault(context, Registry())


def queries_of(spark: SparkSession) -> Registry:
    """The queries of a session's application; of a client of Spark Connect those that it has started itself."""
    if not is_remote(spark):
        return registry(spark.sparkContext)
    found: Registry = vars(spark).setdefault(_OF_CLIENT, Registry())
    return found


def share_queries(spark: SparkSession, other: SparkSession) -> None:
    """Let a session of Spark Connect that was made from another one know its queries."""
    vars(other)[_OF_CLIENT] = queries_of(spark)


def listen(spark: SparkSession) -> None:
    """Count what the queries of a session do while nobody looks: Spark keeps the last hundred reports only."""
    queries = queries_of(spark)

    def heard(identity: str) -> None:
        query = queries.by_id(identity)
        if query is not None:
            query.refresh()
            if query.placement is not None:
                query.totals.moved += query.placement.even_out(max(other.totals.batch_ms for other in queries.all()))

    engine_of(spark).hear(heard)
