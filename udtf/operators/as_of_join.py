"""The AS OF join: configuration, the record-by-record logic, and the door to the bounded answer.

Source: KIP-914 (stream-table join), KIP-923 (grace), semantics.md sections 2, 4, 6, 7, A, B and C.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from udtf.errors import OperatorError
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators import as_of_kernel as kernel
from udtf.record import Change, LateRow, Row, canonical_key, ties_key
from udtf.state.buffer import TimeOrderedBuffer
from udtf.state.snapshot import seal, unseal
from udtf.state.versioned import VersionedStore, Versions
from udtf.time import NOT_PUT, Micros, StreamTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_NEVER: Final[Micros] = 2**63 - 1
DIRECTIONS: Final = {"backward": kernel.BACKWARD, "forward": kernel.FORWARD, "nearest": kernel.NEAREST}


@dataclass(frozen=True)
class AsOfJoinConfig:
    """Everything an AS OF join needs to know; plain values only, so that it travels as JSON.

    Attributes:
        join: 'inner' or 'left'.
        direction: 'backward', 'forward' or 'nearest' (C1).
        exclusive: a version at exactly the AS OF time does not count.
        tolerance_us: greatest distance of a match; None is no limit (C2).
        has_known: the join has KNOWN AS OF (C4).
        ties: per TIES BY column ('asc' | 'desc', nulls 'first' | 'last'); empty is arrival (C3, B8).
        with_reason: the output ends in the reason column (C5).
        n_keys: how many key columns both inputs have.
        left_columns: names of the left payload in the output.
        right_columns: names of the right payload in the output.
        grace_us: record by record: how long rows wait for the table; None joins at once (section 7).
        retention_us: record by record: history retention of the table; None is for ever (2.1).
        left_max_future_us: record by record: refuse rows further ahead of stream time (B9); None is no limit.
        right_max_future_us: the same for the table.
        name: the operator's name in `_operator` and in messages.
    """

    join: str = "inner"
    direction: str = "backward"
    exclusive: bool = False
    tolerance_us: Micros | None = None
    has_known: bool = False
    ties: tuple[tuple[str, str], ...] = ()
    with_reason: bool = False
    n_keys: int = 1
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    grace_us: Micros | None = None
    retention_us: Micros | None = None
    left_max_future_us: Micros | None = None
    right_max_future_us: Micros | None = None
    name: str = "as_of_join"

    def __post_init__(self) -> None:
        _require(self, "join", self.join in ("inner", "left"), "'inner' or 'left'")
        _require(self, "direction", self.direction in DIRECTIONS, "'backward', 'forward' or 'nearest'")
        for name in ("tolerance_us", "grace_us", "retention_us", "left_max_future_us", "right_max_future_us"):
            value = getattr(self, name)
            _require(self, name, value is None or value >= 0, "None or >= 0")

    @property
    def is_left(self) -> bool:
        """Every left row has an answer."""
        return self.join == "left"

    @property
    def wait_us(self) -> Micros | None:
        """How far stream time must be past a row before it is answered (C6); None answers at once."""
        if self.grace_us is None or self.direction == "backward":
            return self.grace_us
        return self.grace_us + (self.tolerance_us or 0)

    def to_json(self) -> str:
        """As the options of the table function."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> AsOfJoinConfig:
        """From `to_json()`, or from a part of it; the rest has its default.

        >>> AsOfJoinConfig.from_json('{"join": "left", "ties": [["desc", "last"]]}').ties
        (('desc', 'last'),)
        """
        options = json.loads(text)
        unknown = sorted(set(options) - {field.name for field in fields(cls)})
        if unknown:
            raise OperatorError.invalid_option("options", unknown, "names of AsOfJoinConfig")
        for name in ("left_columns", "right_columns"):
            options[name] = tuple(options.get(name, ()))
        options["ties"] = tuple((direction, nulls) for direction, nulls in options.get("ties", ()))
        return cls(**options)


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
    from udtf.operators.as_of_tables import join_tables as join  # numba costs a second to import

    return join(config, left, right)


class AsOfJoinLogic:
    """The AS OF join record by record: stream rows are answered at once, or wait out the grace in a buffer."""

    def __init__(self, config: AsOfJoinConfig) -> None:
        """Start without state.

        Raises:
            OperatorError: `OPERATOR.NEEDS_GRACE`, FORWARD or NEAREST without both tolerance and grace (C6).
        """
        waits = config.grace_us is not None and config.tolerance_us is not None
        if config.direction != "backward" and not waits:
            raise OperatorError.needs_grace(config.direction)
        self.config = config
        self.metrics = Metrics()
        self._direction = DIRECTIONS[config.direction]
        self._tolerance = -1 if config.tolerance_us is None else config.tolerance_us
        self._store = self._new_store()
        self._buffer = TimeOrderedBuffer()
        self._stream_time = StreamTime()  # of accepted left rows (7.2); the store has its own
        self._emission = Emission()

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows of both sides in arrival order."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        for row in rows:
            if row.side == "R":
                self._on_right(row)
            else:
                self._on_left(row)
        self.metrics.set("buffered_rows", self._buffer.rows)
        self.metrics.set("buffered_bytes", self._buffer.stored_bytes)
        emission.metrics = self.metrics.since(before)
        return emission

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
        if row.time is None:
            self._refuse(row, "null_time", clock)
        elif row.has_null_key:
            self._refuse(row, "null_key", clock)
        elif clock.is_future(row.time, self.config.right_max_future_us):
            self._refuse(row, "future", clock)
        elif self._put(row, row.time) == NOT_PUT:
            self._refuse(row, "expired", clock)

    def _put(self, row: Row, time: Micros) -> Micros:
        # A version that nobody knows when it became known never takes part (C4: NULL <= e is not true).
        known_since = (_NEVER if row.sequence is None else row.sequence) if self.config.has_known else 0
        value = None if row.is_tombstone else (row.payload, row.passes)
        rank = ties_key(row.ties, self.config.ties)
        return self._store.put(canonical_key(row.key), value, time, rank=rank, sequence=known_since)

    def _on_left(self, row: Row) -> None:
        clock, wait_us = self._stream_time, self.config.wait_us
        if row.time is None:
            self._without_version(row, kernel.NULL_TIME, "null_time")
        elif row.has_null_key:
            self._without_version(row, kernel.NO_KEY, "null_key")
        elif clock.is_future(row.time, self.config.left_max_future_us):
            self._refuse(row, "future", clock)
        elif wait_us is None:
            clock.observe(row.time)
            self._answer(row)
        elif clock.is_late(row.time, wait_us):
            self.metrics.add("late")  # not refused: joined at once, and releases nothing (7.2)
            self._answer(row)
        else:
            self._wait(row, row.time, wait_us)

    def _wait(self, row: Row, time: Micros, wait_us: Micros) -> None:
        """Buffer the row, then answer all that the stream has passed (7.3); at exactly the wait they leave."""
        self._buffer.put(row)
        stream_time_us = self._stream_time.observe(time)
        for leaving in self._buffer.evict_until(stream_time_us - wait_us):
            self._answer(leaving)

    def _without_version(self, row: Row, reason: int, late_reason: str) -> None:
        """No look-up is possible: a left join answers at once (6.1, B2), an inner one refuses."""
        if self.config.is_left:
            self._emit(row, None, reason)
        else:
            self._refuse(row, late_reason, self._stream_time)

    def _answer(self, row: Row) -> None:
        assert row.time is not None, "rows without a time never get here"
        versions = self._store.versions(canonical_key(row.key))
        if versions is not None and self.config.has_known:
            versions = _known_at(versions, row.sequence)
        if versions is None or not versions.times:
            self._emit(row, None, kernel.NO_KEY)
        elif self._is_beyond_retention(row.time, versions.times[-1]):
            self._emit(row, None, kernel.BEYOND_RETENTION)
        else:
            self._emit(row, *self._pick(row.time, versions))

    def _is_beyond_retention(self, as_of: Micros, newest: Micros) -> bool:
        """History at `as_of` is gone and the newest version alone cannot answer (2.3, in every direction)."""
        if not self._store.has_expired(as_of):
            return False
        if newest == as_of:
            return self.config.exclusive and self._direction != kernel.FORWARD
        return newest > as_of

    def _pick(self, as_of: Micros, versions: Versions) -> tuple[Any, int]:
        """The picked version's value and the verdict on it."""
        times, end = versions.times, len(versions.times)
        place = kernel.pick(times, times, (), 0, end, as_of, as_of, 0, self._direction, self.config.exclusive)
        if place < 0:
            return None, kernel.reason_without_pick((), 0, end, 0, self._direction)
        value = versions.values[place]
        apart = kernel.distance(as_of, times[place])
        return value, kernel.verdict(value is None, value is None or value[1], apart, self._tolerance)

    def _emit(self, row: Row, value: tuple[tuple[Any, ...], bool] | None, reason: int) -> None:
        if reason == kernel.MATCH and value is not None:
            self.metrics.add("matched")
            right = value[0]
        else:
            self.metrics.add("unmatched")
            self.metrics.add(f"unmatched_{kernel.REASONS[reason]}")
            if not self.config.is_left:
                return
            right = (None,) * len(self.config.right_columns)
        tail = (kernel.REASONS[reason],) if self.config.with_reason else ()
        self._emission.rows.append(Change("insert", row.event_time, row.payload + right + tail))

    def _refuse(self, row: Row, reason: str, clock: StreamTime) -> None:
        self.metrics.add(reason)
        late = LateRow(row, reason, self.config.name, clock.now_us, clock.lateness_us(row.time))
        self._emission.late.append(late)


def _known_at(versions: Versions, known: Micros | None) -> Versions:
    """The versions that were known then (C4); a linear walk, since KNOWN AS OF is for replays of history."""
    places = [] if known is None else [place for place, since in enumerate(versions.sequences) if since <= known]
    return Versions.of(tuple([column[place] for place in places] for column in versions.state()))


def _require(config: AsOfJoinConfig, name: str, holds: bool, wanted: str) -> None:
    if not holds:
        raise OperatorError.invalid_option(name, getattr(config, name), wanted)
