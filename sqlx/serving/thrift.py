"""The Thrift server: what JDBC and ODBC drivers speak."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlx.serving.java_side import LOGIN
from sqlx.serving.options import ServeOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.serving.login import LoginCheck


def thrift_conf(options: ServeOptions, keystore: Path, secret: str) -> dict[str, str]:
    """Spark's settings for it: Hive's own names after ``spark.hadoop``.

    Args:
        options: what was asked for.
        keystore: where the server's keys will be, if it has TLS.
        secret: the password of the keystore.
    """
    wanted = {
        "hive.server2.thrift.bind.host": options.host,
        "hive.server2.thrift.port": str(options.thrift),
        "hive.server2.enable.doAs": "false",  # there is one identity for files and tables: the server's
        "hive.server2.thrift.min.worker.threads": "5",
        "hive.server2.thrift.max.worker.threads": "500",
        # A client that vanished without a word must not be kept for Hive's seven days.
        "hive.server2.idle.session.timeout": "12h",
        "hive.server2.idle.operation.timeout": "12h",
        "hive.server2.session.check.interval": "5min",
        "hive.server2.authentication": _authentication(options),
    }
    if options.tls is not None:
        wanted |= {
            "hive.server2.use.SSL": "true",
            "hive.server2.keystore.path": str(keystore),
            "hive.server2.keystore.password": secret,
        }
    conf = {f"spark.hadoop.{name}": value for name, value in wanted.items()}
    # Rows of a large result are sent while later ones are computed: the driver never holds all of them.
    conf["spark.sql.thriftServer.incrementalCollect"] = "true"
    if options.timeout_seconds:
        conf["spark.sql.thriftServer.queryTimeout"] = str(options.timeout_seconds)
    return conf


def _authentication(options: ServeOptions) -> str:
    if options.ldap:
        return "LDAP"
    return "CUSTOM" if options.users is not None else "NONE"


def login_properties(options: ServeOptions) -> dict[str, str]:
    """What Hive's login checks read: they make a configuration of their own, which sees Java's properties only."""
    wanted = {
        "hive.server2.authentication.ldap.url": options.ldap,
        "hive.server2.authentication.ldap.baseDN": options.ldap_base,
        "hive.server2.authentication.ldap.Domain": options.ldap_domain,
        "hive.server2.custom.authentication.class": LOGIN if options.users is not None else "",
    }
    return {name: value for name, value in wanted.items() if value}


def new_secret() -> str:
    """A password for a keystore that lives as long as the server."""
    return secrets.token_urlsafe(24)


class ThriftServer:
    """The Thrift server of this process.

    Args:
        spark: the session that clients' sessions are made from.
        login: who may come in; None lets everybody in.
    """

    def __init__(self, spark: SparkSession, login: LoginCheck | None) -> None:
        jvm: Any = spark.sparkContext._jvm
        if login is not None:
            jvm.sqlx.serving.Login.use(login)
        thriftserver = jvm.org.apache.spark.sql.hive.thriftserver
        self._server = thriftserver.HiveThriftServer2.startWithSparkSession(spark._jsparkSession, False)

    @property
    def _manager(self) -> Any:
        """Spark's own manager of sessions: it knows which client has which."""
        service = next(
            s for s in self._server.getServices() if str(s.getClass().getName()).endswith(".SparkSQLCLIService")
        )
        return service.getSessionManager()

    def sessions(self) -> Iterator[str]:
        """The ids of the Spark sessions that clients have open."""
        for session in list(self._manager.getOperationManager().sessionToContexts().values()):
            yield str(session.sessionUUID())

    def user_of(self, session: str) -> str | None:
        """Who has logged in for a Spark session; None where it is no client's of this server."""
        manager = self._manager
        for entry in list(manager.getOperationManager().sessionToContexts().entrySet()):
            if str(entry.getValue().sessionUUID()) == session:
                return str(manager.getSession(entry.getKey()).getUserName())
        return None

    @property
    def is_up(self) -> bool:
        """Whether it takes connections."""
        return str(self._server.getServiceState()) == "STARTED"

    def stop(self) -> None:
        """Take no more connections, and end the sessions of clients."""
        self._server.stop()
