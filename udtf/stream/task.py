"""One micro-batch of one task: find or restore the state, answer the rows, append what changed."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

from udtf.stream.asked import Answer, Asked
from udtf.stream.cache import WORKER_CACHE, CachedState, Done
from udtf.stream.history import checked_head, restore
from udtf.stream.interleave import NO_TIME, interleave, times_us
from udtf.stream.segments import Stamp, owner_of, seal, unseal
from udtf.stream.siblings import ALONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from udtf.logic import IdleLogic, StreamEmission, StreamLogic
    from udtf.stream.asked import CacheKey
    from udtf.stream.cache import StateCache
    from udtf.stream.log import Head, Log
    from udtf.stream.siblings import Siblings
    from udtf.stream.spec import StreamSpec

#: A larger emission is not kept for the case that its micro-batch is run again.
_MOST_KEPT_EMISSION: Final = 16 << 20
#: How fast a state moves to another process, about: nobody is waited for longer than that would take.
_MOVED_BYTES_PER_SECOND: Final = 200e6


@dataclass(frozen=True)
class TaskRunner:
    """Runs the micro-batches of an operator's tasks, each against the log of its task.

    Attributes:
        spec: the operator.
        query: whose state this is, as far as the engine can say; only keeps queries apart in the cache.
        cache: what this process keeps of states.
        siblings: the other processes that keep states of the same tasks.
    """

    spec: StreamSpec
    query: str = ""
    cache: StateCache = WORKER_CACHE
    siblings: Siblings = ALONE

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
        return self._carry_out(task, log, inputs, digest, is_idle=False)

    def idle(self, task: int, log: Log, inputs: Sequence[pa.Table]) -> StreamEmission:
        """Give out what is open in a task that got no rows for a while; `inputs` are without rows.

        Raises:
            StateError: the log is not one of this query, or not as it was written.
        """
        return self._carry_out(task, log, inputs, b"", is_idle=True)

    def follow(self, task: int, log: Log, *, is_wanted: bool) -> bool:
        """Keep a task's state as of its log, whose micro-batches another executor runs.

        Args:
            task: whose state.
            log: that task's.
            is_wanted: take it over where no process of this executor has it.

        Returns:
            Whether this process has it now.

        Raises:
            StateError: the log is not one of this query, or not as it was written.
        """
        place, key = self._place(task), self._key(task)
        if self.siblings.owner(key):
            return False
        kept = self.cache.take(key)
        if kept is None and not is_wanted:
            return False
        head = checked_head(log, self.spec.belongs_to, place)
        with self.siblings.at_work:
            logic = restore(self.spec.make_logic, log, head, kept, place).logic
            self.cache.put(key, CachedState(logic, head.position, head.token), self.spec.cache_bytes)
        self.siblings.announce(key, self)
        return True

    def _key(self, task: int) -> CacheKey:
        return f"{self.query} {self.spec.belongs_to} {self.spec.answers}", self.spec.operator, task

    def _place(self, task: int) -> str:
        return f"operator {self.spec.operator}, task {task}"

    def answer_for(self, asked: Asked) -> Answer | bytes | None:
        """Answer a sibling from a state that is kept here, see `siblings.Answers`.

        Where this process is at work on something else for longer than the state would take to move, the state moves.
        """
        kept = self.cache.take(asked.key)
        if kept is None or not kept.answers(asked):
            return None
        if not self.siblings.at_work.acquire(timeout=kept.logic.stored_bytes / _MOVED_BYTES_PER_SECOND):
            return _moved(kept, asked.head) if kept.is_at(asked.head) else None
        try:
            return self._from_kept(kept, asked)
        finally:
            self.siblings.at_work.release()

    def _carry_out(
        self, task: int, log: Log, inputs: Sequence[pa.Table], digest: bytes, *, is_idle: bool
    ) -> StreamEmission:
        started = time.perf_counter_ns()
        place, key = self._place(task), self._key(task)
        asked = Asked(key, checked_head(log, self.spec.belongs_to, place), inputs, digest, is_idle)
        kept = self.cache.take(key)
        is_elsewhere = asked.head.position > 0 and (kept is None or not kept.answers(asked))
        found = self.siblings.ask(asked) if is_elsewhere else None
        if isinstance(found, Answer):
            found.emission.metrics["from_sibling"] = 1
            _put(log, found)
            return found.emission
        if found is not None:
            kept = self._arrived(found, asked.head, place)
        with self.siblings.at_work:
            if kept is not None and kept.answers(asked):
                answer = self._from_kept(kept, asked)
            else:
                restored = restore(self.spec.make_logic, log, asked.head, kept, place)
                restore_us = (time.perf_counter_ns() - started) // 1000
                answer = self._advance(
                    restored.logic, asked, {f"restored_{restored.source}": 1, "restore_us": restore_us}
                )
        if found is not None:
            answer.emission.metrics["from_sibling"] = 1
        self.siblings.announce(key, self)
        _put(log, answer)
        return answer.emission

    def _arrived(self, sealed: bytes, head: Head, place: str) -> CachedState:
        """The state that a sibling has let go."""
        stamp, snapshot = unseal(sealed, head.position, place)
        logic = self.spec.make_logic()
        logic.apply(snapshot)
        return CachedState(logic, stamp.position, stamp.token)

    def _from_kept(self, kept: CachedState, asked: Asked) -> Answer:
        """Answer from a state that is where the log is, or was led there by this very micro-batch."""
        if kept.done is not None and kept.done.is_of(asked):
            self.cache.put(asked.key, kept, self.spec.cache_bytes)
            return kept.done.answer
        return self._advance(kept.logic, asked, {"restored_cache": 1, "restore_us": 0})

    def _advance(self, logic: StreamLogic, asked: Asked, came_by: dict[str, int]) -> Answer:
        """Carry the micro-batch out on the state of before, and keep the state as of then."""
        emission = self._emission(logic, asked)
        emission.metrics.update(came_by)
        answer = _answer(logic, asked, emission)
        is_kept = answer.segment and asked.digest and answer.emitted_bytes <= _MOST_KEPT_EMISSION
        done = Done(asked.head, asked.digest, answer) if is_kept else None
        kept = CachedState(logic, answer.head.position, answer.head.token, done)
        self.cache.put(asked.key, kept, self.spec.cache_bytes)
        return answer

    def _emission(self, logic: StreamLogic, asked: Asked) -> StreamEmission:
        if asked.is_idle:
            emission = cast("IdleLogic", logic).close_idle(*asked.inputs)
            emission.metrics.setdefault("rows_out", emission.rows.num_rows)
            return emission
        spec = self.spec
        arranged, sides = interleave(
            asked.inputs, spec.order_columns, spec.common_sequence, spec.times, keeps_order=spec.keeps_order
        )
        emission = logic.on_batch(arranged, sides)
        if spec.shows is not None:
            emission = replace(emission, rows=emission.rows.select(spec.shows))
        emission.metrics.setdefault("rows_in", len(sides))
        emission.metrics.setdefault("rows_out", emission.rows.num_rows)
        time_column = spec.times[0]
        if arranged[0].num_rows and time_column in arranged[0].column_names:
            greatest = int(times_us(arranged[0][time_column]).max())
            if greatest != NO_TIME:
                emission.metrics.setdefault("max_event_time", greatest)
        return emission


def _answer(logic: StreamLogic, asked: Asked, emission: StreamEmission) -> Answer:
    """The emission with what the log must know."""
    if emission.delta is None:
        return Answer(asked.head, b"", emission)
    is_snapshot = asked.head.wants_snapshot(asked.key[-1])
    stamp = asked.head.next_stamp(is_snapshot, asked.digest)
    segment = seal(stamp, logic.snapshot() if is_snapshot else emission.delta)
    return Answer(asked.head.after(stamp, len(segment)), segment, emission)


def _moved(kept: CachedState, head: Head) -> bytes:
    return seal(Stamp(head.position, True, head.token, "", owner_of(head.fingerprint)), kept.logic.snapshot())


def _put(log: Log, answer: Answer) -> None:
    if answer.segment:
        (log.compact if answer.head.begins_here else log.append)(answer.head, answer.segment)
