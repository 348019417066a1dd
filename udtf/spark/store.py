"""The first host of live operators: Spark calls a processor per task, and keeps its changelog in the state store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from udtf.spark.arrow_types import arrow_schema
from udtf.spark.fat_rows import answered, counters_of, digest_of, inputs_of, query_id
from udtf.spark.tasks import slots
from udtf.spark.workers import begin_task
from udtf.stream.log import Head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

    from udtf.logic import StreamEmission
    from udtf.spark.fat_rows import Fat, Packed
    from udtf.stream.spec import StreamSpec
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


class TaskProcessor(StatefulProcessor):
    """What Spark calls: per partition `init`, then per task with new rows `handleInputRows` over its blobs."""

    def __init__(self, spec: StreamSpec, schemas: tuple[StructType, ...]) -> None:
        self._spec = spec
        self._schemas = schemas

    def init(self, handle: StatefulProcessorHandle) -> None:
        begin_task()
        self._handle = handle
        self._log = StateStoreLog(handle, f"operator {self._spec.operator}")
        self._known = [arrow_schema(schema) for schema in self._schemas]

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        from udtf.columns.updates import of_task

        task = slots(self._spec.tasks).index(int(key[0]))
        packed = _in_order(rows)
        inputs = inputs_of(packed, self._known)
        emission = self._runner().run(task, self._log, inputs, digest_of(packed))
        self._watch(timerValues)
        if self._spec.gives_updates:
            emission = replace(emission, rows=of_task(emission.rows, task))
        yield from _frames(task, emission, self._spec)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        task = slots(self._spec.tasks).index(int(key[0]))
        inputs = inputs_of([], self._known)
        emission = self._runner().idle(task, self._log, inputs)
        yield from _frames(task, emission, self._spec)

    def _runner(self) -> TaskRunner:
        from udtf.stream.siblings import of_this_executor
        from udtf.stream.task import TaskRunner

        return TaskRunner(self._spec, query_id(), siblings=of_this_executor())

    def _watch(self, now: Any) -> None:
        """Wake up when nothing has come for the idle timeout from now on."""
        if self._spec.idle_ms is None:
            return
        for expiry_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(expiry_ms)
        self._handle.registerTimer(now.getCurrentProcessingTimeInMs() + self._spec.idle_ms)

    def close(self) -> None:
        pass


def _in_order(rows: Iterator[pd.DataFrame]) -> list[Packed]:
    """The blobs of one task: by input, source partition and number."""
    columns = ("side", "partition", "number", "blob")
    return sorted(row for frame in rows for row in zip(*(frame[name] for name in columns), strict=True))


def _frames(task: int, emission: StreamEmission, spec: StreamSpec) -> Iterator[pd.DataFrame]:
    for held in answered(emission, spec):
        yield _frame(task, held, emission, spec)


def _frame(task: int, held: Sequence[Fat], emission: StreamEmission, spec: StreamSpec) -> pd.DataFrame:
    import pandas as pd

    counted = counters_of(emission, spec.counters)
    counters = [counted if row.kind == "metrics" else None for row in held]
    blobs = [None if row.blob is None else row.blob.to_pybytes() for row in held]
    columns = {"task": task, "kind": [row.kind for row in held], "blob": blobs}
    frame = pd.DataFrame(columns | {"counters": counters})
    if spec.hands_over is not None:
        for name in ("slot", "number"):
            frame[name] = pd.array([getattr(row, name) for row in held], "Int32")
    return frame
