"""A join of two tables, kept up to date: each update of one side changes what its key shows with the other.

By primary key both sides have the same key, and an update meets at most one row. By foreign key a column of the left
row is the key of the right, so that an update of the right meets every left row that points to it.

Source: KIP-914 ("table-table joins"), KIP-213, semantics.md 8, 9, B12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.record import Key, Side, Update, canonical_key, order_key
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros

JoinKind: TypeAlias = Literal["inner", "left", "full"]
_OTHER: dict[Side, Side] = {"L": "R", "R": "L"}


@dataclass(frozen=True)
class TableJoinConfig:
    """Everything that is to be known of a join.

    Attributes:
        join: which rows without a match are kept: none, the left ones, or those of both sides.
        n_keys: how many columns the key has by which the sides meet.
        left_columns: names of the left side's payload columns, in order.
        right_columns: the same of the right side.
        is_foreign: they meet by columns of the left that are not its key.
        name: the operator's name in messages.
    """

    join: JoinKind = "inner"
    n_keys: int = 1
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    is_foreign: bool = False
    name: str = "table_join"


class SideUpdate(NamedTuple):
    """An update of one side.

    Attributes:
        side: "L" or "R".
        key: of its row.
        time: of the update, microseconds.
        meets: the key by which the row now meets the other side; of a row that is gone the key that it had. By foreign
            key None where the left row is gone, or its foreign key is NULL.
        row: the payload now; None: it is deleted.
    """

    side: Side
    key: Key
    time: Micros
    meets: Key | None
    row: tuple[Any, ...] | None


class _Kept(NamedTuple):
    """The current row of a key, its event time, and by foreign key what it points to."""

    time: Micros
    row: tuple[Any, ...]
    meets: Key | None = None


class TableJoinLogic:
    """The current rows of both sides, and what an update of one of them makes of the result."""

    def __init__(self, config: TableJoinConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._rows: dict[Side, dict[Key, _Kept]] = {"L": {}, "R": {}}
        self._pointing: dict[Key, dict[Key, Key]] = {}  # foreign key to the left keys, as they came
        self._emission = Emission()

    def on_batch(self, updates: Sequence[SideUpdate]) -> Emission:
        """Take updates in arrival order; a result row is the payload of the left side, then that of the right."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        for update in updates:
            self.metrics.add("records")
            if not self.config.is_foreign:
                self._by_primary_key(update)
            elif update.side == "L":
                self._left_by_foreign_key(update)
            else:
                self._right_by_foreign_key(update)
        self.metrics.add("emitted", len(emission.updates))
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """The current rows and metrics."""
        state = {
            "left": [(kept.time, kept.row, kept.meets, key) for key, kept in self._rows["L"].items()],
            "right": [(kept.time, kept.row, kept.meets, key) for key, kept in self._rows["R"].items()],
            "pointing": [(key, list(left.values())) for key, left in self._pointing.items()],
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        sides: tuple[tuple[Side, str], ...] = (("L", "left"), ("R", "right"))
        for side, name in sides:
            # NB: keys again, since a NaN in one equals itself only as the one object of this process.
            self._rows[side] = {
                canonical_key(key): _Kept(time, row, None if meets is None else canonical_key(meets))
                for time, row, meets, key in parts[name]
            }
        self._pointing = {
            canonical_key(key): {canonical_key(left): left for left in lefts} for key, lefts in parts["pointing"]
        }
        self.metrics = Metrics(parts["metrics"])

    # by primary key

    def _by_primary_key(self, update: SideUpdate) -> None:
        side, _, time, key, new = update
        assert key is not None, "a row without a key is in no table"
        meets = canonical_key(key)
        found = None if None in meets else self._rows[_OTHER[side]].get(meets)  # of groups one may have no key: B10
        before = self._put(side, meets, time, new)
        if not self._shows(side, before is not None or new is not None, found):
            return
        old = self._joined(side, before.row if before else None, found)
        at = time if found is None else max(time, found.time)
        self._emit(key, at, old, self._joined(side, new, found))

    def _shows(self, side: Side, has_row: bool, found: _Kept | None) -> bool:
        """Whether an update is an update of the result: 8.4 to 8.6; a deletion of what was not there can be one."""
        keeps_own = self.config.join == "full" or (self.config.join == "left" and side == "L")
        return found is not None or (keeps_own and has_row)

    def _joined(self, side: Side, row: tuple[Any, ...] | None, found: _Kept | None) -> tuple[Any, ...] | None:
        """The result row of an own row and the one that it meets, either of which may be none."""
        other = None if found is None else found.row
        return self._result(row, other) if side == "L" else self._result(other, row)

    def _result(self, left: tuple[Any, ...] | None, right: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        join = self.config.join
        if (left is None and (right is None or join != "full")) or (right is None and join == "inner"):
            return None
        left = (None,) * len(self.config.left_columns) if left is None else left
        return left + ((None,) * len(self.config.right_columns) if right is None else right)

    # by foreign key

    def _left_by_foreign_key(self, update: SideUpdate) -> None:
        _, key, time, pointed, new = update
        meets = None if pointed is None else canonical_key(pointed)
        before = self._rows["L"].get(canonical_key(key))
        had = before.meets if before else None
        self._put("L", canonical_key(key), time, new, meets)
        if had != meets:
            self._point(key, had, meets)
        target = self._right(meets)
        old = self._result(before.row, _row(self._right(had))) if before else None
        if self.config.join == "left":
            shows, asked = before is not None or new is not None, target if new is not None else self._right(had)
        elif meets is None:  # the row is gone, or points to nothing
            shows, asked = had is not None, self._right(had)
        else:  # a row that points to something else deletes what may never have been there: 9.2
            shows, asked = target is not None or had not in (None, meets), target
        if shows:
            self._emit(key, time if asked is None else max(time, asked.time), old, self._result(new, _row(target)))

    def _right_by_foreign_key(self, update: SideUpdate) -> None:
        _, _, time, key, new = update
        assert key is not None, "a row without a key is in no table"
        meets = canonical_key(key)
        before = _row(self._put("R", meets, time, new))
        pointing = self._pointing.get(meets, {})
        for left in sorted(pointing, key=lambda pointer: order_key(pointing[pointer])):
            row = self._rows["L"][left].row
            self._emit(pointing[left], time, self._result(row, before), self._result(row, new))

    def _right(self, meets: Key | None) -> _Kept | None:
        return None if meets is None else self._rows["R"].get(meets)

    def _point(self, key: Key, had: Key | None, meets: Key | None) -> None:
        """Let a left row point to something else."""
        if had is not None:
            self._pointing[had].pop(canonical_key(key), None)
            if not self._pointing[had]:
                del self._pointing[had]
        if meets is not None:
            self._pointing.setdefault(meets, {})[canonical_key(key)] = key

    # both

    def _put(
        self, side: Side, key: Key, time: Micros, row: tuple[Any, ...] | None, meets: Key | None = None
    ) -> _Kept | None:
        """Keep the row of a key, or forget it; the time of one that is gone is forgotten too (8.7).

        Returns:
            what was kept before.
        """
        rows = self._rows[side]
        before = rows.pop(key, None)
        if row is not None:
            rows[key] = _Kept(time, row, meets)
        return before

    def _emit(self, key: Key, time: Micros, old: tuple[Any, ...] | None, new: tuple[Any, ...] | None) -> None:
        self._emission.updates.append(Update(key, time, old, new))


def _row(kept: _Kept | None) -> tuple[Any, ...] | None:
    return None if kept is None else kept.row
