"""What a micro-batch of a live join takes with its checkpoint and its table on a disk, on HDFS, and where renames copy.

    python -m benchmarks.places                            a hundred thousand versions, thirty micro-batches each
    python -m benchmarks.places --keys 2000000 --batches 10

HDFS is a real one, of one machine. The file system where renames copy has the manners of an object store: each write
takes 50 ms. All rows are counted in the end.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.live_join import JoinFiles, query_of
from benchmarks.spark_ways import session
from tests.harness.hdfs import Hdfs
from tests.harness.slow import slow_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Where the state is: changelogs are on disks only.
STORE, CHANGELOG = "store", "changelog"
DISK: Final = "a disk"
#: Of a micro-batch: the rows, and the logs of what it reads and that it is done.
PARTS: Final = {"addBatch": "rows s", "walCommit": "log of offsets s", "commitOffsets": "log of commits s"}
_WARM: Final = 5


@dataclass(frozen=True)
class Found:
    """What was measured in one place.

    Attributes:
        seconds: from a file of orders to its commit, of each micro-batch.
        parts: what Spark says of its parts, median seconds: `PARTS`.
        wrong: rows missing, doubled or wrong.
    """

    seconds: list[float]
    parts: dict[str, float]
    wrong: int


def measure(spark: SparkSession, files: JoinFiles, batches: int) -> Found:
    """Run the join in one place."""
    for statement in files.statements:
        spark.sql(statement.replace("CREATE TEMPORARY", "CREATE OR REPLACE TEMPORARY"))
    query = query_of(spark)
    for _ in range(_WARM):
        files.answer_one_more(query)
    seconds = [files.answer_one_more(query) for _ in range(batches)]
    durations = [one.durationMs for one in query.recentProgress[-batches:]]
    parts = {name: statistics.median(one.get(name, 0) for one in durations) / 1000 for name in PARTS}
    spark.sql("STOP STREAMING QUERY joined")
    wrong = wrong_rows(spark, files)
    spark.sql("DROP TABLE joined")
    return Found(seconds, parts, wrong)


def wrong_rows(spark: SparkSession, files: JoinFiles) -> int:
    """How many rows are missing, too many, or wrong: each has the rate of its key."""
    found, wanted = spark.read.parquet(f"{files.kept}/joined"), spark.read.parquet(f"{files.folder}/orders")
    counts = found.join(wanted.selectExpr("id", "k AS rate"), ["id", "rate"]).count(), found.count()
    return sum(abs(count - files.fed * files.rows) for count in counts)


def table(found: Mapping[tuple[str, str], Found]) -> Table:
    """A line for each place, beside the disk with its state in the same place."""
    head = ("checkpoint and table on", "state", "median s", "p95 s", "most s", "beyond a disk s")
    shown = Table(*head, *PARTS.values(), "wrong rows")
    for (name, backend), one in found.items():
        median, *others = report.spread_of(one.seconds)
        usual, *_ = report.spread_of(found[DISK, backend].seconds)
        cells = [f"{value:.2f}" for value in (median, *others, median - usual, *one.parts.values())]
        shown.add_row(name, backend, *cells, str(one.wrong))
    return shown


def main(
    keys: Annotated[int, typer.Option(help="Versions in the state.", min=1_000)] = 100_000,
    rows: Annotated[int, typer.Option(help="Orders of each micro-batch.", min=1)] = 10_000,
    batches: Annotated[int, typer.Option(help="Micro-batches that count, in each place.", min=1)] = 30,
    conf: Annotated[list[str] | None, typer.Option(help="KEY=VALUE, further settings of Spark.")] = None,
) -> None:
    """Run the same join in each place, and print what its micro-batches take."""
    console, found = Console(), dict[tuple[str, str], Found]()
    with tempfile.TemporaryDirectory(prefix="places_") as folder:
        home = Path(folder)
        (home / "classes").mkdir()
        (home / "hdfs").mkdir()
        further = dict(one.partition("=")[::2] for one in conf or ())
        spark, hdfs = session({**slow_conf(home / "classes"), **further}), Hdfs(home / "hdfs")
        places = (
            (DISK, CHANGELOG, ""),
            (DISK, STORE, ""),
            ("HDFS", STORE, hdfs.url),
            ("slow:// (renames copy)", STORE, "slow://"),
        )
        try:
            for number, (name, backend, scheme) in enumerate(places):
                own = home / str(number)
                own.mkdir()
                spark.conf.set("sqlx.state_backend", backend)
                found[name, backend] = measure(spark, JoinFiles(own, keys, rows, scheme), batches)
                console.print(f"{name}, {backend}: {found[name, backend].wrong} rows wrong")
        finally:
            spark.stop()
            hdfs.stop()
    console.print(table(found))


if __name__ == "__main__":
    typer.run(main)
