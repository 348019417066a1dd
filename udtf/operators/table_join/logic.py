"""A join of two tables by primary key, kept up to date: an update meets at most one row of the other side.

Source: KIP-914 ("table-table joins"), semantics.md 8, B12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.table_join import rules
from udtf.record import Key, Side, Update, canonical_key
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

    @property
    def keeps_left(self) -> bool:
        """Left rows without a match are in the result."""
        return self.join != "inner"

    @property
    def keeps_right(self) -> bool:
        """Right rows without a match are in the result."""
        return self.join == "full"


class SideUpdate(NamedTuple):
    """An update of one side.

    Attributes:
        side: "L" or "R".
        time: of the update, microseconds.
        key: of its row, by which the sides meet.
        row: the payload now; None: it is deleted.
    """

    side: Side
    time: Micros
    key: Key
    row: tuple[Any, ...] | None


class Kept(NamedTuple):
    """The current row of a key, and its event time, microseconds."""

    time: Micros
    row: tuple[Any, ...]


def joined(
    config: TableJoinConfig, left: tuple[Any, ...] | None, right: tuple[Any, ...] | None
) -> tuple[Any, ...] | None:
    """The result row of a left and a right one, either of which may be none."""
    if not rules.is_joined(config.keeps_left, config.keeps_right, left is not None, right is not None):
        return None
    left = (None,) * len(config.left_columns) if left is None else left
    return left + ((None,) * len(config.right_columns) if right is None else right)


class TableJoinLogic:
    """The current rows of both sides, and what an update of one of them makes of the result."""

    def __init__(self, config: TableJoinConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._rows: dict[Side, dict[Key, Kept]] = {"L": {}, "R": {}}

    def on_batch(self, updates: Sequence[SideUpdate]) -> Emission:
        """Take updates in arrival order; a result row is the payload of the left side, then that of the right."""
        before, emission = dict(self.metrics), Emission()
        for update in updates:
            self.metrics.add("records")
            emission.updates += self._on_update(update)
        self.metrics.add("emitted", len(emission.updates))
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """The current rows and metrics."""
        state = {
            "left": [(*kept, key) for key, kept in self._rows["L"].items()],
            "right": [(*kept, key) for key, kept in self._rows["R"].items()],
            "metrics": self.metrics.snapshot(),
        }
        return seal(self.config.name, state)

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        sides: tuple[tuple[Side, str], ...] = (("L", "left"), ("R", "right"))
        for side, name in sides:
            # NB: keys again, since a NaN in one equals itself only as the one object of this process.
            self._rows[side] = {canonical_key(key): Kept(time, row) for time, row, key in parts[name]}
        self.metrics = Metrics(parts["metrics"])

    def _on_update(self, update: SideUpdate) -> list[Update]:
        side, time, key, new = update
        meets = canonical_key(key)
        found = None if None in meets else self._rows[_OTHER[side]].get(meets)  # of groups one may have no key: B10
        before = self._put(side, meets, time, new)
        keeps_own = self.config.keeps_left if side == "L" else self.config.keeps_right
        if not rules.shows(keeps_own, before is not None or new is not None, found is not None):
            return []
        old = self._joined(side, before.row if before else None, found)
        at = time if found is None else max(time, found.time)
        return [Update(key, at, old, self._joined(side, new, found))]

    def _joined(self, side: Side, row: tuple[Any, ...] | None, found: Kept | None) -> tuple[Any, ...] | None:
        """The result row of an own row and the one that it meets."""
        other = None if found is None else found.row
        return joined(self.config, row, other) if side == "L" else joined(self.config, other, row)

    def _put(self, side: Side, key: Key, time: Micros, row: tuple[Any, ...] | None) -> Kept | None:
        """Keep the row of a key, or forget it; the time of one that is gone is forgotten too (8.7).

        Returns:
            what was kept before.
        """
        rows = self._rows[side]
        before = rows.pop(key, None)
        if row is not None:
            rows[key] = Kept(time, row)
        return before
