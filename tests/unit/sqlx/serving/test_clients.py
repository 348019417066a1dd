"""Who did what, from Spark's events; and whose streaming query it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqlx.errors import RunError
from sqlx.failures import CommandError
from sqlx.serving.clients import Audit, Owners


def written(path: Path, *events: dict[str, Any]) -> list[dict[str, Any]]:
    audit = Audit(path, {"c1": "ann"}.get)
    for event in events:
        audit.accept(json.dumps(event))
    audit.close()
    return [json.loads(line) for line in path.read_text().splitlines()]


THRIFT = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServer"
CONNECT = "org.apache.spark.sql.connect.service.SparkListenerConnect"


def test_a_statement_of_jdbc_is_told_with_its_user_and_how_it_ended(tmp_path: Path) -> None:
    lines = written(
        tmp_path / "audit",
        {"Event": f"{THRIFT}SessionCreated", "ip": "10.0.0.7", "sessionId": "s", "userName": "bob", "startTime": 0},
        {"Event": f"{THRIFT}OperationStart", "id": "o", "sessionId": "s", "statement": "SELECT 1", "startTime": 1000},
        {"Event": f"{THRIFT}OperationError", "id": "o", "errorMsg": "bad\n  at x", "finishTime": 2500},
        {"Event": "SparkListenerJobStart"},
    )
    start = {"time": "1970-01-01T00:00:00.000+00:00", "user": "bob", "address": "10.0.0.7", "door": "Thrift"}
    assert lines == [
        {**start, "event": "opened", "session": "s"},
        {**start, "time": "1970-01-01T00:00:01.000+00:00", "event": "started", "session": "s", "id": "o",
         "statement": "SELECT 1"},
        {**start, "time": "1970-01-01T00:00:02.500+00:00", "event": "failed", "session": "s", "id": "o",
         "seconds": 1.5, "error": "bad"},
    ]  # fmt: skip


def test_of_spark_connect_it_is_who_logged_in_and_not_who_the_client_says_it_is(tmp_path: Path) -> None:
    (line,) = written(
        tmp_path / "audit",
        {
            "Event": f"{CONNECT}OperationStarted", "operationId": "o", "sessionId": "c1", "userId": "root",
            "eventTime": 5, "statementText": 'command {\n  sql { query: "SELECT \\"a\\"\\nFROM t" }\n}',
        },
    )  # fmt: skip
    assert (line["user"], line["statement"]) == ("ann", 'SELECT "a"\nFROM t')


def test_the_file_is_its_owner_s_and_lines_are_added(tmp_path: Path) -> None:
    event = {"Event": f"{THRIFT}SessionClosed", "sessionId": "s", "finishTime": 1}
    written(tmp_path / "audit", event)
    assert len(written(tmp_path / "audit", event)) == 2
    assert (tmp_path / "audit").stat().st_mode & 0o077 == 0
    with pytest.raises(CommandError, match=r"--audit .*/no/audit: this file cannot be written: no such file"):
        Audit(tmp_path / "no" / "audit", lambda _: None)


def test_an_event_that_cannot_be_read_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit(tmp_path / "audit", lambda _: None)
    audit.accept("no json")
    audit.close()
    assert "A statement could not be written down" in caplog.text


def session(identity: str) -> Any:
    return SimpleNamespace(_jsparkSession=SimpleNamespace(sessionUUID=lambda: identity))


@pytest.mark.parametrize(("user", "may"), [("ann", True), ("boss", True), ("own", True), ("bob", False)])
def test_a_query_is_ended_by_who_started_it_an_administrator_or_the_server(user: str, may: bool) -> None:
    users = {name: name for name in ("ann", "bob", "boss")}
    owners = Owners([lambda _: None, users.get], ["boss"])
    query: Any = SimpleNamespace(name="t", owner="ann")
    if may:
        owners.check(session(user), query)
        return
    with pytest.raises(RunError, match="started by ann"):
        owners.check(session(user), query)
