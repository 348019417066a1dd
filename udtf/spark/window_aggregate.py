"""Sliding windows of bounded rows on Spark: shuffled by task, each task one partition, answered from one Arrow table.

`task = pmod(xxhash64(keys), tasks)`, as in a stream; without keys there is one task. Nothing is late, so that the
answer is the same however many there are.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # its usual name

from udtf.spark.batch import TASK, in_utc, named, number_of_tasks
from udtf.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from udtf.operators.window_aggregate_config import WindowAggregateConfig


def sliding_windows(
    rows: DataFrame,
    config: WindowAggregateConfig,
    output_schema: StructType | str,
    copies: Mapping[str, str],
    lists_members: bool = False,
    tasks: int | None = None,
) -> DataFrame:
    """The windows of a DataFrame that has the shape of `udtf.operators.window_aggregate_table`, without `__hash`.

    Args:
        rows: the rows.
        config: the aggregation.
        output_schema: the output's columns by name and type.
        copies: columns that are not among the rows, and those that they are copies of: nothing need travel twice.
        lists_members: give out the members of the windows instead of their aggregates.
        tasks: how many tasks; None takes it from Spark's estimate of the rows.
    """
    tasks = (tasks or number_of_tasks(rows)) if config.n_keys else 1
    keys = [F.col(f"__k{number}") for number in range(config.n_keys)]
    hashed = rows.withColumn("__hash", F.xxhash64(*keys) if keys else F.lit(0).cast("long"))
    task = F.pmod(F.col("__hash"), F.lit(tasks)).cast("int")
    # NB: task n is partition n, so that a partition is a task and need not be sorted and grouped by it.
    placed = hashed.withColumn(TASK, task).repartitionById(tasks, F.col(TASK)).drop(TASK)
    answer = named("sliding_windows", partial(_task, config, dict(copies), lists_members))
    return placed.mapInArrow(answer, output_schema)


def _task(
    config: WindowAggregateConfig, copies: Mapping[str, str], lists_members: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task, in a worker."""
    import pyarrow as pa  # the driver may plan without it

    from udtf.operators.window_aggregate_table import sliding_members, sliding_table

    settle()
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    rows = pa.Table.from_batches(held).combine_chunks()
    held.clear()
    for name, source in copies.items():
        rows = rows.append_column(name, rows[source])
    for piece in (sliding_members if lists_members else sliding_table)(config, rows):
        yield from in_utc(piece).to_batches()
