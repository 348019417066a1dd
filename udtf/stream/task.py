"""One micro-batch of one task: restore the state, answer the rows, append what changed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from udtf.stream.cache import WORKER_CACHE, CachedState, Done
from udtf.stream.history import checked_head, restore
from udtf.stream.interleave import NO_TIME, interleave, times_us
from udtf.stream.segments import seal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from udtf.logic import IdleLogic, StreamEmission, StreamLogic
    from udtf.stream.cache import CacheKey, StateCache
    from udtf.stream.log import Head, Log
    from udtf.stream.spec import StreamSpec

#: A larger emission is not kept for the case that its micro-batch is run again.
_MOST_KEPT_EMISSION: Final = 16 << 20


@dataclass(frozen=True)
class TaskRunner:
    """Runs the micro-batches of an operator's tasks, each against the log of its task.

    Attributes:
        spec: the operator.
        query: whose state this is, as far as the engine can say; only keeps queries apart in the cache.
        cache: what this process keeps of states.
    """

    spec: StreamSpec
    query: str = ""
    cache: StateCache = WORKER_CACHE

    def run(self, task: int, log: Log, inputs: Sequence[pa.Table], digest: bytes = b"") -> StreamEmission:
        """Answer one micro-batch: `inputs` as they were delivered, in the shape of the operator.

        Args:
            task: whose state.
            log: that task's.
            inputs: per input the rows in the order they were delivered.
            digest: of the rows and their order, where the host has one: the same micro-batch once more, after a failure
                or for a second reader, is then answered from what the first run left.

        Raises:
            StateError: the log is not one of this query, or not as it was written.
        """
        started = time.perf_counter_ns()
        place, head = self._head(task, log)
        kept = self.cache.take(self._key(task))
        if kept is not None and kept.done is not None and kept.done.is_of(head, digest):
            return self._again(task, log, kept, kept.done)
        restored = restore(self.spec.make_logic, log, head, kept, place)
        restored_us = (time.perf_counter_ns() - started) // 1000
        emission = self._answer(restored.logic, inputs)
        emission.metrics.update({f"restored_{restored.source}": 1, "restore_us": restored_us})
        self._write(task, log, head, restored.logic, emission, digest)
        return emission

    def idle(self, task: int, log: Log, inputs: Sequence[pa.Table]) -> StreamEmission:
        """Give out what is open in a task that got no rows for a while; `inputs` are without rows.

        Raises:
            StateError: the log is not one of this query, or not as it was written.
        """
        place, head = self._head(task, log)
        restored = restore(self.spec.make_logic, log, head, self.cache.take(self._key(task)), place)
        logic = cast("IdleLogic", restored.logic)
        emission = logic.close_idle(inputs[0])
        emission.metrics.setdefault("rows_out", emission.rows.num_rows)
        self._write(task, log, head, logic, emission, b"")
        return emission

    def _head(self, task: int, log: Log) -> tuple[str, Head]:
        """What messages call the task, and where its log is."""
        place = f"operator {self.spec.operator}, task {task}"
        return place, checked_head(log, self.spec.belongs_to, place)

    def _again(self, task: int, log: Log, kept: CachedState, done: Done) -> StreamEmission:
        _put(log, done.head, done.segment)
        self.cache.put(self._key(task), kept, self.spec.cache_bytes)
        return done.emission

    def _answer(self, logic: StreamLogic, inputs: Sequence[pa.Table]) -> StreamEmission:
        arranged, sides = interleave(inputs, self.spec.order_columns, self.spec.common_sequence, self.spec.times)
        emission = logic.on_batch(arranged, sides)
        emission.metrics.setdefault("rows_in", len(sides))
        emission.metrics.setdefault("rows_out", emission.rows.num_rows)
        time_column = self.spec.times[0]
        if arranged[0].num_rows and time_column in arranged[0].column_names:
            greatest = int(times_us(arranged[0][time_column]).max())
            if greatest != NO_TIME:
                emission.metrics.setdefault("max_event_time", greatest)
        return emission

    def _write(
        self, task: int, log: Log, before: Head, logic: StreamLogic, emission: StreamEmission, digest: bytes
    ) -> None:
        """Append what changed, and keep the state as of then."""
        head, done = before, None
        if emission.delta is not None:
            is_snapshot = before.wants_snapshot(task)
            stamp = before.next_stamp(is_snapshot)
            segment = seal(stamp, logic.snapshot() if is_snapshot else emission.delta)
            head = before.after(stamp, len(segment))
            _put(log, head, segment)
            if digest and _bytes_of(emission) <= _MOST_KEPT_EMISSION:
                done = Done(before, digest, head, segment, emission)
        self.cache.put(self._key(task), CachedState(logic, head.position, head.token, done), self.spec.cache_bytes)

    def _key(self, task: int) -> CacheKey:
        return f"{self.query} {self.spec.belongs_to}", self.spec.operator, task


def _put(log: Log, head: Head, segment: bytes) -> None:
    (log.compact if head.begins_here else log.append)(head, segment)


def _bytes_of(emission: StreamEmission) -> int:
    return int(sum(table.nbytes for table in (emission.rows, *emission.late)))
