"""Live joins and groups of tables side by side with the live AS OF join over the same rows; answers are checked.

    python -m benchmarks.tables            all of it: about ten minutes on two cores
    python -m benchmarks.tables --quick    small data: whether it works, not what it costs

All ways run in one process, one after the other, over the same files: one per side and micro-batch. A way counts only
when the rows that its last changes leave are those of DuckDB over the current rows of both tables.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb
import numpy as np
import pyarrow as pa
import typer
from pyspark import cloudpickle
from rich.console import Console
from rich.table import Table

from benchmarks import report, tables_per_key
from benchmarks.data import Inputs
from benchmarks.spark_ways import session
from benchmarks.stream_data import BATCH_SPAN_US, times_within, write
from benchmarks.stream_measure import PARQUET, Live, in_turns, measure_live
from benchmarks.stream_ways import with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_START_US = 1_700_000_000_000_000
_CACHE = Path(".cache/benchmarks")
_SCHEMA = "k bigint, ts timestamp, f bigint, g int, v bigint"
_SOURCE = "USING parquet OPTIONS (path '{path}', maxFilesPerTrigger '1')"

AS_OF, CORRECTED, PRIMARY, FOREIGN, GROUPS, BY_KEY = (
    "AS OF join",
    "AS OF join with EMIT CORRECTIONS",
    "join by primary key",
    "join by foreign key",
    "groups of a table",
    "join by primary key, transformWithStateInPandas",
)
#: Per way its query; DuckDB runs the same over the current rows.
QUERIES = {
    PRIMARY: "SELECT a.k, a.v AS x, b.v AS y FROM {stream}a JOIN b ON a.k = b.k",
    FOREIGN: "SELECT a.k, a.v AS x, b.v AS y FROM {stream}a JOIN b ON a.f = b.k",
    GROUPS: "SELECT g AS k, count(*) AS x, sum(v) AS y FROM {stream}a GROUP BY g",
}
_JOINED = "SELECT a.k, a.v AS x, b.v AS y FROM STREAM a LEFT JOIN b AS OF a.ts ON a.k = b.k"
#: The same over all rows, for DuckDB.
_OVER_ALL = "SELECT a.k, a.v AS x, b.v AS y FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.ts >= b.ts"
CHECKED = {*QUERIES, CORRECTED}
cloudpickle.register_pickle_by_value(tables_per_key)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Case:
    """Two tables of updates.

    Attributes:
        keys: of each table.
        batch_rows: updates in a micro-batch, of both tables together.
        batches: how many micro-batches.
        groups: values of the grouping column.
        left_share: how many of the updates are of the left table, 0 to 1.
    """

    keys: int
    batch_rows: int
    batches: int
    groups: int = 1_000
    left_share: float = 0.5


FULL = Case(200_000, 250_000, 20)
QUICK = Case(1_000, 4_000, 4)
#: A call and a state for each key is slow: fewer keys and rows, as many rows of a key in a micro-batch.
PER_KEY = Case(2_000, 2_500, 4)


def make(case: Case, folder: Path) -> Inputs:
    """Write the updates of both tables, in event time, unless they are there already."""
    home = folder / f"tables_{case.keys}_{case.batch_rows}_{case.batches}_{case.left_share}"
    inputs, random = Inputs(home / "a", home / "b"), np.random.default_rng(7)
    if not (home / "done").exists():
        for number in range(case.batches):
            times = _START_US + number * BATCH_SPAN_US + times_within(case.batch_rows, random)
            is_left = random.random(case.batch_rows) < case.left_share
            write(inputs, number, _updates(case, times[is_left], random), _updates(case, times[~is_left], random))
        (home / "done").touch()
    return inputs


def _updates(case: Case, times: np.ndarray, random: np.random.Generator) -> pa.Table:
    """A tenth of them deletes its key."""
    rows = len(times)
    value = pa.array(random.integers(0, 1_000, rows), mask=random.random(rows) < 0.1)
    return pa.table(
        {
            "k": random.integers(0, case.keys, rows),
            "ts": pa.array(times.astype(np.int64)).cast(pa.timestamp("us", "UTC")),
            "f": random.integers(0, case.keys, rows),
            "g": pa.array(random.integers(0, case.groups, rows), pa.int32()),
            "v": value,
        }
    )


def frame_of(spark: SparkSession, inputs: Inputs, way: str) -> DataFrame:
    """The streaming result of a way, in a session of its own."""
    spark = with_settings(spark)
    is_as_of = way in (AS_OF, CORRECTED)
    kind = "VERSIONED" if is_as_of else "UPSERT"
    for name, path in (("a", inputs.left), ("b", inputs.right)):
        source = _SOURCE.format(path=path)
        if is_as_of and name == "a":
            spark.sql(f"CREATE OR REPLACE TEMPORARY STREAM a ({_SCHEMA}) {source} TIMESTAMP BY ts")
        else:
            spark.sql(
                f"CREATE OR REPLACE TEMPORARY {kind} TABLE {name} ({_SCHEMA}) {source} KEYS (k) TIMESTAMP BY ts"
                f" APPLY AS DELETE WHEN v IS NULL{' HISTORY RETENTION INTERVAL 1 HOUR' if kind == 'VERSIONED' else ''}"
            )
    if is_as_of:
        return spark.sql(f"{_JOINED} EMIT CORRECTIONS" if way == CORRECTED else _JOINED)
    if way == BY_KEY:
        sides = [_raw(spark, path, side) for side, path in enumerate((inputs.left, inputs.right))]
        processor = tables_per_key.JoinByKey()
        grouped = sides[0].union(sides[1]).groupBy("k")
        return grouped.transformWithStateInPandas(processor, tables_per_key.OUTPUT, "Append", "None")
    return spark.sql(QUERIES[way].format(stream="STREAM ") + " EMIT CHANGES AS CHANGELOG")


def _raw(spark: SparkSession, path: Path, side: int) -> DataFrame:
    rows = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(path))
    return rows.selectExpr("k", "ts", "v", f"{side} AS side")


def reference(inputs: Inputs, way: str) -> str:
    """What DuckDB answers over the current rows (of an AS OF join: over all), in one line."""
    with duckdb.connect() as connection:
        if way == CORRECTED:
            for name, path in (("a", inputs.left), ("b", inputs.right)):
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{path}/*.parquet'")
            return _summed(connection, f"SELECT *, 1 AS w FROM ({_OVER_ALL})")
        for name, path in (("a", inputs.left), ("b", inputs.right)):
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * FROM (SELECT k, max_by(f, ts) AS f, max_by(g, ts) AS g,"
                f" arg_max_null(v, ts) AS v FROM '{path}/*.parquet' GROUP BY k) WHERE v IS NOT NULL"
            )
        return _summed(connection, f"SELECT *, 1 AS w FROM ({QUERIES[way].format(stream='')})")


def left(folder: Path) -> str:
    """What all changes leave, in one line: each adds or removes a row, in whatever order."""
    weight = "CASE WHEN _change_type IN ('insert', 'update_after') THEN 1 ELSE -1 END"
    with duckdb.connect() as connection:
        return _summed(connection, f"SELECT k, x, y, {weight} AS w FROM '{folder}/*.parquet'")


def _summed(connection: duckdb.DuckDBPyConnection, query: str) -> str:
    found = connection.execute(f"SELECT sum(w), sum(w * hash(k, x, y)::HUGEINT) FROM ({query})").fetchone()
    return str(found)


def measured(spark: SparkSession, case: Case, folder: Path) -> Callable[[str], Live]:
    """One run of a way over a case."""

    def measure(way: str) -> Live:
        shown = replace(case, left_share=1.0) if way == GROUPS else case  # it reads one table
        inputs = make(PER_KEY if way == BY_KEY else shown, folder)
        with tempfile.TemporaryDirectory(prefix="tables_") as place:
            found = measure_live(frame_of(spark, inputs, way), Path(place) / "query", PARQUET, way in CHECKED, left)
        if way in CHECKED and found.answer != reference(inputs, way):
            return Live(answer=found.answer, note="WRONG ANSWER")
        return found

    return measure


def bars(results: dict[str, Live]) -> list[report.Bar]:
    """The bars that the project set itself."""
    rates = {way: found.rate for way, found in results.items()}
    as_of, by_key = rates[AS_OF], rates[BY_KEY]
    limits = {PRIMARY: 0.5, GROUPS: 0.5, FOREIGN: 0.25}
    limits[CORRECTED] = 1 / 1.5
    found = [report.ratio(f"{way}: rows/s against the {AS_OF}", rates[way], as_of, limits[way]) for way in limits]
    del limits[CORRECTED]
    return found + [report.ratio(f"{way}: rows/s against {BY_KEY}", rates[way], by_key, 50) for way in limits]


def shown(results: dict[str, Live]) -> Table:
    """What each way took."""
    table = Table("way", "rows/s", "s a micro-batch", "least", "most", "state bytes a row", "peak GB", "")
    for way, found in results.items():
        seconds = [
            f"{value:.2f}"
            for value in (found.median or 0, min(found.seconds, default=0), max(found.seconds, default=0))
        ]
        state = f"{found.state_bytes / found.state_rows:.0f}" if found.state_rows else ""
        table.add_row(way, f"{found.rate or 0:,.0f}", *seconds, state, f"{found.peak_bytes / 1e9:.1f}", found.note)
    return table


def main(
    quick: Annotated[bool, typer.Option(help="Small data, one round.")] = False,
    rounds: Annotated[int, typer.Option(help="How often all ways run, in turns.", min=1)] = 2,
    batches: Annotated[int | None, typer.Option(help="At most so many micro-batches.")] = None,
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = _CACHE,
    way: Annotated[list[str] | None, typer.Option(help="Only these ways, and no bars.")] = None,
) -> None:
    """Measure and print tables."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    spark = session()
    case = QUICK if quick else FULL
    case = replace(case, batches=min(case.batches, batches or case.batches))
    try:
        measured(spark, QUICK, data)(PRIMARY)  # workers and compiled loops
        measure = measured(spark, case, data)

        def one(way: str) -> Live:
            found = measure(way)
            console.print(f"{way}: {found.rate or 0:,.0f} rows/s; {found.phases_ms} {found.note}", soft_wrap=True)
            return found

        results = in_turns(way or (AS_OF, CORRECTED, PRIMARY, GROUPS, FOREIGN, BY_KEY), rounds, one)
    finally:
        spark.stop()
    console.print(shown(results))
    if not way:
        console.print(report.bars_table(bars(results)))


if __name__ == "__main__":
    typer.run(main)
