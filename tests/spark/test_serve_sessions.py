"""A client that has gone leaves nothing after."""

from __future__ import annotations

import gc
from threading import Event
from typing import Any

from pyspark.sql import SparkSession

from sqlx.serving.server import ClientSessions
from sqlx.sessions.classic import front_of

_SCRIPT = (
    "CREATE TEMPORARY VERSIONED TABLE r (k INT, v INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts",
    "INSERT INTO r VALUES (1, 2, TIMESTAMP'2024-01-01')",
    "CREATE TEMPORARY VIEW joined AS SELECT l.k, r.v FROM (SELECT 1 AS k, TIMESTAMP'2024-01-02' AS ts) l "
    "JOIN r AS OF l.ts ON l.k = r.k",
)


def weakly(spark: SparkSession, session: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.java.lang.ref.WeakReference(session._jsparkSession)


def views(spark: SparkSession) -> set[str]:
    """The views of ours that all sessions share."""
    return {table.name for table in spark.catalog.listTables("global_temp") if table.name.startswith("__sqlx_")}


def is_gone(spark: SparkSession, reference: Any) -> bool:
    """Threads of Spark's pools remember the session in which they were made until they end, after an idle minute."""
    waited = Event()
    for _ in range(120):
        gc.collect()
        spark.sparkContext._jvm.java.lang.System.gc()  # type: ignore[union-attr]
        if reference.get() is None:
            return True
        waited.wait(1)
    return False


def test_a_session_that_ended_is_forgotten(spark: SparkSession) -> None:
    front = front_of(spark)
    open_sessions: set[str] = set()
    sessions = ClientSessions(spark, [lambda: open_sessions])
    before, others = front.known(), views(spark)
    client = spark.newSession()
    for statement in _SCRIPT:
        client.sql(statement)
    assert client.table("joined").collect() == [(1, 2)]
    client.sql("EXPLAIN SELECT 1 FROM (SELECT 1 AS k, current_timestamp() AS ts) l JOIN r AS OF l.ts ON l.k = r.k")
    [identity] = front.known() - before
    open_sessions.add(identity)
    assert views(spark) > others
    assert sessions.sweep() == 0
    reference = weakly(spark, client)
    open_sessions.clear()
    del client
    SparkSession(spark.sparkContext, spark._jsparkSession)  # PySpark keeps the one that was made last, for RDD.toDF
    assert sessions.sweep() == 1
    assert front.known() == before
    assert is_gone(spark, reference)
    assert views(spark) == others


def test_the_servers_own_sessions_stay(spark: SparkSession) -> None:
    sessions = ClientSessions(spark, [set])
    known = front_of(spark).known()
    assert sessions.sweep() == 0
    assert front_of(spark).known() == known
