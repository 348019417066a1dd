"""A query that is edited and started again: what its state outlives goes on, all else is refused before it starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming.registry import registry
from tests.harness.killing import warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN = "FROM ed_orders o LEFT JOIN ed_rates r AS OF o.ts ON o.ccy = r.ccy"
NOW = "TRIGGER (AVAILABLE NOW) TASKS 2"
NUMBERS = count(1)
#: After how many micro-batches Spark puts the log of a table of files into one file: it wants to hear of each.
COMPACTED_EVERY = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture
def recorded(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE STREAM ed_orders (id INT, ccy STRING, amount INT, ts TIMESTAMP) TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE ed_rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts")
    spark.sql("INSERT INTO ed_rates VALUES ('EUR', 110, TIMESTAMP'2026-01-01 10:00:00')")
    yield spark
    spark.conf.unset("sqlx.state_backend")
    spark.conf.unset(COMPACTED_EVERY)
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    spark.sql("DROP STREAM ed_orders")
    spark.sql("DROP VERSIONED TABLE ed_rates")
    house = warehouse(spark)
    for name in ("ed_rows", "ed_noop", "ed_late"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        for leftover in (house / name, house / "_checkpoints" / name):
            shutil.rmtree(leftover, ignore_errors=True)


def one_more(spark: SparkSession) -> int:
    number = next(NUMBERS)
    spark.sql(f"INSERT INTO ed_orders VALUES ({number}, 'EUR', {number}, TIMESTAMP'2026-01-01 10:05:00')")
    return number


def started(spark: SparkSession, query: str, using: str = "", name: str = "ed_rows") -> str:
    """How it went: "" or the error, which points to what it is about."""
    try:
        spark.sql(f"CREATE STREAMING TABLE {name} {using} {NOW} AS {query}")
    except TemporalSqlError as error:
        return f"{error.condition}: {error}"
    return ""


def rows(spark: SparkSession) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.table("ed_rows").collect()))


def test_another_text_around_the_operator_goes_on_and_new_columns_are_null_before(recorded: SparkSession) -> None:
    first = one_more(recorded)
    assert started(recorded, f"SELECT o.id, r.rate {JOIN}") == ""
    second = one_more(recorded)
    assert started(recorded, f"SELECT o.id, r.rate * 2 AS rate {JOIN} WHERE r.rate > 5") == ""
    third = one_more(recorded)
    assert started(recorded, f"SELECT o.id, r.rate, r.rate + 1 AS more {JOIN}") == ""
    assert rows(recorded) == [(first, 110, None), (second, 220, None), (third, 110, 111)]
    renamed = started(recorded, f"SELECT o.id AS other, r.rate, r.rate + 1 AS more {JOIN}")
    assert "the columns of its table are id int, rate int, more int" in renamed
    one_more(recorded)
    assert "its query reads" in started(recorded, f"SELECT o.id, r.rate, r.rate + 1 AS more {JOIN} TIES BY r.rate")
    assert len(rows(recorded)) == 3
    note = (warehouse(recorded) / "_checkpoints/ed_rows/_sqlx.json").read_text()
    assert "r.rate + 1 AS more FROM" in note
    (kept,) = recorded.sql("SELECT key FROM state('ed_rows')").collect()  # by the text that goes on now
    assert kept.key == '{"ccy": "EUR"}'


BASE = f"SELECT o.id, r.rate {JOIN}"
GOES_ON = [
    "SELECT o.id + 1 AS id, r.rate {join}",
    "SELECT r.rate, o.id {join}",
    "SELECT o.id {join}  WHERE r.rate IS NOT NULL",
    "SELECT o.id, r.rate {join} WHERE o.id % 2 = 0 AND r.rate > 1",
    "SELECT o.id, CASE WHEN r.rate > 5 THEN 'high' ELSE 'low' END AS level, r.rate {join}",
    "SELECT named_struct('id', o.id, 'rate', r.rate) AS both {join}",
    "SELECT o.id, coalesce(r.rate, 0) AS rate {join}",
    "SELECT id, rate FROM (SELECT o.id, r.rate {join}) AS inner_rows",
    "WITH j AS (SELECT o.id, r.rate {join}) SELECT id, rate FROM j WHERE rate > 0",
    "SELECT o.id, r.rate, current_timestamp() AS seen {join}",
    "SELECT o.id, r.rate {join} TOLERANCE INTERVAL 1 HOUR",
    "SELECT o.id, r.rate {join} TOLERANCE INTERVAL 2 HOURS WHERE r.rate IS NOT NULL",
    "SELECT o.id, r.rate FROM ed_orders o LEFT JOIN ed_rates r AS OF o.ts EXCLUSIVE ON o.ccy = r.ccy",
    "SELECT o.id, r.rate {join} WITH REASON",
    "SELECT o.id, r.rate FROM ed_orders o JOIN ed_rates r AS OF o.ts ON o.ccy = r.ccy",
    "SELECT o.id, /* the rate of then */ r.rate {join}",
    "SELECT o.id, round(r.rate / 3.0, 2) AS third {join}",
    "SELECT o.id, r.rate {join} WHERE r.rate IN (110, 220)",
    "SELECT o.id, r.rate IS NULL AS is_missing {join}",
    "SELECT concat('#', o.id) AS name, r.rate {join}",
    "SELECT * FROM (SELECT o.id, r.rate {join}) WHERE id BETWEEN 1 AND 1000",
    "SELECT o.id, r.rate, o.amount {join}",
    "SELECT o.ccy, r.ts, o.id {join}",
]
REFUSED = [
    "SELECT DISTINCT o.id, r.rate {join}",
    "SELECT o.id, r.rate {join} GRACE PERIOD INTERVAL 1 MINUTE",
    "SELECT o.id, r.rate {join} TIES BY r.rate",
    "SELECT o.id, r.rate {join} UNION ALL SELECT o.id, r.rate {join}",
    "SELECT id, rate, row_number() OVER (ORDER BY id) AS n FROM (SELECT o.id, r.rate {join})",
    "SELECT o.id, r.rate {join} LIMIT 10",
    "SELECT o.id, r.rate FROM ed_orders o LEFT JOIN ed_rates r AS OF o.ts + INTERVAL 1 MINUTE ON o.ccy = r.ccy",
    "SELECT o.id, r.rate FROM ed_orders o LEFT JOIN ed_rates r AS OF o.ts ON lower(o.ccy) = r.ccy",
    "SELECT o.id, r.rate FROM (SELECT * FROM ed_orders WHERE id > 0) o LEFT JOIN ed_rates r AS OF o.ts"
    " ON o.ccy = r.ccy",
    "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)",
    "SELECT ccy, count(*) AS n FROM ed_orders GROUP BY ccy EMIT CHANGES",
]


WINDOWS = "SELECT ccy, count(*) AS n FROM ed_orders GROUP BY ccy, window(ts, '1 minute')"


@pytest.mark.full
def test_a_table_of_edits(recorded: SparkSession) -> None:
    one_more(recorded)
    assert started(recorded, BASE, "USING noop", "ed_noop") == ""
    for text in GOES_ON:
        assert started(recorded, text.format(join=JOIN), "USING noop", "ed_noop") == "", text
    for text in REFUSED:
        said = started(recorded, text.format(join=JOIN), "USING noop", "ed_noop")
        assert any(condition in said for condition in ("CHECKPOINT_OTHER_QUERY", "UNSUPPORTED.")), (text, said)
        assert "^^^" in said, text
    assert started(recorded, BASE, "USING noop", "ed_noop") == ""


#: First a query, then edits of it with which it goes on, and others with which it does not.
OTHERS = {
    "waiting join": (
        [
            "SELECT o.id, r.rate {join} GRACE PERIOD INTERVAL 1 MINUTE",
            "SELECT o.id, r.rate {join} GRACE PERIOD INTERVAL 10 MINUTES",
            "SELECT o.id, r.rate {join} GRACE PERIOD INTERVAL 0 SECONDS TOLERANCE INTERVAL 1 HOUR",
            "SELECT o.id, r.rate + 1 AS rate {join} GRACE PERIOD INTERVAL 5 SECONDS",
            "SELECT o.id, r.rate, o.amount {join} GRACE PERIOD INTERVAL 1 MINUTE",
        ],
        ["SELECT o.id, r.rate {join}"],
    ),
    "deduplication": (
        [
            "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)",
            "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) LATE DROP",
            "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) LATE FORWARD",
            "SELECT id, lower(ccy) AS ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) WHERE id > 0",
            "SELECT id, amount FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)",
        ],
        [
            "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 2 HOURS BY (id)",
            "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id, ccy)",
            "SELECT id, ccy FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) KEEP LAST",
        ],
    ),
    "windows": (
        [
            f"{WINDOWS} GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL",
            f"{WINDOWS} GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL BUFFER MAX 1000 ROWS WHEN FULL FAIL",
            f"{WINDOWS} GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL BUFFER MAX 2000 ROWS WHEN FULL SPILL",
            f"{WINDOWS} GRACE PERIOD INTERVAL 1 MINUTE HAVING count(*) > 1 EMIT FINAL",
            f"{WINDOWS} GRACE PERIOD INTERVAL 2 MINUTES EMIT FINAL",
            f"{WINDOWS} EMIT FINAL",
        ],
        [
            f"{WINDOWS.replace('n FROM', 'n, window FROM')} GRACE PERIOD INTERVAL 1 MINUTE EMIT CHANGES AS UPSERT",
            f"{WINDOWS} GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL".replace("'1 minute'", "'2 minutes'"),
        ],
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", OTHERS)
def test_edits_of_other_operators(recorded: SparkSession, kind: str) -> None:
    goes_on, refused = ([text.format(join=JOIN) for text in texts] for texts in OTHERS[kind])
    one_more(recorded)
    for text in goes_on:
        assert started(recorded, text, "USING noop", "ed_noop") == "", text
    for text in refused:
        said = started(recorded, text, "USING noop", "ed_noop")
        assert "CHECKPOINT_OTHER_QUERY" in said, text
        assert "^^^" in said, text
    assert started(recorded, goes_on[0], "USING noop", "ed_noop") == ""


@pytest.mark.full
def test_what_is_asked_when_a_row_leaves_may_be_another_one_tomorrow(recorded: SparkSession) -> None:
    waits = f"SELECT o.id, r.rate {JOIN} GRACE PERIOD INTERVAL"
    first = one_more(recorded)
    assert started(recorded, f"{waits} 1 HOUR") == ""
    assert rows(recorded) == []
    recorded.sql("INSERT INTO ed_orders VALUES (-1, 'USD', 0, TIMESTAMP'2026-01-01 10:15:00')")
    assert started(recorded, f"{waits} 1 MINUTE") == ""  # it has waited long enough now
    assert rows(recorded) == [(first, 110)]
    recorded.sql("INSERT INTO ed_orders VALUES (-2, 'EUR', 0, TIMESTAMP'2026-01-01 10:30:00')")
    recorded.sql("INSERT INTO ed_orders VALUES (-3, 'EUR', 0, TIMESTAMP'2026-01-01 11:30:00')")
    inner = f"SELECT o.id, r.rate {JOIN} GRACE PERIOD INTERVAL 1 MINUTE TOLERANCE INTERVAL 20 MINUTES"
    assert started(recorded, inner) == ""
    assert rows(recorded) == [(-2, None), (-1, None), (first, 110)]  # too far from 10:00


@pytest.mark.full
@pytest.mark.parametrize("function", ["count(*)", "count(DISTINCT id)"])  # compiled, and row by row
def test_windows_wait_shorter_or_longer_tomorrow_and_stay_closed(recorded: SparkSession, function: str) -> None:
    def rows_of(grace: str, *times: str) -> list[tuple[Any, ...]]:
        for time in times:
            recorded.sql(f"INSERT INTO ed_orders VALUES ({next(NUMBERS)}, 'EUR', 1, TIMESTAMP'2026-01-01 {time}')")
        query = f"SELECT date_format(window.start, 'mm') AS m, {function} AS n FROM ed_orders"
        windows = f"GROUP BY window(ts, '1 minute') GRACE PERIOD INTERVAL {grace} EMIT FINAL LATE TO ed_late"
        assert started(recorded, f"{query} {windows}") == ""
        return rows(recorded)

    assert rows_of("5 MINUTES", "10:00:10", "10:04:00") == []
    assert rows_of("1 MINUTE", "10:03:30") == [("00", 1)]  # overdue by now; the row itself is not late
    waiting = rows_of("10 MINUTES", "10:00:20", "10:12:00")
    assert waiting == [("00", 1)], "a window that has closed is not given out twice"
    assert [row.n for row in recorded.sql("SELECT count(*) AS n FROM ed_late").collect()] == [1]
    assert rows_of("0 SECONDS", "10:03:40", "10:12:30") == [("00", 1), ("03", 1), ("04", 1)]


@pytest.mark.parametrize("backend", ["changelog", pytest.param("store", marks=pytest.mark.full)])
def test_a_further_column_is_null_in_what_was_kept_before(
    recorded: SparkSession, backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    recorded.conf.set("sqlx.state_backend", backend)
    waits = "GRACE PERIOD INTERVAL 1 MINUTE"
    first = one_more(recorded)
    assert started(recorded, f"SELECT o.id, r.rate {JOIN} {waits}") == ""  # the row waits, the version is kept
    recorded.sql("INSERT INTO ed_orders VALUES (-1, 'EUR', 7, TIMESTAMP'2026-01-01 10:20:00')")
    recorded.sql("INSERT INTO ed_rates VALUES ('EUR', 120, TIMESTAMP'2026-01-01 10:10:00')")
    recorded.sql("INSERT INTO ed_orders VALUES (-2, 'EUR', 8, TIMESTAMP'2026-01-01 10:30:00')")
    edited = f"SELECT o.id, r.rate, o.amount, date_format(r.ts, 'HH:mm') AS since {JOIN} {waits}"
    assert started(recorded, edited) == ""
    assert "What its state holds from before has NULL in `amount`, `ts`." in caplog.messages
    assert rows(recorded) == [(-1, 120, 7, "10:10"), (first, 110, None, None)]
    kept = recorded.sql("SELECT value FROM state('ed_rows') WHERE kept = 'versions' ORDER BY valid_from").collect()
    assert kept[0].value == '{"rate": 110, "ts": null}'


def test_a_source_that_gains_a_column_or_changes_a_type(spark: SparkSession, tmp_path: Any) -> None:
    def define(columns: str) -> None:
        of_files = f"KEYS (ccy) TIMESTAMP BY ts USING parquet OPTIONS (path '{tmp_path}/rates')"
        spark.sql(f"CREATE OR REPLACE VERSIONED TABLE ed_rates (ccy STRING, {columns}, ts TIMESTAMP) {of_files}")

    (tmp_path / "rates").mkdir()
    spark.sql("CREATE STREAM ed_orders (id INT, ccy STRING, amount INT, ts TIMESTAMP) TIMESTAMP BY ts")
    query = f"SELECT o.id, CAST(r.rate AS STRING) AS rate {JOIN}"
    try:
        define("rate INT")
        spark.sql("SELECT 'EUR' AS ccy, 110 AS rate, TIMESTAMP'2026-01-01 10:00:00' AS ts").write.mode(
            "append"
        ).parquet(f"{tmp_path}/rates")
        first = one_more(spark)
        assert started(spark, query) == ""
        define("rate FLOAT")
        refused = started(spark, query)
        assert "CHECKPOINT_OTHER_QUERY" in refused
        assert "its state holds rate as INT, its query reads FLOAT" in refused
        define("source STRING, rate INT")
        second = one_more(spark)
        assert started(spark, query.replace(" FROM ed_orders", ", r.source FROM ed_orders")) == ""
        assert rows(spark) == [(first, "110", None), (second, "110", None)]
    finally:
        for statement in ("TABLE IF EXISTS ed_rows", "STREAM ed_orders", "VERSIONED TABLE ed_rates"):
            spark.sql(f"DROP {statement}")
        for leftover in ("ed_rows", "_checkpoints/ed_rows"):
            shutil.rmtree(warehouse(spark) / leftover, ignore_errors=True)


@pytest.mark.full
def test_a_table_of_refused_rows_gains_the_columns_of_its_source(spark: SparkSession, tmp_path: Any) -> None:
    def put(columns: str, values: str) -> None:
        of_files = f"TIMESTAMP BY ts USING parquet OPTIONS (path '{tmp_path}')"
        spark.sql(f"CREATE OR REPLACE STREAM ed_orders ({columns}, ts TIMESTAMP) {of_files}")
        rows = spark.createDataFrame(spark.sql(f"VALUES ({values})").collect(), f"{columns}, day STRING")
        rows.selectExpr("* EXCEPT (day)", "CAST(day AS TIMESTAMP) AS ts").write.mode("append").parquet(str(tmp_path))

    query = "SELECT id FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) LATE TO ed_late"
    try:
        for day in ("2026-01-02", "2026-01-01"):  # of one task: stream time is each task's own
            put("id INT", f"1, '{day}'")
            assert started(spark, query) == ""
        put("id INT, amount INT", "1, 7, '2026-01-01'")
        assert started(spark, query) == ""
        late = spark.sql("SELECT id, amount, _reason FROM ed_late ORDER BY amount").collect()
        assert [tuple(row) for row in late] == [(1, None, "late"), (1, 7, "late")]
    finally:
        for statement in ("TABLE IF EXISTS ed_rows", "TABLE IF EXISTS ed_late", "STREAM ed_orders"):
            spark.sql(f"DROP {statement}")
        for leftover in ("ed_rows", "ed_late", "_checkpoints/ed_rows"):
            shutil.rmtree(warehouse(spark) / leftover, ignore_errors=True)


@pytest.mark.full
def test_windows_and_csv(recorded: SparkSession) -> None:
    grouped = "FROM ed_orders GROUP BY ccy, window(ts, '1 minute') GRACE PERIOD INTERVAL 0 SECONDS"
    one_more(recorded)
    assert started(recorded, f"SELECT ccy, count(*) AS n {grouped} EMIT FINAL", "USING csv") == ""
    assert started(recorded, f"SELECT ccy, count(*) + 0 AS n {grouped} EMIT FINAL", "USING csv") == ""
    more = started(recorded, f"SELECT ccy, count(*) AS n, 1 AS one {grouped} EMIT FINAL", "USING csv")
    assert "the columns of its table are" in more  # columns of CSV files go by their places
    assert started(recorded, f"SELECT ccy, sum(amount) AS n {grouped} EMIT FINAL", "USING csv") != ""


def test_rows_go_to_another_sink_from_now_on(recorded: SparkSession, tmp_path: Path) -> None:
    recorded.conf.set(COMPACTED_EVERY, "3")
    join = f"SELECT o.id, r.rate {JOIN}"
    for _ in range(4):
        first = one_more(recorded)
        assert started(recorded, join, "USING noop") == ""
    kept = []
    for _ in range(3):
        kept.append(one_more(recorded))
        assert started(recorded, join, "USING parquet") == ""
    assert rows(recorded) == [(number, 110) for number in kept]
    there = started(recorded, join, "USING csv")
    assert "the table ed_rows is there and holds what it wrote before; copy its rows and drop it" in there
    assert "its rows are in" in started(recorded, join, f"USING parquet OPTIONS (path '{tmp_path}')")
    one_more(recorded)
    assert started(recorded, join, "USING noop") == ""
    after = one_more(recorded)
    assert started(recorded, join, "USING parquet") == ""  # into the table that is still there
    assert rows(recorded) == [(number, 110) for number in [*kept, after]]
    recorded.sql("DROP TABLE ed_rows")
    last = one_more(recorded)
    assert started(recorded, f"{join} WHERE o.id > {first}", "USING json") == ""
    assert rows(recorded) == [(last, 110)]


ONCE = "SELECT id FROM ed_orders DEDUPLICATE WITHIN INTERVAL 1 MINUTE BY (ccy)"


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(ONCE, marks=pytest.mark.full),
        pytest.param(f"{ONCE} KEEP LAST", marks=pytest.mark.full),
        f"{WINDOWS} EMIT FINAL",
        pytest.param(f"SELECT o.id, r.rate {JOIN}", marks=pytest.mark.full),
    ],
    ids=["first", "last", "windows", "join"],
)
def test_refused_rows_are_kept_from_now_on(recorded: SparkSession, query: str) -> None:
    recorded.conf.set(COMPACTED_EVERY, "3")

    def a_late_row() -> None:  # in time, without a key for the join and the deduplication
        key = "NULL" if "ed_rates" in query else "'EUR'"
        recorded.sql(f"INSERT INTO ed_orders VALUES ({next(NUMBERS)}, {key}, 1, TIMESTAMP'2026-01-01 10:00:00')")

    recorded.sql("INSERT INTO ed_orders VALUES (0, 'EUR', 1, TIMESTAMP'2026-01-01 12:00:00')")
    for _ in range(2):
        assert started(recorded, query) == ""
        a_late_row()
    for _ in range(3):
        assert started(recorded, f"{query.replace('LEFT JOIN', 'JOIN')} LATE TO ed_late") == ""
        a_late_row()
    assert recorded.table("ed_late").count() == 3
    assert started(recorded, query) == ""
