"""Tables to which changes are applied: current rows, in any cut, after a restart, and when a micro-batch runs again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming import upsert
from sqlx.streaming.registry import registry
from sqlx.streaming.tables import qualified
from sqlx.streaming.upsert import Changes, FileUpsert, FileVersions
from tests.harness.keyed import DEFINITION, QUERY, Groups, Keyed, lives_and_deaths
from tests.harness.killing import die_before_commit, warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UPSERT = "CREATE STREAMING TABLE up_groups USING {} OPTIONS (write.mode 'upsert') TRIGGER (AVAILABLE NOW) AS {}"
SCHEMA = "k STRING, v INT, _change_type STRING"


def _shown(spark: SparkSession, table: str = "up_groups") -> list[Any]:
    return sorted((tuple(row) for row in spark.sql(f"SELECT * FROM {table}").collect()), key=str)


@pytest.fixture
def keyed(spark: SparkSession, tmp_path: Path) -> Iterator[Keyed]:
    made = Keyed(tmp_path)
    spark.sql(DEFINITION.format(folder=tmp_path))
    yield made
    registry(spark.sparkContext).forget("up_groups")
    spark.sql("DROP TABLE IF EXISTS up_groups")
    for leftover in (warehouse(spark) / "up_groups", warehouse(spark) / "_checkpoints/up_groups"):
        shutil.rmtree(leftover, ignore_errors=True)


@pytest.mark.parametrize("shape", ["UPSERT", pytest.param("CHANGELOG", marks=pytest.mark.full)])
def test_the_table_shows_the_current_rows_after_each_start(spark: SparkSession, keyed: Keyed, shape: str) -> None:
    for files in (2, 1):
        for _ in range(files):
            keyed.add()
        spark.sql(UPSERT.format("parquet", f"{QUERY} AS {shape}"))
        assert _shown(spark) == keyed.answer
    die_before_commit(warehouse(spark) / "_checkpoints/up_groups")
    keyed.add()
    spark.sql(UPSERT.format("parquet", f"{QUERY} AS {shape}"))
    assert _shown(spark) == keyed.answer
    assert spark.table("up_groups").columns == ["g", "n", "v"]
    spark.sql("DROP TABLE up_groups")  # as in a new process whose catalog is in memory
    keyed.add()
    spark.sql(UPSERT.format("parquet", f"{QUERY} AS {shape}"))
    assert _shown(spark) == keyed.answer
    with pytest.raises(TemporalSqlError) as refused:
        spark.sql(UPSERT.format("parquet", f"{QUERY} AS {shape}").replace("OPTIONS (write.mode 'upsert')", ""))
    assert "it was written with USING parquet OPTIONS (write.mode 'upsert')" in str(refused.value)


def test_what_cannot_be_upserted_says_why(spark: SparkSession, keyed: Keyed) -> None:
    keyed.add()
    spark.sql(
        "CREATE OR REPLACE TEMPORARY STREAM up_stream (id BIGINT, ts TIMESTAMP) USING parquet "
        f"OPTIONS (path '{keyed.folder}') TIMESTAMP BY ts"
    )
    final = "SELECT window(ts, '1 hour') AS w, count(*) AS n FROM up_stream GROUP BY window(ts, '1 hour') EMIT FINAL"
    for using, query, reason in (("memory", QUERY, "`memory` cannot"), ("parquet", final, "never change")):
        with pytest.raises(TemporalSqlError, match=reason):
            spark.sql(f"CREATE STREAMING TABLE up_groups USING {using} OPTIONS (write.mode 'upsert') AS {query}")


class Versions:
    """A table of versions, written to a micro-batch at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.table = FileVersions(spark, qualified(spark, "up_groups"))
        self.sink = FileUpsert(self.table, "parquet", Changes(("k", "v", "_change_type"), (0,)), {})
        self.table.create(spark.createDataFrame([], "k STRING, v INT").schema, "parquet", "a checkpoint")
        self.root = Path(self.table.location.removeprefix("file:"))

    def write(self, batch_id: int, *changes: tuple[str | None, int | None, str]) -> None:
        self.sink.write(batch_id, self.spark.createDataFrame(list(changes), SCHEMA).coalesce(1))

    @property
    def rows(self) -> list[Any]:
        return _shown(self.spark)


@pytest.mark.usefixtures("keyed")
def test_a_micro_batch_that_runs_again_changes_nothing(spark: SparkSession) -> None:
    table = Versions(spark)
    assert table.rows == []
    table.write(0, ("a", 1, "insert"), (None, 2, "insert"), ("a", 1, "update_before"), ("a", 3, "update_after"))
    assert table.rows == [("a", 3), (None, 2)]
    second = [(None, None, "delete"), ("b", 5, "insert"), ("c", 6, "insert"), ("c", 6, "delete")]
    table.write(1, *second)
    assert table.rows == [("a", 3), ("b", 5)]
    files = sorted(table.root.rglob("*"))
    table.write(1, *second)
    assert sorted(table.root.rglob("*")) == files
    table.write(2)  # nothing changed
    assert sorted(table.root.rglob("*")) == files
    assert table.rows == [("a", 3), ("b", 5)]


@pytest.mark.usefixtures("keyed")
def test_a_version_that_was_not_finished_is_written_anew(spark: SparkSession) -> None:
    table = Versions(spark)
    table.write(0, ("a", 1, "insert"))
    half = table.root / "version-0000000001"
    half.mkdir()
    (half / "part-0.parquet").write_bytes(b"half of it")
    spark.sql("REFRESH TABLE up_groups")
    assert table.rows == [("a", 1)]
    table.write(1, ("b", 2, "insert"))
    assert table.rows == [("a", 1), ("b", 2)]
    spark.sql(f"ALTER TABLE up_groups SET LOCATION '{table.root}/version-0000000000'")  # it died before this
    table.write(1, ("b", 2, "insert"))
    assert table.rows == [("a", 1), ("b", 2)]


@pytest.mark.usefixtures("keyed")
def test_old_versions_go_when_nobody_can_be_reading_them(spark: SparkSession) -> None:
    table = Versions(spark)
    for batch in range(4):
        table.write(batch, ("a", batch, "update_after"))
    assert len(table.table.versions()) == 4
    for version in table.table.versions():
        os.utime(table.root / version / "_done", (0, 0))
    table.write(4, ("a", 4, "update_after"))
    assert table.table.versions() == [f"version-{n:010}" for n in (2, 3, 4)]
    assert upsert.KEPT_SECONDS >= 60
    (file,) = (table.root / "version-0000000004").glob("*.parquet")
    assert pq.read_table(file).to_pylist() == [{"k": "a", "v": 4}]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes below one in /proc")
def test_kills_leave_the_current_rows(tmp_path: Path) -> None:
    def read() -> Groups:
        latest = sorted(done.parent for done in tmp_path.glob("warehouse/joined/version-*/_done"))[-1]
        rows = [(row["g"], row["n"], row["v"]) for row in pq.read_table(latest).to_pylist()]
        return sorted(rows, key=str)

    keyed = lives_and_deaths(tmp_path, "parquet", 4, read)
    assert read() == keyed.answer
