"""Live operators on Spark: rows packed by task, answered by `transformWithStateInPandas`, and unpacked.

input 0 -> mapInArrow: pack -+
input 1 -> mapInArrow: pack -+-> union -> groupBy(slot) -> transformWithState: TaskRunner -> fat frame
fat frame -> observe (metrics); -> where kind = 'rows' -> mapInArrow: unpack -> rows
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from udtf.engine import engine_of
from udtf.spark.tasks import key_hash, slots
from udtf.spark.workers import freeze_loaded_modules
from udtf.stream.log import Head
from udtf.stream.spec import MAXIMA, StreamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from udtf.logic import StreamEmission
    from udtf.stream.task import TaskRunner


# A task's changelog in Spark's state store: one map under the task's key, numbers to bytes.
#
# What is written here is committed with the micro-batch or not at all: exactly-once is Spark's.
#
#     0                      the head, as JSON
#     position << 10 | part  a segment's bytes; a part that is not full is the last
#
# One state of two plain columns, since Spark compiles encoders for each in every partition of every micro-batch.


#: Each part travels through a socket and a JVM array as one piece.
_PART_BYTES: Final = 32 << 20
_PART_BITS: Final = 10
_HEAD: Final = 0
_NUMBER: Final = StructType([StructField("number", LongType(), nullable=True)])
_DATA: Final = StructType([StructField("data", BinaryType(), nullable=True)])


class StateStoreLog:
    """The log of the task whose key Spark has set: one object serves all tasks of a partition, one after the other."""

    def __init__(self, handle: StatefulProcessorHandle, place: str) -> None:
        """Declare the state; types as text would be parsed each time.

        Args:
            handle: Spark's.
            place: the operator, for errors.
        """
        self._place = place
        self._entries = handle.getMapState("changelog", _NUMBER, _DATA)

    def head(self) -> Head | None:
        """How far the history goes."""
        found = self._get(_HEAD)
        return None if found is None else Head.from_bytes(found, self._place)

    def tail(self, after: int) -> Iterator[tuple[int, bytes | None]]:
        """The segments after a number."""
        head = self.head()
        for position in range(after + 1, head.position + 1 if head else 0):
            yield position, self._read(position)

    def append(self, head: Head, segment: bytes) -> None:
        """Add a delta."""
        for part, start in enumerate(range(0, len(segment) + 1, _PART_BYTES)):
            self._put(head.position << _PART_BITS | part, segment[start : start + _PART_BYTES])
        self._put(_HEAD, head.to_bytes())

    def compact(self, head: Head, snapshot: bytes) -> None:
        """Add a snapshot instead of all there is."""
        self._entries.clear()
        self.append(head, snapshot)

    def _read(self, position: int) -> bytes | None:
        parts: list[bytes] = []
        while not parts or len(parts[-1]) == _PART_BYTES:
            part = self._get(position << _PART_BITS | len(parts))
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _get(self, number: int) -> bytes | None:
        found = self._entries.getValue((number,))
        return None if found is None else bytes(found[0])

    def _put(self, number: int, data: bytes) -> None:
        self._entries.updateValue((number,), (data,))


_PACKED: Final = "slot int, side int, partition int, number int, blob binary"
_ANSWERED: Final = "task int, kind string, blob binary, counters array<bigint>"
_HANDED_OVER: Final = f"{_ANSWERED}, slot int, number int"
#: Local properties that Spark sets for the tasks of a streaming query.
_QUERY_ID: Final = "sql.streaming.queryId"
_POOL: Final = "SQLX_WORKER_POOL"
#: Arrays that grow by copying leave holes in the heap, more than the state itself: large ones get pages of their own.
#: Those of a micro-batch are smaller, and get the same pages again: new ones cost more than what is computed in them.
_ALLOCATING: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_TOP_PAD_": str(16 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
#: Side, source partition, number within it, blob.
_Packed = tuple[int, int, int, bytes]


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


#   input 0 -> mapInArrow: pack -+
#   input 1 -> mapInArrow: pack -+-> union -> groupBy(slot) -> transformWithState: TaskRunner -> fat frame
#   fat frame -> observe: metrics -> where kind = 'rows' -> mapInArrow: unpack -> rows
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
    hashed = [
        given if isinstance(given, HandedOver) else given.withColumn("__hash", key_hash(spec.n_keys))
        for given in inputs
    ]
    packed = [
        given.packed(side) if isinstance(given, HandedOver) else _packed(given, side, spec.tasks)
        for side, given in enumerate(hashed)
    ]
    union = packed[0] if len(packed) == 1 else packed[0].union(packed[1])
    engine = engine_of(union.sparkSession)
    processor = engine.stateful(_TaskProcessor(spec, tuple(frame.schema for frame in hashed)))
    # What packs and unpacks shall not take the workers with states; their memory is settled there, too.
    with engine.worker_environment(_ALLOCATING, {_POOL: "states"}):
        answered_as = _ANSWERED if spec.hands_over is None else _HANDED_OVER
        clock = "None" if spec.idle_ms is None else "ProcessingTime"
        answered = union.groupBy("slot").transformWithStateInPandas(processor, answered_as, "Append", clock)
    return answered.observe(spec.operator, *_observed(spec))


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
    make: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

    def frame(self, schema: StructType) -> DataFrame:
        """The rows."""
        return engine_of(self.source.sparkSession).live_rows(self.source, self.make, schema)


def unpacking(fat: DataFrame, kind: str, names: Sequence[str]) -> Made:
    """The rows of one kind, see `rows_of`, as they are made."""
    return Made(fat.where(F.col("kind") == kind).select("blob"), partial(_unpack_rows, names))


def _packed(frame: DataFrame, side: int, tasks: int) -> DataFrame:
    return engine_of(frame.sparkSession).live_rows(frame, partial(_pack_partition, side, slots(tasks)), _PACKED)


def _observed(spec: StreamSpec) -> list[Column]:
    """Straight from the array: each expression more is planned again in every micro-batch."""
    counters = [(name, F.col("counters")[number]) for number, name in enumerate(spec.counters)]
    return [(F.max if name in MAXIMA else F.sum)(counter).alias(name) for name, counter in counters]


def _pack_partition(side: int, slot_of: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One source partition, in a worker."""
    import pyarrow as pa
    from pyspark import TaskContext

    from udtf.spark.batch import in_utc
    from udtf.stream.blobs import pack

    freeze_loaded_modules()
    context = TaskContext.get()
    partition = context.partitionId() if context else 0
    in_utc_batches = (batch for rows in batches for batch in in_utc(pa.Table.from_batches([rows])).to_batches())
    types = [pa.int32(), pa.int32(), pa.int32(), pa.int32(), pa.binary()]
    names = ["slot", "side", "partition", "number", "blob"]
    for number, (task, blob) in enumerate(pack(in_utc_batches, len(slot_of))):
        values = (slot_of[task], side, partition, number, blob)
        columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _unpack_rows(names: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of the fat frame, in a worker."""
    from udtf.spark.batch import in_utc
    from udtf.stream.blobs import from_blob

    freeze_loaded_modules()
    for batch in batches:
        for blob in batch.column(0):
            yield from in_utc(from_blob(blob.as_buffer()).select(names)).to_batches()


class _TaskProcessor(StatefulProcessor):
    """What Spark calls: per partition `init`, then per task with new rows `handleInputRows` over its blobs."""

    def __init__(self, spec: StreamSpec, schemas: tuple[StructType, ...]) -> None:
        self._spec = spec
        self._schemas = schemas

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_loaded_modules()
        self._handle = handle
        self._log = StateStoreLog(handle, f"operator {self._spec.operator}")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        from udtf.columns.updates import of_task

        task = slots(self._spec.tasks).index(int(key[0]))
        packed = _in_order(rows)
        inputs = [self._input(side, packed) for side in range(len(self._schemas))]
        emission = self._runner().run(task, self._log, inputs, _digest(packed))
        self._watch(timerValues)
        if self._spec.gives_updates:
            emission = replace(emission, rows=of_task(emission.rows, task))
        yield from _answers(task, emission, self._spec)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        task = slots(self._spec.tasks).index(int(key[0]))
        inputs = [self._input(side, []) for side in range(len(self._schemas))]
        emission = self._runner().idle(task, self._log, inputs)
        yield from _answers(task, emission, self._spec)

    def _runner(self) -> TaskRunner:
        from udtf.stream.siblings import of_this_executor
        from udtf.stream.task import TaskRunner

        return TaskRunner(self._spec, _query_id(), siblings=of_this_executor())

    def _watch(self, now: Any) -> None:
        """Wake up when nothing has come for the idle timeout from now on."""
        if self._spec.idle_ms is None:
            return
        for expiry_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(expiry_ms)
        self._handle.registerTimer(now.getCurrentProcessingTimeInMs() + self._spec.idle_ms)

    def close(self) -> None:
        pass

    def _input(self, side: int, packed: Sequence[_Packed]) -> pa.Table:
        from udtf.spark.arrow_types import arrow_schema
        from udtf.stream.blobs import unpack

        return unpack((row[-1] for row in packed if row[0] == side), arrow_schema(self._schemas[side]))


def _in_order(rows: Iterator[pd.DataFrame]) -> list[_Packed]:
    """The blobs of one task: by input, source partition and number."""
    columns = ("side", "partition", "number", "blob")
    return sorted(row for frame in rows for row in zip(*(frame[name] for name in columns), strict=True))


def _digest(packed: Sequence[_Packed]) -> bytes:
    """Of all rows and their order."""
    digest = hashlib.blake2b(digest_size=16)
    for side, _, _, blob in packed:
        digest.update(b"%d %d " % (side, len(blob)))
        digest.update(blob)
    return digest.digest()


def _query_id() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.getLocalProperty(_QUERY_ID) if context else None) or ""


def _answers(task: int, emission: StreamEmission, spec: StreamSpec) -> Iterator[pd.DataFrame]:
    """The fat rows of one task, the metrics first; in several frames where one would be too large."""
    from udtf.stream.blobs import MOST_BLOB_BYTES

    held: list[_Fat] = [_Fat("metrics", None)]
    size = 0
    for row in _blobs(emission, spec):
        if size + len(row.blob or b"") > MOST_BLOB_BYTES:
            yield _frame(task, held, emission, spec)
            held, size = [], 0
        held.append(row)
        size += len(row.blob or b"")
    yield _frame(task, held, emission, spec)


class _Fat(NamedTuple):
    kind: str
    blob: bytes | None
    slot: int | None = None
    number: int | None = None


def _blobs(emission: StreamEmission, spec: StreamSpec) -> Iterator[_Fat]:
    from udtf.stream.blobs import to_blobs

    if spec.hands_over is None:
        yield from (_Fat("rows", blob) for blob in to_blobs(emission.rows))
    else:
        slot_of = slots(spec.hands_over.tasks)
        for number, (task, blob) in enumerate(spec.hands_over.packed(emission.rows)):
            yield _Fat("rows", blob, slot_of[task], number)
    for side, late in enumerate(emission.late):
        yield from (_Fat(f"late{side}", blob) for blob in to_blobs(late))


def _frame(task: int, held: Sequence[_Fat], emission: StreamEmission, spec: StreamSpec) -> pd.DataFrame:
    import pandas as pd

    counted = _counters(emission, spec.counters)
    counters = [counted if row.kind == "metrics" else None for row in held]
    columns = {"task": task, "kind": [row.kind for row in held], "blob": [row.blob for row in held]}
    frame = pd.DataFrame(columns | {"counters": counters})
    if spec.hands_over is not None:
        for name in ("slot", "number"):
            frame[name] = pd.array([getattr(row, name) for row in held], "Int32")
    return frame


def _counters(emission: StreamEmission, names: Sequence[str]) -> list[int | None]:
    """In the order of the names; only the event time can be unknown."""
    return [emission.metrics.get(name, None if name == "max_event_time" else 0) for name in names]
