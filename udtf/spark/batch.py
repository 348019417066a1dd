"""Whole tasks at a time: both sides shuffled by task, cogrouped, answered table by table through Arrow.

`task = pmod(xxhash64(keys), tasks)`, as in a stream. A key that holds more than a task can bear is split: its left rows
go round over several tasks of its own, and its right rows to each of them.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from collections import Counter, OrderedDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from udtf.engine import engine_of
from udtf.engine.engine import NO_ESTIMATE
from udtf.engine.scratch import scratch_of
from udtf.operators.as_of_join.logic import join_tables
from udtf.operators.deduplicate.logic import deduplicate_table
from udtf.spark.arrow_types import collected, in_utc
from udtf.spark.tasks import PARTITIONS, TASK, configured_tasks, key_hash, placed, task_of
from udtf.spark.workers import begin_task
from udtf.stream.blobs import gathered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from udtf.operators.as_of_join.batch import Versions
    from udtf.operators.as_of_join.config import AsOfJoinConfig
    from udtf.operators.deduplicate.config import DeduplicateConfig
    from udtf.operators.window_aggregate.config import WindowAggregateConfig


#: By Spark's own estimate of both plans, which for Parquet is about the size of the files.
_BYTES_PER_TASK: Final = 32 << 20
_MOST_TASKS: Final = 4096
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
    hashed = key_hash(config.n_keys)
    hot = find_hot_keys(left, hashed, tasks) if is_worth_sampling(left) else []
    partitions = tasks + sum(key.splits for key in hot)
    lefts = placed(left.withColumn(TASK, _left_task(hashed, tasks, hot)), partitions)
    rights = placed(right.withColumn(TASK, _right_task(hashed, tasks, hot)), partitions)
    grouped = lefts.groupBy(TASK).cogroup(rights.groupBy(TASK))
    return grouped.applyInArrow(named("as_of_join", partial(_join_task, config)), output_schema)


def _join_task(config: AsOfJoinConfig, left: pa.Table, right: pa.Table) -> pa.Table:
    """One task, in a worker."""
    begin_task()
    return in_utc(join_tables(config, left, right))


def named(name: str, function: partial[Any]) -> partial[Any]:
    """The function under a name, which Spark's plans show.

    >>> named("as_of_join", partial(max, 1)).__name__
    'as_of_join'
    """
    function.__name__ = name  # type: ignore[attr-defined]
    return function


def number_of_tasks(*inputs: DataFrame) -> int:
    """One for each core, or more where the estimated size asks for it; without an estimate as Spark shuffles."""
    session = inputs[0].sparkSession
    estimate = sum(map(estimated_bytes, inputs))
    if estimate >= NO_ESTIMATE:
        return int(session.conf.get(PARTITIONS) or 1)
    return max(engine_of(session).cores, min(math.ceil(estimate / _BYTES_PER_TASK), _MOST_TASKS))


def estimated_bytes(frame: DataFrame) -> int:
    """Spark's estimate of the size of a plan."""
    return engine_of(frame.sparkSession).estimated_bytes(frame)


def is_worth_sampling(left: DataFrame) -> bool:
    """Large, and cheap to read once more: anything but projections and filters would be computed twice."""
    return engine_of(left.sparkSession).is_scan(left) and estimated_bytes(left) >= _BYTES_WORTH_SAMPLING


def find_hot_keys(left: DataFrame, key_hash: Column, tasks: int) -> list[HotKey]:
    """Count a sample of the left side's keys in the driver, and split those that are hot."""
    share = min(1.0, max(_LEAST_SHARE, _SAMPLED_ROWS * _BYTES_PER_ROW / max(estimated_bytes(left), 1)))
    sample = left.sample(fraction=share, seed=42).select(key_hash.alias("key_hash")).toArrow()["key_hash"]
    counts = {pair["values"]: pair["counts"] for pair in sample.value_counts().to_pylist()}
    return split_hot_keys(counts, tasks, engine_of(left.sparkSession).cores)


def split_hot_keys(counts: Mapping[int, int], tasks: int, cores: int) -> list[HotKey]:
    """Give each hot key as many tasks as it fills, at most one for each core: each of them reads all its versions.

    >>> split_hot_keys({7: 50, 8: 5, 9: 45}, tasks=2, cores=4), split_hot_keys({7: 90, 8: 10}, tasks=2, cores=4)
    ([], [HotKey(key_hash=7, first_task=2, splits=2)])
    """
    hot: list[HotKey] = []
    average = max(sum(counts.values()), 1) / tasks
    first_task = tasks
    for hashed, count in Counter(counts).most_common(tasks):
        if count > _HOT_TASKS * average:
            hot.append(HotKey(hashed, first_task, max(2, min(math.ceil(count / average), cores))))
            first_task += hot[-1].splits
    return hot


def _left_task(hashed: Column, tasks: int, hot: list[HotKey]) -> Column:
    task = task_of(hashed, tasks)
    for key in hot:
        split = F.lit(key.first_task) + F.pmod(F.monotonically_increasing_id(), F.lit(key.splits)).cast("int")
        task = F.when(hashed == F.lit(key.key_hash), split).otherwise(task)
    return task


def _right_task(key_hash: Column, tasks: int, hot: list[HotKey]) -> Column:
    task = task_of(key_hash, tasks)
    if not hot:
        return task
    everywhere = F.array(task)
    for key in hot:
        own = F.sequence(F.lit(key.first_task), F.lit(key.first_task + key.splits - 1))
        everywhere = F.when(key_hash == F.lit(key.key_hash), own).otherwise(everywhere)
    return F.explode(everywhere)


# Deduplication of bounded rows on Spark: shuffled by task, each task one partition, judged as one Arrow table.
#
# `task = pmod(xxhash64(keys), tasks)`, as in a stream, so that with an order of arrival (SEQUENCE BY) and as many tasks
# the answer is the stream's. In order of time no row is late, and the tasks change nothing.


#: Types whose values are numbers of at most 64 bits, equal where the keys are.
_NUMBERS: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DateType, T.TimestampType, T.TimestampNTZType)


def deduplicate(
    rows: DataFrame, config: DeduplicateConfig, output_schema: StructType | str, tasks: int | None = None
) -> DataFrame:
    """Deduplicate a DataFrame that has the shape of `udtf.operators.deduplicate.batch.deduplicate_table`.

    Args:
        rows: the rows.
        config: the deduplication; its columns may name `__k0 ..`, `__time` and `__seq`: nothing need travel twice.
        output_schema: the output's columns by name and type.
        tasks: how many tasks; None takes it from the session where it matters, else from Spark's estimate of the rows.
    """
    if not config.has_sequence and "__arrival0" not in rows.columns:
        rows = rows.withColumn("__arrival0", F.monotonically_increasing_id())  # ties, the same in every run
    tasks = tasks or (configured_tasks(rows.sparkSession) if config.has_sequence else number_of_tasks(rows))
    hashed = rows.withColumn("__hash", key_hash(config.n_keys)).withColumn(TASK, _task(config, tasks))
    travelling = hashed.drop("__hash") if _is_identity(config, rows) else hashed
    # NB: a partition is a task and need not be sorted and grouped by it.
    return (
        placed(travelling, tasks)
        .drop(TASK)
        .mapInArrow(named("deduplicate", partial(_deduplicate_task, config)), output_schema)
    )


def _keys(config: DeduplicateConfig) -> list[Column]:
    return [F.col(f"__k{number}") for number in range(config.n_keys)]


def _is_identity(config: DeduplicateConfig, rows: DataFrame) -> bool:
    """Whether the one key is a number that tells keys apart by itself: a hash of it need not travel."""
    return config.n_keys == 1 and isinstance(rows.schema["__k0"].dataType, _NUMBERS)


def _task(config: DeduplicateConfig, tasks: int) -> Column:
    """By key; rows without one have no duplicates, and go round where they are of no account for stream time."""
    task = task_of(F.col("__hash"), tasks)
    if config.has_sequence:
        return task
    has_key = F.lit(True)
    for key in _keys(config):
        has_key = has_key & key.isNotNull()
    return F.when(has_key, task).otherwise(task_of(F.monotonically_increasing_id(), tasks))


def _deduplicate_task(config: DeduplicateConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task, in a worker."""
    import pyarrow as pa  # the driver may plan without it

    begin_task()
    held = [batch for batch in batches if batch.num_rows]
    if held:
        yield from in_utc(deduplicate_table(config, pa.Table.from_batches(held))).to_batches()


# A small right side: one Arrow file that every worker maps; the left is answered where it lies, without a shuffle.
#
# The whole of a left row goes through Python. Shipping only keys and times, as an Arrow UDF can, was measured: Spark
# then queues a copy of each row beside the call, and takes longer: half as long again for rows of four columns, a tenth
# for rows of twenty.
# The versions are collected when the join is built, not when it is run, so the answer is as of then.


#: Left rows are answered so many at a time, or so many bytes: a look-up has a cost per call.
_ANSWERED_ROWS: Final = 1 << 16
_ANSWERED_BYTES: Final = 64 << 20
#: A worker process outlives its queries; it keeps the index of the last few.
_KEPT_INDEXES: Final = 4
#: Spark looks whether a file is there and then copies it: two threads at once with the same versions would both.
_adding: Final = Lock()


def as_of_join_mapped(
    left: DataFrame, right: DataFrame, config: AsOfJoinConfig, output_schema: StructType | str
) -> DataFrame:
    """Join two DataFrames that have the shapes of `udtf.operators.as_of_join.join_tables`; the right must be small.

    Args:
        left: the left side.
        right: the versions; collected to the driver now, and held by every worker.
        config: the join. `left_columns` may name `__k0 ..` and `__as_of`: nothing need travel twice.
        output_schema: the output's columns by name and type, as the shapes say.
    """
    from udtf.operators.as_of_join.batch import sort_versions  # numba costs a second to import

    sorted_config, versions = sort_versions(config, collected(right))
    path = _kept(versions, left.sparkSession)
    with _adding:
        engine_of(left.sparkSession).ship(path)
    answer = named("as_of_join", partial(_join_batches, path.name, sorted_config))
    return left.mapInArrow(answer, output_schema)


def _join_batches(name: str, config: AsOfJoinConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of the left side, in a worker."""
    begin_task()
    for held in gathered(batches, _ANSWERED_ROWS, _ANSWERED_BYTES):
        yield from in_utc(_versions(name, config).join(pa.Table.from_batches(held))).to_batches()


def _kept(versions: pa.Table, spark: SparkSession) -> Path:
    """The versions as a file; the same ones are the same file, however often a long-lived driver is asked for them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, versions.schema) as out:
        out.write_table(versions)
    data = sink.getvalue()
    path = scratch_of(spark) / f"as_of_{hashlib.sha256(data).hexdigest()[:32]}.arrow"
    if not path.exists():
        draft = path.with_suffix(f".{uuid.uuid4().hex}")
        draft.write_bytes(data)
        draft.replace(path)
    return path


_indexes: OrderedDict[tuple[str, AsOfJoinConfig], Versions] = OrderedDict()


def _versions(name: str, config: AsOfJoinConfig) -> Versions:
    """The index of the mapped file, made once per worker process."""
    from pyspark import SparkFiles

    from udtf.operators.as_of_join.batch import Versions

    key = SparkFiles.get(name), config
    if key not in _indexes:
        _indexes[key] = Versions(config, pa.ipc.open_file(pa.memory_map(key[0])).read_all())
        if len(_indexes) > _KEPT_INDEXES:
            _indexes.popitem(last=False)
    _indexes.move_to_end(key)
    return _indexes[key]


# Sliding windows of bounded rows on Spark: shuffled by task, each task one partition, answered from one Arrow table.
#
# `task = pmod(xxhash64(keys), tasks)`, as in a stream; without keys there is one task. Nothing is late, so that the
# answer is the same however many there are.


def sliding_windows(
    rows: DataFrame,
    config: WindowAggregateConfig,
    output_schema: StructType | str,
    copies: Mapping[str, str],
    lists_members: bool = False,
    tasks: int | None = None,
) -> DataFrame:
    """The windows of a DataFrame that has the shape of `udtf.operators.window_aggregate.batch`, without `__hash`.

    Args:
        rows: the rows.
        config: the aggregation.
        output_schema: the output's columns by name and type.
        copies: columns that are not among the rows, and those that they are copies of: nothing need travel twice.
        lists_members: give out the members of the windows instead of their aggregates.
        tasks: how many tasks; None takes it from Spark's estimate of the rows.
    """
    tasks = (tasks or number_of_tasks(rows)) if config.n_keys else 1
    hashed = rows.withColumn("__hash", key_hash(config.n_keys))
    travelling = hashed.withColumn(TASK, task_of(F.col("__hash"), tasks))
    answer = named("sliding_windows", partial(_windows_task, config, dict(copies), lists_members))
    # NB: a partition is a task and need not be sorted and grouped by it.
    return placed(travelling, tasks).drop(TASK).mapInArrow(answer, output_schema)


def _windows_task(
    config: WindowAggregateConfig, copies: Mapping[str, str], lists_members: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One task, in a worker."""
    import pyarrow as pa  # the driver may plan without it

    from udtf.operators.window_aggregate.batch import sliding_members, sliding_table

    begin_task()
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    rows = pa.Table.from_batches(held).combine_chunks()
    held.clear()
    for name, source in copies.items():
        rows = rows.append_column(name, rows[source])
    for piece in (sliding_members if lists_members else sliding_table)(config, rows):
        yield from in_utc(piece).to_batches()
