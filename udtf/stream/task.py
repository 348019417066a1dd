"""One micro-batch of one task: restore the state, answer the rows, append what changed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udtf.errors import StateError
from udtf.stream.cache import WORKER_CACHE, Kept
from udtf.stream.interleave import interleave, times_us
from udtf.stream.log import Head
from udtf.stream.segments import FORMAT, seal, unseal

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from udtf.logic import StreamEmission, StreamLogic
    from udtf.stream.cache import CacheKey, StateCache
    from udtf.stream.log import Log
    from udtf.stream.spec import StreamSpec


@dataclass(frozen=True)
class Restored:
    """A task's state as of the head of its log, and what it came from: `cache`, `tail`, `snapshot` or `nothing`."""

    logic: StreamLogic
    source: str


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

    def run(self, task: int, log: Log, inputs: Sequence[pa.Table]) -> StreamEmission:
        """Answer one micro-batch: `inputs` as they were delivered, in the shape of the operator.

        Raises:
            StateError: the log is not one of this query, or not as it was written.
        """
        started = time.perf_counter_ns()
        head = checked_head(log, self.spec.fingerprint, self._place(task))
        restored = restore(self.spec, log, head, self.cache.take(self._key(task)), self._place(task))
        restored_us = (time.perf_counter_ns() - started) // 1000
        arranged, sides = interleave(inputs, self.spec.order_columns, self.spec.common_sequence, self.spec.times)
        emission = restored.logic.on_batch(arranged, sides)
        head = self._write(task, log, head, restored.logic, emission)
        self.cache.put(self._key(task), Kept(restored.logic, head.position, head.token), self.spec.cache_bytes)
        self._count(emission, arranged)
        emission.metrics.update({f"restored_{restored.source}": 1, "restore_us": restored_us})
        return emission

    def _write(self, task: int, log: Log, head: Head, logic: StreamLogic, emission: StreamEmission) -> Head:
        if emission.delta is None:
            return head
        is_snapshot = head.wants_snapshot(task)
        stamp = head.next_stamp(is_snapshot)
        data = seal(stamp, logic.snapshot() if is_snapshot else emission.delta)
        head = head.after(stamp, len(data))
        (log.compact if is_snapshot else log.append)(head, data)
        return head

    def _count(self, emission: StreamEmission, inputs: Sequence[pa.Table]) -> None:
        emission.metrics.setdefault("rows_in", sum(table.num_rows for table in inputs))
        emission.metrics.setdefault("rows_out", emission.rows.num_rows)
        times = [times_us(table[name]) for table, name in zip(inputs, self.spec.times, strict=False) if table.num_rows]
        greatest = max((int(column.max()) for column in times), default=np.iinfo(np.int64).min)
        if times and greatest != np.iinfo(np.int64).min:
            emission.metrics.setdefault("max_event_time", greatest)

    def _key(self, task: int) -> CacheKey:
        return f"{self.query} {self.spec.fingerprint}", self.spec.operator, task

    def _place(self, task: int) -> str:
        return f"operator {self.spec.operator}, task {task}"


def checked_head(log: Log, fingerprint: str, place: str) -> Head:
    """The head of a log that belongs to this query.

    Raises:
        StateError: `STATE.FORMAT`, `STATE.OTHER_QUERY`.
    """
    head = log.head()
    if head is None:
        return Head.empty(fingerprint)
    if head.format != FORMAT:
        raise StateError.format(place, head.format, FORMAT)
    if head.fingerprint != fingerprint:
        raise StateError.other_query(place, head.fingerprint, fingerprint)
    return head


def restore(spec: StreamSpec, log: Log, head: Head, kept: Kept | None, place: str) -> Restored:
    """The state at the head: what was kept if it is that, or can catch up with it; else from the snapshot on.

    Raises:
        StateError: `STATE.CORRUPT_SEGMENT`, `STATE.MISSING_SEGMENT`, `STATE.OTHER_QUERY`, `STATE.FORMAT`.
    """
    if kept is not None and (kept.position, kept.token) == (head.position, head.token):
        return Restored(kept.logic, "cache")
    is_behind = kept is not None and head.first <= kept.position < head.position
    # NB: where the log is of another history, the kept state is left half applied, and is dropped with it.
    if kept is not None and is_behind and catch_up(kept.logic, log, head, kept, place):
        return Restored(kept.logic, "tail")
    logic = spec.make_logic()
    if head.position == 0:
        return Restored(logic, "nothing")
    if not catch_up(logic, log, head, Kept(logic, head.first - 1, ""), place):
        raise StateError.corrupt_segment(place, head.position, "the history does not end where the head says")
    return Restored(logic, "snapshot")


def catch_up(logic: StreamLogic, log: Log, head: Head, start: Kept, place: str) -> bool:
    """Apply the log's segments after `start`; False when they do not go on from there, or do not lead to the head."""
    token = start.token
    for number, data in log.tail(start.position):
        if data is None:
            raise StateError.missing_segment(place, number, head.position)
        stamp, segment = unseal(data, number, place)
        if stamp.fingerprint != head.fingerprint:
            raise StateError.other_query(place, stamp.fingerprint, head.fingerprint)
        begins_here = stamp.is_snapshot and number == head.first
        if not begins_here and stamp.previous != token:
            return False
        logic.apply(segment)
        token = stamp.token
    return token == head.token
