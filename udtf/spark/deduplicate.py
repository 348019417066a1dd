"""Deduplication of bounded rows on Spark: shuffled by task, each task one partition, judged as one Arrow table.

`task = pmod(xxhash64(keys), tasks)`, as in a stream, so that with an order of arrival (SEQUENCE BY) and as many tasks
the answer is the stream's. In order of time no row is late, and the tasks change nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # its usual name
from pyspark.sql import types as T  # its usual name

from udtf.operators.deduplicate import deduplicate_table
from udtf.spark.batch import TASK, in_utc, named, number_of_tasks
from udtf.spark.stream_conf import configured_tasks
from udtf.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from udtf.operators.deduplicate import DeduplicateConfig

#: Types whose values are numbers of at most 64 bits, equal where the keys are.
_NUMBERS: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DateType, T.TimestampType, T.TimestampNTZType)


def deduplicate(
    rows: DataFrame, config: DeduplicateConfig, output_schema: StructType | str, tasks: int | None = None
) -> DataFrame:
    """Deduplicate a DataFrame that has the shape of `udtf.operators.deduplicate.deduplicate_table`.

    Args:
        rows: the rows.
        config: the deduplication; its columns may name `__k0 ..`, `__time` and `__seq`: nothing need travel twice.
        output_schema: the output's columns by name and type.
        tasks: how many tasks; None takes it from the session where it matters, else from Spark's estimate of the rows.
    """
    if not config.has_sequence and "__arrival0" not in rows.columns:
        rows = rows.withColumn("__arrival0", F.monotonically_increasing_id())  # ties, the same in every run
    tasks = tasks or (configured_tasks(rows.sparkSession) if config.has_sequence else number_of_tasks(rows))
    hashed = rows.withColumn("__hash", F.xxhash64(*_keys(config))).withColumn(TASK, _task(config, tasks))
    travelling = hashed.drop("__hash") if _is_identity(config, rows) else hashed
    # NB: task n is partition n, so that a partition is a task and need not be sorted and grouped by it.
    placed = travelling.repartitionById(tasks, F.col(TASK)).drop(TASK)
    return placed.mapInArrow(named("deduplicate", partial(_deduplicate_task, config)), output_schema)


def _keys(config: DeduplicateConfig) -> list[Column]:
    return [F.col(f"__k{number}") for number in range(config.n_keys)]


def _is_identity(config: DeduplicateConfig, rows: DataFrame) -> bool:
    """Whether the one key is a number that tells keys apart by itself: a hash of it need not travel."""
    return config.n_keys == 1 and isinstance(rows.schema["__k0"].dataType, _NUMBERS)


def _task(config: DeduplicateConfig, tasks: int) -> Column:
    """By key; rows without one have no duplicates, and go round where they are of no account for stream time."""
    task = F.pmod(F.col("__hash"), F.lit(tasks)).cast("int")
    if config.has_sequence:
        return task
    has_key = F.lit(True)
    for key in _keys(config):
        has_key = has_key & key.isNotNull()
    return F.when(has_key, task).otherwise(F.pmod(F.monotonically_increasing_id(), F.lit(tasks)).cast("int"))


def _deduplicate_task(config: DeduplicateConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task, in a worker."""
    import pyarrow as pa  # the driver may plan without it

    settle()
    held = [batch for batch in batches if batch.num_rows]
    if held:
        yield from in_utc(deduplicate_table(config, pa.Table.from_batches(held))).to_batches()
