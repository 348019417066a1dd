"""What the compiler asks of the engine and the catalog below it; Spark and replay answer each in their own way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from catalog.entries import Column, Entry
from sqlx.sql.tokens import Span, quoted
from udtf.columns.names import is_order, is_row_key

# What a live row carries along beside its columns: its event time, and its place in the order of arrival.
#
# On Spark a live relation has one hidden column, ``__row``, a struct of these. Fragments read it where they can see it.


ROW = "__row"


def is_row_order(column: str) -> bool:
    """Whether it is one of those that live rows carry along."""
    return column == "__event_time" or is_order(column) or is_row_key(column)


@dataclass(frozen=True)
class RowOrder:
    """Expressions by which a live row says when it happened and when it came.

    Attributes:
        time: its event time, or None where nothing shows it.
        order: ORDER BY expressions, () is as delivered.
        is_sequence: the order is SEQUENCE BY, the same in every run.
        key: of a row of a table the columns of its key, under which each of its updates is known.
    """

    time: str | None = None
    order: tuple[str, ...] = ()
    is_sequence: bool = False
    key: tuple[str, ...] = ()

    @property
    def struct(self) -> str:
        """The hidden column that hands this on."""
        time = self.time or "CAST(NULL AS TIMESTAMP)"
        fields = [f"'time', {time}", *(f"'o{n}', {expression}" for n, expression in enumerate(self.order))]
        fields += [f"'u{n}', {expression}" for n, expression in enumerate(self.key)]
        return f"named_struct({', '.join(fields)})"

    def of(self, relation: str) -> RowOrder:
        """The same, read from the hidden column of a relation; "" is a subquery without a name."""
        column = f"{quoted(relation)}.{ROW}" if relation else ROW
        order = tuple(f"{column}.o{n}" for n in range(len(self.order)))
        key = tuple(f"{column}.u{n}" for n in range(len(self.key)))
        return RowOrder(f"{column}.time" if self.time else None, order, self.is_sequence, key)

    def behind(self, alias: str) -> RowOrder:
        """What the rows of an operator's result carry along: the order of the rows that caused them, then a number."""
        prefix = f"{alias}." if alias else ""
        count = len(self.order) + 1 if self.order else 0
        return RowOrder(
            f"{prefix}__event_time", tuple(f"{prefix}__o{n}" for n in range(count)), is_sequence=self.is_sequence
        )

    @property
    def is_gone(self) -> str:
        """Of a row of a table: whether it says no more than that its key has no row; see `udtf.columns.updates`."""
        return f"{self.order[-1]} & 3 = 2"

    @property
    def named(self) -> dict[str, str]:
        """The names that operators read, and the expression of each."""
        time = {} if self.time is None else {"__event_time": self.time}
        order = {f"__o{n}": expression for n, expression in enumerate(self.order)}
        return time | order | {f"__u{n}": expression for n, expression in enumerate(self.key)}

    @property
    def items(self) -> list[str]:
        """The same as select list items."""
        return [f"{expression} AS {name}" for name, expression in self.named.items()]


@dataclass(frozen=True)
class Ordered:
    """A definition whose bounded rows show how they arrived.

    Attributes:
        entry: the definition; its relation is a query where that takes what its rows are made of.
        is_sequence: they arrived by a SEQUENCE BY, its own or that of the stream which it reads.
    """

    entry: Entry
    is_sequence: bool


#: Says of a definition how its bounded rows arrived.
InOrder = Callable[[Entry], Ordered]


class NotLiveError(Exception):
    """A definition's source cannot be read as a stream.

    Args:
        reason: why, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class LiveRead:
    """How a definition is read live.

    Attributes:
        name: the relation's name in the queries of the plan.
        arrival: what its rows carry along, as expressions over the relation; None in replay, which knows it by itself.
        shows_deleted: the hidden column says which rows delete their key.
    """

    name: str
    arrival: RowOrder | None = None
    shows_deleted: bool = False

    def of(self, entry: Entry) -> Entry:
        """The definition with this relation as its source.

        What a definition over a topic says of a record's own facts, and one over a table that changes of its
        deletions, the live relation has in its hidden column.
        """
        if self.arrival is None or not (entry.topic or self.shows_deleted):
            return replace(entry, relation=self.name)
        return replace(
            entry,
            relation=self.name,
            timestamp_by=f"{ROW}.time",
            sequence_by=entry.sequence_by and f"{ROW}.o0",
            delete_when=f"{ROW}.deleted" if self.shows_deleted else None,
        )


class Binder(Protocol):
    """Names and types, as the engine that will run the query sees them.

    Attributes:
        carries_row_order: live rows carry event time and order of arrival along in a hidden column.
        case_sensitive: names that differ in case only are two names.
    """

    carries_row_order: bool

    @property
    def case_sensitive(self) -> bool: ...

    def entry(self, parts: tuple[str, ...]) -> Entry | None:
        """The definition of that (qualified) name in our catalog, or None."""
        ...

    def columns(self, query: str) -> tuple[Column, ...] | None:
        """The result columns of a plain SQL query, by asking the engine's analyzer.

        The query may read relations ``__sqlx_op1 …`` that were announced by :meth:`announce`.
        None where the engine refuses the query; :meth:`explain_refusal` says why.
        """
        ...

    def is_stream(self, query: str) -> bool:
        """Whether a query that the engine takes reads a stream of the engine's own; definitions are no such streams."""
        ...

    def refusal(self) -> Exception | None:
        """The engine's own error for the query that :meth:`columns` refused last."""
        ...

    def announce(self, name: str, columns: tuple[Column, ...]) -> None:
        """Make a relation of these columns known to :meth:`columns`, for the result of an operator."""
        ...

    def common_type(self, left: str, right: str) -> str | None:
        """The type in which the engine compares two types with ``=``, or None where it refuses to."""
        ...

    def arrival(self, relation: str) -> str:
        """A bigint expression over the rows of a relation that gives their order of arrival (bounded reads)."""
        ...

    def insert_target(self, entry: Entry) -> str | None:
        """The data table into which INSERT INTO the definition appends; None where rows cannot be inserted."""
        ...

    def state_relation(self, name: str, text: str, span: Span) -> str:
        """A relation of what a streaming query keeps, by the query's name or its checkpoint.

        Raises:
            TemporalSqlError: there is no such query, or it keeps nothing that could be read here.
        """
        ...

    def names(self) -> tuple[str, ...]:
        """Names of tables and views, for did-you-mean."""
        ...

    def is_variable(self, name: str) -> bool:
        """Whether a name that is no column is a variable of the session."""
        ...

    def is_parameter(self, name: str) -> bool:
        """Whether a name that is no column is a parameter of the function whose body this is: only Spark reads it."""
        ...

    def view_text(self, parts: tuple[str, ...]) -> str | None:
        """The stored query of a view, so that a versioned table can be found behind it; None for other names."""
        ...

    def viewed(self, parts: tuple[str, ...]) -> Entry | None:
        """A view of the engine's over definitions, as a stream of the rows that it shows; None for all other names.

        It has no TIMESTAMP BY: event time and order are those of the rows that it is made of.
        """
        ...

    def live(self, entry: Entry) -> LiveRead:
        """How the rows of a definition come live; queries may read the name from now on.

        Raises:
            NotLiveError: its source cannot be read as a stream.
        """
        ...
