"""What clients of a server may not do: leave SQL for programs, code of their own, or files elsewhere.

Spark knows one user for all clients. So a statement is refused by what Spark's analyzer has made of it, however it was
written, before it runs (`Guard` in `sqlx/serving/java_side.py`).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from sqlx.errors import RunError
from sqlx.streaming.registry import registry
from sqlx.streaming.tables import folder_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.serving.options import ServeOptions

#: Settings of the server's limits: a client that sets them would be without.
_LOCKED: Final = ("spark.sql.thriftServer.queryTimeout", "spark.sql.thriftServer.incrementalCollect")
#: What Spark takes as a default that it need not check.
_UNSET: Final = "<undefined>"
_OWN: Final = "SQLX_SERVER"


def refusal_text() -> str:
    """The message, with `{what}` to be filled in."""
    return str(RunError("SERVE.REFUSED", what="{what}"))


def mark_own_code(spark: SparkSession) -> str:
    """Let our own Python functions carry a secret by which they are told from those of clients."""
    secret = secrets.token_hex(16)
    context = spark.sparkContext
    context.environment = {**context.environment, _OWN: secret}
    return secret


def guard(spark: SparkSession, options: ServeOptions, secret: str) -> None:
    """Refuse in all sessions that are made from here on what clients may not do.

    Args:
        spark: the session that clients' sessions are made from.
        options: what was asked for.
        secret: see `mark_own_code`.
    """
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    folders = tuple(folder_of(spark, folder).path.rstrip("/") for folder in (str(options.warehouse), *options.folders))
    registry(spark.sparkContext).folders = folders
    java: Any = spark._jsparkSession
    limits = tuple(str(java.sessionState().conf().getConfString(name, _UNSET)) for name in _LOCKED)
    lists = (_strings(gateway, jvm, texts) for texts in (folders, _LOCKED, limits))
    jvm.sqlx.serving.Guard.inject(java.extensions(), *lists, secret, refusal_text())


def _strings(gateway: Any, jvm: Any, values: tuple[str, ...]) -> Any:
    found = gateway.new_array(jvm.java.lang.String, len(values))
    for number, value in enumerate(values):
        found[number] = value
    return found
