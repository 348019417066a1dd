"""The ways to deduplicate bounded rows: ours, what people write today, and the same compiled loop without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Measured, in_own_process, measure
from benchmarks.peers import THREADS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OURS, PANDAS, BUCKETS, FLOOR, UNTOUCHED, POLARS = (
    "ours",
    "applyInPandas by key",
    "ROW_NUMBER by bucket",
    "scan + write",
    "shuffle + mapInArrow",
    "Polars + our loop",
)
INTERVAL_US = 3_600_000_000
COLUMNS = ["k", "ts", "id", "qty", "rate"]

OURS_SQL = "SELECT k, ts, id, qty, qty AS rate FROM l DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k) ON TIME ts"

BUCKETS_SQL = f"""
SELECT k, ts, id, qty, qty AS rate FROM (
  SELECT *, row_number() OVER (PARTITION BY k, unix_micros(ts) DIV {INTERVAL_US} ORDER BY ts) AS place FROM l)
WHERE place = 1"""

FLOOR_SQL = "SELECT k, ts, id, qty, qty * 2 AS rate FROM l"


class SparkWays:
    """The ways in one session.

    Args:
        spark: a sqlx session.
        rows: the folder of the rows.
    """

    def __init__(self, spark: SparkSession, rows: Path) -> None:
        self.spark = spark
        spark.read.parquet(str(rows)).createOrReplaceTempView("l")

    def measure(self, way: str, output: Path, warm: int, runs: int) -> Measured:
        """Measure one of the ways."""
        return measure(lambda folder: self.frame(way).write.parquet(str(folder)), output, warm, runs)

    def frame(self, way: str) -> DataFrame:
        """The result of a way."""
        if way == PANDAS:
            rows = self.spark.sql("SELECT k, ts, id, qty, qty AS rate FROM l")
            return rows.groupBy("k").applyInPandas(first_of_each, rows.schema)
        if way == UNTOUCHED:
            placed = self.spark.sql("SELECT k, ts, id, qty FROM l").repartition(THREADS, "k")
            return placed.mapInArrow(half, placed.schema).selectExpr("*", "qty AS rate")
        return self.spark.sql({OURS: OURS_SQL, BUCKETS: BUCKETS_SQL, FLOOR: FLOOR_SQL}[way])


def half(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first half of each batch: about as many rows as a deduplication keeps, without looking at any."""
    for batch in batches:
        yield batch.slice(0, batch.num_rows // 2)


def first_of_each(rows: pd.DataFrame) -> pd.DataFrame:
    """The rule as one writes it with pandas: sort, then walk."""
    rows = rows.sort_values("ts", kind="stable")
    kept, last = [], None
    for place, time in enumerate(rows["ts"].astype("int64").tolist()):
        if last is None or time - last > INTERVAL_US * 1000:  # pandas counts nanoseconds
            kept.append(place)
            last = time
    return rows.iloc[kept]


def with_polars(rows: Path, output: Path) -> None:
    """Polars reads and writes, our compiled loop judges: what it costs without Spark."""
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)  # read when polars is imported
    import polars

    from udtf.operators.deduplicate.config import DeduplicateConfig
    from udtf.operators.deduplicate.logic import deduplicate_table

    output.mkdir(parents=True)
    table = polars.scan_parquet(rows).with_columns(rate="qty", __k0="k", __time="ts").collect().to_arrow()
    kept = deduplicate_table(DeduplicateConfig(INTERVAL_US, columns=tuple(COLUMNS)), table)
    frame = polars.from_arrow(kept)
    assert isinstance(frame, polars.DataFrame)
    frame.write_parquet(output / "0.parquet", compression="snappy")


def measure_polars(rows: Path, output: Path, warm: int, runs: int) -> Measured:
    """Measure it in a process that is made for it and ends with it."""
    return in_own_process(_measure, with_polars, rows, output, warm, runs)


def _measure(way: Callable[[Path, Path], None], rows: Path, output: Path, warm: int, runs: int) -> Measured:
    return measure(lambda folder: way(rows, folder), output, warm, runs)
