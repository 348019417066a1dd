"""On which executor of a cluster each part of a query's state is, and that executors have as many as their cores allow.

Spark lets a task run where its state is, and where that is nowhere, on any core that is free. So the tasks of an
executor that was lost stay with whoever took them, and one that comes gets none. Where a state is Spark asks its
coordinator: another place named there moves that task with the next micro-batch, and no other one.

Why so: docs/design/20261126_placement.md. Source: KIP-429 (cooperative, sticky assignment).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from udtf.engine.java import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: How long a task waits at least, on a cluster, for the executor that has its state.
LEAST_WAIT_MS: Final = 500
_MOST_WAIT_MS: Final = 10_000
_WAIT: Final = "spark.locality.wait"
_OWN_WAIT: Final = "sqlx.locality.wait"
#: On the host of its executor a task is no better off than elsewhere: it does not wait once more for that.
_NO_FURTHER_WAIT: Final = {"spark.locality.wait.node": "0s", "spark.locality.wait.rack": "0s"}
#: How often is looked which executors there are; and, where they are the same and all was even, where states are.
_LOOK_SECONDS: Final = 1.0
_SETTLED_SECONDS: Final = 10.0
#: How often is asked whether an executor is gone: a stage reads the places once, and its tasks wait for those that are.
_WATCH_SECONDS: Final = 0.1
#: So many times longer tasks wait after a loss: behind one whose state is read, which idle executors would outrun.
_RESTORING: Final = 4
_STORE: Final = "default"
_log = logging.getLogger("sqlx")


def moves(
    where: Mapping[int, str | None], cores: Mapping[str, int], named: Collection[int] = frozenset()
) -> dict[int, str]:
    """Which tasks are to go where: the fewest after which nobody has one too many.

    Args:
        where: of each task the executor that has its state; None, or one that is not among `cores`, where nobody has.
        cores: of each executor that lives.
        named: tasks that are on their way to their executor, and go to another one before those that are there.

    >>> moves({0: "a", 1: "a", 2: "a", 3: "lost"}, {"a": 1, "b": 1})
    {3: 'b', 2: 'b'}
    >>> moves({0: "a", 1: "a", 2: "b"}, {"a": 1, "b": 1})
    {}
    >>> moves({0: "a", 1: "a", 2: "a"}, {"a": 1, "b": 1}, named={1})
    {1: 'b'}
    """
    held: dict[str, list[int]] = {executor: [] for executor in sorted(cores)}

    def load(executor: str, more: int) -> float:
        return (len(held[executor]) + more) / cores[executor]

    found, homeless = dict[int, str](), list[int]()
    for task, executor in sorted(where.items(), key=lambda one: (one[0] in named, one[0])):
        held.get(executor or "", homeless).append(task)
    while held:
        least = min(held, key=lambda executor: load(executor, 1))
        most = max(held, key=lambda executor: load(executor, 0))
        if homeless:
            task = homeless.pop()
        elif load(most, -1) >= load(least, 1):
            task = held[most].pop()
        else:
            break
        held[least].append(task)
        found[task] = least
    return found


class StatePlacement:
    """Where the state of a running query is, which is in Spark's state store.

    Args:
        spark: a session with a JVM, on a cluster.
        query: the query.
    """

    def __init__(self, spark: SparkSession, query: StreamingQuery) -> None:
        self._context: Any = spark.sparkContext
        self._java: Any = query._jsq  # noqa: SLF001 - PySpark's handle into the JVM
        self._spark: Any = self._context._jsc.sc()
        self._looked = self._compared = 0.0
        self._even_over: dict[str, int] = {}
        self._moved, self._at_work = 0, threading.Lock()
        self._named: dict[tuple[int, int], tuple[str, int]] = {}
        self._batch_ms, self._lost_after = 0, -2
        threading.Thread(target=self._watch, name="sqlx placement", daemon=True).start()

    def even_out(self, batch_ms: int) -> int:
        """After a micro-batch: name other places where some executors have more tasks than others.

        Args:
            batch_ms: how long micro-batches take. A task waits half as long for its executor, which may have another
                one before it: so long no idle one takes it, and after that what was lost is not waited for.

        Returns:
            How many tasks move, and have since the last time.
        """
        now, self._batch_ms = time.monotonic(), batch_ms
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._look(now)
        with self._at_work:
            moved, self._moved = self._moved, 0
        return moved

    def _watch(self) -> None:
        """Until the query ends: as soon as an executor is gone, its tasks get other places."""
        known = set[str]()
        try:
            while self._java.isActive():
                names = str(self._spark.schedulerBackend().getExecutorIds().mkString(","))
                living = set(names.split(","))
                if known - living:
                    self._look(time.monotonic(), is_lost=True)
                known = living
                time.sleep(_WATCH_SECONDS)
        except (Py4JError, OSError) as error:  # the application has ended
            _log.debug("the executors of a query are not watched any more: %s", error)

    def _look(self, now: float, *, is_lost: bool = False) -> None:
        try:
            with self._at_work:
                progress = self._java.lastProgress()
                if progress is not None:
                    self._compare(progress, now, is_lost=is_lost)
        except Py4JError as error:  # the query has ended, or the application
            _log.debug("the state of a query cannot be spread: %s", error)

    def _compare(self, progress: Any, now: float, *, is_lost: bool) -> None:
        batch = int(progress.batchId())
        self._named = {task: (executor, since) for task, (executor, since) in self._named.items() if batch <= since + 1}
        hosts, cores = self._executors()
        if cores != self._even_over or now - self._compared >= _SETTLED_SECONDS:
            moved, self._compared = self._even_out(progress, batch, hosts, cores), now
            self._even_over = {} if moved else cores
            self._moved += moved
        if is_lost:
            self._lost_after = batch
        self._wait(self._batch_ms * (_RESTORING if batch <= self._lost_after + 1 else 1))

    def _even_out(self, progress: Any, batch: int, hosts: Mapping[str, str], cores: Mapping[str, int]) -> int:
        state = self._context._jvm.org.apache.spark.sql.execution.streaming.state
        coordinator = state.StateStoreCoordinatorRef.forExecutor(self._spark.env())
        folder, run = self._java.streamingQuery().lastExecution().checkpointLocation(), self._java.runId()
        nothing, moved = self._context._jvm.PythonUtils.toSeq(self._context._jvm.java.util.ArrayList()), 0
        for operator, one in enumerate(progress.stateOperators()):
            ids = [
                state.StateStoreProviderId(state.StateStoreId(folder, operator, partition, _STORE), run)
                for partition in range(int(one.numShufflePartitions()))
            ]
            where = {place: _executor_of(coordinator.getLocation(name)) for place, name in enumerate(ids)}
            if not any(where.values()):  # a store of another kind, or nothing has run
                continue
            for place, executor in moves(where, cores, self._on_their_way(operator, where)).items():
                coordinator.reportActiveInstance(ids[place], hosts[executor], executor, nothing)
                self._named[operator, place] = executor, batch
                moved += 1
        return moved

    def _on_their_way(self, operator: int, where: Mapping[int, str | None]) -> set[int]:
        """The tasks that are where they were named, hardly longer than for one micro-batch.

        A stage reads the places when it begins: the micro-batch that ran when one was named may have read another.
        """
        named = {place: executor for (owner, place), (executor, _) in self._named.items() if owner == operator}
        return {place for place, executor in named.items() if where.get(place) == executor}

    def _executors(self) -> tuple[dict[str, str], dict[str, int]]:
        """Of each executor that takes tasks its host, and its cores; none that is being shut down."""
        found, backend = self._spark.statusStore().executorList(True), self._spark.schedulerBackend()
        hosts, cores = dict[str, str](), dict[str, int]()
        for one in (found.apply(number) for number in range(found.size())):
            name, count = str(one.id()), int(one.totalCores())
            if name != "driver" and count and not one.isExcluded() and backend.isExecutorActive(name):
                hosts[name], cores[name] = str(one.hostPort()).rpartition(":")[0], count
        return hosts, cores

    def _wait(self, batch_ms: int) -> None:
        """Let tasks wait, where nobody else has said how long."""
        settings = self._spark.conf()
        wanted = f"{min(max(LEAST_WAIT_MS, batch_ms // 2), _MOST_WAIT_MS)}ms"
        if str(settings.get(_WAIT, "")) != str(settings.get(_OWN_WAIT, f"{LEAST_WAIT_MS}ms")):
            return
        for name, value in {_WAIT: wanted, _OWN_WAIT: wanted}.items():
            settings.set(name, value)
        for name, value in _NO_FURTHER_WAIT.items():
            settings.setIfMissing(name, value)


def _executor_of(location: Any) -> str | None:
    """From a place as the coordinator names it, `executor_<host>_<id>`."""
    return str(location.get()).rpartition("_")[2] if location.isDefined() else None
