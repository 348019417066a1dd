"""A join of two tables by foreign key: a column of the left row is the key of the right.

An update of the right meets every left row that points to it. One of the left leaves what it pointed to and comes to
what it points to now; where these two are in different tasks, each of them tells its part, and `left_update` makes one
update of both.

Source: KIP-213, KIP-914 ("table-table joins"), semantics.md 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.table_join import rules
from udtf.operators.table_join.logic import Kept, TableJoinConfig, joined
from udtf.record import Key, Update, canonical_key, order_key
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros


class Pointing(NamedTuple):
    """A left row and the key to which it points; None where that is NULL."""

    meets: Key | None
    row: tuple[Any, ...]


class LeftUpdate(NamedTuple):
    """An update of the left side: the key of its row, its time, and the row before and now."""

    key: Key
    time: Micros
    old: Pointing | None
    new: Pointing | None


class RightUpdate(NamedTuple):
    """An update of the right side; row None: it is deleted."""

    key: Key
    time: Micros
    row: tuple[Any, ...] | None


class Part(NamedTuple):
    """What one end of a left update tells.

    Attributes:
        row: of the result, None where there is none.
        has_key: the left row points to something.
        right_time: of the right row that is there, microseconds.
    """

    row: tuple[Any, ...] | None
    has_key: bool
    right_time: Micros | None


def left_update(
    config: TableJoinConfig, update: LeftUpdate, before: Part | None, now: Part | None, *, is_same: bool
) -> Update | None:
    """The update of the result that an update of a left row is, if it is one.

    Args:
        config: the join.
        update: of the left row.
        before: what the end tells that it leaves.
        now: what the one tells that it comes to.
        is_same: both are one.
    """
    if before is None and now is None:
        return None
    keeps_left, had_key = config.keeps_left, before is not None and before.has_key
    has_key = now is not None and now.has_key
    finds = now is not None and now.right_time is not None
    if not rules.shows_left(keeps_left, had_key, has_key, is_same, finds):
        return None
    asked = now if rules.asks_new(keeps_left, has_key) else before
    right_time = asked.right_time if asked is not None else None
    time = update.time if right_time is None else max(update.time, right_time)
    return Update(update.key, time, before.row if before else None, now.row if now else None)


class ForeignKeyJoinLogic:
    """The current rows of the right side, and for each key of it the left rows that point to it."""

    def __init__(self, config: TableJoinConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._right: dict[Key, Kept] = {}
        self._pointing: dict[
            Key, dict[Key, tuple[Key, tuple[Any, ...]]]
        ] = {}  # to the left key as it came, and its row

    def on_batch(self, updates: Sequence[LeftUpdate | RightUpdate]) -> Emission:
        """Take updates in arrival order; a result row is the payload of the left side, then that of the right."""
        before, emission = dict(self.metrics), Emission()
        for update in updates:
            if isinstance(update, RightUpdate):
                emission.updates += self.on_right(update)
                continue
            *parts, is_same = self.on_left(update)
            found = left_update(self.config, update, *parts, is_same=is_same)
            emission.updates += [found] if found is not None else []
        self.metrics.add("emitted", len(emission.updates))
        emission.metrics = self.metrics.since(before)
        return emission

    def on_left(self, update: LeftUpdate) -> tuple[Part | None, Part | None, bool]:
        """Take an update of the left side, or one end of it; what its ends tell, and whether they are one."""
        self.metrics.add("records")
        old, new = update.old, update.new
        before = None if old is None else self._part(old)
        if old is not None and old.meets is not None:
            self._leave(canonical_key(old.meets), canonical_key(update.key))
        if new is not None and new.meets is not None:
            pointing = self._pointing.setdefault(canonical_key(new.meets), {})
            pointing[canonical_key(update.key)] = update.key, new.row
        is_same = old is not None and new is not None and _canonical(old.meets) == _canonical(new.meets)
        return before, None if new is None else self._part(new), is_same

    def on_right(self, update: RightUpdate) -> list[Update]:
        """Take an update of the right side: an update of each row that points to it, by the left keys (9.4)."""
        self.metrics.add("records")
        meets = canonical_key(update.key)
        kept = self._right.pop(meets, None)
        if update.row is not None:
            self._right[meets] = Kept(update.time, update.row)
        before = kept.row if kept is not None else None
        pointing = sorted(self._pointing.get(meets, {}).values(), key=lambda left: order_key(left[0]))
        return [
            Update(key, update.time, joined(self.config, row, before), joined(self.config, row, update.row))
            for key, row in pointing
        ]

    def snapshot(self) -> bytes:
        """The rows of both sides and metrics."""
        state = {
            "right": [(key, *kept) for key, kept in self._right.items()],
            "pointing": [(key, list(left.values())) for key, left in self._pointing.items()],
            "metrics": self.metrics.snapshot(),
        }
        return seal(f"{self.config.name} by foreign key", state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(f"{self.config.name} by foreign key", state)
        # NB: keys again, since a NaN in one equals itself only as the one object of this process.
        self._right = {canonical_key(key): Kept(time, row) for key, time, row in parts["right"]}
        self._pointing = {
            canonical_key(key): {canonical_key(left): (left, row) for left, row in found}
            for key, found in parts["pointing"]
        }
        self.metrics = Metrics(parts["metrics"])

    def _part(self, left: Pointing) -> Part:
        right = None if left.meets is None else self._right.get(canonical_key(left.meets))
        row = joined(self.config, left.row, right.row if right is not None else None)
        return Part(row, left.meets is not None, right.time if right is not None else None)

    def _leave(self, meets: Key, key: Key) -> None:
        pointing = self._pointing.get(meets, {})
        pointing.pop(key, None)
        if not pointing:
            self._pointing.pop(meets, None)


def _canonical(key: Key | None) -> Key | None:
    return None if key is None else canonical_key(key)
