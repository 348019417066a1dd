"""Who is behind a session: streams belong to who started them, sessions to who opened them, and all is written down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from sqlx.serving.users import add_user
from tests.spark.server import ServerProcess, rows

pytestmark = [pytest.mark.spark, pytest.mark.full]

PEOPLE = ("ann", "bob", "boss")
STREAM = "CREATE {}STREAMING TABLE t AS SELECT * FROM STREAM s DEDUPLICATE WITHIN INTERVAL {} HOUR BY (k)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("clients")
    for name in PEOPLE:
        add_user(found / "users", name, f"{name}-password")
    return found


def started(home: Path) -> ServerProcess:
    return ServerProcess(home, "--users", str(home / "users"), "--admin", "boss", "--audit", str(home / "audit"))


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[ServerProcess]:
    found = started(home)
    yield found
    found.stop()


def jdbc(server: ServerProcess, name: str, **options: Any) -> Any:
    from pyhive import hive

    login = {"username": name, "password": f"{name}-password", "auth": "CUSTOM"}
    return closing(hive.connect("127.0.0.1", server.thrift, **login, **options))


def remote(server: ServerProcess, name: str, further: str = "") -> Any:
    from pyspark.sql.connect.session import SparkSession

    login = f"authorization=Bearer%20{name}:{name}-password"  # ;token= would ask for TLS
    return SparkSession.builder.remote(f"sc://127.0.0.1:{server.connect}/;{login}{further}").create()


def test_a_stream_is_ended_by_who_started_it_or_an_administrator(server: ServerProcess, home: Path) -> None:
    from pyhive.exc import OperationalError

    with ExitStack() as connections:
        ann, bob = (connections.enter_context(jdbc(server, name)) for name in ("ann", "bob"))
        rows(ann, "CREATE TABLE events (k STRING, ts TIMESTAMP) USING parquet")
        rows(ann, "CREATE STREAM s FROM events TIMESTAMP BY ts")
        rows(ann, STREAM.format("", 1))
        for statement in ("STOP STREAMING QUERY t", STREAM.format("OR REPLACE ", 2)):
            with pytest.raises(OperationalError, match=r"SERVE\.NOT_YOURS.*started by ann"):
                rows(bob, statement)
        assert ("owner", "ann") in rows(bob, "DESCRIBE STREAMING QUERY t")
        rows(ann, "STOP STREAMING QUERY t")
        rows(ann, STREAM.format("OR REPLACE ", 1))
    server.stop()
    again = started(home)
    try:
        with ExitStack() as connections:
            bob, boss = (connections.enter_context(jdbc(again, name)) for name in ("bob", "boss"))
            with pytest.raises(OperationalError, match=r"SERVE\.NOT_YOURS.*started by ann"):
                rows(bob, "STOP STREAMING QUERY t")
            assert rows(boss, "STOP STREAMING QUERY t") == [("t", "stopped")]
    finally:
        again.stop()
    lines = [json.loads(line) for line in (home / "audit").read_text().splitlines()]
    of_bob = [line for line in lines if line["user"] == "bob"]
    assert [line["statement"] for line in of_bob if "STOP" in line.get("statement", "")] == [
        "STOP STREAMING QUERY t"
    ] * 2
    assert any(line["event"] == "failed" and "SERVE.NOT_YOURS" in line["error"] for line in of_bob)
    assert {line["address"] for line in of_bob} == {"127.0.0.1"}
    assert (home / "audit").stat().st_mode & 0o077 == 0


def test_a_session_of_spark_connect_is_its_user_s(home: Path) -> None:
    server = started(home)
    try:
        ann, bob = remote(server, "ann"), remote(server, "bob")
        assert ann.sql("SELECT 6 * 7 AS n").collect()[0].n == 42
        with pytest.raises(Exception, match="a session of another user"):
            remote(server, "bob", f";session_id={ann.session_id}").sql("SELECT 1").collect()
        bob.conf.set("spark.sql.thriftServer.queryTimeout", "5")
        with pytest.raises(Exception, match=r"SERVE\.REFUSED.*queryTimeout = 5"):
            bob.sql("SELECT 1").collect()
        with pytest.raises(Exception, match=r"SERVE\.REFUSED.*global temporary view"):
            ann.sql("CREATE GLOBAL TEMPORARY VIEW g AS SELECT 1 AS x").collect()
        with pytest.raises(Exception, match=r"SERVE\.REFUSED.*incrementalCollect = false"):
            jdbc(server, "bob", configuration={"set:hiveconf:spark.sql.thriftServer.incrementalCollect": "false"})
        for session in (ann, bob):
            session.stop()
    finally:
        server.stop()
    lines = [json.loads(line) for line in (home / "audit").read_text().splitlines()]
    asked = [(line["user"], line["statement"]) for line in lines if line["door"] == "Connect" and "statement" in line]
    assert ("ann", "SELECT 6 * 7 AS n") in asked
