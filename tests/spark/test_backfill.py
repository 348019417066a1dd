"""BACKFILL: history, then the stream, in one statement; the answers are those of one query over everything."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming.registry import registry
from sqlx.streaming.start import Starter
from tests.harness.killing import warehouse
from udtf.engine.folders import HadoopFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = "TIMESTAMP'2026-01-01 00:00:00'"
#: Event times are unique and in order: each row of one file, 10 seconds (orders) and 7 seconds (rates) apart.
ORDERS = (
    f"SELECT /*+ COALESCE(1) */ id, concat('k', id % 3) AS k, timestampadd(SECOND, id * 10, {START}) AS ts FROM range"
)
RATES = f"""
SELECT /*+ COALESCE(1) */ concat('k', id % 3) AS k, timestampadd(SECOND, id * 7, {START}) AS ts, id AS r FROM range"""
JOIN = "SELECT o.id, o.k, r.r FROM {} o LEFT JOIN bf_rates r AS OF o.ts ON o.k = r.k"
DEDUPLICATE = "SELECT id, k FROM {} DEDUPLICATE WITHIN INTERVAL 45 SECONDS BY (k)"
WINDOWS = (
    "SELECT k, window.start AS ws, count(*) AS n, sum(id) AS s FROM {} GROUP BY k, window(ts, '1 minute') EMIT FINAL"
)
CHAIN = (
    "SELECT d.id, r.r FROM (SELECT * FROM {} DEDUPLICATE WITHIN INTERVAL 45 SECONDS BY (k)) d"
    " JOIN bf_rates r AS OF d.ts ON d.k = r.k"
)
#: Spark may write into the checkpoint of a query that has ended for a moment yet: each test has a table of its own.
NUMBERS = count(1)
QUERIES = {"join": JOIN, "deduplicate": DEDUPLICATE, "windows": WINDOWS, "chain": CHAIN}


class Current:
    """The table of the test that runs."""

    table = ""


def table() -> str:
    return Current.table


@pytest.fixture
def recorded(spark: SparkSession) -> Iterator[SparkSession]:
    Current.table = f"bf_rows{next(NUMBERS)}"
    spark.sql("CREATE TABLE bf_orders_log (id BIGINT, k STRING, ts TIMESTAMP) USING parquet")
    spark.sql("CREATE TABLE bf_rates_log (k STRING, ts TIMESTAMP, r BIGINT) USING parquet")
    spark.sql(f"INSERT INTO bf_orders_log {ORDERS}(60)")
    spark.sql(f"INSERT INTO bf_rates_log {RATES}(80)")
    spark.sql("CREATE STREAM bf_orders FROM bf_orders_log TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE bf_rates FROM bf_rates_log KEYS (k) TIMESTAMP BY ts")
    yield spark
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    spark.conf.unset("sqlx.backfill.rows")
    spark.conf.unset("sqlx.state_backend")
    spark.sql("DROP STREAM bf_orders")
    spark.sql("DROP VERSIONED TABLE bf_rates")
    house = warehouse(spark)
    for name in ("bf_orders_log", "bf_rates_log", "bf_old", table()):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        for leftover in (house / name, house / "_checkpoints" / name):
            shutil.rmtree(leftover, ignore_errors=True)


def backfill(spark: SparkSession, clause: str, query: str, more: str = "") -> list[tuple[Any, ...]]:
    """The rows of a table of that name once all that is there was read."""
    stream = query.format("STREAM bf_orders")
    spark.sql(f"CREATE STREAMING TABLE {table()} TRIGGER (AVAILABLE NOW) TASKS 2 {more} {clause} AS {stream}")
    return sorted(map(tuple, spark.table(table()).collect()), key=str)


def over_everything(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    found = sorted(map(tuple, spark.sql(query.format("bf_orders")).collect()), key=str)
    if "EMIT FINAL" not in query:
        return found
    closed = max(row[1] for row in found)  # live, the last windows are open
    return [row for row in found if row[1] < closed]


def checkpoint(spark: SparkSession) -> Path:
    return Path(warehouse(spark), "_checkpoints", table())


@pytest.mark.parametrize(
    ("query", "cut", "rows", "backend"),
    [
        ("join", 305, 11, "changelog"),
        pytest.param("chain", 212, 30, "store", marks=pytest.mark.full),
        *(
            pytest.param(query, cut, rows, ("changelog", "store")[number % 2], marks=pytest.mark.full)
            for query in QUERIES
            for number, (cut, rows) in enumerate(
                ((-1, 5), (0, 50), (1, 7), (133, 2), (290, 1_000), (300, 9), (557, 20), (10_000, 13))
            )
        ),
    ],
)
def test_cut_anywhere_the_answer_is_that_of_one_query(
    recorded: SparkSession, query: str, cut: int, rows: int, backend: str
) -> None:
    recorded.conf.set("sqlx.backfill.rows", str(rows))
    recorded.conf.set("sqlx.state_backend", backend)
    text = QUERIES[query]
    expected = over_everything(recorded, text)
    found = backfill(recorded, f"BACKFILL FROM bf_orders_log UNTIL {START} + INTERVAL '{cut}' SECOND", text)
    if query == "windows":
        assert {row[:2] for row in expected[:-3]} <= {row[:2] for row in found}
        assert set(found) <= set(expected)
    else:
        assert found == expected


@pytest.mark.full
def test_a_position_of_its_own_for_each_source(recorded: SparkSession) -> None:
    expected = over_everything(recorded, JOIN)
    clause = "BACKFILL bf_orders FROM bf_orders_log UNTIL id < 20, bf_rates FROM bf_rates_log UNTIL r <= 28"
    assert backfill(recorded, clause, JOIN) == expected


@pytest.mark.full
def test_without_until_the_history_is_all_of_another_table(recorded: SparkSession) -> None:
    expected = over_everything(recorded, DEDUPLICATE)
    recorded.sql("CREATE TABLE bf_old USING parquet AS SELECT * FROM bf_orders_log WHERE id < 25")
    recorded.sql(f"INSERT OVERWRITE bf_orders_log {ORDERS}(25, 60)")
    assert backfill(recorded, "BACKFILL FROM bf_old", DEDUPLICATE) == expected


def test_it_goes_on_where_it_was_and_needs_its_history_no_more(recorded: SparkSession) -> None:
    clause = f"BACKFILL FROM bf_old UNTIL {START} + INTERVAL 5 MINUTES"
    recorded.sql("CREATE TABLE bf_old USING parquet AS SELECT * FROM bf_orders_log")
    first = backfill(recorded, clause, JOIN)
    recorded.sql("DROP TABLE bf_old")
    assert backfill(recorded, clause, JOIN) == first
    # A row of the time of history is not one of the stream, whenever it comes.
    recorded.sql(f"INSERT INTO bf_orders_log VALUES (-1, 'k0', {START} + INTERVAL 1 MINUTE)")
    recorded.sql(f"INSERT INTO bf_orders_log VALUES (999, 'k0', {START} + INTERVAL 1 HOUR)")
    after = backfill(recorded, clause, JOIN)
    assert [row for row in after if row not in first] == [(999, "k0", 78)]
    with pytest.raises(TemporalSqlError, match="it was begun with BACKFILL FROM bf_old"):
        backfill(recorded, "", JOIN)
    assert sorted(path.name for path in (checkpoint(recorded) / "backfill").iterdir() if path.name[0] != ".") == [
        "_sqlx.json"
    ]


ENDED = "the process ended here"


@dataclass
class Ends:
    """Lets the process of a statement end at the n-th call of something, before it."""

    after: int
    calls: int = 0

    def __call__(self, *_: object) -> None:
        self.calls += 1
        if self.calls == self.after:
            raise RuntimeError(ENDED)


@pytest.mark.parametrize(
    ("place", "call"),
    [
        *(pytest.param("move", call, marks=pytest.mark.full) for call in (1, 2, 3, 4, 6)),
        *(pytest.param("wait", call, marks=pytest.mark.full) for call in (1, 2)),
        *(pytest.param("note", call, marks=pytest.mark.full) for call in (1, 2)),
        pytest.param("write", 5, marks=pytest.mark.full),  # both notes were written, and the offsets of one micro-batch
        pytest.param("write", 4, marks=pytest.mark.full),
        *(pytest.param("delete", call, marks=pytest.mark.full) for call in (2, 3, 4)),
    ],
)
def test_whatever_ends_it_the_next_start_goes_on(
    recorded: SparkSession, monkeypatch: pytest.MonkeyPatch, place: str, call: int
) -> None:
    recorded.conf.set("sqlx.backfill.rows", "20")
    clause = f"BACKFILL FROM bf_orders_log UNTIL {START} + INTERVAL '305' SECOND"
    ends = Ends(call)
    owner, name = (Starter, "_wait_for_start") if place == "wait" else (HadoopFolder, place)
    done = getattr(owner, name)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, lambda self, *given: (ends(), done(self, *given))[1])
        with pytest.raises(Exception, match=ENDED):
            backfill(recorded, clause, JOIN)
    for query in registry(recorded.sparkContext).all():
        query.query.stop()
    assert backfill(recorded, clause, JOIN) == over_everything(recorded, JOIN)


@pytest.mark.full
def test_where_a_file_system_dates_files_itself_one_slice_comes_after_the_other(
    recorded: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded.conf.set("sqlx.backfill.rows", "20")
    monkeypatch.setattr(HadoopFolder, "date", lambda *_: False)
    clause = f"BACKFILL FROM bf_orders_log UNTIL {START} + INTERVAL '305' SECOND"
    assert backfill(recorded, clause, JOIN) == over_everything(recorded, JOIN)


@pytest.mark.parametrize(
    ("clause", "query", "condition", "says"),
    [
        ("BACKFILL FROM nowhere", JOIN, "BACKFILL.UNTIL", "`bf_orders` has no time UNTIL which it is history"),
        ("BACKFILL FROM nowhere", DEDUPLICATE, "BACKFILL.HISTORY", "`nowhere`"),
        ("BACKFILL FROM (SELECT id, ts FROM bf_orders_log)", DEDUPLICATE, "BACKFILL.HISTORY", "no column `k`"),
        (
            "BACKFILL FROM (SELECT CAST(id AS INT) AS id, k, ts FROM bf_orders_log)",
            DEDUPLICATE,
            "BACKFILL.HISTORY",
            "its column `id` is INT, and that of `bf_orders` BIGINT",
        ),
        ("BACKFILL rates FROM bf_rates_log", DEDUPLICATE, "BACKFILL.SOURCE", "it reads `bf_orders`"),
        ("BACKFILL FROM bf_orders_log, bf_orders FROM bf_orders_log", DEDUPLICATE, "BACKFILL.SOURCE", "two of them"),
        ("BACKFILL FROM bf_orders_log UNTIL 7", DEDUPLICATE, "BACKFILL.UNTIL", "it is of the type INT"),
        ("BACKFILL FROM bf_orders_log UNTIL id + 1", DEDUPLICATE, "BACKFILL.UNTIL", "it is of the type BIGINT"),
        ("BACKFILL FROM bf_orders_log UNTIL nr < 1", DEDUPLICATE, "BACKFILL.UNTIL", "`nr`"),
        ("BACKFILL FROM bf_orders_log UNTIL 'soon'", DEDUPLICATE, "BACKFILL.UNTIL", "'soon'"),
        ("BACKFILL FROM bf_orders_log UNTIL CAST(NULL AS TIMESTAMP)", DEDUPLICATE, "BACKFILL.UNTIL", "it is NULL"),
        ("USING console BACKFILL FROM bf_orders_log", DEDUPLICATE, "BACKFILL.SOURCE", "without a CHECKPOINT"),
    ],
)
def test_what_is_wrong_with_it_is_said_before_anything_is_written(
    recorded: SparkSession, clause: str, query: str, condition: str, says: str
) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        backfill(recorded, clause, query)
    message = str(refused.value)
    assert refused.value.condition == condition
    assert says in message
    assert "^" in message
    assert not checkpoint(recorded).exists()


@pytest.mark.full
def test_of_two_versions_of_one_time_the_last_to_arrive_counts_in_a_history_too(recorded: SparkSession) -> None:
    recorded.conf.set("sqlx.backfill.rows", "17")
    for rate in (1000, 2000, 3000):  # each a file of its own, later than the one before
        recorded.sql(f"INSERT INTO bf_rates_log SELECT k, ts, {rate} + r FROM bf_rates_log WHERE r < 40 AND r % 7 = 0")
    expected = over_everything(recorded, JOIN)
    assert max(row[2] for row in expected if row[0] < 20) > 3000
    assert backfill(recorded, f"BACKFILL FROM bf_orders_log UNTIL {START} + INTERVAL 400 SECONDS", JOIN) == expected


@pytest.mark.full
def test_what_is_behind_another_definition_begins_with_its_history_too(recorded: SparkSession) -> None:
    recorded.sql("CREATE STREAM bf_even TIMESTAMP BY ts AS SELECT id, k, ts FROM bf_orders WHERE id % 2 = 0")
    query = "SELECT id, k FROM bf_even DEDUPLICATE WITHIN INTERVAL 45 SECONDS BY (k)"
    clause = f"BACKFILL bf_orders FROM bf_orders_log UNTIL {START} + INTERVAL 2 MINUTES"
    try:
        expected = sorted(map(tuple, recorded.sql(query).collect()), key=str)
        assert backfill(recorded, clause, query) == expected
    finally:
        recorded.sql("DROP STREAM bf_even")


@pytest.mark.full
def test_an_upsert_table_needs_to_say_which_row_came_last(recorded: SparkSession) -> None:
    recorded.sql("CREATE UPSERT TABLE bf_last FROM bf_rates_log KEYS (k) TIMESTAMP BY ts")
    query = "SELECT o.id, r.r FROM {} o LEFT JOIN bf_last r ON o.k = r.k"
    try:
        with pytest.raises(TemporalSqlError, match="an upsert table without SEQUENCE BY"):
            backfill(recorded, f"BACKFILL FROM bf_orders_log UNTIL {START}", query)
        recorded.sql("CREATE OR REPLACE UPSERT TABLE bf_last FROM bf_rates_log KEYS (k) TIMESTAMP BY ts SEQUENCE BY r")
        found = backfill(recorded, f"BACKFILL FROM bf_orders_log UNTIL {START} + INTERVAL 3 MINUTES", query)
    finally:
        recorded.sql("DROP UPSERT TABLE bf_last")
    by_time = {row[0]: row[1] for row in map(tuple, recorded.sql(JOIN_LATEST).collect())}
    assert {row[0]: row[1] for row in found} == by_time


#: What was the last rate at each order's time, in plain SQL: rates come before orders of their time.
JOIN_LATEST = """
SELECT o.id, (SELECT max_by(r.r, r.ts) FROM bf_rates_log r WHERE r.k = o.k AND r.ts <= o.ts) FROM bf_orders_log o"""
