"""Live operators on Spark: rows packed by task, answered where the state of the task is, and unpacked.

input 0 -> mapInArrow: pack -+          +-> groupBy(slot) -> transformWithState: TaskRunner (store) -----------+
input 1 -> mapInArrow: pack -+-> union -+-> repartition(slot) -> mapInArrow: TaskRunner (changelog) -> fat frame
fat frame -> observe (metrics); -> where kind = 'rows' -> mapInArrow: unpack -> rows
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructType

from udtf.columns.arrays import can_hash_by_columns
from udtf.engine import engine_of
from udtf.spark.arrow_types import arrow_schema
from udtf.spark.changelog import run_partition
from udtf.spark.fat_rows import ANSWERED, HANDED_OVER, PACKED, blob_files
from udtf.spark.store import TaskProcessor
from udtf.spark.tasks import key_hash, slots
from udtf.spark.workers import begin_task
from udtf.stream.blobs import HASH
from udtf.stream.spec import MAXIMA, StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from udtf.engine.engine import Engine
    from udtf.stream.blob_files import BlobFolder

    _OfBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_POOL: Final = "SQLX_WORKER_POOL"
#: Arrays that grow by copying leave holes in the heap, more than the state itself: large ones get pages of their own.
#: Those of a micro-batch are smaller, and get the same pages again: new ones cost more than what is computed in them.
_ALLOCATING: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
#: What packs and unpacks keeps nothing: its large arrays get the same pages again, too.
_MOVING: Final = {**_ALLOCATING, "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


@dataclass(frozen=True)
class HandedOver:
    """The rows of an operator that has packed them for the next one, see `udtf.stream.handover`.

    Attributes:
        fat: its fat frame.
        schema: of the next one's input, with `__hash`.
    """

    fat: DataFrame
    schema: StructType

    def packed(self, side: int) -> DataFrame:
        """The blobs as the next operator takes them."""
        rows = self.fat.where("kind = 'rows'")
        return rows.select("slot", F.lit(side).alias("side"), F.col("task").alias("partition"), "number", "blob")


def stream_operator(inputs: Sequence[DataFrame | HandedOver], spec: StreamSpec) -> DataFrame:
    """Run an operator over one or two live inputs in the shapes of `udtf.logic.StreamLogic`; `__hash` is added here.

    Args:
        inputs: rows, or what another operator hands over.
        spec: the operator.

    Returns:
        The fat frame: `task`, `kind` ('rows', 'late0', 'late1' or 'metrics'), `blob` (see `rows_of`), and `counters` in
        the order of `spec.counters`, in the rows of kind 'metrics'. What they add up to in a micro-batch is by name
        in the query's progress, `observedMetrics[spec.operator]`; a task without new rows does not run, and its gauges
        are missing then. An operator that hands over names the slot and the number of each blob of rows, too.
    """
    packed = [
        given.packed(side) if isinstance(given, HandedOver) else _packed(given, side, spec)
        for side, given in enumerate(inputs)
    ]
    union = packed[0] if len(packed) == 1 else packed[0].union(packed[1])
    answered = _answered(union, tuple(map(_with_hash, inputs)), spec)
    return answered.observe(spec.operator, *_observed(spec))


def _answered(packed: DataFrame, schemas: tuple[StructType, ...], spec: StreamSpec) -> DataFrame:
    """What the tasks answer, by the host that keeps their state."""
    engine = engine_of(packed.sparkSession)
    answered_as = ANSWERED if spec.hands_over is None else HANDED_OVER
    with in_state_workers(engine):
        if spec.changelog is not None:
            placed = packed.repartition(spec.changelog.partitions, F.col("slot"))
            return engine.live_rows(placed, partial(run_partition, spec, schemas), answered_as)
        processor = engine.stateful(TaskProcessor(spec, schemas))
        clock = "None" if spec.idle_ms is None else "ProcessingTime"
        return packed.groupBy("slot").transformWithStateInPandas(processor, answered_as, "Append", clock)


def in_state_workers(engine: Engine) -> AbstractContextManager[None]:
    """Within it frames are made whose rows go to the workers that keep states.

    What packs and unpacks shall not take them, see `_moved`; their memory is settled there, too.
    """
    return engine.worker_environment(_ALLOCATING, {_POOL: "states"})


def _moved(frame: DataFrame, make: _OfBatches, schema: StructType | str) -> DataFrame:
    """What is made of the batches of a live frame in a worker that keeps nothing of them."""
    engine = engine_of(frame.sparkSession)
    with engine.worker_environment(_MOVING, {_POOL: "rows"}):
        return engine.live_rows(frame, make, schema)


def rows_of(fat: DataFrame, kind: str, schema: StructType) -> DataFrame:
    """The rows of one kind: 'rows' are the operator's output, 'late0' and 'late1' what it refused of each input."""
    return unpacking(fat, kind, schema.names).frame(schema)


@dataclass(frozen=True)
class Made:
    """Rows that a worker makes of others.

    Attributes:
        source: the others.
        make: from their batches to those of the rows.
    """

    source: DataFrame
    make: _OfBatches

    def frame(self, schema: StructType) -> DataFrame:
        """The rows."""
        return _moved(self.source, self.make, schema)


def unpacking(fat: DataFrame, kind: str, names: Sequence[str]) -> Made:
    """The rows of one kind, see `rows_of`, as they are made."""
    return Made(fat.where(F.col("kind") == kind).select("blob"), partial(_unpack_rows, names))


def _with_hash(given: DataFrame | HandedOver) -> StructType:
    """The columns of an input as they come to the tasks."""
    return given.schema if isinstance(given, HandedOver) else StructType([*given.schema]).add(HASH, LongType())


def _packed(frame: DataFrame, side: int, spec: StreamSpec) -> DataFrame:
    folder = None if spec.changelog is None else spec.changelog.blobs
    # A column more costs Spark more than the hash of numbers does; that of text needs numba, which takes long to load.
    keys = arrow_schema(StructType([frame.schema[f"__k{number}"] for number in range(spec.n_keys)]))
    if not all(map(can_hash_by_columns, keys.types)):
        frame = frame.withColumn(HASH, key_hash(spec.n_keys))
    pack = partial(_pack_partition, side, slots(spec.tasks), folder, spec.n_keys)
    return _moved(frame, pack, PACKED)


def _observed(spec: StreamSpec) -> list[Column]:
    """What a query's progress says of its counters, as text: a call of `Column` takes PySpark 3 ms, these need dozens.

    Straight from the array: each expression more is planned again in every micro-batch.
    """
    folds = ["max" if name in MAXIMA else "sum" for name in spec.counters]
    named = zip(folds, spec.counters, strict=True)
    return [F.expr(f"{fold}(counters[{number}]) AS `{name}`") for number, (fold, name) in enumerate(named)]


def _pack_partition(
    side: int, slot_of: Sequence[int], folder: BlobFolder | None, n_keys: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One source partition, in a worker."""
    import pyarrow as pa
    from pyspark import TaskContext

    from udtf.stream.blobs import column_of, pack

    begin_task()
    context = TaskContext.get()
    partition = context.partitionId() if context else 0
    names = ["slot", "side", "partition", "number", "blob"]
    with blob_files(folder) as files:
        for number, (task, blob) in enumerate(pack(batches, len(slot_of), partial(_hashed, n_keys))):
            places = [pa.array([place], pa.int32()) for place in (slot_of[task], side, partition, number)]
            yield pa.RecordBatch.from_arrays([*places, column_of(files.sent(blob))], names=names)


def _hashed(n_keys: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, their times in UTC, with the hash of their keys as Spark has it, where it is not there."""
    import pyarrow as pa

    from udtf.columns.hashes import hashes_of_keys
    from udtf.spark.arrow_types import in_utc

    (batch,) = in_utc(pa.Table.from_batches([rows])).to_batches()
    if HASH in batch.schema.names:
        return batch
    hashes = hashes_of_keys([batch.column(f"__k{number}") for number in range(n_keys)], batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(hashes)], names=[*batch.schema.names, HASH])


def _unpack_rows(names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of the fat frame, in a worker."""
    from udtf.spark.arrow_types import in_utc
    from udtf.stream.blob_files import received
    from udtf.stream.blobs import bytes_at, from_blob

    begin_task()
    for batch in batches:
        blobs = batch.column(0)
        for row in range(len(blobs)):
            yield from in_utc(from_blob(received(bytes_at(blobs, row))).select(names)).to_batches()
