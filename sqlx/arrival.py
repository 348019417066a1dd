"""What a live row carries along beside its columns: its event time, and its place in the order of arrival.

On Spark a live relation has one hidden column, ``__row``, a struct of these. Fragments read it where they can see it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlx.dialect import quoted

ROW = "__row"


def is_order(column: str) -> bool:
    """Whether a column of a fragment or a result is one of those that say how rows arrived."""
    return column.startswith("__o") and column[3:].isdigit()


def is_carried(column: str) -> bool:
    """Whether it is one of those that live rows carry along."""
    return column == "__event_time" or is_order(column)


@dataclass(frozen=True)
class Arrival:
    """Expressions by which a live row says when it happened and when it came.

    Attributes:
        time: its event time, or None where nothing shows it.
        order: ORDER BY expressions, () is as delivered.
        is_sequence: the order is SEQUENCE BY, the same in every run.
    """

    time: str | None = None
    order: tuple[str, ...] = ()
    is_sequence: bool = False

    @property
    def struct(self) -> str:
        """The hidden column that hands this on."""
        fields = [f"'time', {self.time}", *(f"'o{n}', {expression}" for n, expression in enumerate(self.order))]
        return f"named_struct({', '.join(fields)})"

    def of(self, relation: str) -> Arrival:
        """The same, read from the hidden column of a relation; "" is a subquery without a name."""
        column = f"{quoted(relation)}.{ROW}" if relation else ROW
        return Arrival(f"{column}.time", tuple(f"{column}.o{n}" for n in range(len(self.order))), self.is_sequence)

    def behind(self, alias: str) -> Arrival:
        """What the rows of an operator's result carry along: the order of the rows that caused them, then a number."""
        prefix = f"{alias}." if alias else ""
        count = len(self.order) + 1 if self.order else 0
        return Arrival(
            f"{prefix}__event_time", tuple(f"{prefix}__o{n}" for n in range(count)), is_sequence=self.is_sequence
        )

    @property
    def items(self) -> list[str]:
        """Select list items under the names that operators read."""
        time = [] if self.time is None else [f"{self.time} AS __event_time"]
        return time + [f"{expression} AS __o{n}" for n, expression in enumerate(self.order)]
