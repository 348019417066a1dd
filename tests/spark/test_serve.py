"""One server for JDBC and Spark Connect at loopback: clients of both speak the language and share the catalog."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from sqlx.serving.health import ask
from tests.harness.releases import since
from tests.spark.server import LOOK_SECONDS, MOST_ROWS, Home, java, refusal, rows

AS_OF = "SELECT o.id, r.rate FROM o LEFT JOIN rates r AS OF o.ts ON o.k = r.k"
WRONG = AS_OF.replace("o.k = r.k", "o.nope = r.k")
SCRIPT = f"""
CREATE TABLE o (id INT COMMENT 'of the order', k STRING, ts TIMESTAMP) USING parquet;
INSERT INTO o VALUES (1, 'a', TIMESTAMP'2024-01-01 10:00:00'), (2, 'b', TIMESTAMP'2024-01-01 10:00:00');
CREATE VERSIONED TABLE rates (k STRING, rate INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts;
INSERT INTO rates VALUES ('a', 7, TIMESTAMP'2024-01-01 09:00:00');
{AS_OF};
CREATE VIEW joined AS {AS_OF};
SHOW VERSIONED TABLES;
EXPLAIN TEMPORAL {AS_OF};
{WRONG};
SELEC 1;
!tables
!columns o
!metadata getSchemas
!metadata getTableTypes
!metadata getTypeInfo
"""
CLIENT = f"""
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(sorted(map(tuple, spark.sql("{AS_OF}").collect())))
print(sorted(map(tuple, spark.table("joined").collect())))
spark.sql("CREATE TEMPORARY VERSIONED TABLE own FROM rates KEYS (k) TIMESTAMP BY ts")
print(spark.sql("{AS_OF.replace("rates r", "own r")} WHERE o.id = :n", args={{"n": 1}}).collect())
print([row.name for row in spark.sql("SHOW VERSIONED TABLES").collect()])
print(spark.range({MOST_ROWS + 1}).count(), len(spark.range({MOST_ROWS}).collect()))
for wrong in ("{WRONG}", "SELEC 1"):
    try:
        spark.sql(wrong).collect()
    except Exception as error:
        print(type(error).__name__, error.getCondition(), error.getSqlState(), "o.nope" in str(error))
try:
    spark.range({MOST_ROWS + 1}).collect()
except Exception as error:
    print("SERVE.TOO_MANY_ROWS" in str(error))
spark.stop()
"""
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of PyHive and Thrift
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"),
]


@pytest.fixture(scope="module")
def beeline(home: Home) -> tuple[str, str]:
    """What beeline shows of the script, which goes on after errors; a JDBC driver of Hive's is in it."""
    script = home.path / "script.sql"
    script.write_text(SCRIPT)
    options = "--silent=true --showHeader=true --outputformat=csv2 --force=true -f".split()
    url = f"jdbc:hive2://127.0.0.1:{home.server.thrift}/default"
    program = java("org.apache.hive.beeline.BeeLine", "-u", url, "-n", "x")
    done = subprocess.run([*program, *options, str(script)], capture_output=True, text=True, check=False, timeout=240)
    return done.stdout, done.stderr


def test_server_says_what_listens_where_and_who_may_come_in(home: Home) -> None:
    said = home.server.said
    assert f"JDBC, ODBC jdbc:hive2://127.0.0.1:{home.server.thrift}/default (plain text)" in said
    assert f"Connect sc://127.0.0.1:{home.server.connect} (plain text)" in said
    assert "who may in everybody on this machine, without a password" in said
    assert said[-1].startswith(f"ready, process {home.server.pid}")


def test_health_is_well(home: Home) -> None:
    assert ask("127.0.0.1", home.server.health) == ""


def test_jdbc_runs_definitions_and_as_of_joins(beeline: tuple[str, str]) -> None:
    out, errors = beeline
    lines = [line for line in out.splitlines() if line.strip()]
    assert "1,7" in lines, errors
    assert any(line.startswith("2,") for line in lines)
    assert any(line.startswith("rates,VERSIONED TABLE,k,ts") for line in lines)
    assert any("AS OF join (left) with the versions of rates" in line for line in lines)


def test_jdbc_shows_condition_line_caret_and_sqlstate(beeline: tuple[str, str]) -> None:
    _, errors = beeline
    assert "[BIND.UNKNOWN_COLUMN] There is no column `o.nope` here. SQLSTATE: 42703" in errors
    assert "LINE 1: SELECT o.id" in errors
    assert "(state=42703,code=0)" in errors


def test_jdbc_shows_sparks_own_error_unchanged(beeline: tuple[str, str]) -> None:
    _, errors = beeline
    assert "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)" in errors
    assert "(state=42601,code=0)" in errors
    assert "Traceback" not in errors


def test_metadata_calls_of_jdbc_tools_are_answered(beeline: tuple[str, str]) -> None:
    lines = beeline[0].splitlines()
    assert any(",default,o,TABLE," in line for line in lines)
    assert any(",default,rates,VIEW," in line for line in lines)
    assert any(",default,o,id,4,INT," in line and "of the order" in line for line in lines)
    assert any(",default,o,ts,93,TIMESTAMP," in line for line in lines)
    assert {"TABLE", "VIEW"} <= set(lines)
    assert any(line.startswith("TIMESTAMP,93,") for line in lines)


def test_sqlalchemy_inspects_and_queries(home: Home, beeline: tuple[str, str]) -> None:
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"hive://x@127.0.0.1:{home.server.thrift}/default")
    try:
        found = sqlalchemy.inspect(engine)
        assert "default" in found.get_schema_names()
        assert [column["name"] for column in found.get_columns("o")] == ["id", "k", "ts"]
        with engine.connect() as connection:
            assert sorted(map(tuple, connection.execute(sqlalchemy.text(AS_OF)))) == [(1, 7), (2, None)]
    finally:
        engine.dispose()


@since((4, 1), "a parser that sees the values of a client's query")
def test_connect_reads_what_jdbc_made(home: Home, beeline: tuple[str, str]) -> None:
    pytest.importorskip("grpc")
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, f"sc://127.0.0.1:{home.server.connect}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.stdout.splitlines() == [
        "[(1, 7), (2, None)]",
        "[(1, 7), (2, None)]",
        "[Row(id=1, rate=7)]",
        "['own', 'rates']",
        f"{MOST_ROWS + 1} {MOST_ROWS}",
        "ParseException BIND.UNKNOWN_COLUMN 42703 True",
        "ParseException PARSE_SYNTAX_ERROR 42601 False",
        "True",
    ], (done.stdout, done.stderr, beeline)


def test_sessions_share_the_catalog_and_nothing_else(home: Home, beeline: tuple[str, str]) -> None:
    with home.client() as one, home.client() as other:
        rows(one, "CREATE TEMPORARY VIEW mine AS SELECT 1 AS n")
        rows(one, "SET sqlx.tasks = 3")
        rows(one, "CREATE TABLE shared AS SELECT 5 AS n")
        assert rows(other, "SELECT n FROM shared") == [(5,)]
        assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(rows, other, "SELECT * FROM mine")
        assert rows(other, "SET sqlx.tasks") == [("sqlx.tasks", "<undefined>")]


def test_sessions_run_at_once(home: Home, beeline: tuple[str, str]) -> None:
    def run(number: int) -> list[tuple[Any, ...]]:
        with home.client() as client:
            rows(client, f"CREATE TEMPORARY VIEW mine AS SELECT {number} AS n")
            return rows(client, AS_OF.replace("o.id", "o.id, (SELECT n FROM mine)") + " WHERE o.id = 1")

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [[(1, n, 7)] for n in range(4)]


def test_a_result_with_too_many_rows_is_an_error_and_never_cut(home: Home, beeline: tuple[str, str]) -> None:
    assert len(home.rows(f"SELECT * FROM range({MOST_ROWS})")) == MOST_ROWS
    assert "[SERVE.TOO_MANY_ROWS] The result has more than 1000 rows" in refusal(
        home.rows, f"SELECT * FROM range({MOST_ROWS + 1})"
    )
    assert "[SERVE.TOO_MANY_ROWS]" in refusal(
        home.rows, f"WITH many AS (SELECT 1 FROM range({MOST_ROWS + 1})) SELECT o.id FROM o, many"
    )
    home.rows(f"CREATE TABLE large AS SELECT * FROM range({MOST_ROWS + 1})")
    assert home.rows("SELECT count(*) FROM large") == [(MOST_ROWS + 1,)]
    assert home.rows("SELECT id FROM large ORDER BY id DESC LIMIT 2") == [(MOST_ROWS,), (MOST_ROWS - 1,)]


@pytest.mark.full
def test_streaming_tables_outlive_their_client_and_the_server(home: Home) -> None:
    home.rows("CREATE DATABASE live")
    with home.client() as client:
        rows(client, "USE live")
        rows(client, "SET spark.sql.session.timeZone = America/New_York")
        rows(client, "CREATE STREAM s (id INT, ts TIMESTAMP) TIMESTAMP BY ts")
        for name in ("kept", "ended"):
            rows(client, f"CREATE STREAMING TABLE {name} TASKS 2 AS SELECT id, hour(ts) AS h FROM s")
        rows(client, "STOP STREAMING QUERY ended")
    home.rows("INSERT INTO live.s VALUES (1, TIMESTAMP'2024-01-01 10:00:00')")
    home.until("SELECT id, h FROM live.kept", [(1, 5)])
    listed = [row[:2] for row in home.rows("SHOW STREAMING QUERIES")]
    assert listed == [("live.kept", "running"), ("live.ended", "stopped")]

    assert home.server.stop() == 0, home.server.log
    assert "streaming live.kept goes on" in home.start().said
    assert [row[:2] for row in home.rows("SHOW STREAMING QUERIES")] == [("live.kept", "running")]
    home.rows("INSERT INTO live.s VALUES (2, TIMESTAMP'2024-01-01 20:00:00')")
    home.until("SELECT id, h FROM live.kept", [(1, 5), (2, 15)])
    assert home.rows("SELECT count(*) FROM live.ended") == [(0,)]


@pytest.mark.full
def test_another_server_goes_on_with_clients_and_streams(tmp_path: Path) -> None:
    """It stands by with a session that has not opened the catalog, and takes the port when the first one is killed."""
    first = Home(tmp_path, "--standby")
    first.rows("CREATE STREAM s (id INT, ts TIMESTAMP) TIMESTAMP BY ts")
    first.rows("CREATE STREAMING TABLE kept TASKS 2 AS SELECT id FROM s")
    first.rows("INSERT INTO s VALUES (1, TIMESTAMP'2024-01-01 10:00:00')")
    first.until("SELECT id FROM kept", [(1,)])
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(Home, tmp_path, "--standby", thrift=first.server.thrift)
        while "Standing by: process" not in first.server.log:
            assert not starting.done()
            Event().wait(LOOK_SECONDS)
        first.server.kill()
        second = starting.result()
    try:
        assert "streaming kept goes on" in second.server.said
        second.rows("INSERT INTO s VALUES (2, TIMESTAMP'2024-01-01 20:00:00')")
        second.until("SELECT id FROM kept", [(1,), (2,)])
    finally:
        assert second.server.stop() == 0, second.server.log
