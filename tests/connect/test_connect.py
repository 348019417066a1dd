"""A client without Java, and a stock server that has never heard of us: what such a session can do, and says."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import catalog
import sqlx
import udtf
from sqlx.errors import RunError, TemporalSqlError
from sqlx.streaming.registry import queries_of
from tests.harness.releases import RELEASE, since
from tests.harness.stock_server import stock_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK = """
def look(_):
    import importlib.util
    return str(getattr(importlib.util.find_spec("udtf"), "origin", None))
"""
JOIN = "SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.ccy = r.ccy"
ANSWER = [(1, 110), (2, 120), (3, None)]


of_its_own = pytest.mark.skipif(
    "SQLX_TEST_SERVER_PYTHON" in os.environ, reason="the client of another release has Java and our package"
)
sends_state = since((4, 1), "clients of Spark Connect that send stateful operators")


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, with orders and their rates."""
    made = spark.newSession()
    made.sql(
        "CREATE TEMPORARY VIEW orders AS SELECT * FROM VALUES (1, 'EUR', TIMESTAMP'2026-01-01 10:05:00'),"
        " (2, 'EUR', TIMESTAMP'2026-01-01 10:15:00'), (3, 'USD', TIMESTAMP'2026-01-01 09:00:00') AS t(id, ccy, ts)"
    )
    made.sql(
        "CREATE TEMPORARY VIEW raw AS SELECT * FROM VALUES ('EUR', 110, TIMESTAMP'2026-01-01 10:00:00'),"
        " ('EUR', 120, TIMESTAMP'2026-01-01 10:10:00') AS t(ccy, rate, ts)"
    )
    made.sql("CREATE TEMPORARY VERSIONED TABLE rates FROM raw KEYS (ccy) TIMESTAMP BY ts")
    yield made
    made.stop()


def rows(session: SparkSession, text: str, args: Any = None) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in session.sql(text, args).collect()), key=str)


def refused(session: SparkSession, text: str, args: Any = None) -> str:
    with pytest.raises(TemporalSqlError) as error:
        session.sql(text, args)
    return str(error.value)


@of_its_own
def test_every_module_is_imported_without_java() -> None:
    assert sys.modules["py4j"] is None, "this environment has no py4j (.ci/setup-connect)"
    for package in (catalog, sqlx, udtf):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)


@of_its_own
def test_the_workers_import_what_came_with_the_session(session: SparkSession) -> None:
    space: dict[str, Any] = {}
    exec(LOOK, space)  # a function of this module would be imported there, which is not there either
    look = F.udf(space["look"])
    assert session.range(1).select(look("id")).collect() == [("None",)]
    assert rows(session, JOIN) == ANSWER
    ((place,),) = session.range(1).select(look("id")).collect()
    assert ".zip/udtf/" in place


@pytest.mark.parametrize("mapped_bytes", ["0", pytest.param("1000000", marks=pytest.mark.full)])
def test_a_join_by_either_way(session: SparkSession, mapped_bytes: str) -> None:
    session.conf.set("sqlx.as_of.mapped_bytes", mapped_bytes)
    assert rows(session, JOIN) == ANSWER
    way = "shuffle" if mapped_bytes == "0" else "every worker maps"
    assert way in "\n".join(row[0] for row in session.sql(f"EXPLAIN TEMPORAL {JOIN}").collect())


@pytest.mark.full
def test_a_payload_that_is_null_and_has_fields_that_may_not_be(session: SparkSession) -> None:
    moment = "TIMESTAMP '2026-01-01 00:00:00'"
    one = f"SELECT 1 AS k, {moment} AS t, parse_json('[1]') AS j, struct(1 AS a) AS s"
    both = f"{one} UNION ALL SELECT 2, {moment}, NULL, NULL"
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW nulls AS {both}")
    session.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE nulls_of FROM nulls KEYS (k) TIMESTAMP BY t")
    items = "n.k, to_json(struct(r.j AS x)) AS j, r.s.a AS a"
    found = session.sql(f"SELECT {items} FROM nulls n JOIN nulls_of r AS OF n.t ON n.k = r.k ORDER BY n.k").collect()
    assert [tuple(row) for row in found] == [(1, '{"x":[1]}', 1), (2, "{}", None)]


def test_keys_of_two_types_meet_in_a_common_one(session: SparkSession) -> None:
    session.sql("CREATE TEMPORARY VIEW wide AS SELECT CAST(id AS DECIMAL(20, 2)) AS id, ts FROM orders")
    session.sql("CREATE TEMPORARY VERSIONED TABLE by_id FROM wide KEYS (id) TIMESTAMP BY ts")
    asked = "SELECT o.id, t.id FROM orders o JOIN by_id t AS OF o.ts ON o.id = t.id"
    assert [int(found) for _, found in rows(session, asked)] == [1, 2, 3]


@pytest.mark.full
def test_parameters_by_name_and_in_order(session: SparkSession) -> None:
    asked = "SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy WHERE o.id >= "
    assert rows(session, f"{asked} :low AND o.ccy = :ccy", {"low": 2, "ccy": "EUR"}) == [(2, 120)]
    assert rows(
        session, f"{asked} ? AND o.ts > ? AND o.ts > ?", [1, datetime(2026, 1, 1, 10, 6), date(2026, 1, 1)]
    ) == [(2, 120)]
    with pytest.raises(RunError, match=r"CONNECT.PARAMETER"):
        session.sql(f"{asked} ?", [object()])


def test_statements_of_sparks_own_reach_the_server_as_they_are(session: SparkSession) -> None:
    assert rows(session, "SELECT 'a JOIN b AS OF c' AS x") == [("a JOIN b AS OF c",)]
    assert rows(session, "SELECT deduplicate within FROM VALUES (1) AS t(deduplicate)") == [(1,)]
    assert session.sql("SELECT id FROM {frame} WHERE id > 8", frame=session.range(10)).collect() == [(9,)]


@pytest.mark.full
def test_history_and_a_moment(session: SparkSession) -> None:
    assert [row[1] for row in rows(session, "SELECT ccy, rate, valid_to FROM history(rates)")] == [110, 120]
    assert rows(session, "SELECT rate FROM rates FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 10:05:00'") == [(110,)]
    assert rows(session, "SELECT rate FROM rates") == [(120,)]


@pytest.mark.full
def test_other_operators(session: SparkSession) -> None:
    once = "SELECT id FROM orders DEDUPLICATE WITHIN INTERVAL '1' HOUR BY (ccy) ON TIME ts"
    assert rows(session, once) == [(1,), (3,)]
    windows = "SELECT ccy, count(*) AS n FROM orders GROUP BY ccy, sliding_window(ts, '15 minutes')"
    assert max(n for _, n in rows(session, windows)) == 2


@pytest.mark.full
def test_commands_around_a_query(session: SparkSession) -> None:
    session.sql(f"CREATE TABLE connect_joined AS {JOIN}")
    try:
        session.sql(f"INSERT INTO connect_joined {JOIN} WHERE o.id = 1")
        assert rows(session, "SELECT * FROM connect_joined") == sorted([*ANSWER, (1, 110)], key=str)
    finally:
        session.sql("DROP TABLE connect_joined")


@pytest.mark.full
def test_a_temporary_view_keeps_a_query(session: SparkSession) -> None:
    session.sql(f"CREATE OR REPLACE TEMPORARY VIEW joined AS {JOIN}")
    assert rows(session, "SELECT * FROM joined WHERE id = 2") == [(2, 120)]
    with pytest.raises(PySparkException, match="TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"):
        session.sql(f"CREATE TEMPORARY VIEW joined AS {JOIN}")


@pytest.mark.full
def test_a_view_over_versions_has_them(session: SparkSession) -> None:
    session.sql("CREATE TEMPORARY VIEW euros AS SELECT * FROM rates WHERE ccy = 'EUR'")
    assert rows(session, JOIN.replace("rates", "euros")) == ANSWER
    session.sql("CREATE TEMPORARY VERSIONED TABLE derived FROM euros KEYS (ccy) TIMESTAMP BY ts")
    assert rows(session, JOIN.replace("rates", "derived")) == ANSWER
    session.sql(f"CREATE TEMPORARY VIEW joined AS {JOIN.replace('o.id', 'o.ccy, o.ts')}")
    session.sql("CREATE TEMPORARY VERSIONED TABLE of_join FROM joined KEYS (ccy) TIMESTAMP BY ts")
    assert rows(session, JOIN.replace("rates", "of_join")) == ANSWER  # each order finds what it was joined with


def test_permanent_definitions_are_there_for_other_sessions(session: SparkSession) -> None:
    session.sql("CREATE STREAM connect_orders (id INT, ts TIMESTAMP) TIMESTAMP BY ts")
    try:
        session.sql("INSERT INTO connect_orders VALUES (7, TIMESTAMP'2026-01-01 00:00:00')")
        other = session.newSession()
        assert rows(other, "SELECT id FROM connect_orders") == [(7,)]
        assert [row["name"] for row in other.sql("SHOW STREAMS").collect()] == ["connect_orders"]
        assert "DEFINITION.NAME_EXISTS" in refused(other, "CREATE STREAM connect_orders FROM orders TIMESTAMP BY ts")
    finally:
        session.sql("DROP STREAM connect_orders")
    assert rows(session, "SHOW STREAMS") == []


@pytest.mark.full
def test_rows_can_be_put_into_a_temporary_definition(session: SparkSession) -> None:
    session.sql("CREATE TEMPORARY VERSIONED TABLE pushed (k INT, v INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts")
    session.sql(
        "INSERT INTO pushed VALUES (1, 10, TIMESTAMP'2026-01-01 00:00:00'), (1, 11, TIMESTAMP'2026-01-02 00:00:00')"
    )
    assert rows(session, "SELECT k, v FROM pushed") == [(1, 11)]
    assert rows(session, "SELECT v FROM history(pushed)") == [(10,), (11,)]
    session.sql("DROP VERSIONED TABLE pushed")
    assert "BIND.UNKNOWN_RELATION" in refused(session, JOIN.replace("rates", "pushed"))


def test_a_view_in_the_place_of_a_definition_is_none(session: SparkSession) -> None:
    session.range(3).createOrReplaceTempView("rates")
    assert "`rates`" in refused(session, JOIN)
    assert rows(session, "SHOW VERSIONED TABLES") == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (JOIN.replace("r.rate", "r.nope"), ["UNRESOLVED_COLUMN", "                     ^^^^^^"]),
        pytest.param(JOIN.replace("rates", "nowhere"), ["BIND.UNKNOWN_RELATION", "^^^^^^^"], marks=pytest.mark.full),
        pytest.param(JOIN.replace("AS OF o.ts", "AS OF o.id"), ["LINE 1:", "^^^^"], marks=pytest.mark.full),
        ("SELECT id FROM orders DEDUPLICATE WITHIN", ["LINE 1:", "HINT:"]),
        (
            "SELECT id FROM orders DEDUPLICATE BY (id)",
            ["PARSE.NEAR_MISS", "     ^^^^^^^^^^^^^^", "HINT:"],
        ),
        (f"{JOIN} WITH REASONS", ["PARSE.NEAR_MISS", "^^^^^^^^^^^^", "HINT:"]),
    ],
)
def test_errors_have_carets(session: SparkSession, text: str, says: list[str]) -> None:
    message = refused(session, text)
    assert [part for part in says if part not in message] == []
    assert "JVM stacktrace" not in message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"CREATE VIEW connect_view AS {JOIN}", "a view for other sessions"),
        pytest.param(
            f"CREATE GLOBAL TEMPORARY VIEW connect_view AS {JOIN}", "a view for other sessions", marks=pytest.mark.full
        ),
        (f"CREATE TEMPORARY FUNCTION f() RETURNS TABLE(id INT, rate INT) RETURN {JOIN}", "a function"),
        (f"BEGIN {JOIN}; END", "SQL script"),
        ("SELECT * FROM deduplicate(TABLE(orders) PARTITION BY id, by => 'id')", "the table functions"),
    ],
)
def test_what_a_stock_server_cannot_is_refused_by_name(session: SparkSession, text: str, what: str) -> None:
    message = refused(session, text)
    assert "[UNSUPPORTED.CONNECT] Not over Spark Connect with a stock server" in message
    assert what in message
    assert "LINE 1:" in message


@pytest.mark.full
def test_frames_are_no_arguments_of_temporal_statements(session: SparkSession) -> None:
    with pytest.raises(TemporalSqlError, match="make temporary views of them"):
        session.sql(JOIN, frame=session.range(1))


@pytest.fixture
def live(session: SparkSession) -> Iterator[SparkSession]:
    """Permanent definitions to put rows into."""
    session.sql("CREATE STREAM live_orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    session.sql("CREATE VERSIONED TABLE live_rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts")
    session.conf.set("sqlx.tasks", "2")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.sql("DROP STREAM live_orders")
    session.sql("DROP VERSIONED TABLE live_rates")


LIVE = "SELECT o.id, r.rate FROM STREAM live_orders o LEFT JOIN live_rates r AS OF o.ts ON o.ccy = r.ccy"


def taken(session: SparkSession, text: str, checkpoint: Path) -> list[tuple[Any, ...]]:
    """Run a live query over what is there that it has not seen; all that it has given since it began."""
    frame = session.sql(text)
    assert frame.isStreaming
    sink = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint / "checkpoint"))
    query = sink.trigger(availableNow=True).start(str(checkpoint / "rows"))
    assert query.awaitTermination(120)
    return sorted((tuple(row) for row in session.read.parquet(str(checkpoint / "rows")).collect()), key=str)


@pytest.mark.full
@sends_state
def test_a_live_join_goes_on_after_a_restart(live: SparkSession, tmp_path: Path) -> None:
    live.sql("INSERT INTO live_rates VALUES ('EUR', 110, TIMESTAMP'2026-01-01 10:00:00')")
    live.sql("INSERT INTO live_orders VALUES (1, 'EUR', TIMESTAMP'2026-01-01 10:05:00')")
    assert taken(live, LIVE, tmp_path) == [(1, 110)]
    live.sql("INSERT INTO live_rates VALUES ('EUR', 120, TIMESTAMP'2026-01-01 10:10:00')")
    assert taken(live, LIVE, tmp_path) == [(1, 110)]
    live.sql(
        "INSERT INTO live_orders VALUES (2, 'EUR', TIMESTAMP'2026-01-01 10:09:00'),"
        " (3, 'EUR', TIMESTAMP'2026-01-01 10:11:00'), (4, 'USD', TIMESTAMP'2026-01-01 10:11:00')"
    )
    assert taken(live, LIVE, tmp_path) == [(1, 110), (2, 110), (3, 120), (4, None)]


@pytest.mark.full
@sends_state
def test_other_live_operators(live: SparkSession, tmp_path: Path) -> None:
    live.sql(
        "INSERT INTO live_orders SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'EUR', TIMESTAMP'2026-01-01 10:00:00'),"
        " (1, 'EUR', TIMESTAMP'2026-01-01 10:01:00'), (2, 'EUR', TIMESTAMP'2026-01-01 12:00:00')"  # one file: in order
    )
    once = "SELECT id, ccy FROM STREAM live_orders DEDUPLICATE WITHIN INTERVAL '1' HOUR BY (id)"
    assert taken(live, once, tmp_path / "once") == [(1, "EUR"), (2, "EUR")]
    windows = (
        "SELECT ccy, count(*) AS n FROM STREAM live_orders GROUP BY ccy, window(ts, '1 hour')"
        " GRACE PERIOD INTERVAL '0' SECONDS EMIT FINAL"
    )
    assert taken(live, windows, tmp_path / "windows") == [("EUR", 2)]


TABLE = f"CREATE STREAMING TABLE live_joined TRIGGER (AVAILABLE NOW) AS {LIVE}"


@pytest.fixture
def joined(live: SparkSession) -> Iterator[SparkSession]:
    """With a row on each side, and without the streaming table afterwards."""
    live.sql("INSERT INTO live_rates VALUES ('EUR', 110, TIMESTAMP'2026-01-01 10:00:00')")
    live.sql("INSERT INTO live_orders VALUES (1, 'EUR', TIMESTAMP'2026-01-01 10:05:00')")
    yield live
    for query in queries_of(live).all():
        query.query.stop()
    live.sql("DROP TABLE IF EXISTS live_joined")


@sends_state
def test_a_streaming_table(joined: SparkSession) -> None:
    joined.sql(TABLE.replace("CREATE", "CREATE OR REPLACE"))
    assert rows(joined, "SELECT * FROM live_joined") == [(1, 110)]
    (listed,) = joined.sql("SHOW STREAMING QUERIES").collect()
    assert (listed.name, listed.status, listed.batches, listed.rows) == ("live_joined", "finished", "1", "2")
    found = {row.property: row.value for row in joined.sql("DESCRIBE STREAMING QUERY live_joined").collect()}
    assert (found["matched"], found["state_rows"], found["id"]) == ("1", "1", listed.id)
    (kept,) = joined.sql("SELECT key, value FROM state('live_joined')").collect()
    assert (kept.key, kept.value) == ('{"ccy": "EUR"}', '{"rate": 110}')
    joined.sql("INSERT INTO live_orders VALUES (2, 'EUR', TIMESTAMP'2026-01-01 10:06:00')")
    joined.sql(TABLE)
    assert rows(joined, "SELECT * FROM live_joined") == [(1, 110), (2, 110)]
    assert joined.sql("SHOW STREAMING QUERIES").collect()[0].id == listed.id
    assert "STREAMING.CHECKPOINT_OTHER_QUERY" in refused(joined, TABLE.replace("o.id, r.rate", "o.id"))
    assert "STREAMING.WRITE" in refused(joined, "INSERT INTO live_joined VALUES (1, 1)")


@pytest.mark.skipif(RELEASE >= (4, 1), reason="newer clients send stateful operators")
@pytest.mark.parametrize("text", [LIVE, TABLE])
def test_a_client_that_cannot_send_state_says_so(joined: SparkSession, text: str) -> None:
    message = refused(joined, text)
    assert "[UNSUPPORTED.CONNECT]" in message
    assert "a live operator that keeps state, from a client of PySpark 4.0" in message


@pytest.mark.full
def test_a_query_is_verified_over_recorded_rows(joined: SparkSession) -> None:
    joined.sql("INSERT INTO live_rates VALUES ('EUR', 120, TIMESTAMP'2026-01-01 10:04:00')")
    found = joined.sql(f"VERIFY BATCH = STREAM {LIVE}").collect()
    assert [(row.verdict, row.row) for row in found] == [
        ("only in batch", '{"id": 1, "rate": 120}'),
        ("only in stream", '{"id": 1, "rate": 110}'),
    ]
    same = joined.sql(f"VERIFY BATCH = STREAM {LIVE} GRACE PERIOD INTERVAL 1 MINUTE SHUFFLE ARRIVALS 2").collect()
    assert {row.verdict for row in same} == {"same"}


@pytest.mark.full
@sends_state
def test_a_streaming_table_that_goes_on_without_its_client(joined: SparkSession) -> None:
    other = joined.newSession()
    running = TABLE.replace("TRIGGER (AVAILABLE NOW)", "")
    joined.sql(running.replace("CREATE", "CREATE OR REPLACE"))
    (query,) = queries_of(joined).all()
    query.query.processAllAvailable()
    assert [row.status for row in other.sql("SHOW STREAMING QUERIES").collect()] == ["running"]
    assert "STREAMING.ALREADY_RUNNING" in refused(other, running)
    assert rows(joined, "SELECT * FROM live_joined") == [(1, 110)]
    joined.sql("INSERT INTO live_orders VALUES (2, 'EUR', TIMESTAMP'2026-01-01 10:06:00')")
    query.query.processAllAvailable()
    assert rows(joined, "SELECT * FROM live_joined") == [(1, 110), (2, 110)]  # not the list of files of before
    assert [tuple(row) for row in other.sql("STOP STREAMING QUERY live_joined").collect()] == [
        ("live_joined", "stopped")
    ]


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "condition", "at"),
    [
        (TABLE.replace("live_joined", "live_joined USING parket"), "STREAMING.UNKNOWN_FORMAT", "^^^^^^^^^^^^"),
        (TABLE.replace("live_joined", "live_joined USING kafka"), "CONNECTOR.NEEDED", "^^^^^^^^^^^"),
        (TABLE.replace("r.rate", "raise_error('odd') AS rate"), "STREAMING.QUERY_FAILED", "odd"),
        (
            TABLE.replace("o.ccy = r.ccy", "o.ccy = r.ccy GRACE INTERVAL 1 HOUR LATE TO refused"),
            "UNSUPPORTED.CONNECT",
            "LATE TO beside a table of parquet, which keeps no number of a micro-batch",
        ),
        (
            TABLE.replace("TRIGGER", "USING parquet OPTIONS (write.mode 'upsert') TRIGGER"),
            "UNSUPPORTED.CONNECT",
            "changes applied to a table of parquet, which keeps no number of a micro-batch",
        ),
        ("DESCRIBE STREAMING QUERY nowhere", "STREAMING.UNKNOWN_QUERY", "^^^^^^^"),
        ("SELECT * FROM state('nowhere')", "STREAMING.NO_STATE", "^^^^^^^"),
    ],
)
@sends_state
def test_streaming_tables_that_cannot_be(joined: SparkSession, text: str, condition: str, at: str) -> None:
    message = refused(joined, text.replace("CREATE STREAMING", "CREATE OR REPLACE STREAMING"))
    assert condition in message
    assert at in message
    assert "JVM stacktrace" not in message


@pytest.mark.full
@sends_state
def test_streams_on_the_command_line(joined: SparkSession, tmp_path: Path) -> None:
    url = f"sc://{joined._client._builder.endpoint}"  # type: ignore[attr-defined]
    script = tmp_path / "stream.sql"
    script.write_text(f"{LIVE};\n", encoding="utf-8")
    done = command("run", "--stream", "--once", "--remote", url, str(script))
    assert (done.returncode, done.stdout.splitlines()[-1].split()) == (0, ["1", "110"]), done
    assert "query: finished, 2 rows" in done.stderr


@pytest.mark.full
@sends_state
def test_a_server_that_goes_while_a_stream_runs(tmp_path: Path) -> None:
    script = tmp_path / "stream.sql"
    script.write_text(
        "CREATE STREAM s (id INT, ts TIMESTAMP) TIMESTAMP BY ts;\n"
        "INSERT INTO s VALUES (1, TIMESTAMP'2026-01-01 10:00:00');\n"
        "CREATE STREAMING TABLE t AS SELECT * FROM STREAM s DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id);\n",
        encoding="utf-8",
    )
    (home := tmp_path / "server").mkdir()
    with stock_server(home) as url:
        asked = [sys.executable, "-m", "sqlx", "run", "--stream", "--remote", url, str(script)]
        client = subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        commits = home / "warehouse" / "_checkpoints" / "t" / "commits" / "0"
        waited = Event()
        while not commits.exists() and client.poll() is None:
            waited.wait(0.1)
    said, _ = client.communicate(timeout=120)
    assert client.returncode == 1
    assert "The server of Spark Connect does not answer any more." in said
    assert "Traceback" not in said


@pytest.mark.full
def test_the_command_line(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sc://{spark._client._builder.endpoint}"  # type: ignore[attr-defined]
    script = tmp_path / "join.sql"
    script.write_text(
        "CREATE TEMPORARY VIEW l AS SELECT 1 AS k, TIMESTAMP'2026-01-02 00:00:00' AS ts;\n"
        "CREATE TEMPORARY VERSIONED TABLE v FROM l KEYS (k) TIMESTAMP BY ts;\n"
        "SELECT l.k, v.ts FROM l JOIN v AS OF l.ts ON l.k = v.k;\n",
        encoding="utf-8",
    )
    done = command("run", "--remote", url, str(script))
    assert (done.returncode, done.stdout.splitlines()[-1].split()) == (0, ["1", "2026-01-02", "00:00:00"]), done
    done = command("explain", "--remote", url, "-e", "SELECT 1")
    assert done.returncode == 0, done
    both = command("sql", "--remote", url, "--warehouse", str(tmp_path), "-e", "SELECT 1")
    assert (both.returncode, "--remote and --warehouse" in both.stderr) == (1, True)


@pytest.mark.full
def test_a_server_that_is_not_there_is_said_at_once() -> None:
    done = command("sql", "--remote", "sc://localhost:1", "-e", "SELECT 1")
    assert done.returncode == 1
    assert "[CONNECT.NO_SERVER] No server of Spark Connect answers at sc://localhost:1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("py4j") is not None, reason="all of PySpark is there, and a JVM serves")
def test_without_a_server_there_is_no_session() -> None:
    done = command("sql", "-e", "SELECT 1")
    assert (done.returncode, "[CONNECT.CLIENT_ONLY]" in done.stderr) == (1, True)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sqlx", *arguments], capture_output=True, text=True, check=False)
