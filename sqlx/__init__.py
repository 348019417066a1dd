"""sqlx: SQL that knows time, on stock Spark.

    import sqlx

    spark = sqlx.session()
    spark.sql("SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy")

Public are :func:`session`, :func:`enable`, :func:`explain`, :func:`plot` and :mod:`sqlx.testing`; nothing else.
In a notebook, ``%load_ext sqlx`` brings ``%%sqlx``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlx.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from IPython.core.interactiveshell import InteractiveShell
    from pyspark.sql import DataFrame, SparkSession

    from sqlx.notebook.plots import Picture

__all__ = ["__version__", "enable", "explain", "plot", "session"]


def session(
    app: str = "sqlx",
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    warehouse: str | None = None,
    remote: str | None = None,
) -> SparkSession:
    """A SparkSession that understands the language; see `sqlx.sessions.session.session`."""
    from sqlx.sessions import session as sessions  # Spark is imported by those who need it: replay runs without

    return sessions.session(app, master, conf, warehouse, remote)


def enable(spark: SparkSession) -> SparkSession:
    """Teach a session that was made elsewhere; see :func:`sqlx.sessions.session.enable`."""
    from sqlx.sessions import session as sessions

    return sessions.enable(spark)


def explain(spark: SparkSession, text: str) -> str:
    """The stages of a query as EXPLAIN TEMPORAL prints them: statement, plan, inputs, the SQL around the operators.

    Args:
        spark: a sqlx session.
        text: the query.
    """
    from sqlx.sessions import session as sessions

    return sessions.explain(spark, text)


def plot(frame: DataFrame, x: str, y: str | Sequence[str], by: str | None = None, limit: int = 10_000) -> Picture:
    """Draw columns of a bounded query; see :func:`sqlx.notebook.plots.plot`."""
    from sqlx.notebook import plots

    return plots.plot(frame, x, y, by, limit)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What ``%load_ext sqlx`` calls: brings ``%%sqlx`` and ``%sqlx`` into a notebook."""
    from sqlx.notebook.magics import register

    register(shell)


def __getattr__(name: str) -> Any:
    if name == "testing":
        import importlib

        return importlib.import_module("sqlx.testing")
    raise AttributeError(name)
