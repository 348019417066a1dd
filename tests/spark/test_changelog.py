"""State beside the checkpoint: where it is, what is told of it, and what becomes of a query whose files were harmed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming.backend import BLOB_BYTES
from sqlx.streaming.registry import registry
from tests.harness.killing import die_before_commit, warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BACKEND, CACHE = "sqlx.state_backend", "sqlx.stream.cache_bytes"
NOW = "TRIGGER (AVAILABLE NOW) TASKS 2"
ONCE = "SELECT id, ccy FROM cl_orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (ccy)"
IDLE = (
    "SELECT ccy, count(*) AS n FROM cl_orders GROUP BY ccy, window(ts, '1 hour') GRACE PERIOD INTERVAL 1 MINUTE "
    "EMIT FINAL IDLE TIMEOUT INTERVAL 1 HOUR"
)


@pytest.fixture
def orders(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE STREAM cl_orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    order(spark, 1, "EUR")
    yield spark
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    spark.sql("DROP STREAM cl_orders")
    spark.sql("DROP TABLE IF EXISTS cl_once")
    spark.conf.unset(BACKEND)
    spark.conf.unset(CACHE)
    spark.conf.unset(BLOB_BYTES)
    for leftover in (warehouse(spark) / "cl_once", checkpoint(spark)):
        shutil.rmtree(leftover, ignore_errors=True)


def order(spark: SparkSession, number: int, currency: str) -> None:
    spark.sql(f"INSERT INTO cl_orders VALUES ({number}, '{currency}', TIMESTAMP'2026-01-01 10:00:{number:02d}')")


def checkpoint(spark: SparkSession) -> Path:
    return warehouse(spark) / "_checkpoints/cl_once"


def run(spark: SparkSession, query: str = ONCE, using: str = "parquet") -> None:
    spark.sql(f"CREATE STREAMING TABLE cl_once USING {using} {NOW} AS {query}")


def rows(spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.table("cl_once").collect()))


def described(spark: SparkSession) -> dict[str, str]:
    return {row[0]: row[1] for row in spark.sql("DESCRIBE STREAMING QUERY cl_once").collect()}


def test_it_is_told_what_each_task_keeps_and_where(orders: SparkSession) -> None:
    run(orders)
    order(orders, 2, "EUR")
    run(orders)
    told = described(orders)
    assert told["state"] == str(checkpoint(orders) / "changelog")
    ((name, task),) = ((name, text) for name, text in told.items() if name.startswith("deduplicate_1."))
    assert name in ("deduplicate_1.0", "deduplicate_1.1")
    assert "1 rows, " in task
    assert "worker " in task
    assert task.endswith("micro-batch 1")
    assert (told["partitions"], "state" in {path.name for path in checkpoint(orders).iterdir()}) == ("2", False)
    assert rows(orders) == [(1, "EUR")]


def test_its_logs_are_written_the_short_way_unless_the_session_says_how(orders: SparkSession) -> None:
    setting = "spark.sql.streaming.checkpointFileManagerClass"
    run(orders)
    assert written_by(orders, setting).endswith(".FileSystemBasedCheckpointFileManager")
    assert orders.conf.get(setting, None) is None
    own = written_by(orders, setting).replace("FileSystemBased", "FileContextBased")
    orders.conf.set(setting, own)
    try:
        run(orders)
        assert written_by(orders, setting) == own
    finally:
        orders.conf.unset(setting)


def test_large_pieces_go_between_workers_as_files_and_none_stays(orders: SparkSession) -> None:
    orders.conf.set(BLOB_BYTES, "0")
    orders.sql(f"CREATE STREAMING TABLE cl_once TASKS 2 AS {ONCE}")
    running = registry(orders.sparkContext).find("cl_once")
    assert running is not None
    folder = Path(running.blobs)
    for number, currency in enumerate(["USD", "EUR", "CHF"], start=2):
        running.query.processAllAvailable()
        assert [path.name for path in folder.iterdir()] == [str(number - 2)]
        assert list(folder.rglob("tmp*"))
        order(orders, number, currency)
    running.query.processAllAvailable()
    orders.sql("STOP STREAMING QUERY cl_once")
    assert not folder.exists()
    assert rows(orders) == [(1, "EUR"), (2, "USD"), (4, "CHF")]
    run(orders.newSession())  # one that ends by itself
    again = registry(orders.sparkContext).find("cl_once")
    assert again is not None
    assert (again.status, again.blobs) == ("finished", "")


def test_small_ones_go_through_spark(orders: SparkSession) -> None:
    orders.sql(f"CREATE STREAMING TABLE cl_once TASKS 2 AS {ONCE}")
    running = registry(orders.sparkContext).find("cl_once")
    assert running is not None
    running.query.processAllAvailable()
    assert not Path(running.blobs).exists()


def written_by(spark: SparkSession, setting: str) -> str:
    """What a query's own copy of the session's settings says."""
    query: Any = registry(spark.sparkContext).find("cl_once")
    return str(query.query._jsq.streamingQuery().sparkSessionForStream().conf().get(setting))


@pytest.mark.full
def test_a_checkpoint_goes_on_with_what_it_began_with(orders: SparkSession) -> None:
    orders.conf.set(BACKEND, "store")
    run(orders)
    orders.conf.set(BACKEND, "changelog")
    order(orders, 2, "USD")
    order(orders, 3, "EUR")
    run(orders)
    assert rows(orders) == [(1, "EUR"), (2, "USD")]
    assert described(orders)["state"] == "Spark's state store"
    assert not (checkpoint(orders) / "changelog").exists()


@pytest.mark.full
def test_an_operator_that_waits_for_the_clock_keeps_its_state_where_the_timers_are(orders: SparkSession) -> None:
    orders.sql(f"CREATE STREAMING TABLE cl_once TASKS 2 AS {IDLE}")
    (query,), waited = registry(orders.sparkContext).all(), Event()
    while query.refresh().batches < 1:  # ends by its time limit where nothing comes
        waited.wait(0.1)
    query.query.stop()
    assert (checkpoint(orders) / "state").exists()
    (kept,) = orders.sql("SELECT kept FROM state('cl_once')").collect()
    assert kept.kept == "windows"


@pytest.mark.full
def test_what_waits_for_the_clock_ends_once_all_is_read_and_goes_on_with_its_timers(orders: SparkSession) -> None:
    soon = IDLE.replace("INTERVAL 1 HOUR", "INTERVAL 1 SECOND")
    run(orders, soon)  # AVAILABLE NOW: Spark alone would never end, since there are timers
    (query,) = registry(orders.sparkContext).all()
    assert query.status == "finished"
    assert query.refresh().rows == 1
    while not rows(orders):  # ends by its time limit where the timer never fires
        run(orders, soon)
    assert rows(orders) == [("EUR", 1)]


def test_refused_rows_of_every_operator_of_a_chain_are_kept(orders: SparkSession) -> None:
    def day(number: int, currency: str, time: str) -> None:
        orders.sql(f"INSERT INTO cl_orders VALUES ({number}, {currency}, TIMESTAMP'2026-01-{time}')")

    rates = "(ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts HISTORY RETENTION INTERVAL 1 DAY"
    orders.sql(f"CREATE VERSIONED TABLE cl_rates {rates} LATE TO cl_late_rates")
    try:
        for at in ("05", "01", "06"):
            orders.sql(f"INSERT INTO cl_rates VALUES ('EUR', {at}, TIMESTAMP'2026-01-{at} 10:00:00')")
        once = "SELECT * FROM cl_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) LATE TO cl_late"
        joined = f"SELECT o.*, r.rate FROM ({once}) o JOIN cl_rates r AS OF o.ts ON o.ccy = r.ccy LATE TO cl_late"
        again = f"SELECT id, rate FROM ({joined}) DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id) ON TIME ts"

        def answers() -> None:
            orders.sql(f"CREATE STREAMING TABLE cl_once TRIGGER (AVAILABLE NOW) TASKS 1 AS {again}")

        answers()
        day(2, "'EUR'", "07 10:00:00")
        day(3, "'EUR'", "07 08:59:59")  # late for the deduplication
        day(4, "NULL", "07 10:00:00")  # no key for the join
        answers()
        die_before_commit(checkpoint(orders))
        answers()
        assert rows(orders) == [(2, 6)]
        late = orders.sql("SELECT id, _reason, _operator FROM cl_late ORDER BY id").collect()
        assert [tuple(row) for row in late] == [(3, "late", "deduplicate"), (4, "null_key", "as_of_join")]
        assert [row.rate for row in orders.table("cl_late_rates").collect()] == [1]
        facts = described(orders)
        assert (facts["rows"], facts["late"], facts["null_key"]) == ("3", "1", "1"), "what is read twice counts once"
        kept = orders.sql("SELECT DISTINCT operator FROM state('cl_once')").collect()
        assert {row.operator for row in kept} == {"deduplicate_1", "as_of_join_2", "deduplicate_3"}
        orders.conf.set(BACKEND, "store")
        with pytest.raises(TemporalSqlError, match=r"(?s)STREAMING.LATE_TO_INNER.*LATE TO cl_late.*\^{15}"):
            orders.sql(f"CREATE STREAMING TABLE cl_other TASKS 1 AS {again}")
    finally:
        for table in ("cl_late", "cl_late_rates"):
            orders.sql(f"DROP TABLE IF EXISTS {table}")
            shutil.rmtree(warehouse(orders) / table, ignore_errors=True)
        orders.sql("DROP VERSIONED TABLE cl_rates")


def test_open_windows_that_are_read_as_a_table_go_on_after_a_lost_commit(orders: SparkSession) -> None:
    counted = "SELECT ccy, window.start AS day, count(*) AS n FROM cl_orders GROUP BY ccy, window(ts, '1 day')"
    busiest = f"SELECT day, max(n) AS most FROM ({counted} LATE TO cl_late) GROUP BY day EMIT CHANGES AS CHANGELOG"

    def answers() -> None:
        orders.sql(f"CREATE STREAMING TABLE cl_once TRIGGER (AVAILABLE NOW) TASKS 1 AS {busiest}")

    try:
        answers()
        for number, currency, time in ((2, "EUR", "07 10:00:00"), (3, "CHF", "07 11:00:00"), (4, "EUR", "06 23:00:00")):
            orders.sql(f"INSERT INTO cl_orders VALUES ({number}, '{currency}', TIMESTAMP'2026-01-{time}')")
        answers()
        die_before_commit(checkpoint(orders))
        answers()
        orders.sql("INSERT INTO cl_orders VALUES (5, 'CHF', TIMESTAMP'2026-01-07 12:00:00')")
        answers()
        day = "day = TIMESTAMP'2026-01-07'"
        found = orders.sql(f"SELECT most, _change_type FROM cl_once WHERE {day}").collect()
        assert sorted(map(tuple, found)) == [(1, "insert"), (1, "update_before"), (2, "update_after")]
        late = orders.sql("SELECT id, _reason, _operator FROM cl_late").collect()
        assert [tuple(row) for row in late] == [(4, "late", "window_aggregate")]
    finally:
        orders.sql("DROP TABLE IF EXISTS cl_late")
        shutil.rmtree(warehouse(orders) / "cl_late", ignore_errors=True)


def test_what_cannot_be_is_said(orders: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    orders.conf.set(BACKEND, "changelog")
    run(orders, using="memory")
    assert "keeps its state in Spark's state store, not as a changelog: it has no checkpoint" in caplog.text
    orders.conf.set(BACKEND, "rocksdb")
    with pytest.raises(TemporalSqlError) as refused:
        run(orders)
    assert refused.value.condition == "STREAMING.STATE_BACKEND"


@pytest.mark.parametrize(
    ("harm", "condition"),
    [
        ("torn", "STATE.CORRUPT_SEGMENT"),
        pytest.param("gone", "STATE.MISSING_SEGMENT", marks=pytest.mark.full),
        pytest.param("last", "STATE.MISSING_BATCH", marks=pytest.mark.full),
    ],
)
def test_files_that_were_harmed_are_said_and_a_copy_brings_the_query_back(
    orders: SparkSession, tmp_path: Path, harm: str, condition: str
) -> None:
    orders.conf.set(CACHE, "0")  # who has a state in memory reads no segment
    run(orders)
    order(orders, 2, "USD")
    run(orders)
    order(orders, 3, "EUR")
    shutil.copytree(checkpoint(orders), tmp_path / "copy")
    folder = checkpoint(orders) / "changelog/deduplicate_1"
    for path in list(folder.rglob("*.delta") if harm != "last" else folder.glob("batches/1.*")):
        if harm == "torn":
            path.write_bytes(path.read_bytes()[:-5])
        else:
            path.unlink()
    with pytest.raises(TemporalSqlError) as refused:
        run(orders)
    assert (refused.value.condition, str(refused.value).count("\n")) == (condition, 1)
    shutil.rmtree(checkpoint(orders))
    shutil.copytree(tmp_path / "copy", checkpoint(orders))
    run(orders)
    assert rows(orders) == [(1, "EUR"), (2, "USD")]
