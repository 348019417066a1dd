"""The ways to answer live rows on Spark, in one process: ours, the yardstick, the floor, by key, and stream-static."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from benchmarks import stream_per_key
from benchmarks.data import Inputs
from benchmarks.stream_data import BATCH_SPAN_US
from sqlx.sessions.session import statements_of
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.backend import changelogs_in, start_conf
from udtf.spark.tasks import stream_conf

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

OURS, IN_STORE, YARDSTICK, FLOOR, BY_KEY, STATIC = (
    "ours",
    "ours, in Spark's state store",
    "dropDuplicatesWithinWatermark",
    "repartition + mapInArrow",
    "by key, transformWithStateInPandas",
    "stream-static join",
)
#: What is remembered: our HISTORY RETENTION, and how long Spark remembers a key to drop its duplicates.
RETENTION_US = 6 * BATCH_SPAN_US
TASKS = 16

_LEFT = "k bigint, ts timestamp, id bigint, qty double"
_RIGHT = "k bigint, ts timestamp, rate double"
_LATEST = "latest"

DEFINITIONS = (
    f"""CREATE OR REPLACE TEMPORARY STREAM trades ({_LEFT})
    USING parquet OPTIONS (path '{{left}}', maxFilesPerTrigger '1') TIMESTAMP BY ts""",
    f"""CREATE OR REPLACE TEMPORARY VERSIONED TABLE rates ({_RIGHT})
    USING parquet OPTIONS (path '{{right}}', maxFilesPerTrigger '1')
    KEYS (k) TIMESTAMP BY ts HISTORY RETENTION INTERVAL {RETENTION_US // 1_000_000} SECONDS""",
)
OURS_SQL = """
SELECT t.k, t.ts, t.id, t.qty, r.rate
FROM STREAM trades t LEFT JOIN rates r AS OF t.ts ON t.k = r.k"""

# Workers need not find this package.
cloudpickle.register_pickle_by_value(stream_per_key)  # type: ignore[no-untyped-call]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class StreamWays:
    """The ways in a session of their own.

    Args:
        spark: a sqlx session.
        inputs: the folders that the queries read.
        latest: where Spark's static table is: the last version of each key.
        kept: a folder for our changelogs, as that of a checkpoint.
    """

    def __init__(
        self, spark: SparkSession, inputs: Inputs, latest: Path | None = None, kept: Path | None = None
    ) -> None:
        self.spark, self.inputs, self.latest, self.kept = with_settings(spark), inputs, latest, kept

    def frame(self, way: str) -> DataFrame:
        """The streaming result of a way."""
        makers = {
            OURS: self.ours if self.kept is None else self.ours_in_files,
            IN_STORE: self.ours,
            YARDSTICK: self.yardstick,
            FLOOR: self.floor,
            BY_KEY: self.by_key,
            STATIC: self.static,
        }
        return makers[way]()

    def ours(self) -> DataFrame:
        """Two definitions and a query."""
        for definition in DEFINITIONS:
            self.spark.sql(definition.format(left=self.inputs.left, right=self.inputs.right))
        return self.spark.sql(OURS_SQL)

    def ours_in_files(self) -> DataFrame:
        """The same as a streaming table on one machine runs it: with changelogs beside its checkpoint."""
        for definition in DEFINITIONS:
            self.spark.sql(definition.format(left=self.inputs.left, right=self.inputs.right))
        assert self.kept is not None, "said by who asks"
        return in_files(self.spark, OURS_SQL, self.kept)

    def yardstick(self) -> DataFrame:
        """A stateful operator of Spark's own, in Java, over the same rows and keys: it keeps one row of each key."""
        both = self._both().withWatermark("ts", f"{RETENTION_US // 1_000_000} seconds")
        return both.dropDuplicatesWithinWatermark(["k"])

    def floor(self) -> DataFrame:
        """All rows through the network and Python, untouched; the stream's are written."""
        return through_python(self._both()).where("side = 0").drop("side")

    def by_key(self) -> DataFrame:
        """A call and a state for each key."""
        processor = stream_per_key.AsOfByKey(RETENTION_US)
        grouped = self._both().groupBy("k")
        return grouped.transformWithStateInPandas(processor, stream_per_key.OUTPUT, "Append", "None")

    def static(self) -> DataFrame:
        """The last version of each key, whatever the time of the row: fast, and another answer."""
        latest = self.spark.read.schema("k bigint, rate double").parquet(str(self.latest))
        return self._stream(self.inputs.left, _LEFT).join(latest, "k", "left").select("k", "ts", "id", "qty", "rate")

    def _both(self) -> DataFrame:
        """Both sides in one stream, as Spark's ways want them."""
        left = self._stream(self.inputs.left, _LEFT).selectExpr("k", "ts", "id", "qty", "0 AS side")
        right = self._stream(self.inputs.right, _RIGHT)
        return left.union(right.selectExpr("k", "ts", "CAST(NULL AS BIGINT) AS id", "rate AS qty", "1 AS side"))

    def _stream(self, folder: Path, schema: str) -> DataFrame:
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def with_settings(spark: SparkSession) -> SparkSession:
    """A session of its own: RocksDB with changelog checkpoints, and a partition for each core, alike for all ways."""
    spark = spark.newSession()
    for name, value in {**stream_conf(spark, TASKS), "sqlx.tasks": str(TASKS)}.items():
        spark.conf.set(name, value)
    return spark


def in_files(spark: SparkSession, query: str, kept: Path) -> DataFrame:
    """A live query as a streaming table on one machine runs it: with changelogs beside its checkpoint.

    Args:
        spark: a session of its own.
        query: over definitions that are there.
        kept: a folder for the changelogs.
    """
    for name, value in start_conf(spark, str(kept), has_changelogs=True).items():
        spark.conf.set(name, value)
    text = f"CREATE STREAMING TABLE measured TASKS {TASKS} AS {query}"
    statement = parse_streaming(text, tokenize(text))
    assert isinstance(statement, StreamingTable), text
    folder = changelogs_in(spark, str(kept), TASKS)
    return statements_of(spark).live(statement, TASKS, folder).frame


def through_python(rows: DataFrame) -> DataFrame:
    """Rows that pass a shuffle by their key and a Python worker, and nothing else."""
    return rows.repartition("k").mapInArrow(untouched, rows.schema)


def untouched(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What comes in goes out."""
    yield from batches


def write_latest(inputs: Inputs, folder: Path) -> Path:
    """The last version of each key, as a table that somebody keeps up to date would hold it at the end."""
    import duckdb

    target = folder / _LATEST
    target.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        query = f"SELECT k, arg_max(rate, ts) AS rate FROM '{inputs.right}/*.parquet' GROUP BY k"
        connection.execute(f"COPY ({query}) TO '{target}/0.parquet' (FORMAT parquet)")
    return target


def counters(progress: Any) -> dict[str, int]:
    """What our operator counted in a micro-batch; {} for other ways."""
    rows = [row.asDict() for row in progress.observedMetrics.values()]
    return {name: value or 0 for row in rows for name, value in row.items()}
