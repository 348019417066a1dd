"""The settings of Spark that a query with live operators wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATE_STORE: Final = "spark.sql.streaming.stateStore."
_DEFAULT_TASKS: Final = 16  # on every machine: answers to late rows depend on it
_SETTINGS: Final = {
    _STATE_STORE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # A micro-batch writes what it changed, not the whole store.
    _STATE_STORE + "rocksdb.changelogCheckpointing.enabled": "true",
}


def configured_tasks(spark: SparkSession) -> int:
    """How many tasks a query has where stream time plays a part and nothing else says it: ``sqlx.tasks``, or 16."""
    return int(spark.conf.get("sqlx.tasks", None) or _DEFAULT_TASKS)


def stream_conf(spark: SparkSession, tasks: int) -> dict[str, str]:
    """What to set while such a query is started; Spark writes these settings into its checkpoint.

    A partition costs each micro-batch a Python worker, a state server and a checkpoint, and a core runs one at a time:
    more partitions than cores only make micro-batches slower.
    """
    return {**_SETTINGS, "spark.sql.shuffle.partitions": str(partitions(tasks, spark.sparkContext.defaultParallelism))}


def partitions(tasks: int, cores: int) -> int:
    """The largest number of partitions that divides the tasks and is not above the cores.

    >>> partitions(16, 2), partitions(16, 12), partitions(6, 4), partitions(1, 8)
    (2, 8, 3, 1)
    """
    return max(count for count in range(1, max(min(tasks, cores), 1) + 1) if tasks % count == 0)
