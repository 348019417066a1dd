"""Tasks on Spark: which task a key is of, how many there are, and the settings that a live query wants for them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # its usual name

from udtf.engine import engine_of
from udtf.engine.settings import whole_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: The column with the number of a row's task.
TASK: Final = "__task"
#: How many partitions a shuffle has, and a live query for good.
PARTITIONS: Final = "spark.sql.shuffle.partitions"
_STATE_STORE: Final = "spark.sql.streaming.stateStore."
_DEFAULT_TASKS: Final = 16  # on every machine: answers to late rows depend on it
_SETTINGS: Final = {
    _STATE_STORE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # A micro-batch writes what it changed, not the whole store.
    _STATE_STORE + "rocksdb.changelogCheckpointing.enabled": "true",
}


def key_hash(n_keys: int) -> Column:
    """The hash of ``__k0 …``; Spark's own takes NaN and zero as its joins do, so that equal keys are of one task."""
    if not n_keys:
        return F.lit(42).cast("bigint")
    return F.xxhash64(*[F.col(f"__k{number}") for number in range(n_keys)])


def task_of(hashed: Column, tasks: int) -> Column:
    """The number of the task: ``pmod(xxhash64(keys), tasks)``; `sqlx.replay.placement` has the same without Spark."""
    return F.pmod(hashed, F.lit(tasks)).cast("int")


def task_sql(n_keys: int, tasks: int) -> str:
    """The same as Spark SQL."""
    return f"pmod(xxhash64({', '.join(f'__k{number}' for number in range(n_keys))}), {tasks})"


def configured_tasks(spark: SparkSession) -> int:
    """How many tasks a query has where stream time plays a part and nothing else says it: ``sqlx.tasks``, or 16."""
    return whole_number(spark, "sqlx.tasks", _DEFAULT_TASKS, least=1)


def stream_conf(spark: SparkSession, tasks: int) -> dict[str, str]:
    """What to set while such a query is started; Spark writes these settings into its checkpoint.

    A partition costs each micro-batch a Python worker, a state server and a checkpoint, and a core runs one at a time:
    more partitions than cores only make micro-batches slower. Who sets ``spark.sql.shuffle.partitions`` gets that many,
    but never more than there are tasks, which the rest would have nothing of.
    """
    wanted = spark.conf.getAll.get(PARTITIONS)
    count = partitions(tasks, engine_of(spark).cluster_cores) if wanted is None else min(int(wanted), tasks)
    return {**_SETTINGS, PARTITIONS: str(count)}


def partitions(tasks: int, cores: int) -> int:
    """The largest number of partitions that divides the tasks and is not above the cores.

    >>> partitions(16, 2), partitions(16, 12), partitions(6, 4), partitions(1, 8)
    (2, 8, 3, 1)
    """
    return max(count for count in range(1, max(min(tasks, cores), 1) + 1) if tasks % count == 0)


# Numbers that Spark's hash partitioning spreads evenly: one for each task.


_MASK: Final = 0xFFFFFFFF
_SEED: Final = 42


def placed(rows: DataFrame, tasks: int) -> DataFrame:
    """The rows with task n in partition n, so that no two large tasks meet in one by the accident of a hash.

    PySpark 4.0 cannot place rows by the number of a partition: there a number whose hash falls on it takes its place.

    Args:
        rows: with the column `TASK`, which still tells tasks apart in the answer.
        tasks: how many there are.
    """
    if hasattr(type(rows), "repartitionById"):
        return rows.repartitionById(tasks, F.col(TASK))
    slot = F.element_at(F.lit(list(slots(tasks))), F.col(TASK) + 1).cast("int")
    return rows.withColumn(TASK, slot).repartition(tasks, F.col(TASK))


@cache
def slots(tasks: int) -> tuple[int, ...]:
    """Per task a number whose hash falls on it: `pmod(murmur3(slot), tasks) == task`.

    Grouped by these, tasks lie evenly over any number of partitions that divides their own.
    """
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(murmur3(number) % tasks, number)
        number += 1
    return tuple(found[task] for task in range(tasks))


def murmur3(number: int) -> int:
    """Spark's hash of an int column (Murmur3 x86 32, seed 42), as a signed number.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    block = number * 0xCC9E2D51 & _MASK
    block = _rotated(block, 15) * 0x1B873593 & _MASK
    state = _rotated(_SEED ^ block, 13) * 5 + 0xE6546B64 & _MASK
    state ^= 4  # the length in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(number: int, bits: int) -> int:
    return (number << bits | number >> (32 - bits)) & _MASK
