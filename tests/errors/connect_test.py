"""What is said where a session of Spark Connect cannot be made; what one refuses, tests/connect shows on a server."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

import sqlx
from sqlx.errors import RunError
from sqlx.failures import message_of
from sqlx.sessions import remote, session
from sqlx.sql.tokens import tokenize


def refused(**arguments: str) -> str:
    with pytest.raises(RunError) as error:
        sqlx.session(**arguments)  # type: ignore[arg-type]
    return str(error.value)


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


def test_a_server_that_does_not_answer() -> None:
    assert refused(remote="sc://localhost:1") == (
        "[CONNECT.NO_SERVER] No server of Spark Connect answers at sc://localhost:1: Connection refused. "
        "SQLSTATE: 08001\nHINT: Start one (sbin/start-connect-server.sh of Spark), or look at host and port: "
        "sc://HOST:15002."
    )


@pytest.mark.parametrize("url", ["localhost:15002", "http://localhost:1", "sc://", "sc://host:port"])
def test_what_is_no_url_of_a_server(url: str) -> None:
    assert f"[CONNECT.NO_SERVER] No server of Spark Connect answers at {url}: " in refused(remote=url)


@pytest.mark.parametrize(
    ("arguments", "what"), [({"master": "local[2]"}, "master"), ({"warehouse": "/w"}, "warehouse")]
)
def test_what_the_server_has_of_its_own(arguments: dict[str, str], what: str) -> None:
    assert f"[CONNECT.OF_THE_SERVER] The server of Spark Connect has a {what} of its own." in refused(
        remote="sc://localhost", **arguments
    )


def test_one_kind_of_session_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", SimpleNamespace())
    assert "[CONNECT.CLASSIC_SESSION] This process has a session with a JVM" in refused(remote="sc://localhost")


def test_a_client_alone_needs_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "is_remote_only", lambda: True)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert "[CONNECT.CLIENT_ONLY] This Python has a client of Spark Connect only (pyspark-client)" in refused()
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:1")
    assert "[CONNECT.NO_SERVER]" in refused()


def test_a_parameter_without_a_literal_stays_for_spark() -> None:
    values = remote._Values({"a": object(), "b": 1})
    text = "SELECT :a, :b"
    assert values.put_in(text, tokenize(text)) == "SELECT :a, 1"
    assert "[CONNECT.PARAMETER] A parameter of type object has no literal" in str(values.refusal)


def test_a_server_that_has_gone_is_said_to_be_gone() -> None:
    class SparkConnectGrpcException(PySparkException):
        """What PySpark raises, by its name."""

    lost = SparkConnectGrpcException(message="<_InactiveRpcError of RPC that terminated with: StatusCode.UNAVAILABLE")
    assert message_of(lost) == "The server of Spark Connect does not answer any more."
    assert message_of(SparkConnectGrpcException(message="[OTHER] of the query")) == "[OTHER] of the query"
