"""sqlx: SQL that knows time, on stock Spark.

    import sqlx

    spark = sqlx.session()
    spark.sql("SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy")

Public are :func:`session`, :func:`enable`, :func:`explain` and :mod:`sqlx.testing`; nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["enable", "explain", "session"]
__version__ = "0.1.0"


def session(
    app: str = "sqlx",
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    warehouse: str | None = None,
) -> SparkSession:
    """A SparkSession that understands the language; see :func:`sqlx.session.session`."""
    from sqlx import sessions  # Spark is imported by those who need it: replay runs without

    return sessions.session(app, master, conf, warehouse)


def enable(spark: SparkSession) -> SparkSession:
    """Teach a session that was made elsewhere; see :func:`sqlx.session.enable`."""
    from sqlx import sessions

    return sessions.enable(spark)


def explain(spark: SparkSession, text: str) -> str:
    """The stages of a query as EXPLAIN TEMPORAL prints them: statement, plan, inputs, the SQL around the operators.

    Args:
        spark: a session of ours.
        text: the query.
    """
    from sqlx import sessions

    return sessions.explain(spark, text)


def __getattr__(name: str) -> Any:
    if name == "testing":
        import importlib

        return importlib.import_module("sqlx.testing")
    raise AttributeError(name)
