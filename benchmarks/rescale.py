"""How long a stream stands still when its tasks are spread over another number of partitions while it runs.

    python -m benchmarks.rescale                           two million versions, 2 to 16 partitions and back, five times

A live AS OF join, whose state is millions of versions, in both places that state can be. Orders come all the while; all
rows are counted in the end.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.live_join import JoinFiles, query_of
from benchmarks.spark_ways import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BACKENDS: Final = ("changelog", "store")
FEW, MANY = 2, 16
_NORMAL: Final = 3


@dataclass
class Found:
    """What was measured with the state in one place.

    Attributes:
        normal: seconds from a file of orders to its commit, of micro-batches before a move.
        pauses: per direction, seconds that the statement says the query did not run.
        stalls: per direction, seconds from the statement to the first new row committed.
        wrong: rows missing, doubled or wrong.
    """

    normal: list[float] = field(default_factory=list)
    pauses: dict[str, list[float]] = field(default_factory=dict)
    stalls: dict[str, list[float]] = field(default_factory=dict)
    wrong: int = 0


def measure(spark: SparkSession, backend: str, files: JoinFiles, times: int, console: Console) -> Found:
    """Move the tasks of one query to and fro."""
    found = Found()
    spark.conf.set("sqlx.state_backend", backend)
    for statement in files.statements:
        spark.sql(statement.replace("CREATE TEMPORARY", "CREATE OR REPLACE TEMPORARY"))
    files.answer_one_more(query_of(spark))
    for _ in range(times):
        for before, after in ((FEW, MANY), (MANY, FEW)):
            for _ in range(_NORMAL):
                found.normal.append(files.answer_one_more(query_of(spark)))
            began, way = time.monotonic(), f"{before} to {after}"
            (row,) = spark.sql(f"ALTER STREAMING QUERY joined SET PARTITIONS {after}").collect()
            files.answer_one_more(query_of(spark))
            found.stalls.setdefault(way, []).append(time.monotonic() - began)
            found.pauses.setdefault(way, []).append(int(row["pause"].removesuffix(" ms")) / 1000)
            console.print(f"{backend}, {way}: {found.stalls[way][-1]:.1f} s, {found.pauses[way][-1]:.1f} of pause")
    spark.sql("STOP STREAMING QUERY joined")
    found.wrong = files.wrong()
    spark.sql("DROP TABLE joined")
    return found


def table(found: dict[str, Found]) -> Table:
    """A line for each place of the state and direction."""
    shown = Table(
        "state", "partitions", "pause s", "most s", "statement to first new row s", "most s", "usual s", "wrong"
    )
    for backend, one in found.items():
        usual = f"{statistics.median(one.normal):.2f}"
        for way, pauses in one.pauses.items():
            cells = [f"{value:.1f}" for of in (pauses, one.stalls[way]) for value in (statistics.median(of), max(of))]
            shown.add_row(backend, way, *cells, usual, str(one.wrong))
    return shown


def main(
    keys: Annotated[int, typer.Option(help="Versions in the state.", min=1_000)] = 2_000_000,
    times: Annotated[int, typer.Option(help="How often tasks move there and back.", min=1)] = 5,
) -> None:
    """Move the tasks of a running query, and print how long it stood still."""
    console, found = Console(), {}
    spark = session()
    try:
        for backend in BACKENDS:
            with tempfile.TemporaryDirectory(prefix="rescale_") as folder:
                found[backend] = measure(spark, backend, JoinFiles(Path(folder), keys), times, console)
    finally:
        spark.stop()
    console.print(table(found))


if __name__ == "__main__":
    typer.run(main)
