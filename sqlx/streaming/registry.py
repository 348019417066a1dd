"""The streaming queries that this process has started: those that run, and those that ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary

from sqlx.errors import TemporalSqlError
from sqlx.streaming.failures import failure_of
from sqlx.streaming.parse import StreamingTable, Trigger
from sqlx.streaming.totals import Totals

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Status = Literal["running", "stopped", "finished", "failed"]
_LOOK_SECONDS = 0.02


@dataclass
class RunningQuery:
    """One streaming query of this process.

    Attributes:
        name: the qualified name of its table, or of its sink.
        sink: the format that it writes.
        checkpoint: the folder of its checkpoint, for people.
        trigger: when its micro-batches start.
        query: Spark's handle.
        failures: what a Python part of the query raised, with its own type.
        tables: database and name of its tables of files, as SQL.
        started: when.
        totals: what it has counted.
        was_stopped: whether somebody asked it to stop.
    """

    name: str
    sink: str
    checkpoint: str
    trigger: Trigger
    query: StreamingQuery
    failures: list[Exception] = field(default_factory=list)
    tables: tuple[str, ...] = ()
    started: datetime = field(default_factory=lambda: datetime.now(UTC))
    totals: Totals = field(default_factory=Totals)
    was_stopped: bool = False

    @cached_property
    def id(self) -> str:
        """Spark's id of the query: the same after each restart from its checkpoint."""
        return str(self.query.id)

    @property
    def status(self) -> Status:
        """How it is."""
        if self.query.isActive:
            return "running"
        if self._java.exception().isDefined():
            return "failed"
        return "stopped" if self.was_stopped else "finished"

    @property
    def _java(self) -> Any:
        return self.query._jsq  # noqa: SLF001 - PySpark's handle into the JVM

    def error(self) -> TemporalSqlError | None:
        """Why it failed, as an error of ours; None where it did not."""
        found = self._java.exception()
        return failure_of(self.name, found.get(), self.failures) if found.isDefined() else None

    def refresh(self) -> Totals:
        """The totals with all that Spark has reported by now."""
        unseen: list[str] = []
        for progress in reversed(list(self._java.recentProgress())):
            if int(progress.batchId()) <= self.totals.batch_id:
                break
            unseen.append(str(progress.json()))
        for report in reversed(unseen):  # a micro-batch counts only behind those before it
            self.totals.fold(report)
        return self.totals

    def is_in_batch(self) -> bool:
        """Whether a micro-batch is being computed now."""
        return self.query.isActive and bool(self._java.status().isTriggerActive())

    def is_starting(self) -> bool:
        """Whether it has not looked at its sources yet."""
        return self.query.isActive and str(self._java.status().message()).startswith("Initializing")

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it ends; whether it has.

        Raises:
            TemporalSqlError: it failed.
        """
        waited = threading.Event()
        left = float("inf") if seconds is None else seconds
        while self.query.isActive and left > 0:
            waited.wait(_LOOK_SECONDS)
            left -= _LOOK_SECONDS
        error = self.error()
        if error is not None:
            raise error
        return not self.query.isActive

    def stop(self) -> None:
        """Stop it between two micro-batches: the running one is finished and committed first."""
        batch, waited = self.refresh().batch_id, threading.Event()
        while self.is_in_batch() and self.refresh().batch_id == batch:
            waited.wait(_LOOK_SECONDS)
        self.was_stopped = self.was_stopped or self.query.isActive
        self.query.stop()
        self.refresh()


class Keeper(Protocol):
    """Who wants to know which queries are to run: a server starts them again when it comes back."""

    def started(self, spark: SparkSession, statement: StreamingTable, query: RunningQuery) -> None:
        """A statement has started a query."""

    def stopped(self, query: RunningQuery) -> None:
        """A statement has stopped a query."""


class Registry:
    """The queries of one Spark application, by name.

    Attributes:
        keeper: who wants to know of starts and stops by statements.
    """

    keeper: Keeper | None = None

    def __init__(self) -> None:
        self._queries: dict[str, RunningQuery] = {}
        self._lock = threading.Lock()

    def add(self, query: RunningQuery) -> None:
        """Note a query; one of the same name that ended before is forgotten."""
        with self._lock:
            self._queries[query.name.lower()] = query

    def find(self, name: str) -> RunningQuery | None:
        """The query of that qualified name."""
        return self._queries.get(name.lower())

    def forget(self, name: str) -> None:
        """Drop a query from the list."""
        with self._lock:
            self._queries.pop(name.lower(), None)

    def all(self) -> list[RunningQuery]:
        """All queries, in the order of their start."""
        return sorted(self._queries.values(), key=lambda query: query.started)

    def by_id(self, identity: str) -> RunningQuery | None:
        """The query with that id of Spark's."""
        return next((query for query in self.all() if query.id == identity), None)


_registries: WeakKeyDictionary[Any, Registry] = WeakKeyDictionary()
_making = threading.Lock()


def registry(context: SparkContext) -> Registry:
    """The queries of an application."""
    with _making:
        return _registries.setdefault(context, Registry())
