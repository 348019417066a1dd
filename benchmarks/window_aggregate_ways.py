"""The windowed aggregations of the benchmark as text, and the ways to run them on Spark: ours and Spark's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measure import Measured, checksum, measure
from benchmarks.spark_ways import plain
from benchmarks.stream_ways import IN_STORE, in_files, with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OURS, SPARK = "ours", "Spark's own"
#: As much as rows may be out of order in the data, and more: nothing is late, for nobody.
GRACE_US = 60_000_000
_ROWS = "k bigint, ts timestamp, id bigint, qty double"
# Sums of integers: that of floating-point numbers depends on their order, and answers are compared bit by bit.
_AGGREGATES = "count(*) AS n, sum(id) AS s, max(qty) AS m"
#: The columns of an answer that are compared.
ROW = "k::BIGINT, epoch_us(ws), epoch_us(we), n::BIGINT, s::BIGINT, m::DOUBLE"


@dataclass(frozen=True)
class Kind:
    """One kind of window.

    Attributes:
        name: as in the tables.
        function: of Spark, or ours.
        size_us: length; of a session the gap.
        slide_us: distance of the starts of time windows, else 0.
    """

    name: str
    function: str
    size_us: int
    slide_us: int = 0

    @property
    def call(self) -> str:
        """As it is in GROUP BY."""
        lengths = (self.size_us, self.slide_us) if self.slide_us not in (0, self.size_us) else (self.size_us,)
        seconds = ", ".join(f"'{length // 1_000_000} seconds'" for length in lengths)
        return f"{self.function}(ts, {seconds})"

    def query(self, relation: str) -> str:
        """The aggregation over a relation, as Spark alone reads it."""
        bounds = f"{self.function}.start AS ws, {self.function}.end AS we"
        return f"SELECT k, {bounds}, {_AGGREGATES} FROM {relation} GROUP BY k, {self.call}"

    def final(self, relation: str) -> str:
        """The same with its end, as we read it."""
        return f"{self.query(relation)} GRACE PERIOD INTERVAL {GRACE_US // 1_000_000} SECONDS EMIT FINAL"


TUMBLING = Kind("tumbling", "window", 600_000_000, 600_000_000)
HOPPING = Kind("hopping, 5 a row", "window", 600_000_000, 120_000_000)
SESSION = Kind("session", "session_window", 120_000_000)
SLIDING = Kind("sliding", "sliding_window", 600_000_000)
KINDS = (TUMBLING, HOPPING, SESSION, SLIDING)
#: Spark has no other windows to stand beside ours.
LIVE_KINDS = (TUMBLING, HOPPING, SESSION)


def closed_checksum(rows: Path) -> Callable[[Path], str]:
    """The checksum of an answer over the windows that are final in it, whoever gave it.

    At the end some windows are open. Ours close task by task, when the greatest time of a task's own rows is past their
    end by the grace. Spark's close by one watermark, the greatest time of all rows less the grace, which moves between
    micro-batches (a last one without rows applies it to the end). DuckDB knows of no end and has all windows. So what
    ends before the greatest time of all rows less the grace and a minute is compared: each of the 16 tasks has a row
    in any minute of these data.
    """
    import duckdb

    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT epoch_us(max(ts)) FROM '{rows}/*.parquet'").fetchone()
    assert found is not None
    before_us = found[0] - GRACE_US - 60_000_000
    return lambda answer: checksum(answer, ROW, f"epoch_us(we) <= {before_us}")


class StreamWays:
    """Final results of live windows, ours and Spark's, in a session of their own.

    Args:
        spark: a sqlx session.
        rows: the folder of the files, one for each micro-batch.
        kept: a folder for our changelogs, as that of a checkpoint.
    """

    def __init__(self, spark: SparkSession, rows: Path, kept: Path) -> None:
        self.spark, self.rows, self.kept = with_settings(spark), rows, kept
        self.spark.conf.set("sqlx.window_strategy", "exact")

    def frame(self, way: str, kind: Kind) -> DataFrame:
        """The streaming result of a way."""
        return self.sparks(kind) if way == SPARK else self.ours(kind, in_store=way == IN_STORE)

    def ours(self, kind: Kind, *, in_store: bool) -> DataFrame:
        """A definition and a query."""
        self.spark.sql(f"""CREATE OR REPLACE TEMPORARY STREAM events ({_ROWS})
            USING parquet OPTIONS (path '{self.rows}', maxFilesPerTrigger '1') TIMESTAMP BY ts""")
        query = kind.final("STREAM events")
        return self.spark.sql(query) if in_store else in_files(self.spark, query, self.kept)

    def sparks(self, kind: Kind) -> DataFrame:
        """Spark's aggregation with a watermark; append mode, the default of the sink, gives out what is final."""
        rows = self.spark.readStream.schema(_ROWS).option("maxFilesPerTrigger", 1).parquet(str(self.rows))
        rows.withWatermark("ts", f"{GRACE_US // 1_000_000} seconds").createOrReplaceTempView("watermarked")
        return plain(self.spark, kind.query("watermarked"))


class BatchWays:
    """The same over bounded rows.

    Args:
        spark: a sqlx session.
        rows: the folder of the files.
    """

    def __init__(self, spark: SparkSession, rows: Path) -> None:
        self.spark = spark
        spark.read.parquet(str(rows)).createOrReplaceTempView("all_events")
        spark.sql("CREATE OR REPLACE TEMPORARY STREAM bounded_events FROM all_events TIMESTAMP BY ts")

    def measure(self, way: str, kind: Kind, output: Path, warm: int, runs: int) -> Measured:
        """Measure one of the ways."""

        def write(folder: Path) -> None:
            self.frame(way, kind).write.parquet(str(folder))

        return measure(write, output, warm, runs, all_checksum)

    def frame(self, way: str, kind: Kind) -> DataFrame:
        """The result of a way."""
        if way == OURS:
            return self.spark.sql(kind.final("bounded_events"))
        return plain(self.spark, kind.query("all_events"))


def all_checksum(answer: Path) -> str:
    """The checksum of all windows."""
    return checksum(answer, ROW)
