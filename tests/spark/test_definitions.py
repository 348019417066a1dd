"""Definitions in a real session: what Spark's catalog shows of them, and what reading them answers."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog.relations import as_of_sql, history_sql
from catalog.spark import SparkCatalog
from sqlx.errors import BindError, TemporalSqlError, UnsupportedError
from tests.harness.releases import RELEASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent


class Definitions:
    """A session, and what its catalog knows."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.catalog = SparkCatalog(spark)

    def run(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.spark.sql(text).collect()]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return sorted(self.run(query), key=repr)

    def history(self, name: str) -> list[tuple[Any, ...]]:
        entry = self.catalog.resolve(name)
        assert entry is not None
        columns = ", ".join(c.name for c in entry.columns if not c.name.startswith("valid_"))
        times = "date_format(valid_from, 'HH:mm'), date_format(valid_to, 'HH:mm')"
        return self.rows(f"SELECT {columns}, {times} FROM ({history_sql(entry)})")

    def as_of(self, name: str, time: str) -> list[tuple[Any, ...]]:
        entry = self.catalog.resolve(name)
        assert entry is not None
        return self.rows(as_of_sql(entry, f"TIMESTAMP'2024-01-01 {time}'"))

    def tables(self) -> set[str]:
        return {row[1] for row in self.run("SHOW TABLES")}


@pytest.fixture
def db(spark: SparkSession) -> Iterator[Definitions]:
    """A database of its own for a test."""
    spark.sql("CREATE DATABASE defs")
    spark.sql("USE defs")
    temporary = {t.name for t in spark.catalog.listTables() if t.isTemporary}
    yield Definitions(spark)
    for table in spark.catalog.listTables():
        if table.isTemporary and table.name not in temporary:
            spark.catalog.dropTempView(table.name)
    spark.sql("USE default")
    spark.sql("DROP DATABASE defs CASCADE")


def at(time: str) -> str:
    return f"TIMESTAMP'2024-01-01 {time}'"


RATES = "(ccy STRING, rate INT, op STRING, ts TIMESTAMP)"
# EUR: two versions of equal time, then ended; USD: an older row arrives after a newer one; a NULL key and a NULL time.
ROWS = [
    f"('EUR', 1, 'set', {at('10:00')}), ('EUR', 2, 'set', {at('10:00')})",
    f"('USD', 7, 'set', {at('11:00')}), ('USD', 6, 'set', {at('09:00')})",
    f"('EUR', 3, 'del', {at('12:00')}), (NULL, 4, 'set', {at('12:00')}), ('GBP', 5, 'set', NULL)",
]


def fill(db: Definitions, name: str) -> None:
    # One file an INSERT: the order of rows within one that is written by several tasks is not theirs to keep.
    for rows in ROWS:
        db.run(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM (VALUES {rows}) AS t(ccy, rate, op, ts)")


def test_columns_only_keeps_rows_in_a_table_beside_it(db: Definitions) -> None:
    db.run(f"CREATE VERSIONED TABLE rates {RATES} KEYS (ccy) TIMESTAMP BY ts APPLY AS DELETE WHEN op = 'del'")
    entry = db.catalog.resolve("rates")
    assert entry is not None
    target = db.catalog.insert_target(entry)
    assert target == "`spark_catalog`.`defs`.`rates__log`"
    assert db.rows("SELECT * FROM rates") == []
    fill(db, target)
    assert db.rows("SELECT ccy, rate FROM rates") == [("USD", 7)]
    assert db.history("rates") == [
        ("EUR", 2, "set", db_time("10:00"), "10:00", "12:00"),
        ("USD", 6, "set", db_time("09:00"), "09:00", "11:00"),
        ("USD", 7, "set", db_time("11:00"), "11:00", None),
    ]
    assert [row[:2] for row in db.as_of("rates", "10:30")] == [("EUR", 2), ("USD", 6)]
    assert [row[:2] for row in db.as_of("rates", "12:00")] == [("USD", 7)]
    assert db.as_of("rates", "08:59") == []


def db_time(time: str) -> Any:
    from datetime import datetime

    hour, minute = time.split(":")
    return datetime(2024, 1, 1, int(hour), int(minute))  # Spark hands out naive local times, here UTC


def test_spark_shows_definitions_like_any_view(db: Definitions) -> None:
    db.run(
        f"CREATE VERSIONED TABLE rates {RATES} KEYS (ccy) TIMESTAMP BY ts HISTORY RETENTION INTERVAL 7 DAYS"
        " TBLPROPERTIES ('owner' = 'it''s me')"
    )
    assert {"rates", "rates__log"} <= db.tables()
    assert [row[:2] for row in db.run("DESCRIBE rates")] == [
        ("ccy", "string"),
        ("rate", "int"),
        ("op", "string"),
        ("ts", "timestamp"),
    ]
    properties = dict(db.run("SHOW TBLPROPERTIES rates"))
    assert properties["owner"] == "it's me"
    assert properties["sqlx.kind"] == "versioned"
    assert properties["sqlx.retention_us"] == str(7 * 86_400_000_000)
    assert any("sqlx.timestamp_by=ts" in str(row[1]) for row in db.run("DESCRIBE EXTENDED rates"))
    assert db.run("SHOW VERSIONED TABLES") == [
        ("rates", "VERSIONED TABLE", "ccy", "ts", "7 DAYS", "`spark_catalog`.`defs`.`rates__log`")
    ]
    assert db.run("SHOW STREAMS") == []


def test_a_definition_is_found_from_other_databases_and_sessions(db: Definitions) -> None:
    db.run("CREATE TABLE t (id INT, at TIMESTAMP) USING parquet")
    db.run("CREATE UPSERT TABLE latest FROM t KEYS (ID) TIMESTAMP BY t.at")
    db.run(f"INSERT INTO t VALUES (1, {at('10:00')})")
    db.run("USE default")
    try:
        other = Definitions(db.spark.newSession())
        for definitions in (db, other):
            entry = definitions.catalog.resolve("defs.latest")
            assert entry is not None
            assert (entry.name, entry.keys, entry.relation) == ("defs.latest", ("id",), "`spark_catalog`.`defs`.`t`")
            assert definitions.catalog.resolve("latest") is None
            assert definitions.catalog.resolve(("spark_catalog", "DEFS", "Latest")) is not None
            assert definitions.catalog.resolve("elsewhere.defs.latest") is None
            assert len(definitions.rows("SELECT * FROM defs.latest")) == 1
    finally:
        db.run("USE defs")


def test_an_upsert_table_shows_what_arrived_last(db: Definitions) -> None:
    db.run(f"CREATE UPSERT TABLE rates {RATES} KEYS (ccy) TIMESTAMP BY ts APPLY AS DELETE WHEN op = 'del'")
    fill(db, "rates__log")
    assert db.rows("SELECT ccy, rate FROM rates") == [("USD", 6)]


def test_a_sequence_decides_what_came_last(db: Definitions) -> None:
    rows = f"VALUES ('a', 1, {at('10:00')}, 2), ('a', 2, {at('10:00')}, 1), ('a', 3, {at('09:00')}, 9)"
    query = f"SELECT * FROM {rows} AS t(k, v, ts, seq)"
    db.run(f"CREATE VERSIONED TABLE v KEYS (k) TIMESTAMP BY ts SEQUENCE BY seq AS {query}")
    db.run(f"CREATE UPSERT TABLE u KEYS (k) SEQUENCE BY seq TIMESTAMP BY ts AS {query}")
    assert db.rows("SELECT v FROM v") == [(1,)]
    assert db.rows("SELECT v FROM u") == [(3,)]


def test_a_query_means_its_names_where_it_was_defined(db: Definitions) -> None:
    db.run("CREATE TABLE raw (id INT, millis BIGINT) USING parquet")
    db.run("INSERT INTO raw VALUES (1, 1000), (2, NULL)")
    db.run("CREATE STREAM orders TIMESTAMP BY at AS SELECT id, timestamp_millis(millis) AS at FROM raw")
    db.run("CREATE STREAM named (number BIGINT, time) FROM raw AS r(a, b) TIMESTAMP BY timestamp_millis(time)")
    db.run("USE default")
    try:
        assert [row[0] for row in db.rows("SELECT * FROM defs.orders")] == [1, 2]
        assert [row[:2] for row in db.run("DESCRIBE defs.named")] == [("number", "bigint"), ("time", "bigint")]
        assert db.rows("SELECT * FROM defs.named") == [(1, 1000), (2, None)]
        entry = db.catalog.resolve("defs.orders")
        assert entry is not None
        assert entry.relation == "`spark_catalog`.`defs`.`orders__source`"
    finally:
        db.run("USE defs")


def test_a_definition_may_be_made_of_definitions(db: Definitions) -> None:
    db.run("CREATE VERSIONED TABLE rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts")
    db.run("CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    db.run(
        "CREATE STREAM priced TIMESTAMP BY ts AS"
        " SELECT o.id, o.ts, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy"
    )
    db.run("CREATE UPSERT TABLE newest FROM priced AS p KEYS (id) TIMESTAMP BY p.ts")
    db.run(f"INSERT INTO rates VALUES ('EUR', 1, {at('10:00')}), ('EUR', 2, {at('11:00')})")
    db.run(f"INSERT INTO orders VALUES (1, 'EUR', {at('10:30')}), (2, 'EUR', {at('09:00')})")
    assert db.rows("SELECT id, rate FROM priced") == [(1, 1)]
    assert db.rows("SELECT id, rate FROM newest") == [(1, 1)]


def test_using_reads_files_that_come_later_too(db: Definitions, tmp_path: Path) -> None:
    folder = tmp_path / "rates"
    folder.mkdir()
    (folder / "a.csv").write_text("ccy,rate,at\nEUR,1,2024-01-01 10:00:00\nEUR,2,2024-01-01 10:00:00\n")
    options = f"OPTIONS (path '{folder}', header true)"
    db.run(f"CREATE VERSIONED TABLE rates USING csv {options} KEYS (ccy) TIMESTAMP BY to_timestamp(at)")
    db.run(f"CREATE TEMPORARY STREAM typed (ccy STRING, rate INT, at TIMESTAMP) USING csv {options} TIMESTAMP BY at")
    assert db.rows("SELECT rate FROM rates") == [("2",)]
    (folder / "b.csv").write_text("ccy,rate,at\nEUR,3,2024-01-01 11:00:00\n")
    assert db.catalog.resolve("rates") is not None
    assert db.rows("SELECT rate FROM rates") == [("3",)]
    assert db.catalog.resolve("typed") is not None
    assert db.rows("SELECT rate FROM typed") == [(1,), (2,), (3,)]
    columns = "(ccy STRING, rate DOUBLE, at TIMESTAMP)"
    db.run(f"CREATE OR REPLACE TEMPORARY STREAM typed {columns} USING csv {options} TIMESTAMP BY at")
    assert db.rows("SELECT rate FROM typed") == [(1.0,), (2.0,), (3.0,)]
    entry = db.catalog.resolve("rates")
    assert entry is not None
    assert entry.arrival[-1] == "monotonically_increasing_id()"
    db.run("DROP VERSIONED TABLE rates")
    assert (folder / "a.csv").exists()
    assert "rates__source" not in db.tables()


def test_an_scd2_table_has_gaps_and_an_open_end(db: Definitions) -> None:
    db.run("CREATE TABLE dim (id INT, v STRING, valid_from TIMESTAMP, until TIMESTAMP) USING parquet")
    db.run(
        f"INSERT INTO dim VALUES (1, 'a', {at('10:00')}, {at('11:00')}), (1, 'b', {at('11:00')}, {at('12:00')}),"
        f" (1, 'c', {at('13:00')}, NULL), (2, 'x', {at('10:00')}, {at('10:00')}),"
        f" (3, 'y', {at('10:00')}, {at('11:00')}),"
        " (4, 'z', TIMESTAMP'2024-01-01 10:00', TIMESTAMP'9999-12-31 00:00')"
    )
    db.run("CREATE VERSIONED TABLE d FROM SCD2 TABLE dim KEYS (id) VALID (valid_from, until)")
    assert db.rows("SELECT id, v FROM d") == [(1, "c"), (4, "z")]
    assert [(r[0], r[1], *r[3:]) for r in db.history("d")] == [
        (1, "a", "10:00", "11:00"),
        (1, "b", "11:00", "12:00"),
        (1, "c", "13:00", None),
        (3, "y", "10:00", "11:00"),
        (4, "z", "10:00", None),
    ]
    assert [row[:2] for row in db.as_of("d", "11:00")] == [(1, "b"), (4, "z")]
    assert [row[:2] for row in db.as_of("d", "12:30")] == [(4, "z")]


def test_temporary_definitions_live_in_the_session(db: Definitions) -> None:
    db.run(f"CREATE TEMPORARY VERSIONED TABLE rates {RATES} KEYS (ccy) TIMESTAMP BY ts APPLY AS DELETE WHEN op = 'del'")
    entry = db.catalog.resolve("rates")
    assert entry is not None
    assert entry.temporary
    target = db.catalog.insert_target(entry)
    assert target == "`rates__log`"
    fill(db, target)
    assert db.rows("SELECT ccy, rate FROM rates") == [("USD", 7)]
    assert Definitions(db.spark.newSession()).catalog.resolve("rates") is None
    assert db.run("SHOW VERSIONED TABLES")[0][:3] == ("rates", "TEMPORARY VERSIONED TABLE", "ccy")
    db.run("DROP VERSIONED TABLE rates")
    assert db.tables() & {"rates", "rates__log"} == set()


def test_or_replace_starts_anew_and_if_not_exists_keeps(db: Definitions) -> None:
    first = f"VERSIONED TABLE IF NOT EXISTS rates {RATES} KEYS (ccy) TIMESTAMP BY ts"
    db.run(f"CREATE {first}")
    db.run(f"INSERT INTO rates__log VALUES ('EUR', 1, 'set', {at('10:00')})")
    db.run(f"CREATE {first}")
    assert len(db.rows("SELECT * FROM rates")) == 1
    db.run(f"CREATE OR REPLACE VERSIONED TABLE rates {RATES} KEYS (ccy, op) TIMESTAMP BY ts")
    assert db.rows("SELECT * FROM rates") == []
    db.run("CREATE OR REPLACE STREAM rates TIMESTAMP BY d AS SELECT 1 AS a, DATE'2024-01-01' AS d")
    assert db.tables() == {"rates", "rates__source"}
    db.run("DROP STREAM IF EXISTS rates")
    db.run("DROP STREAM IF EXISTS rates")
    assert db.tables() == set()


def test_the_users_own_tables_are_never_touched(db: Definitions) -> None:
    db.run("CREATE TABLE t (id INT, ts TIMESTAMP) USING parquet")
    db.run("CREATE TABLE s__log (id INT) USING parquet")
    for text in (
        "CREATE OR REPLACE STREAM t (id INT, ts TIMESTAMP) TIMESTAMP BY ts",
        "CREATE STREAM IF NOT EXISTS t (id INT, ts TIMESTAMP) TIMESTAMP BY ts",
        "CREATE STREAM s (id INT, ts TIMESTAMP) TIMESTAMP BY ts",
        "DROP STREAM t",
    ):
        with pytest.raises(BindError):
            db.run(text)
    db.run("CREATE STREAM v FROM t TIMESTAMP BY ts")
    db.run("DROP STREAM v")
    assert db.tables() == {"t", "s__log"}


PROCESS = """
import json, sys
from pyspark.sql import SparkSession
from catalog.spark import SparkCatalog
from catalog.relations import history_sql
from sqlx.sql.definitions import parse_definition

home, texts = sys.argv[1], json.loads(sys.argv[2])
spark = (
    SparkSession.builder.master("local[1]").enableHiveSupport()
    .config("spark.sql.warehouse.dir", f"{home}/warehouse").config("spark.ui.enabled", "false")
    .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={home}/metastore;create=true")
    .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={home}").getOrCreate()
)
catalog = SparkCatalog(spark)
for text in texts:
    statement = parse_definition(text)
    if statement is not None:
        lowered = catalog.plan_statement(statement)
        for prepared in lowered.prepare:
            spark.sql(prepared)
        text = lowered.final
    if text.startswith("history "):
        text = history_sql(catalog.resolve(text.split()[1]))
    rows = [[str(value) for value in row] for row in spark.sql(text).collect()]
    print("ROWS " + json.dumps(sorted(rows)))
"""


def in_a_process(home: Path, *texts: str) -> list[list[list[str]]]:
    command = [sys.executable, "-c", PROCESS, str(home), json.dumps(texts)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line[5:]) for line in done.stdout.splitlines() if line.startswith("ROWS ")]


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_another_process_sees_and_reads_them(tmp_path: Path) -> None:
    define = "CREATE VERSIONED TABLE rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts"
    wide = ", ".join(f"a_rather_long_name_of_a_column_{n} STRING" for n in range(150))
    insert = f"INSERT INTO rates__log VALUES ('EUR', 1, {at('10:00')}), ('EUR', 2, {at('11:00')})"
    in_a_process(tmp_path, define, insert, f"CREATE STREAM wide ({wide}, ts TIMESTAMP) TIMESTAMP BY ts")
    streams, current, history = in_a_process(tmp_path, "SHOW STREAMS", "SELECT ccy, rate FROM rates", "history rates")
    assert [row[:2] for row in streams] == [["wide", "STREAM"]]
    assert current == [["EUR", "2"]]
    assert history == [
        ["EUR", "1", "2024-01-01 10:00:00", "2024-01-01 10:00:00", "2024-01-01 11:00:00"],
        ["EUR", "2", "2024-01-01 11:00:00", "2024-01-01 11:00:00", "None"],
    ]


def refusal(db: Definitions, text: str) -> list[str]:
    """The first line of the error without condition, and the line with the carets."""
    with pytest.raises(BindError) as caught:
        db.run(text)
    lines = caught.value.getMessage().splitlines()
    return [lines[0].split("] ", 1)[1], lines[2].strip()]


def test_what_spark_does_not_find_or_take_is_said_of_the_clause(db: Definitions) -> None:
    db.run("CREATE TABLE t (id INT, name STRING, m MAP<STRING, INT>, ts TIMESTAMP) USING parquet")
    head = "CREATE VERSIONED TABLE r FROM t KEYS"
    assert refusal(db, f"{head} (id) TIMESTAMP BY coalesce(tz, ts)") == [
        "TIMESTAMP BY names `tz`, but `r` has no such column. SQLSTATE: 42703",
        "^^",
    ]
    assert refusal(db, f"{head} (id) TIMESTAMP BY name")[0].endswith("but name is STRING. SQLSTATE: 42K09")
    assert refusal(db, f"{head} (m) TIMESTAMP BY ts")[0].startswith("The key column `m` is MAP<STRING,INT>")
    assert "SEQUENCE BY over the columns of `r`: " in refusal(db, f"{head} (id) TIMESTAMP BY ts SEQUENCE BY max(id)")[0]
    assert refusal(db, f"{head} (id) TIMESTAMP BY ts APPLY AS DELETE WHEN id")[0].startswith(
        "APPLY AS DELETE WHEN takes"
    )
    assert refusal(db, "CREATE STREAM s FROM nope TIMESTAMP BY ts")[1] == "^^^^"
    assert refusal(db, "CREATE STREAM s USING nosuch TIMESTAMP BY ts")[1] == "^^^^^^^^^^^^"
    assert refusal(db, "CREATE STREAM s (a INTEGRAL, ts DATE) TIMESTAMP BY ts")[1] == "^" * 10
    assert db.tables() == {"t"}


def test_names_of_nothing_resolve_to_nothing(db: Definitions) -> None:
    db.run("CREATE TABLE t (id INT) USING parquet")
    assert [db.catalog.resolve(name) for name in ("t", "nope", "nodb.t", "a.b.c", "a.b.c.d", "`x y`")] == [None] * 6
    assert db.catalog.names() == ("t",)


OVER_STREAMS = (
    "SELECT id FROM {stream} DEDUPLICATE WITHIN INTERVAL 10 MINUTES BY (id) ON TIME ts",
    "SELECT o.id, r.rate FROM {stream} o LEFT JOIN rates r AS OF o.ts ON o.id = r.id",
    "WITH o AS (SELECT * FROM {stream}) SELECT o.id, r.rate FROM o JOIN rates r AS OF o.ts ON o.id = r.id",
    "SELECT id, count(*) AS n FROM {stream} GROUP BY id EMIT CHANGES",
    "SELECT count(*) AS n FROM {stream} GROUP BY window(ts, '1 minute') GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL",
)


def test_a_stream_of_sparks_own_is_no_input_of_an_operator(db: Definitions) -> None:
    """It would be joined with the versions of now, and counted a micro-batch at a time."""
    db.run("CREATE TABLE sent (id INT, ts TIMESTAMP) USING parquet")
    db.run("CREATE TABLE changes (id INT, rate INT, ts TIMESTAMP) USING parquet")
    db.run("CREATE VERSIONED TABLE rates FROM changes KEYS (id) TIMESTAMP BY ts")
    db.spark.readStream.table("sent").createOrReplaceTempView("arriving")
    read = ["arriving", *(["STREAM sent", "STREAM arriving"] if RELEASE >= (4, 1) else [])]
    for stream, query in itertools.product(read, OVER_STREAMS):
        with pytest.raises(UnsupportedError, match=f"`{stream.split()[-1]}` is a stream of Spark") as refused:
            db.spark.sql(query.format(stream=stream))
        assert refused.value.condition == "STREAMING.UNDEFINED"
        assert "CREATE STREAM s FROM" in str(refused.value)
    assert db.spark.sql("SELECT * FROM arriving").isStreaming
    db.run("CREATE TEMPORARY STREAM orders FROM arriving TIMESTAMP BY ts")
    assert db.spark.sql(OVER_STREAMS[1].format(stream="STREAM orders")).isStreaming
    with pytest.raises(UnsupportedError, match="Read it live: STREAM orders"):
        db.spark.sql(OVER_STREAMS[1].format(stream="orders"))


def test_the_one_table_that_a_definition_reads_is_read_live_wherever_it_stands(db: Definitions) -> None:
    db.run("CREATE TABLE sent (id INT, ts TIMESTAMP) USING parquet")
    for query in (
        "SELECT * FROM sent WHERE id > 0",
        "SELECT * FROM (SELECT * FROM sent) s",
        "WITH later AS (SELECT * FROM sent WHERE id > 0) SELECT * FROM later",
        "FROM sent |> WHERE id > 0",
    ):
        db.run(f"CREATE OR REPLACE TEMPORARY STREAM orders TIMESTAMP BY ts AS {query}")
        assert db.spark.sql("SELECT id FROM STREAM orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id)").isStreaming


def test_a_column_of_the_users_may_be_called_like_the_hidden_one_of_live_rows(db: Definitions) -> None:
    db.run("CREATE TABLE odd AS SELECT 1 AS __row, 7 AS id, TIMESTAMP'2024-01-01' AS ts")
    db.run("CREATE TABLE changes AS SELECT 7 AS id, 5 AS rate, TIMESTAMP'2023-01-01' AS ts")
    db.run("CREATE VERSIONED TABLE rates FROM changes KEYS (id) TIMESTAMP BY ts")
    (joined,) = db.spark.sql("SELECT o.*, r.rate FROM odd o JOIN rates r AS OF o.ts ON o.id = r.id").collect()
    assert [joined["__row"], joined["id"], joined["rate"]] == [1, 7, 5]
    (first,) = db.spark.sql("SELECT * FROM odd DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id) ON TIME ts").collect()
    assert first["__row"] == 1


def test_a_query_behind_a_definition_means_the_same_from_another_database(db: Definitions) -> None:
    """Spark looks the names in a view up where it was made; the compiler reads its text, and has to do the same."""
    db.run(f"CREATE VERSIONED TABLE rates {RATES} KEYS (ccy) TIMESTAMP BY ts")
    fill(db, "rates")
    db.run(
        "CREATE VERSIONED TABLE shown KEYS (ccy) TIMESTAMP BY ts AS SELECT ccy, rate, ts FROM rates WHERE op = 'set'"
    )
    db.run("CREATE TEMPORARY VERSIONED TABLE passing KEYS (ccy) TIMESTAMP BY ts AS SELECT ccy, rate, ts FROM rates")
    db.run("CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    db.run(f"INSERT INTO orders VALUES (1, 'USD', {at('10:00')}), (2, 'USD', {at('11:30')})")
    db.run("CREATE STREAM early TIMESTAMP BY ts AS SELECT id, ts FROM orders WHERE id < 2")
    db.run("USE default")
    db.run(f"CREATE OR REPLACE TEMPORARY VIEW rates AS SELECT 'USD' AS ccy, 0 AS rate, {at('00:00')} AS ts")
    for table in ("defs.shown", "passing"):
        found = db.run(f"SELECT o.id, r.rate FROM defs.orders AS o JOIN {table} AS r AS OF o.ts ON o.ccy = r.ccy")
        assert sorted(found) == [(1, 6), (2, 7)], table
    db.spark.catalog.dropTempView("rates")
    once = "SELECT id FROM STREAM defs.early DEDUPLICATE WITHIN INTERVAL '1' DAY BY (id)"
    db.run(f"CREATE STREAMING TABLE defs.once AS {once}")
    for query in db.spark.streams.active:
        query.processAllAvailable()
        query.stop()
    assert db.run("SELECT * FROM defs.once") == [(1,)]


def test_tables_over_a_stream_have_its_sequence(db: Definitions) -> None:
    """Live the last row is the one of the greatest SEQUENCE BY, and so it is in batch, wherever the row stands."""
    rows = f"(1, 'a', 5, {at('10:00')}, 2), (2, 'a', 6, {at('10:00')}, 1), (3, 'b', 7, {at('10:00')}, 3)"
    db.run(f"CREATE TABLE raw AS SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(id, k, v, ts, n)")
    db.run("CREATE STREAM s FROM raw AS r TIMESTAMP BY ts SEQUENCE BY r.n")
    db.run("CREATE VERSIONED TABLE named FROM s KEYS (k) TIMESTAMP BY ts")
    db.run("CREATE VERSIONED TABLE queried KEYS (k) TIMESTAMP BY ts AS SELECT k, v, ts FROM s WHERE v > 1")
    db.run("CREATE UPSERT TABLE latest KEYS (k) TIMESTAMP BY ts AS SELECT k, v, ts FROM s WHERE v > 1")
    db.run("CREATE TEMPORARY UPSERT TABLE passing FROM s KEYS (k) TIMESTAMP BY ts")
    expected = [("a", 5), ("b", 7)]
    for table in ("named", "queried", "latest", "passing"):
        assert db.rows(f"SELECT k, v FROM {table}") == expected, table
    for table in ("named", "queried"):
        joined = f"SELECT DISTINCT s.k, r.v FROM s JOIN {table} AS r AS OF s.ts ON s.k = r.k"
        assert db.rows(joined) == expected, table
        assert db.rows(f"SELECT k, v FROM {table} FOR SYSTEM_TIME AS OF {at('11:00')}") == expected, table
        assert db.rows(f"SELECT k, v FROM history({table})") == expected, table


def test_tables_over_results_have_the_order_in_which_they_come(db: Definitions) -> None:
    """The sequence of the stream goes through operators, and the files of a stream have one: no column shows either."""
    rows = f"(1, 'a', 5, {at('10:00')}, 2), (2, 'a', 6, {at('10:30')}, 1), (3, 'b', 7, {at('11:00')}, 3)"
    db.run(f"CREATE TABLE raw AS SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(id, k, v, ts, n)")
    db.run("CREATE STREAM s FROM raw TIMESTAMP BY ts SEQUENCE BY n")
    db.run("CREATE VERSIONED TABLE rates FROM raw KEYS (k) TIMESTAMP BY ts SEQUENCE BY n")
    kept = "SELECT k, v, ts FROM s DEDUPLICATE WITHIN INTERVAL '1' MINUTE BY (id)"
    db.run(f"CREATE STREAM once TIMESTAMP BY ts AS {kept}")
    pairs = "SELECT s.k, s.v, s.ts FROM s JOIN rates AS r AS OF s.ts ON s.k = r.k"
    db.run(f"CREATE STREAM joined TIMESTAMP BY ts AS {pairs}")
    expected = [("a", 5), ("b", 7)]
    for kind, name, source in (("", "of_rows", "once"), ("TEMPORARY ", "of_pairs", "joined"), ("", "again", "once")):
        db.run(f"CREATE OR REPLACE {kind}UPSERT TABLE {name} FROM {source} KEYS (k) TIMESTAMP BY ts")
        assert db.rows(f"SELECT k, v FROM {name}") == expected, name
        assert sorted(map(tuple, db.spark.table(name).select("k", "v").collect())) == expected, name
    counts = "SELECT k, window.end AS ts, max(v) AS v FROM s GROUP BY k, window(ts, '30 minutes') EMIT FINAL"
    db.run(f"CREATE STREAM counted TIMESTAMP BY ts AS {counts}")
    db.run("CREATE UPSERT TABLE of_counts FROM counted KEYS (k) TIMESTAMP BY ts")
    assert db.rows("SELECT k, v FROM of_counts") == [("a", 6), ("b", 7)], "windows go out in the order of their ends"
    db.run("USE default")
    assert db.rows("SELECT k, v FROM defs.of_rows") == expected, "its names are those of where it was defined"
    db.run("CREATE OR REPLACE UPSERT TABLE defs.again FROM defs.raw KEYS (k) TIMESTAMP BY ts SEQUENCE BY v")
    assert db.rows("SELECT k, v FROM defs.again") == [("a", 6), ("b", 7)], "defined anew"
    db.run("USE defs")


def test_deduplication_behind_definitions_goes_by_the_sequence_of_the_stream(db: Definitions) -> None:
    rows = f"(1, 'a', {at('10:00')}, 2), (2, 'a', {at('10:05')}, 1), (3, 'b', {at('10:00')}, 3)"
    db.run(f"CREATE TABLE raw AS SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(id, k, ts, n)")
    db.run("CREATE STREAM s FROM raw TIMESTAMP BY ts SEQUENCE BY n")
    db.run("CREATE STREAM named FROM s TIMESTAMP BY ts")
    db.run("CREATE STREAM filtered TIMESTAMP BY at AS SELECT id, k AS key, ts AS at FROM named WHERE id > 0")
    db.run("CREATE VERSIONED TABLE rates FROM raw KEYS (k) TIMESTAMP BY ts SEQUENCE BY n")
    joined = "SELECT f.*, r.id AS found FROM filtered AS f LEFT JOIN rates AS r AS OF f.at ON f.key = r.k"
    db.run(f"CREATE STREAM joined TIMESTAMP BY at AS {joined}")
    db.run("CREATE STREAM once TIMESTAMP BY at AS SELECT * FROM joined DEDUPLICATE WITHIN INTERVAL '1' DAY BY (id)")
    halves = "SELECT * FROM once WHERE id < 2 UNION ALL SELECT * FROM once WHERE id >= 2"
    db.run(f"CREATE STREAM halves TIMESTAMP BY at AS {halves}")
    db.run("CREATE TEMPORARY STREAM loose TIMESTAMP BY at AS SELECT DISTINCT id, key, at FROM filtered")
    kept = "DEDUPLICATE WITHIN INTERVAL '1' HOUR BY"
    assert db.rows(f"SELECT id FROM named {kept} (k)") == [(2,), (3,)]
    for stream in ("joined", "halves"):  # each by way of those before it
        assert db.rows(f"SELECT id FROM {stream} {kept} (key)") == [(2,), (3,)], stream
    assert db.rows(f"SELECT id FROM loose {kept} (key)") == [(1,), (3,)], "DISTINCT has no order but that of time"
    db.run("CREATE OR REPLACE STREAM s FROM raw TIMESTAMP BY ts SEQUENCE BY -n")
    assert db.rows(f"SELECT id FROM joined {kept} (key)") == [(1,), (3,)], "defined anew, it is read anew"


def test_a_view_over_a_stream_is_read_live(db: Definitions) -> None:
    """Its rows have the event time of those that they are made of."""
    db.run("CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    db.run(f"INSERT INTO orders VALUES (1, 'USD', {at('10:00')}), (2, 'EUR', {at('11:30')}), (1, 'USD', {at('10:05')})")
    db.run("CREATE VIEW dollars AS SELECT id, ccy FROM orders WHERE ccy = 'USD'")
    db.run("CREATE VIEW shown AS SELECT id + 1 AS number FROM dollars")
    db.run("CREATE VIEW counted AS SELECT ccy, count(*) AS n FROM orders GROUP BY ccy")
    db.run("USE default")
    once = "SELECT number FROM STREAM defs.shown DEDUPLICATE WITHIN INTERVAL '1' HOUR BY (number)"
    db.run(f"CREATE STREAMING TABLE defs.numbers TRIGGER (AVAILABLE NOW) AS {once}")
    for query in db.spark.streams.active:
        query.awaitTermination()
    assert db.run("SELECT * FROM defs.numbers") == [(2,)]
    with pytest.raises(TemporalSqlError, match=r"(?s)SOURCE_NOT_LIVE.*`defs.counted`.*a table that changes.*\^{12}"):
        db.run("SELECT * FROM STREAM defs.counted")
