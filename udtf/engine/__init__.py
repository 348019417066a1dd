"""What the product asks of an engine: one interface, and the two that answer it, a JVM and Spark Connect.

Nothing outside of this folder looks behind a session or a DataFrame of PySpark's to plan a bounded query.
Why so: docs/design/20261125_engine.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udtf.engine.engine import Engine

_KEPT = "_sqlx_engine"


def engine_of(spark: SparkSession) -> Engine:
    """The engine behind a session, one for each; what it learns of the session is kept there."""
    found: Engine | None = vars(spark).get(_KEPT)
    if found is None:  # NB: kept by the session itself, since it knows the session: elsewhere both would stay for ever
        found = vars(spark)[_KEPT] = _made(spark)
    return found


def _made(spark: SparkSession) -> Engine:
    if is_remote(spark):
        from udtf.engine.connect import ConnectEngine

        return ConnectEngine(spark)
    from udtf.engine.classic import ClassicEngine

    return ClassicEngine(spark)


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
