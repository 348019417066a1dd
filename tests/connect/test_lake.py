"""Tables of Delta and Iceberg that streams of a client keep: its server writes each micro-batch once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sqlx
from sqlx.connectors.jars import CONNECTORS, fetch, is_43
from sqlx.errors import TemporalSqlError
from tests.harness.keyed import DEFINITION, QUERY, Keyed
from tests.harness.lake import ADDING, Format, changes_are_merged_once, late_rows_are_kept_once
from tests.harness.releases import since
from tests.harness.stock_server import ROOT, stock_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = ROOT / ".cache/jars"
FORMS = [
    pytest.param(
        *form.values,
        marks=pytest.mark.skipif(not CONNECTORS[form.id].is_available, reason="no jar for this release"),
        id=form.id,
    )
    for form in ADDING
]
pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(900),
    since((4, 1), "clients of Spark Connect that send stateful operators"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture(scope="module")
def lake(home: Path) -> Iterator[SparkSession]:
    """A client of a server that has both connectors, where there are any for its release."""
    there = [connector for name in ("delta", "iceberg") if (connector := CONNECTORS[name]).is_available]
    artifacts = [artifact for connector in there for artifact in connector.artifacts]
    fetch(artifacts, JARS)
    pairs = [pair for connector in there for pair in connector.conf]
    conf = {name: value.format(warehouse=home / "warehouse") for name, value in pairs}
    conf["spark.sql.extensions"] = ",".join(value for name, value in pairs if name == "spark.sql.extensions")
    conf["spark.jars"] = ",".join(str(JARS / artifact.file) for artifact in artifacts)
    conf["spark.databricks.delta.snapshotPartitions"] = "1"
    with stock_server(home, conf=conf) as url:
        made = sqlx.session(app="sqlx lake tests", remote=url, conf={"spark.sql.shuffle.partitions": "2"})
        made.conf.set("sqlx.tasks", "2")
        yield made
        made.stop()


@pytest.mark.parametrize("form", FORMS)
def test_changes_are_merged_once(lake: SparkSession, home: Path, tmp_path: Path, form: Format) -> None:
    changes_are_merged_once(lake, tmp_path, form, home / "warehouse")


@pytest.mark.parametrize("form", FORMS)
def test_late_rows_are_kept_beside_the_result_once(
    lake: SparkSession, home: Path, tmp_path: Path, form: Format
) -> None:
    late_rows_are_kept_once(lake, tmp_path, form, home / "warehouse")


@pytest.mark.delta
@pytest.mark.skipif(is_43(), reason="Delta has no MERGE there")
def test_what_a_table_refuses_is_said(lake: SparkSession, tmp_path: Path) -> None:
    keyed = Keyed(tmp_path)
    keyed.add()
    lake.sql(DEFINITION.format(folder=tmp_path))
    text = (
        f"CREATE STREAMING TABLE strict USING delta OPTIONS (write.mode 'upsert') CHECKPOINT '{tmp_path}/checkpoint' "
        f"TRIGGER (AVAILABLE NOW) AS {QUERY} AS CHANGELOG"
    )
    lake.sql(text)
    most = max(row.n for row in lake.table("strict").collect())
    lake.sql(f"ALTER TABLE strict ADD CONSTRAINT few CHECK (n <= {most})")
    while max(count for _, count, _ in keyed.answer) <= most:
        keyed.add()
    said = f"The streaming query `strict` failed: CHECK constraint few (n <= {most}) violated by row"
    with pytest.raises(TemporalSqlError, match=re.escape(said)):
        lake.sql(text)
    lake.sql("ALTER TABLE strict DROP CONSTRAINT few")
    lake.sql(text)
    assert sorted(map(tuple, lake.table("strict").collect()), key=str) == keyed.answer
