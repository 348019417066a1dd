"""The AS OF join: the record-by-record logic, and the entry point to the bounded answer.

Source: KIP-914 (stream-table join), KIP-923 (grace), semantics.md sections 2, 4, 6, 7, A, B and C.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from udtf import rules
from udtf.errors import OperatorError
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.as_of_join import rules as kernel
from udtf.operators.as_of_join.config import DIRECTIONS, AsOfJoinConfig
from udtf.record import Change, Row, canonical_key, ties_key
from udtf.rules import limit
from udtf.state.buffer import TimeOrderedBuffer
from udtf.state.snapshot import seal, unseal
from udtf.state.versioned import VersionedStore, Versions
from udtf.time import Micros, StreamTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


_NEVER: Final[Micros] = 2**63 - 1


def join_tables(config: AsOfJoinConfig, left: pa.Table, right: pa.Table) -> pa.Table:
    """The bounded answer: all history counts, nothing is late. Output keeps the order of `left`.

    Args:
        config: the join; grace and retention play no part.
        left: columns `__k0 ..`, `__as_of`, with KNOWN AS OF `__known`, and the payload.
        right: columns `__k0 ..`, `__time`, `__seq`, `__tie0 ..`, `__arrival`, `__deleted`, `__pass` and the payload;
            the last four may be missing.

    Returns:
        the payload of both, and `__reason` with `with_reason`.

    Source: semantics.md A ("Batch") and C.
    """
    from udtf.operators.as_of_join.batch import join_tables as join  # numba costs a second to import

    return join(config, left, right)


class AsOfJoinLogic:
    """The AS OF join record by record: stream rows are answered at once, or wait out the grace in a buffer."""

    def __init__(self, config: AsOfJoinConfig) -> None:
        """Start without state.

        Raises:
            OperatorError: `OPERATOR.NEEDS_GRACE`, FORWARD or NEAREST without both tolerance and grace (C6).
        """
        if config.direction != "backward":
            self._check_ahead(config)
        self.config = config
        self.metrics = Metrics()
        self._direction = DIRECTIONS[config.direction]
        self._tolerance = -1 if config.tolerance_us is None else config.tolerance_us
        self._store = self._new_store()
        self._buffer = TimeOrderedBuffer()
        self._stream_time = StreamTime()  # of accepted left rows (7.2); the store has its own
        self._emission = Emission()

    def _check_ahead(self, config: AsOfJoinConfig) -> None:
        """What looks ahead has to say how far, and how long it waits."""
        if config.grace_us is None or config.tolerance_us is None:
            raise OperatorError.needs_grace(config.direction)

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows of both sides in arrival order."""
        before = dict(self.metrics)
        self._emission = Emission()
        for row in rows:
            if row.side == "R":
                self._on_right(row)
            else:
                self._on_left(row)
        return self._sent(before)

    def close_idle(self) -> Emission:
        """Answer all that waits, by the versions that are there."""
        before = dict(self.metrics)
        self._emission = Emission()
        for waiting in self._buffer.evict_until(_NEVER):
            self._answer(waiting)
            self.metrics.add("idle_closed")
        return self._sent(before)

    def _sent(self, before: dict[str, int]) -> Emission:
        """What was emitted, with what was counted since then."""
        self.metrics.set("buffered_rows", self._buffer.rows)
        self.metrics.set("buffered_bytes", self._buffer.stored_bytes)
        self._emission.metrics = self.metrics.since(before)
        return self._emission

    def snapshot(self) -> bytes:
        """Store, buffer, stream time and metrics."""
        state = {
            "store": self._store.state(),
            "buffer": self._buffer.state(),
            "stream_time": self._stream_time.snapshot(),
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._store = self._new_store()
        versions = parts["store"]["versions"]
        # NB: keys again, since a NaN in one equals itself only as the one object of this process.
        parts["store"]["versions"] = [(canonical_key(key), columns) for key, columns in versions]
        self._store.restore_state(parts["store"])
        self._buffer.restore_state(parts["buffer"])
        self._stream_time.restore(parts["stream_time"])
        self.metrics = Metrics(parts["metrics"])

    def _new_store(self) -> VersionedStore:
        return VersionedStore(
            self.config.retention_us,
            keep_tombstones=True,  # WITH REASON and the metrics tell a deleted key from an unknown one
            keep_equal_times=self.config.has_known,
        )

    def _on_right(self, row: Row) -> None:
        clock = self._store.stream_time
        outcome = rules.outcome_of_right(
            row.time is not None, not row.has_null_key, row.time, _now(clock), *self.config.right_limits
        )
        if outcome == rules.ACCEPTED:
            self._put(row)
        else:
            self._refuse(row, rules.OUTCOMES[outcome], clock)

    def _put(self, row: Row) -> None:
        assert row.time is not None, "it was refused"
        # A version that nobody knows when it became known never takes part (C4: NULL <= e is not true).
        known_since = (_NEVER if row.sequence is None else row.sequence) if self.config.has_known else 0
        value = None if row.is_tombstone else (row.payload, row.passes)
        rank = ties_key(row.ties, self.config.ties)
        self._store.put(canonical_key(row.key), value, row.time, rank=rank, sequence=known_since)

    def _on_left(self, row: Row) -> None:
        clock = self._stream_time
        outcome = rules.outcome_of_left(
            row.time is not None, not row.has_null_key, row.time, _now(clock), *self.config.left_limits
        )
        if outcome in (rules.NO_TIME, rules.NULL_KEY):
            self._without_version(row, outcome)
        elif outcome == rules.FUTURE:
            self._refuse(row, rules.OUTCOMES[outcome], clock)
        elif outcome == rules.WAITS:
            self._wait(row)
        else:
            self._at_once(row, is_late=outcome == rules.LATE)

    def _at_once(self, row: Row, is_late: bool) -> None:
        """Answer now. A late row is not refused, but moves no stream time and releases nothing (7.2)."""
        if is_late:
            self.metrics.add(rules.OUTCOMES[rules.LATE])
        elif row.time is not None:
            self._stream_time.observe(row.time)
        self._answer(row)

    def _wait(self, row: Row) -> None:
        """Buffer the row, then answer all that the stream has passed (7.3)."""
        assert row.time is not None, "it does not wait"
        self._buffer.put(row)
        stream_time_us = self._stream_time.observe(row.time)
        for leaving in self._buffer.evict_until(rules.due_until(stream_time_us, self.config.left_limits[1])):
            self._answer(leaving)

    def _without_version(self, row: Row, outcome: int) -> None:
        """No look-up is possible: a left join answers at once (6.1, B2), an inner one refuses."""
        if self.config.is_left:
            self._emit(row, None, kernel.NULL_TIME if outcome == rules.NO_TIME else kernel.NO_KEY)
        else:
            self._refuse(row, rules.OUTCOMES[outcome], self._stream_time)

    def _answer(self, row: Row) -> None:
        self._emit(row, *self._found(row, self._store.history_retention_us))

    def _found(self, row: Row, retention_us: Micros | None) -> tuple[Any, int]:
        """The value of the version that answers a row now, and the match_outcome on it; None is all history."""
        assert row.time is not None, "rows without a time never get here"
        versions = self._store.versions(canonical_key(row.key))
        if versions is not None and self.config.has_known:
            versions = _known_at(versions, row.sequence)
        return self._pick(row.time, Versions() if versions is None else versions, retention_us)

    def _pick(self, as_of: Micros, versions: Versions, retention_us: Micros | None) -> tuple[Any, int]:
        """The picked version's value and the match_outcome on it."""
        times, now, config = versions.times, _now(self._store.stream_time), self.config
        retention = limit(retention_us)
        place = kernel.look_up(times, (), 0, len(times), as_of, now, retention, self._direction, config.exclusive)
        if place < 0:
            return None, -place
        value = versions.values[place]
        apart = rules.distance(as_of, times[place])
        return value, kernel.match_outcome(value is None, value is None or value[1], apart, self._tolerance)

    def _emit(self, row: Row, value: tuple[tuple[Any, ...], bool] | None, reason: int) -> None:
        if reason == kernel.MATCH:
            self.metrics.add("matched")
        else:
            self.metrics.add("unmatched")
            self.metrics.add(f"unmatched_{kernel.REASONS[reason]}")
        self._give(row, answer(self.config, row, value, reason))

    def _give(self, row: Row, result: tuple[Any, ...] | None) -> None:
        """Emit the result of a row, if it has one."""
        if result is not None:
            self._emission.rows.append(Change("insert", row.event_time, result))

    def _refuse(self, row: Row, reason: str, clock: StreamTime) -> None:
        self.metrics.add(reason)
        self._emission.refuse(row, row.time, reason, self.config.name, clock)


def answer(
    config: AsOfJoinConfig, row: Row, value: tuple[tuple[Any, ...], bool] | None, reason: int
) -> tuple[Any, ...] | None:
    """The result of a row that a version answers, or none; None where an inner join shows nothing."""
    is_match = reason == kernel.MATCH and value is not None
    if not is_match and not config.is_left:
        return None
    right = value[0] if is_match and value is not None else (None,) * len(config.right_columns)
    return row.payload + right + ((kernel.REASONS[reason],) if config.with_reason else ())


def _known_at(versions: Versions, known: Micros | None) -> Versions:
    """The versions that were known then (C4); a linear walk, since KNOWN AS OF is for replays of history."""
    places = [] if known is None else [place for place, since in enumerate(versions.sequences) if since <= known]
    return Versions.of(tuple([column[place] for place in places] for column in versions.state()))


def _now(clock: StreamTime) -> Micros:
    return rules.UNSET if clock.now_us is None else clock.now_us
