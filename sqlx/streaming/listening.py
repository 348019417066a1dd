"""Hears from Spark how far each query is; a query keeps the last hundred micro-batches only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from sqlx.streaming.registry import Registry, registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_listening: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


class ProgressListener:
    """Adds each micro-batch to the totals of its query."""

    def __init__(self, queries: Registry) -> None:
        self._queries = queries

    def onQueryStarted(self, event: Any) -> None:
        """A query has started."""

    def onQueryProgress(self, event: Any) -> None:
        """A micro-batch is done."""
        query = self._queries.by_id(str(event.progress().id().toString()))
        if query is not None:
            query.refresh()

    def onQueryIdle(self, event: Any) -> None:
        """There was nothing to read."""

    def onQueryTerminated(self, event: Any) -> None:
        """A query has ended."""

    class Java:
        """What py4j is to implement."""

        implements: ClassVar[list[str]] = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def listen(spark: SparkSession) -> None:
    """Hear of the queries of a session; once is enough."""
    if spark in _listening:
        return
    jvm: Any = spark.sparkContext._jvm
    listener = ProgressListener(registry(spark.sparkContext))
    wrapped = jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener)
    java: Any = spark._jsparkSession
    java.streams().addListener(wrapped)
    _listening[spark] = (listener, wrapped)
