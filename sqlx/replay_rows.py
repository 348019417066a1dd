"""From the rows of an operator's input fragment to the rows of its logic, by the column names of the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from catalog.entries import Column
from sqlx.replay_types import SparkType, parse_type
from sqlx.replay_values import to_micros
from udtf.record import Row, Side
from udtf.time import Micros

Values = tuple[Any, ...]


class RowShape:
    """Where an input's fragment has key, times, order and payload.

    Args:
        side: "L" or "R".
        columns: the fragment's columns, as :class:`sqlx.plan.AsOfJoin` names them.
    """

    def __init__(self, side: Side, columns: Sequence[Column]) -> None:
        self.side: Side = side
        names = [column.name for column in columns]
        self._keys = [n for n, name in enumerate(names) if name.startswith("__k") and name[3:].isdigit()]
        self.key_types: list[SparkType] = [parse_type(columns[n].type) for n in self._keys]
        self._time = _place(names, "__as_of" if side == "L" else "__time")
        self._sequence = _place(names, "__known" if side == "L" else "__seq")
        self._ties = [n for n, name in enumerate(names) if name.startswith("__tie")]
        self._ties += [n for n in [_place(names, "__arrival")] if n is not None]
        self._deleted, self._pass = _place(names, "__deleted"), _place(names, "__pass")
        self.payload = [n for n, name in enumerate(names) if not name.startswith("__")]

    @property
    def has_arrival(self) -> bool:
        """Whether the fragment itself orders rows of equal time (the two ends of an SCD2 row)."""
        return len(self._ties) > 0

    def row(self, values: Values, event_time: Micros | None) -> Row:
        """The logic's row.

        Args:
            values: one row of the fragment.
            event_time: of the record that it came from; without one it has no place in time (semantics.md A).
        """
        time = event_time if self._time is None else to_micros(values[self._time])
        return Row(
            self.side,
            tuple([values[n] for n in self._keys]),
            None if self.side == "L" and event_time is None else time,
            tuple([values[n] for n in self.payload]),
            event_time=event_time,
            sequence=None if self._sequence is None else to_micros(values[self._sequence]),
            ties=tuple([values[n] for n in self._ties]),
            is_tombstone=self._deleted is not None and values[self._deleted] is True,
            passes=self._pass is None or values[self._pass] is True,
        )


def _place(names: list[str], name: str) -> int | None:
    return names.index(name) if name in names else None
