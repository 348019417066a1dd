"""Delta tables as source and sink of streams, by name; what Delta cannot do on PySpark 4.3 is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.connectors.jars import is_43
from sqlx.errors import TemporalSqlError
from tests.harness.keyed import DEFINITION, QUERY, Keyed, lives_and_deaths
from tests.harness.lake import DELTA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.delta

NOW = "TRIGGER (AVAILABLE NOW)"
Rows = Callable[[str], list[Any]]


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE d_sent (id INT, ccy STRING, ts TIMESTAMP) USING delta")
    spark.sql("CREATE TABLE d_rates (ccy STRING, rate DOUBLE, ts TIMESTAMP) USING delta")
    second = "TIMESTAMP'2024-01-01 00:00:0"
    spark.sql(f"INSERT INTO d_rates VALUES ('EUR', 1.1, {second}1'), ('EUR', 1.2, {second}5')")
    spark.sql(f"INSERT INTO d_sent VALUES (2, 'EUR', {second}2'), (6, 'EUR', {second}6')")
    # The rows of one INSERT may lie in several files, whose order nobody knows.
    spark.sql("CREATE STREAM d_orders FROM d_sent TIMESTAMP BY ts SEQUENCE BY ts")
    spark.sql("CREATE VERSIONED TABLE d_prices FROM d_rates KEYS (ccy) TIMESTAMP BY ts SEQUENCE BY ts")


JOIN = "SELECT o.id, r.rate FROM d_orders o JOIN d_prices r AS OF o.ts ON o.ccy = r.ccy"


@pytest.mark.usefixtures("tables")
def test_delta_tables_are_joined_bounded(rows: Rows) -> None:
    assert rows(JOIN) == [(2, 1.1), (6, 1.2)]
    assert rows("SELECT ccy, rate FROM d_prices") == [("EUR", 1.2)]


@pytest.mark.usefixtures("tables")
def test_a_stream_of_delta_tables_goes_into_one_exactly_once(spark: SparkSession, rows: Rows) -> None:
    text = f"CREATE STREAMING TABLE d_priced USING delta {NOW} AS {JOIN}"
    spark.sql(text)
    assert rows("SELECT * FROM d_priced") == [(2, 1.1), (6, 1.2)]
    spark.sql("INSERT INTO d_sent VALUES (7, 'EUR', TIMESTAMP'2024-01-01 00:00:07')")
    spark.sql(text)
    spark.sql(text)
    assert rows("SELECT * FROM d_priced") == [(2, 1.1), (6, 1.2), (7, 1.2)]
    assert spark.sql("DESCRIBE DETAIL d_priced").collect()[0].format == "delta" if not is_43() else True


@pytest.mark.usefixtures("tables")
def test_a_delta_table_is_read_as_of_a_version(rows: Rows) -> None:
    assert rows("SELECT count(*) FROM d_rates VERSION AS OF 1") == [(2,)]


@pytest.mark.skipif(not is_43(), reason="Delta writes by path on PySpark 4.2")
@pytest.mark.usefixtures("tables")
def test_delta_by_path_is_refused_where_a_retry_would_double_rows(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        spark.sql(f"CREATE STREAMING TABLE d_path USING delta OPTIONS (path '{tmp_path}/t') {NOW} AS {JOIN}")
    assert refused.value.getCondition() == "DELTA.PATH"
    assert "a retry writes its rows twice" in str(refused.value)
    with pytest.raises(TemporalSqlError) as refused:
        spark.sql(f"CREATE STREAM d_files USING delta OPTIONS (path '{tmp_path}/t') TIMESTAMP BY ts")
    assert refused.value.getCondition() == "DELTA.PATH"


def test_changes_are_merged_into_a_delta_table(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    keyed = Keyed(tmp_path)
    spark.sql(DEFINITION.format(folder=tmp_path))
    for files in (2, 1):
        for _ in range(files):
            keyed.add()
        spark.sql(
            f"CREATE STREAMING TABLE d_groups USING delta OPTIONS (write.mode 'upsert') {NOW} AS {QUERY} AS CHANGELOG"
        )
        assert sorted(rows("SELECT * FROM d_groups"), key=str) == keyed.answer


@pytest.mark.usefixtures("connectors")
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes below one in /proc")
def test_kills_leave_the_current_rows_in_a_delta_table(tmp_path: Path) -> None:
    place = tmp_path / "warehouse/joined"
    keyed = lives_and_deaths(tmp_path, "delta", 3, lambda: DELTA.read(place))
    assert DELTA.read(place) == keyed.answer
