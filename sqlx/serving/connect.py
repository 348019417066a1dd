"""The Spark Connect server: what PySpark's remote sessions speak."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlx.errors import RunError
from sqlx.serving.guard import refusal_text
from sqlx.serving.java_side import CONNECT_DOOR
from sqlx.serving.options import ServeOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.serving.login import LoginCheck

_INBOUND_BYTES = 128 << 20


def connect_conf(options: ServeOptions) -> dict[str, str]:
    """Spark's settings for it.

    With TLS its stock server, which has none, listens at a loopback port of its own for the moment in which it starts.
    """
    has_tls = options.tls is not None
    return {
        "spark.connect.grpc.binding.address": "127.0.0.1" if has_tls else options.host,
        "spark.connect.grpc.binding.port": "0" if has_tls else str(options.connect),
        "spark.connect.grpc.port.maxRetries": "0",  # another port than the one that was printed helps nobody
        "spark.connect.grpc.maxInboundMessageSize": str(_INBOUND_BYTES),
        "spark.connect.grpc.interceptor.classes": CONNECT_DOOR,
    }


def service_of(jvm: Any) -> Any:
    """Spark's service of Connect clients, of which a JVM has one."""
    return getattr(getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$"), "MODULE$")


def stop_service(jvm: Any, service: Any) -> None:
    """Take no more connections, and end the sessions of clients."""
    service.stop(jvm.scala.Option.empty(), jvm.scala.Option.empty())


class ConnectServer:
    """The Spark Connect server of this process.

    Args:
        spark: the session that clients' sessions are made from.
        options: what was asked for.
        login: who may come in; None lets everybody in.
        keystore, secret: the server's keys, if it has TLS.
    """

    def __init__(
        self, spark: SparkSession, options: ServeOptions, login: LoginCheck | None, keystore: Path, secret: str
    ) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._jvm, ours = jvm, jvm.sqlx.serving
        no_code = "" if options.trust_users else refusal_text()
        ours.ConnectLogin.use(login, options.most_rows, str(too_many_rows(options.most_rows)), no_code)
        self._service = service_of(jvm)
        self._service.start(spark.sparkContext._jsc.sc())
        self._server = self._service.server()
        if options.tls is not None:
            self._server.shutdownNow()
            port = options.connect
            self._server = ours.TlsConnect.start(options.host, port, str(keystore), secret, _INBOUND_BYTES)

    def _holders(self) -> list[Any]:
        return list(_private(self._service.sessionManager(), "sessionStore").values())

    def sessions(self) -> Iterator[str]:
        """The ids of the Spark sessions that clients have open."""
        for holder in self._holders():
            yield str(holder.serverSessionId())

    def user_of(self, session: str) -> str | None:
        """Who has logged in for a Spark session; None where it is no client's of this server."""
        for holder in self._holders():
            if str(holder.serverSessionId()) == session:
                return str(self._jvm.sqlx.serving.ConnectLogin.userOf(holder.sessionId()) or holder.userId())
        return None

    def executions(self) -> dict[str, Any]:
        """What runs now: Spark's handles, by the id of the operation."""
        holders = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(
            self._service.executionManager().listExecuteHolders()
        )
        return {str(holder.operationId()): holder for holder in holders}

    @property
    def is_up(self) -> bool:
        """Whether it takes connections."""
        return not self._server.isShutdown()

    def stop(self) -> None:
        """Take no more connections, and end the sessions of clients."""
        self._server.shutdownNow()
        stop_service(self._jvm, self._service)


def _private(owner: Any, name: str) -> Any:
    """A private field of a Java object: Spark tells how many sessions there are, but not which."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)


# How long a statement may take, and how many rows it may return.


def too_many_rows(most_rows: int) -> RunError:
    """What a client is told whose result is too large.

    Args:
        most_rows: the most rows that a statement may return.
    """
    return RunError("SERVE.TOO_MANY_ROWS", most=most_rows)


class TimeLimit:
    """Ends statements of Spark Connect that take too long; Thrift has a setting for that, Spark Connect has none.

    Args:
        executions: what runs now: Spark's handles by id.
        limit_seconds: the longest that a statement may take.
        now: a clock in seconds.
    """

    def __init__(
        self, executions: Callable[[], dict[str, Any]], limit_seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._executions, self._limit_seconds, self._now = executions, limit_seconds, now
        self._seen: dict[str, float] = {}

    def enforce(self) -> list[str]:
        """Interrupt what has been seen for too long; the ids of what was interrupted."""
        running, now = self._executions(), self._now()
        self._seen = {one: self._seen.get(one, now) for one in running}
        late = [one for one, since in self._seen.items() if now - since > self._limit_seconds]
        for one in late:
            running[one].interrupt()
        return late
