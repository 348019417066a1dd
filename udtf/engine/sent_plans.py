"""Plans of Spark Connect on their way to another client of the same session, in the protocol's own bytes.

A frame that is pickled would take its session along, which no other process can use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sent(frame: DataFrame) -> bytes:
    """What a frame of a client is, as bytes; views that it reads by name are those of whoever runs it."""
    client: Any = frame.sparkSession.client
    plan: Any = frame
    return bytes(plan._plan.plan(client).SerializeToString())  # noqa: SLF001  # PySpark's own modules read it, too


def received(spark: SparkSession, plan: bytes) -> DataFrame:
    """The frame again.

    Args:
        spark: a client of the session for which it was made.
        plan: what `sent` gave.
    """
    from pyspark.sql.connect import proto
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class Received(LogicalPlan):
        def plan(self, session: Any) -> proto.Relation:
            del session
            relation = proto.Relation()
            relation.ParseFromString(plan)
            return relation

    found: Any = ConnectFrame(Received(None), spark)  # type: ignore[arg-type]
    return found  # type: ignore[no-any-return]
