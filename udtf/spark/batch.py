"""Whole tasks at a time: both sides shuffled by task, cogrouped, answered table by table through Arrow.

`task = pmod(xxhash64(keys), tasks)`, as in a stream. A key that holds more than a task can bear is split: its left rows
go round over several tasks of its own, and its right rows to each of them (design.md 4.1).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # its usual name

from udtf.operators.as_of_join import join_tables
from udtf.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from udtf.operators.as_of_join import AsOfJoinConfig

TASK: Final = "__task"
#: By Spark's own estimate of both plans, which for Parquet is about the size of the files.
_BYTES_PER_TASK: Final = 32 << 20
_MOST_TASKS: Final = 4096
#: Spark multiplies the sizes of what is joined and gives 2**63 - 1 where it knows nothing: this large means nothing.
_NO_ESTIMATE: Final = 10**13
#: Below this estimate of the left side nobody waits for a hot key, and looking for one is not worth a job.
_BYTES_WORTH_SAMPLING: Final = 64 << 20
_BYTES_PER_ROW: Final = 20  # of the estimate; only decides how large the sample is
_SAMPLED_ROWS: Final = 100_000
_LEAST_SHARE: Final = 0.001
#: A key is hot when it holds more left rows than so many average tasks.
_HOT_TASKS: Final = 1.5


@dataclass(frozen=True)
class HotKey:
    """A key whose left rows are split over tasks of its own: `first_task` and the `splits - 1` that follow."""

    key_hash: int
    first_task: int
    splits: int


def as_of_join(
    left: DataFrame,
    right: DataFrame,
    config: AsOfJoinConfig,
    output_schema: StructType | str,
    tasks: int | None = None,
) -> DataFrame:
    """Join two DataFrames that have the shapes of `udtf.operators.as_of_join.join_tables`.

    Where the left side is estimated at 64 MB or more, and is no more than projections and filters over one relation, a
    job reads a sample of about 100 thousand of its keys (from a scan of the key columns alone) to find hot ones.

    Args:
        left: the left side.
        right: the versions.
        config: the join. `left_columns` may name `__k0 ..` and `__as_of`: nothing need travel twice.
        output_schema: the output's columns by name and type, as the shapes say.
        tasks: how many tasks; None takes it from Spark's estimate of both sides.
    """
    tasks = tasks or number_of_tasks(left, right)
    key_hash = F.xxhash64(*[F.col(f"__k{number}") for number in range(config.n_keys)])
    hot = find_hot_keys(left, key_hash, tasks) if is_worth_sampling(left) else []
    partitions = tasks + sum(key.splits for key in hot)
    # One task is one partition by number, so that no two large tasks meet in one by the accident of a hash.
    lefts = left.withColumn(TASK, _left_task(key_hash, tasks, hot)).repartitionById(partitions, F.col(TASK))
    rights = right.withColumn(TASK, _right_task(key_hash, tasks, hot)).repartitionById(partitions, F.col(TASK))
    grouped = lefts.groupBy(TASK).cogroup(rights.groupBy(TASK))
    return grouped.applyInArrow(named("as_of_join", partial(_join_task, config)), output_schema)


def _join_task(config: AsOfJoinConfig, left: pa.Table, right: pa.Table) -> pa.Table:
    """One task, in a worker."""
    settle()
    return in_utc(join_tables(config, left, right))


def named(name: str, function: partial[Any]) -> partial[Any]:
    """The function under a name, which Spark's plans show.

    >>> named("as_of_join", partial(max, 1)).__name__
    'as_of_join'
    """
    function.__name__ = name  # type: ignore[attr-defined]
    return function


def in_utc(table: pa.Table) -> pa.Table:
    """The same instants under UTC's name: Spark hands tables over in the session's zone and takes none but UTC back."""
    import pyarrow as pa  # the driver may plan without it

    schema = pa.schema([field.with_type(_utc_type(field.type)) for field in table.schema])
    return table if schema == table.schema else table.cast(schema)


def _utc_type(found: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_timestamp(found) and found.tz is not None:
        return pa.timestamp(found.unit, tz="UTC")
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_utc_type(field.type)) for field in found])
    if pa.types.is_map(found):
        return pa.map_(_utc_type(found.key_type), found.item_field.with_type(_utc_type(found.item_type)))
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_utc_type(found.value_type)))
    return found


def number_of_tasks(*inputs: DataFrame) -> int:
    """One for each core, or more where the estimated size asks for it; without an estimate as Spark shuffles."""
    session = inputs[0].sparkSession
    estimate = sum(map(estimated_bytes, inputs))
    if estimate > _NO_ESTIMATE:
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    return max(session.sparkContext.defaultParallelism, min(math.ceil(estimate / _BYTES_PER_TASK), _MOST_TASKS))


def estimated_bytes(frame: DataFrame) -> int:
    """Spark's estimate of the size of a plan."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def is_worth_sampling(left: DataFrame) -> bool:
    """Large, and cheap to read once more: anything but projections and filters would be computed twice."""
    plan = left._jdf.queryExecution().optimizedPlan()
    while plan.nodeName() in ("Project", "Filter"):
        plan = plan.children().apply(0)
    return bool(plan.children().isEmpty()) and estimated_bytes(left) >= _BYTES_WORTH_SAMPLING


def find_hot_keys(left: DataFrame, key_hash: Column, tasks: int) -> list[HotKey]:
    """Count a sample of the left side's keys in the driver, and split those that are hot."""
    share = min(1.0, max(_LEAST_SHARE, _SAMPLED_ROWS * _BYTES_PER_ROW / max(estimated_bytes(left), 1)))
    sample = left.sample(fraction=share, seed=42).select(key_hash.alias("key_hash")).toArrow()["key_hash"]
    counts = {pair["values"]: pair["counts"] for pair in sample.value_counts().to_pylist()}
    return split_hot_keys(counts, tasks, left.sparkSession.sparkContext.defaultParallelism)


def split_hot_keys(counts: Mapping[int, int], tasks: int, cores: int) -> list[HotKey]:
    """Give each hot key as many tasks as it fills, at most one for each core: each of them reads all its versions.

    >>> split_hot_keys({7: 50, 8: 5, 9: 45}, tasks=2, cores=4), split_hot_keys({7: 90, 8: 10}, tasks=2, cores=4)
    ([], [HotKey(key_hash=7, first_task=2, splits=2)])
    """
    hot: list[HotKey] = []
    average = max(sum(counts.values()), 1) / tasks
    first_task = tasks
    for key_hash, count in Counter(counts).most_common(tasks):
        if count > _HOT_TASKS * average:
            hot.append(HotKey(key_hash, first_task, max(2, min(math.ceil(count / average), cores))))
            first_task += hot[-1].splits
    return hot


def _left_task(key_hash: Column, tasks: int, hot: list[HotKey]) -> Column:
    task = F.pmod(key_hash, F.lit(tasks)).cast("int")
    for key in hot:
        split = F.lit(key.first_task) + F.pmod(F.monotonically_increasing_id(), F.lit(key.splits)).cast("int")
        task = F.when(key_hash == F.lit(key.key_hash), split).otherwise(task)
    return task


def _right_task(key_hash: Column, tasks: int, hot: list[HotKey]) -> Column:
    task = F.pmod(key_hash, F.lit(tasks)).cast("int")
    if not hot:
        return task
    everywhere = F.array(task)
    for key in hot:
        own = F.sequence(F.lit(key.first_task), F.lit(key.first_task + key.splits - 1))
        everywhere = F.when(key_hash == F.lit(key.key_hash), own).otherwise(everywhere)
    return F.explode(everywhere)
