"""ALTER STREAMING QUERY … SET PARTITIONS and `sqlx rescale`: whole tasks move, and no answer changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sqlx.cli.start
from sqlx.cli.app import app
from sqlx.errors import TemporalSqlError
from sqlx.streaming.registry import RunningQuery, registry
from tests.harness.killing import warehouse
from tests.harness.releases import since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = since((4, 2), "offline repartition of state")
NOW = "TRIGGER (AVAILABLE NOW)"
BACKEND = "sqlx.state_backend"
QUERIES = {
    "join": "SELECT o.id, r.rate FROM rs_orders o LEFT JOIN rs_rates r AS OF o.ts ON o.ccy = r.ccy"
    " GRACE PERIOD INTERVAL 1 MINUTE",
    "once": "SELECT id, ccy FROM rs_orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (ccy)",
    "windows": "SELECT ccy, count(*) AS n FROM rs_orders GROUP BY ccy, window(ts, '1 hour')"
    " GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL",
}
CURRENCIES = ("EUR", "USD", "CHF", "GBP", "SEK", "NOK")


@pytest.fixture(autouse=True)
def in_store(spark: SparkSession) -> Iterator[None]:
    """Spark keeps the state, and has to move it."""
    spark.conf.set(BACKEND, "store")
    yield
    spark.conf.unset(BACKEND)


@pytest.fixture
def recorded(spark: SparkSession) -> Iterator[SparkSession]:
    """Rates of six currencies, and an order in each at ten o'clock."""
    spark.sql("CREATE STREAM rs_orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE rs_rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts")
    rates = ", ".join(f"('{ccy}', {n}, TIMESTAMP'2026-01-01 09:00:00')" for n, ccy in enumerate(CURRENCIES))
    spark.sql(f"INSERT INTO rs_rates VALUES {rates}")
    order_in_each(spark, 10)
    yield spark
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    for statement in ("DROP STREAM rs_orders", "DROP VERSIONED TABLE rs_rates"):
        spark.sql(statement)
    for name in ("rs_moved", "rs_plain", "rs_refused"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        for leftover in (warehouse(spark) / name, warehouse(spark) / "_checkpoints" / name):
            shutil.rmtree(leftover, ignore_errors=True)


def order_in_each(spark: SparkSession, hour: int) -> None:
    rows = ", ".join(f"({hour * 10 + n}, '{c}', TIMESTAMP'2026-01-01 {hour}:00:00')" for n, c in enumerate(CURRENCIES))
    spark.sql(f"INSERT INTO rs_orders VALUES {rows}")


def rows(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.table(name).collect()))


def altered(spark: SparkSession, name: str, partitions: int) -> tuple[str, ...]:
    (row,) = spark.sql(f"ALTER STREAMING QUERY {name} SET PARTITIONS {partitions}").collect()
    return tuple(row)[:3]


def query(spark: SparkSession, name: str) -> RunningQuery:
    found = registry(spark.sparkContext).find(name)
    assert found is not None
    return found


@pytest.mark.full
@pytest.mark.parametrize("name", ["join", "once", "windows"])
def test_answers_are_those_of_a_query_that_was_left_alone(recorded: SparkSession, name: str) -> None:
    moved = f"CREATE STREAMING TABLE rs_moved TASKS 8 {NOW} AS {QUERIES[name]}"
    plain = moved.replace("rs_moved", "rs_plain")
    for hour, partitions in ((11, 8), (12, 3), (13, 1)):
        recorded.sql(moved)
        recorded.sql(plain)
        altered(recorded, "rs_moved", partitions)
        order_in_each(recorded, hour)
    recorded.sql(moved)
    recorded.sql(plain)
    assert rows(recorded, "rs_moved") == rows(recorded, "rs_plain")
    assert len(rows(recorded, "rs_moved")) == {"join": 18, "once": 6, "windows": 12}[name]
    described = {row[0]: row[1] for row in recorded.sql("DESCRIBE STREAMING QUERY rs_moved").collect()}
    assert described["partitions"] == "1"


@pytest.mark.full
@pytest.mark.parametrize("name", ["join", "windows"])
def test_a_changelog_is_read_by_whoever_has_the_task(recorded: SparkSession, name: str) -> None:
    recorded.conf.set(BACKEND, "changelog")
    test_answers_are_those_of_a_query_that_was_left_alone(recorded, name)


def test_a_running_query_with_a_changelog_goes_on_by_itself(recorded: SparkSession) -> None:
    recorded.conf.set(BACKEND, "changelog")
    test_a_running_query_goes_on_by_itself(recorded)


@pytest.mark.full
def test_a_running_query_goes_on_by_itself(recorded: SparkSession) -> None:
    recorded.sql(f"CREATE STREAMING TABLE rs_moved TASKS 4 AS {QUERIES['join']} LATE TO rs_refused")
    query(recorded, "rs_moved").query.processAllAvailable()
    before = query(recorded, "rs_moved").id
    assert altered(recorded, "rs_moved", 4) == ("rs_moved", "2", "4")
    assert (query(recorded, "rs_moved").status, query(recorded, "rs_moved").id) == ("running", before)
    order_in_each(recorded, 11)
    query(recorded, "rs_moved").query.processAllAvailable()
    assert len(rows(recorded, "rs_moved")) == 6
    assert query(recorded, "rs_moved").refresh().partitions == 4
    assert altered(recorded, "rs_moved", 4) == ("rs_moved", "4", "4")
    with pytest.raises(TemporalSqlError) as refused:
        altered(recorded, "rs_moved", 5)
    assert refused.value.condition == "STREAMING.PARTITIONS"
    assert str(refused.value).splitlines()[2].rstrip().endswith("^")


@pytest.mark.full
def test_files_know_of_all_micro_batches_however_often_state_moves(recorded: SparkSession) -> None:
    text = f"CREATE STREAMING TABLE rs_moved TASKS 4 {NOW} AS {QUERIES['join']}"
    for hour in range(11, 19):  # Spark folds the log of a table of files every ten micro-batches
        recorded.sql(text)
        altered(recorded, "rs_moved", 1 + hour % 2)
        order_in_each(recorded, hour)
    recorded.sql(text)
    assert len(rows(recorded, "rs_moved")) == 6 * 8
    files = [path for path in (warehouse(recorded) / "rs_moved").iterdir() if path.suffix == ".parquet"]
    assert {tuple(pq.read_schema(path).names) for path in files} == {("id", "rate")}  # those without rows, too


@pytest.mark.full
def test_a_move_that_did_not_end_is_ended_by_another_one(recorded: SparkSession) -> None:
    text = f"CREATE STREAMING TABLE rs_moved TASKS 4 {NOW} AS {QUERIES['join']}"
    recorded.sql(text)
    altered(recorded, "rs_moved", 4)
    commits = warehouse(recorded) / "_checkpoints/rs_moved/commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    with pytest.raises(TemporalSqlError) as refused:
        recorded.sql(text)
    assert refused.value.condition == "STREAMING.UNFINISHED_RESCALE"
    with pytest.raises(TemporalSqlError) as refused:
        altered(recorded, "rs_moved", 3)
    assert refused.value.condition == "STREAMING.RESCALE"
    assert "\tat " not in str(refused.value)
    assert altered(recorded, "rs_moved", 4) == ("rs_moved", "2", "4")
    order_in_each(recorded, 11)
    recorded.sql(text)
    assert len(rows(recorded, "rs_moved")) == 6


def test_a_query_that_is_not_there(recorded: SparkSession) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        altered(recorded, "rs_nowhere", 4)
    assert refused.value.condition == "STREAMING.NO_STATE"
    assert "^^^^" in str(refused.value)


@pytest.mark.full
def test_the_command(recorded: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "stop", lambda: None)
    monkeypatch.setattr(sqlx.cli.start, "_start", lambda *_: recorded)
    recorded.sql(f"CREATE STREAMING TABLE rs_moved TASKS 4 {NOW} AS {QUERIES['join']}")
    named = CliRunner().invoke(app, ["rescale", "rs_moved", "4"])
    assert (named.exit_code, named.stdout.startswith("rs_moved: 2 → 4 partitions in")) == (0, True), named.output
    folder = CliRunner().invoke(app, ["rescale", f"{warehouse(recorded)}/_checkpoints/rs_moved", "1"])
    assert (folder.exit_code, folder.stdout.startswith("rs_moved: 4 → 1 partitions in")) == (0, True), folder.output
    for asked, condition in (
        (("rs_moved", "5"), "PARTITIONS"),
        (("rs_other", "2"), "NO_STATE"),
        (("/no", "2"), "NO_STATE"),
    ):
        wrong = CliRunner().invoke(app, ["rescale", *asked])
        assert (wrong.exit_code, f"[STREAMING.{condition}]" in wrong.stderr) == (1, True), wrong.output
