"""Sessions that understand the language: made here, or made elsewhere and enabled; with a JVM, or of Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.util import is_remote_only

from sqlx.errors import RunError
from udtf.engine import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.sessions.statements import SessionStatements


def session(
    app: str = "sqlx",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    warehouse: str | None = None,
    remote: str | None = None,
) -> SparkSession:
    """A SparkSession that understands the language.

    Args:
        app: the application's name.
        master: Spark master URL; None is what ``spark-submit`` was told, and else ``local[*]``.
        conf: further Spark configuration; it wins over our defaults, as what ``spark-submit`` was told does.
            ``sqlx.connectors`` names connectors whose jars
            the session is to have (``"kafka,delta"``; else the environment's ``SQLX_CONNECTORS``).
        warehouse: a folder for a catalog that outlives the process (embedded metastore, one process at a time);
            None keeps definitions in memory.
        remote: the URL of a stock server of Spark Connect (``sc://host:15002``), in the place of a Spark of our own:
            no Java is needed here, and nothing of ours there.

    Raises:
        JavaError: no Java 17 or 21 was found.
        RunError: the jars of a connector are not there; the server does not answer, or has a master and a warehouse
            of its own; PySpark is a client only, and no server was named.
    """
    if remote is None and is_remote_only():
        remote = os.environ.get("SPARK_REMOTE")
        if remote is None:
            raise RunError("CONNECT.CLIENT_ONLY")
    if remote is None:
        from sqlx.sessions import classic

        return classic.session(app, master, conf or {}, warehouse)
    from sqlx.sessions import remote as connect

    if master is not None or warehouse is not None:
        raise RunError("CONNECT.OF_THE_SERVER", what="warehouse" if master is None else "master")
    return connect.session(app, remote, conf or {})


def enable(spark: SparkSession) -> SparkSession:
    """Teach a session that was made elsewhere, with a JVM or of Spark Connect.

    Args:
        spark: the session. Sessions made from one with a JVM know the language too; one of Spark Connect is taught
            alone.

    Returns:
        The same session.
    """
    if is_remote(spark):
        from sqlx.sessions import remote

        return remote.enable(spark)
    from sqlx.sessions import classic

    return classic.enable(spark)


def explain(spark: SparkSession, text: str) -> str:
    """The stages of a query as text.

    Args:
        spark: a sqlx session.
        text: the query.

    Raises:
        TemporalSqlError: the query is wrong.
        ParseException: neither we nor Spark's parser take it.
    """
    return statements_of(spark).explained(text)


def statements_of(spark: SparkSession) -> SessionStatements:
    """What knows the statements of a sqlx session."""
    if is_remote(spark):
        from sqlx.sessions import remote

        return remote.statements_of(spark)
    from sqlx.sessions import classic

    return classic.statements_of(spark)
