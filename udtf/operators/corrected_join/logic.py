"""An AS OF join whose results are corrected: a version that comes late gives the rows before it their answer anew.

Stream rows are kept as long as a version may come that changes their answer: until the history retention refuses one of
their time. What changed goes out as an update, the result before and the result now.

Source: KIP-914 ("Attempt 2": older results are made right), semantics.md 2, 6, C.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any, NamedTuple

from udtf import rules
from udtf.errors import OperatorError
from udtf.logic import Emission
from udtf.operators.as_of_join import rules as kernel
from udtf.operators.as_of_join.logic import AsOfJoinLogic, answer
from udtf.record import Key, Row, Update, canonical_key
from udtf.rules import FARTHEST, UNSET
from udtf.state.snapshot import seal, unseal
from udtf.state.versioned import VersionedStore
from udtf.time import Micros

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udtf.operators.as_of_join.config import AsOfJoinConfig

_KIND = "corrected_join"


class LeftChange(NamedTuple):
    """A change of a left row that is itself a result which is corrected; key and AS OF time stay what they are.

    Attributes:
        key: under which its updates are known.
        old: the row before, None where there was none.
        new: the row now, None where it is gone.
    """

    key: Key
    old: Row | None
    new: Row | None


class _Kept(NamedTuple):
    """A left row whose answer may change, and the key under which its updates are known."""

    key: Key
    row: Row


class CorrectedJoinLogic(AsOfJoinLogic):
    """The AS OF join record by record, with corrections.

    Args:
        config: of the join: without grace and without KNOWN AS OF; one that looks ahead has a tolerance.

    Raises:
        OperatorError: `OPERATOR.INVALID_OPTION`, FORWARD or NEAREST without a tolerance.
    """

    def __init__(self, config: AsOfJoinConfig) -> None:
        """Start without state."""
        super().__init__(config)
        self._empty()

    def _empty(self) -> None:
        self._next = 0  # number of the next left row
        self._kept: dict[int, _Kept] = {}
        self._numbers: dict[Key, int] = {}  # by the key of their updates, of rows that come as changes
        self._by_time: dict[Key, list[tuple[Micros, int]]] = {}  # per join key, ascending
        self._due: list[tuple[Micros, int]] = []

    def on_batch(self, rows: Sequence[Row | LeftChange]) -> Emission:
        """Take rows of both sides, and changes of left ones, in arrival order."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        for row in rows:
            if isinstance(row, LeftChange):
                self._on_change(row)
            elif row.side == "R":
                self._on_right(row)
            else:
                self._on_left(row)
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """The versions, the left rows that may be corrected, and metrics."""
        kept = [(number, *kept) for number, kept in self._kept.items()]
        by_change = set(self._numbers.values())
        state = {"join": super().snapshot(), "next": self._next, "kept": kept, "by_change": by_change}
        return seal(_KIND, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(_KIND, state)
        super().restore(parts["join"])
        self._empty()
        for number, key, row in parts["kept"]:
            self._keep(number, key, row, is_change=number in parts["by_change"])
        self._next = parts["next"]

    @property
    def rows(self) -> int:
        """How many left rows are kept."""
        return len(self._kept)

    def _check_ahead(self, config: AsOfJoinConfig) -> None:
        """Results do not wait; but how long a row may still be answered must be known."""
        if config.tolerance_us is None:
            raise OperatorError.invalid_option("tolerance_us", None, f"a number where it looks {config.direction}")

    def _new_store(self) -> VersionedStore:
        return VersionedStore(history_us(self.config), keep_tombstones=True)

    # versions

    def _put(self, row: Row) -> None:
        """Put a version: what it answers otherwise than before is given anew."""
        assert row.time is not None, "it was refused"
        affected = self._affected(canonical_key(row.key), row.time)
        before = [self._result(kept.row) for kept in affected]
        super()._put(row)
        for kept, old in zip(affected, before, strict=True):
            new = self._result(kept.row)
            if _differs(old, new):
                self.metrics.add("corrected")
                self._update(kept.key, kept.row, old, new)
        self._forget()

    def _affected(self, key: Key, time: Micros) -> list[_Kept]:
        """The rows that a version of that time may answer: from it to the next one, ahead from the one before to it.

        With a key's first version it is all of them: they had no version, and have none on their side now (C5).
        """
        rows, versions = self._by_time.get(key, []), self._store.versions(key)
        if versions is None or not versions.times:
            return [self._kept[number] for _, number in rows]
        first = last = time
        if self._direction != kernel.BACKWARD:
            earlier = bisect_left(versions.times, time) - 1
            first = versions.times[earlier] if earlier >= 0 else UNSET
        if self._direction != kernel.FORWARD:
            later = bisect_right(versions.times, time)
            last = versions.times[later] if later < len(versions.times) else FARTHEST
        low, high = bisect_left(rows, (first, -1)), bisect_left(rows, (last + 1, -1))
        return [self._kept[number] for _, number in rows[low:high]]

    def _result(self, row: Row) -> tuple[Any, ...] | None:
        """What a row that is kept shows: of what may answer it, nothing has been dropped."""
        return answer(self.config, row, *self._found(row, retention_us=None))

    def _forget(self) -> None:
        """Rows that no version can come for any more."""
        while self._due and self._is_settled(self._due[0][0]):
            number = heapq.heappop(self._due)[1]
            if number in self._kept:
                self._drop(number)

    def _is_settled(self, time: Micros) -> bool:
        return self._store.has_expired(time)

    # left rows

    def _without_version(self, row: Row, outcome: int) -> None:
        """A result that changes has a place in time: a row without one is refused (semantics.md A)."""
        if row.event_time is None:
            self._refuse(row, rules.OUTCOMES[rules.NO_TIME], self._stream_time)
        else:
            super()._without_version(row, outcome)

    def _give(self, row: Row, result: tuple[Any, ...] | None) -> None:
        number = self._next
        self._next += 1
        key = (*row.key, number)
        if row.time is not None and not row.has_null_key and not self._is_settled(row.time):
            self._keep(number, key, row, is_change=False)
        self._update(key, row, None, result)

    def _on_change(self, change: LeftChange) -> None:
        """A change of a row that is forgotten is refused: what was answered for it is not known any more."""
        shown = change.new or change.old
        if shown is None:
            return
        is_answered = shown.time is not None and not shown.has_null_key
        if not is_answered:
            self._update(change.key, shown, self._unanswered(change.old), self._unanswered(change.new))
            return
        number = self._numbers.get(canonical_key(change.key))
        if (change.old is not None) != (number is not None) or self._is_settled(shown.time or 0):
            self._refuse(shown, rules.OUTCOMES[rules.EXPIRED], self._store.stream_time)
            return
        old = None if change.old is None else self._result(change.old)
        if number is not None:
            self._drop(number)
        new = None
        if change.new is not None:
            new = self._result(change.new)
            self._keep(self._next, change.key, change.new, is_change=True)
            self._next += 1
        if _differs(old, new):
            self._update(change.key, shown, old, new)

    def _unanswered(self, row: Row | None) -> tuple[Any, ...] | None:
        """What a row shows that no version can answer (6.1)."""
        if row is None:
            return None
        return answer(self.config, row, None, kernel.NULL_TIME if row.time is None else kernel.NO_KEY)

    def _keep(self, number: int, key: Key, row: Row, *, is_change: bool) -> None:
        assert row.time is not None, "a row without a time is never answered anew"
        self._kept[number] = _Kept(key, row)
        insort(self._by_time.setdefault(canonical_key(row.key), []), (row.time, number))
        if is_change:
            self._numbers[canonical_key(key)] = number
        if self.config.retention_us is not None:
            heapq.heappush(self._due, (row.time, number))

    def _drop(self, number: int) -> None:
        key, row = self._kept.pop(number)
        self._numbers.pop(canonical_key(key), None)
        place = canonical_key(row.key)
        rows = self._by_time[place]
        del rows[bisect_left(rows, (row.time or 0, number))]
        if not rows:
            del self._by_time[place]

    def _update(self, key: Key, row: Row, old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> None:
        if old is not None or new is not None:
            self._emission.updates.append(Update(key, row.event_time, old, new))


def history_us(config: AsOfJoinConfig) -> Micros | None:
    """How far behind stream time rows may still be corrected, None for ever: their versions are kept as long.

    A version is refused when it is older than the retention. One that is not may answer rows that look ahead to it.
    """
    if config.retention_us is None or config.direction == "backward":
        return config.retention_us
    return config.retention_us + (config.tolerance_us or 0)


def _differs(old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> bool:
    if old is None or new is None:
        return old is not new
    return canonical_key(old) != canonical_key(new)
