"""Declarative pipelines with temporal clauses in their SQL files, through Spark's own command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from sqlx.cli.pipelines import run_client, serving
from tests.harness.releases import since
from udtf.spark.tasks import stream_conf

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = since((4, 1), "pipelines")

PLAIN = """
CREATE MATERIALIZED VIEW {db}.evens AS SELECT id FROM range(10) WHERE id % 2 = 0;
CREATE STREAMING TABLE {db}.copied AS SELECT id FROM STREAM {db}.sent;
"""
TEMPORAL = """
-- A comment; with a semicolon.
CREATE STREAMING TABLE {db}.firsts AS
SELECT id, ts FROM STREAM {db}.orders DEDUPLICATE WITHIN INTERVAL '10' MINUTES BY (id);

CREATE MATERIALIZED VIEW {db}.priced COMMENT 'AS SELECT' AS
SELECT o.id, r.rate FROM {db}.orders o LEFT JOIN {db}.rates r AS OF o.ts ON o.id = r.id;
CREATE STREAMING TABLE {db}.flowed;
CREATE FLOW priced_live AS INSERT INTO {db}.flowed BY NAME
SELECT o.id, r.rate FROM STREAM {db}.orders o LEFT JOIN {db}.rates r AS OF o.ts ON o.id = r.id;
"""
SPEC = "name: shop\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: sql/**\n"


class Pipeline:
    """A project of SQL files, run by Spark's command."""

    def __init__(self, remote: str, database: str, folder: Path) -> None:
        self._remote, self.database, self._folder = remote, database, folder
        (folder / "sql").mkdir()
        (folder / "spark-pipeline.yml").write_text(SPEC.format(folder=folder))

    def run(self, command: str, *texts: str) -> int:
        """Its exit code."""
        for number, text in enumerate(texts):
            (self._folder / f"sql/{number}.sql").write_text(text.format(db=self.database))
        return run_client(self._remote, [command, "--spec", str(self._folder / "spark-pipeline.yml")])


@pytest.fixture(scope="module")
def remote(spark: SparkSession) -> Iterator[str]:
    with serving(spark, stream_conf(spark, 2)) as address:
        yield address


@pytest.fixture
def pipeline(spark: SparkSession, remote: str, tmp_path: Path) -> Iterator[Pipeline]:
    database = "of_pipelines"
    spark.sql(f"CREATE DATABASE {database}")
    spark.sql(f"CREATE TABLE {database}.sent (id BIGINT, ts TIMESTAMP) USING parquet")
    one = "SELECT 1L AS id, 5 AS rate, TIMESTAMP'2026-01-01' AS ts"
    spark.sql(f"CREATE TABLE {database}.changes USING parquet AS {one}")
    spark.sql(f"CREATE STREAM {database}.orders FROM {database}.sent TIMESTAMP BY ts")
    spark.sql(f"CREATE VERSIONED TABLE {database}.rates FROM {database}.changes KEYS (id) TIMESTAMP BY ts")
    spark.sql(f"INSERT INTO {database}.sent VALUES (1, TIMESTAMP'2026-01-01 00:00:00')")
    yield Pipeline(remote, database, tmp_path)
    spark.sql(f"DROP DATABASE {database} CASCADE")


@pytest.fixture
def rows(spark: SparkSession, pipeline: Pipeline) -> Callable[[str], list[tuple[object, ...]]]:
    def read(table: str) -> list[tuple[object, ...]]:
        spark.catalog.refreshTable(f"{pipeline.database}.{table}")
        return sorted(map(tuple, spark.table(f"{pipeline.database}.{table}").collect()))

    return read


@pytest.mark.full
def test_a_dry_run_starts_nothing_and_runs_go_on_from_each_other(spark, pipeline, rows) -> None:
    assert pipeline.run("dry-run", PLAIN, TEMPORAL) == 0
    assert not spark.catalog.tableExists(f"{pipeline.database}.firsts")
    assert not spark.catalog.tableExists(f"{pipeline.database}.copied")
    assert not [query for query in spark.streams.active if query.name in ("firsts", "copied")]
    assert pipeline.run("run") == 0
    assert rows("evens") == [(0,), (2,), (4,), (6,), (8,)]
    assert rows("copied") == [(1,)]
    assert [row[0] for row in rows("firsts")] == [1]
    assert rows("priced") == rows("flowed") == [(1, 5)]
    spark.sql(
        f"INSERT INTO {pipeline.database}.sent "
        "VALUES (1, TIMESTAMP'2026-01-01 00:01:00'), (2, TIMESTAMP'2026-01-01 00:02:00')"
    )
    assert pipeline.run("run") == 0
    assert [row[0] for row in rows("firsts")] == [1, 2]
    assert rows("priced") == rows("flowed") == [(1, 5), (1, 5), (2, None)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "CREATE STREAMING TABLE {db}.wrong AS\nSELECT * FROM STREAM {db}.orders DEDUPLICATE WITHIN BY (id);",
            ["PARSE.INTERVAL", "LINE 2: SELECT", "^^"],
            id="grammar",
        ),
        pytest.param(
            "CREATE MATERIALIZED VIEW {db}.later AS SELECT 1L AS id, TIMESTAMP'2026-01-01' AS ts;\n"
            "CREATE MATERIALIZED VIEW {db}.once AS\n"
            "SELECT * FROM {db}.later DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id) ON TIME ts;",
            ["UNSUPPORTED.PIPELINE_DATASET", "of_pipelines.later DEDUPLICATE", "in one that runs before"],
            id="its own dataset",
            marks=pytest.mark.full,
        ),
    ],
)
def test_what_is_wrong_is_said(pipeline, capfd, text, said) -> None:
    assert pipeline.run("dry-run", text) == 1
    printed = capfd.readouterr().err
    assert all(part in printed for part in said), printed
    assert "\tat " not in printed
    assert "Traceback" not in printed
