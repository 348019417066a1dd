"""What a live join costs on a cluster beside one machine: processor time, where states come from, and memory.

    python -m benchmarks.cluster                           three workers of two cores, two million versions
    python -m benchmarks.cluster --keys 100000 --batches 5 --backend changelog
    python -m benchmarks.cluster --warm 50                 the same in Java processes that have compiled what they run

Each way runs in a process of its own: a session on one machine, and a standalone cluster on loopback. What the workers'
Pythons take for the state is the difference to the same query over hardly any. What a cluster costs whoever uses it is
seen by two of Spark's own queries over the same files: rows through a shuffle and a Python worker, and one with state.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.live_join import FROM_FILES, JoinFiles, query_of
from benchmarks.measure import Clock, in_own_process, processes, proportional_bytes
from benchmarks.stream_ways import FLOOR, OURS, YARDSTICK, through_python, with_settings
from tests.harness.standalone import cluster_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WORKERS, CORES = 3, 2
FEW_KEYS: Final = 1_000
LOCAL, CLUSTER, FEW = "one machine", "cluster", "cluster, few"
#: Spark's own ways, which answer less: what a cluster costs them is what it costs anybody.
SPARKS: Final = (FLOOR, YARDSTICK)
_REMEMBERED: Final = "1 day"
_DAEMON: Final = b"pyspark.daemon"


@dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
        way: ours, or one of Spark's own over the same files.
        backend: where our state is.
        is_cluster: on workers, not in this process.
        keys: versions in the state.
        rows: orders of each micro-batch.
        batches: how many micro-batches count.
        warm: how many come before those.
    """

    way: str
    backend: str
    is_cluster: bool
    keys: int
    rows: int
    batches: int
    warm: int


@dataclass(frozen=True)
class Found:
    """What was measured.

    Attributes:
        cpu_seconds: of all processes, for the micro-batches that count.
        seconds: the same on the wall.
        from_memory: how many times a task's state was there.
        from_files: how many times it was read from the checkpoint.
        state_bytes: of all tasks, in memory; of ours alone.
        python_bytes: of the Python processes that Spark started, a page that several share counted once.
        wrong: rows missing, doubled or wrong.
    """

    cpu_seconds: float
    seconds: float
    from_memory: int
    from_files: int
    state_bytes: int
    python_bytes: int
    wrong: int


def measure(plan: Plan) -> Found:
    """Run the join, and stop it; in a process that nothing else was measured in."""
    with tempfile.TemporaryDirectory(prefix="cluster_") as folder, _session(plan, Path(folder)) as spark:
        (home := Path(folder, "files")).mkdir()
        files = JoinFiles(home, plan.keys, plan.rows)
        return _run(spark, files, plan)


@contextmanager
def _session(plan: Plan, folder: Path) -> Iterator[SparkSession]:
    import sqlx

    conf = {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.driver.memory": "2g"}
    conf |= {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
    if not plan.is_cluster:
        spark = sqlx.session(app="cluster", master=f"local[{CORES}]", conf=conf)
        yield spark
        spark.stop()
        return
    (home := folder / "cluster").mkdir()
    with cluster_of(home, Path(sys.executable), WORKERS, CORES) as cluster:
        spark = sqlx.session(app="cluster", master=cluster.url, conf=conf)
        yield spark
        spark.stop()


def _run(spark: SparkSession, files: JoinFiles, plan: Plan) -> Found:
    files.feed()
    query = _started(spark, files, plan)

    for _ in range(plan.warm):
        files.answer_one_more(query)
    before = max(one.batchId for one in query.recentProgress)
    with Clock() as clock:
        for _ in range(plan.batches):
            files.answer_one_more(query)
    python_bytes = python_memory()
    observed = [one.observedMetrics.get("as_of_join_1") for one in query.recentProgress if one.batchId > before]
    counted = [one for one in observed if one is not None and one["rows_in"]]
    query.stop()
    return Found(
        clock.cpu_seconds,
        clock.seconds,
        sum(int(one["restored_cache"]) for one in counted),
        sum(int(one[name]) for one in counted for name in FROM_FILES),
        int(counted[-1]["state_bytes"]) if counted else 0,
        python_bytes,
        files.wrong(),
    )


def _started(spark: SparkSession, files: JoinFiles, plan: Plan) -> StreamingQuery:
    if plan.way == OURS:
        spark.conf.set("sqlx.state_backend", plan.backend)
        for statement in files.statements:
            spark.sql(statement)
        return query_of(spark)
    writer = _of_spark(with_settings(spark), files, plan.way).writeStream.format("parquet")
    return writer.option("checkpointLocation", f"{files.kept}/checkpoint").start(f"{files.kept}/joined")


def _of_spark(spark: SparkSession, files: JoinFiles, way: str) -> DataFrame:
    """One of Spark's own over both sides; each order comes out with its key, as which the check knows its rate."""
    orders = spark.readStream.schema("id bigint, k bigint, ts timestamp").option("maxFilesPerTrigger", 1)
    rates = spark.readStream.schema("k bigint, at timestamp, rate bigint")
    both = orders.parquet(f"{files.kept}/orders").unionAll(
        rates.parquet(f"{files.kept}/rates").selectExpr("CAST(NULL AS BIGINT) AS id", "k", "at AS ts")
    )
    if way == YARDSTICK:
        found = both.withWatermark("ts", _REMEMBERED).dropDuplicatesWithinWatermark(["id", "k"])
    else:
        found = through_python(both)
    return found.where("id IS NOT NULL").selectExpr("id", "k AS rate")


def python_memory() -> int:
    """What the Python processes take that Spark started below this process."""
    tree = processes(os.getpid())
    return sum(proportional_bytes(process, resident) for process, resident in tree.items() if _is_worker(process))


def _is_worker(process: int) -> bool:
    try:
        return _DAEMON in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False  # it has ended


def bars(local: Found, cluster: Found, few: Found, *spark: Found) -> list[report.Bar]:
    """What was wanted of a cluster; what it costs Spark's own ways, each on one machine and on the cluster."""
    taken = cluster.from_memory + cluster.from_files
    return [
        report.ratio("CPU s a row against one machine", cluster.cpu_seconds, local.cpu_seconds, -1.15),
        report.Bar("states that were in memory", 100 * cluster.from_memory / taken, 99.0, "%"),
        report.ratio("memory for the state", cluster.python_bytes - few.python_bytes, cluster.state_bytes, -1.3),
        *(
            report.ratio(f"CPU s a row of {way}", there.cpu_seconds, here.cpu_seconds, -1.15)
            for way, here, there in zip(SPARKS, spark[::2], spark[1::2], strict=True)
        ),
    ]


def table(found: dict[str, Found], rows: int) -> Table:
    """A line for each way, of which so many rows were measured."""
    shown = Table("way", "CPU s/M rows", "s/M rows", "from memory", "files", "state MB", "Python MB", "wrong")
    for way, one in found.items():
        seconds = [f"{value / rows * 1e6:.1f}" for value in (one.cpu_seconds, one.seconds)]
        sizes = [f"{value / 1e6:.0f}" for value in (one.state_bytes, one.python_bytes)]
        shown.add_row(way, *seconds, str(one.from_memory), str(one.from_files), *sizes, str(one.wrong))
    return shown


def main(
    keys: Annotated[int, typer.Option(help="Versions in the state.", min=FEW_KEYS)] = 2_000_000,
    rows: Annotated[int, typer.Option(help="Orders of each micro-batch.", min=1)] = 200_000,
    batches: Annotated[int, typer.Option(help="How many micro-batches count.", min=1)] = 20,
    warm: Annotated[int, typer.Option(help="How many come before those: Java compiles for long.", min=1)] = 4,
    backend: Annotated[
        str, typer.Option(help="Where the state is: store, as clusters have it, or changelog.")
    ] = "store",
) -> None:
    """Run a live join on one machine and on a cluster, and print what it cost."""
    console, found = Console(), dict[str, Found]()
    ways = {LOCAL: (OURS, False, keys), CLUSTER: (OURS, True, keys), FEW: (OURS, True, FEW_KEYS)}
    ways |= {f"{way}, {place}": (way, place == CLUSTER, keys) for way in SPARKS for place in (LOCAL, CLUSTER)}
    for way, (what, is_cluster, versions) in ways.items():
        found[way] = in_own_process(measure, Plan(what, backend, is_cluster, versions, rows, batches, warm))
        console.print(f"{way}: {found[way]}", soft_wrap=True)
    console.print(report.bars_table(bars(*found.values())))
    console.print(table(found, rows * batches))


if __name__ == "__main__":
    typer.run(main)
