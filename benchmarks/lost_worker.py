"""What a live join on a cluster pays for a worker that is killed: seeded kills of a standalone cluster's workers.

    python -m benchmarks.lost_worker                       three workers, two million versions, 100 kills
    python -m benchmarks.lost_worker --kills 5 --keys 100000

In the middle of a micro-batch one of three workers is killed with all that it started, and later another one is added.
Of each kill is counted how long results stood still, and how many tasks were restored whose worker had lived on (none
should be); all rows are counted in the end. What Spark takes to know of a loss is its own: that the worker is gone,
and, where the files of the shuffle were there, that those are. The latter is in Spark's event log.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.live_join import FROM_FILES, JoinFiles, query_of, wait
from tests.harness.standalone import Cluster, cluster_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WORKERS: Final = 3
TASKS: Final = 6
_FAILED_READ: Final = '"FetchFailed"'
_WARM: Final = 4
_NORMAL: Final = 3


@dataclass(frozen=True)
class Kill:
    """One kill.

    Attributes:
        usual_s: a micro-batch before it, the median.
        stall_s: from the kill to the next commit.
        began_ms: when it was, since the epoch.
        detected_s: from the kill until Spark knew.
        files_s: from the kill until Spark knew that files of the shuffle were lost; 0 where none was.
        lost: tasks of the worker that was killed.
        unasked: tasks that were restored in the micro-batches before it, when nothing was lost.
        restored: tasks that were restored after it.
        moved: tasks that left another worker.
        taken: tasks that the worker has, some micro-batches later, which was added then.
    """

    usual_s: float
    stall_s: float
    began_ms: float
    detected_s: float
    lost: int
    unasked: int
    restored: int
    moved: int
    taken: int
    files_s: float = 0.0

    @property
    def over(self) -> float:
        """How many usual micro-batches results stood still, without what Spark took to know."""
        return (self.stall_s - max(self.detected_s, self.files_s)) / self.usual_s

    def with_files(self, failed_ms: list[float]) -> Kill:
        """The same, when the failures of reading such files are known."""
        since = [(failed - self.began_ms) / 1000 for failed in failed_ms]
        return replace(self, files_s=max((one for one in since if 0 < one < self.stall_s), default=0.0))


@dataclass
class Run:
    """The query, and the cluster that it is on.

    Attributes:
        alive: numbers of the workers that live.
    """

    spark: SparkSession
    cluster: Cluster
    files: JoinFiles
    query: StreamingQuery
    alive: list[int] = field(default_factory=lambda: list(range(WORKERS)))

    def kill_one(self, chance: random.Random) -> Kill:
        """Kill a worker in the middle of a micro-batch, see the query go on, and add another one."""
        first = self.last_commit()
        usual = statistics.median(self.files.answer_one_more(self.query) for _ in range(_NORMAL))
        unasked = self.restored_after(first)
        before = self.executor_of_each_task()
        victim = self.alive.pop(chance.randrange(len(self.alive)))
        gone = self.executor_on(victim)
        self.files.feed()
        time.sleep(chance.uniform(0.0, usual))
        last = self.last_commit()
        self.cluster.kill_worker(victim)
        began, began_ms = time.monotonic(), time.time() * 1000
        self.files.feed()
        wait(lambda: gone not in self.executors())
        detected = time.monotonic() - began
        wait(lambda: self.last_commit() > last)
        stall = time.monotonic() - began
        self.query.processAllAvailable()
        after = self.executor_of_each_task()
        restored = self.restored_after(last)
        taken = self.add_one()
        lost = [task for task, executor in before.items() if executor == gone]
        moved = [task for task, executor in before.items() if task not in lost and after[task] != executor]
        return Kill(usual, stall, began_ms, detected, len(lost), unasked, restored, len(moved), taken)

    def add_one(self) -> int:
        """One more worker; how many tasks it has after some micro-batches."""
        self.cluster.add_worker()
        self.alive.append(len(self.cluster.workers) - 1)
        wait(lambda: len(self.executors()) == WORKERS)
        for _ in range(_WARM):
            self.files.answer_one_more(self.query)
        return list(self.executor_of_each_task().values()).count(self.executor_on(self.alive[-1]))

    def last_commit(self) -> int:
        """The number of the last micro-batch that was committed."""
        names = [path.name for path in (self.files.folder / "checkpoint/commits").iterdir()]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def restored_after(self, batch: int) -> int:
        """How many tasks were read from the checkpoint after that micro-batch."""
        observed = [one.observedMetrics.get("as_of_join_1") for one in self.query.recentProgress if one.batchId > batch]
        return sum(int(one[name]) for one in observed if one is not None for name in FROM_FILES)

    def executors(self) -> set[str]:
        """The numbers of the executors that Spark takes to be alive."""
        found = self._status.executorList(True)
        return {str(found.apply(n).id()) for n in range(found.size())} - {"driver"}

    def executor_on(self, worker: int) -> str:
        """The number of the executor of a worker: it has a folder of that name there."""
        folders = (self.cluster.home / f"worker{worker}").glob("app-*/*")
        return max((path.name for path in folders), key=int)

    def executor_of_each_task(self) -> dict[int, str]:
        """Per task the executor that had it in the last micro-batch: of the stage that ends last."""
        tracker = self.spark.sparkContext.statusTracker()
        job = max(tracker.getJobIdsForGroup(str(self.query.runId)))
        info = tracker.getJobInfo(job)
        assert info is not None, "it has just run"
        stage = max(info.stageIds)
        attempt = self._status.lastStageAttempt(stage).attemptId()
        tasks = self._status.taskList(stage, attempt, 10 * TASKS)
        found = (tasks.apply(n) for n in range(tasks.size()))
        return {int(one.index()): str(one.executorId()) for one in found if one.status() == "SUCCESS"}

    @property
    def _status(self) -> Any:
        context: Any = self.spark.sparkContext
        return context._jsc.sc().statusStore()


def failed_reads_ms(events: Path) -> list[float]:
    """When tasks failed to read files of a shuffle, by Spark's event log."""
    (log,) = (path for path in events.rglob("*") if path.is_file() and "appstatus" not in path.name)
    ended = (json.loads(line) for line in log.open(encoding="utf-8") if _FAILED_READ in line)
    return [float(one["Task Info"]["Finish Time"]) for one in ended if one["Event"] == "SparkListenerTaskEnd"]


def table(kills: list[Kill]) -> Table:
    """What was measured, and what it should be."""

    def cells(values: list[float]) -> list[str]:
        return [f"{value:.2f}" for value in report.spread_of(values)]

    shown = Table("of each kill", "median", "p95", "most")
    shown.add_row("a usual micro-batch before, s", *cells([one.usual_s for one in kills]))
    shown.add_row("until Spark knew, s", *cells([one.detected_s for one in kills]))
    shown.add_row("until it knew that files were lost, s", *cells([one.files_s for one in kills]))
    shown.add_row("from the kill to the next commit, s", *cells([one.stall_s for one in kills]))
    shown.add_row("that without Spark's own, in usual micro-batches (at most 2)", *cells([one.over for one in kills]))
    shown.add_row("tasks of the worker", *cells([one.lost for one in kills]))
    shown.add_row("tasks restored in three micro-batches before (0)", *cells([one.unasked for one in kills]))
    shown.add_row("tasks restored beyond those (0)", *cells([max(0, one.restored - one.lost) for one in kills]))
    shown.add_row("tasks that left another worker (0)", *cells([one.moved for one in kills]))
    shown.add_row("tasks that the added worker took", *cells([one.taken for one in kills]))
    return shown


def main(
    keys: Annotated[int, typer.Option(help="Versions in the state.", min=1_000)] = 2_000_000,
    rows: Annotated[int, typer.Option(help="Orders of each micro-batch.", min=1)] = 100_000,
    kills: Annotated[int, typer.Option(help="How often a worker is killed.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="Which worker is killed, and when.")] = 1,
) -> None:
    """Kill workers again and again, and print what it cost."""
    import sqlx

    console, found, chance = Console(), list[Kill](), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="lost_worker_") as folder:
        home, files, events = (Path(folder, name) for name in ("cluster", "files", "events"))
        for one in (home, files, events):
            one.mkdir()
        with cluster_of(home, Path(sys.executable), WORKERS, is_apart=True) as cluster:
            conf = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "2g"}
            conf |= {"spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.sql.shuffle.partitions": str(TASKS)}
            conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
            conf |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
            spark = sqlx.session(app="lost worker", master=cluster.url, conf=conf | {"sqlx.tasks": str(TASKS)})
            join = JoinFiles(files, keys, rows)
            join.feed()
            for statement in join.statements:
                spark.sql(statement)
            run = Run(spark, cluster, join, query_of(spark))
            for _ in range(_WARM):
                join.answer_one_more(run.query)
            for number in range(kills):
                found.append(run.kill_one(chance))
                console.print(f"kill {number + 1}: {found[-1]}", soft_wrap=True)
            run.query.stop()
            wrong = join.wrong()
            spark.stop()
        failed = failed_reads_ms(events)
    console.print(table([one.with_files(failed) for one in found]))
    console.print(f"{join.fed * join.rows:,} rows, {wrong} of them missing, doubled or wrong")


if __name__ == "__main__":
    typer.run(main)
