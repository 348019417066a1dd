"""Tables, checkpoints and refused rows of streams on HDFS, and on a file system that renames by copying.

What a stream leaves there, it finds again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.hdfs import Hdfs
from tests.harness.keyed import DEFINITION, QUERY, Keyed
from tests.harness.places import everywhere
from tests.harness.slow import needs_javac, slow_conf
from udtf.engine.folders import HadoopFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.full, pytest.mark.slow]
NOW = "TRIGGER (AVAILABLE NOW)"


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database whose tables are on HDFS, and its URL."""
    hdfs = Hdfs(tmp_path_factory.mktemp("hdfs"))
    spark.sql(f"CREATE DATABASE on_hdfs LOCATION '{hdfs.url}/tables'")
    yield hdfs.url
    spark.sql("DROP DATABASE on_hdfs CASCADE")
    hdfs.stop()


def rows(spark: SparkSession, query: str) -> list[Any]:
    return sorted(map(tuple, spark.sql(query).collect()), key=str)


@pytest.mark.timeout(600)
def test_current_rows(spark: SparkSession, place: str, tmp_path: Path) -> None:
    keyed = Keyed(tmp_path)
    spark.sql(DEFINITION.format(folder=tmp_path))
    text = (
        "CREATE STREAMING TABLE on_hdfs.groups USING parquet OPTIONS (write.mode 'upsert') "
        f"CHECKPOINT '{place}/checkpoints/groups' {NOW} AS {QUERY} AS CHANGELOG"
    )
    for files in (2, 1):
        for _ in range(files):
            keyed.add()
        spark.sql(text)
        assert rows(spark, "SELECT * FROM on_hdfs.groups") == keyed.answer
    assert spark.table("on_hdfs.groups").inputFiles()[0].startswith(f"{place}/tables/groups/version-")


@pytest.mark.timeout(600)
def test_results_and_refused_rows(spark: SparkSession, place: str) -> None:
    sent = (
        "(1, TIMESTAMP'2026-01-01 00:00:00'), (2, TIMESTAMP'2026-01-01 01:00:00'), (3, TIMESTAMP'2026-01-01 00:00:02')"
    )
    spark.sql("CREATE TABLE on_hdfs.sent (id BIGINT, ts TIMESTAMP) USING parquet")
    spark.sql(f"INSERT INTO on_hdfs.sent SELECT /*+ COALESCE(1) */ * FROM VALUES {sent}")
    spark.sql("CREATE STREAM on_hdfs.s FROM on_hdfs.sent TIMESTAMP BY ts")
    text = (
        f"CREATE STREAMING TABLE on_hdfs.firsts CHECKPOINT '{place}/checkpoints/firsts' {NOW} TASKS 1 AS "
        "SELECT id FROM on_hdfs.s DEDUPLICATE WITHIN INTERVAL 10 MINUTES BY (id) LATE TO on_hdfs.too_late"
    )
    for _ in range(2):
        spark.sql(text)
        assert rows(spark, "SELECT * FROM on_hdfs.firsts") == [(1,), (2,)]
        assert rows(spark, "SELECT id, _reason FROM on_hdfs.too_late") == [(3, "late")]
    facts = dict(rows(spark, "DESCRIBE STREAMING QUERY on_hdfs.firsts"))
    assert facts["checkpoint"] == f"{place}/checkpoints/firsts"
    kept = f"SELECT operator, kept FROM state('{place}/checkpoints/firsts')"
    assert rows(spark, kept) == [("deduplicate_1", "entries")]
    spark.sql(text.replace("CREATE", "CREATE OR REPLACE"))
    assert rows(spark, "SELECT * FROM on_hdfs.firsts") == [(1,), (2,)]
    assert rows(spark, "SELECT id FROM on_hdfs.too_late") == [(3,)]


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What every operator answers with its tables and checkpoints on a disk."""
    return everywhere(tmp_path_factory.mktemp("places") / "disk", Path(sys.executable), "--master", "local[2]")


@pytest.mark.timeout(600)
def test_every_operator_on_hdfs(place: str, on_disk: dict[str, object], tmp_path: Path) -> None:
    there = everywhere(tmp_path / "hdfs", Path(sys.executable), "--master", "local[2]", warehouse=f"{place}/warehouse")
    assert there == on_disk


@pytest.mark.timeout(600)
@needs_javac
def test_every_operator_where_renames_copy(on_disk: dict[str, object], tmp_path: Path) -> None:
    warehouse = f"slow://{tmp_path}/warehouse"
    (tmp_path / "classes").mkdir()
    conf = slow_conf(tmp_path / "classes")
    there = everywhere(tmp_path / "slow", Path(sys.executable), "--master", "local[2]", warehouse=warehouse, conf=conf)
    assert there == on_disk
    assert list((tmp_path / "warehouse").rglob("offsets/2"))


def test_a_file_is_replaced_as_a_whole(spark: SparkSession, place: str) -> None:
    folder = HadoopFolder(spark, f"{place}/replaced")
    for text in ("one", "two"):
        folder.write("note", text)
        assert (folder.read("note"), folder.names()) == (text, ["note"])
