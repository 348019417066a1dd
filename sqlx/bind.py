"""What the compiler asks of the engine and the catalog below it; Spark and replay answer each in their own way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from catalog.entries import Column, Entry
from sqlx.arrival import ROW, Arrival


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
    """

    name: str
    arrival: Arrival | None = None

    def of(self, entry: Entry) -> Entry:
        """The definition with this relation as its source.

        What a definition over a topic says of a record's own facts, the live relation has in its hidden column.
        """
        if not entry.topic or self.arrival is None:
            return replace(entry, relation=self.name)
        return replace(
            entry,
            relation=self.name,
            timestamp_by=f"{ROW}.time",
            sequence_by=entry.sequence_by and f"{ROW}.o0",
            delete_when=entry.delete_when and f"{ROW}.deleted",
        )


class Binder(Protocol):
    """Names and types, as the engine that will run the query sees them.

    Attributes:
        carries_arrival: live rows carry event time and order of arrival along in a hidden column.
    """

    carries_arrival: bool

    def entry(self, parts: tuple[str, ...]) -> Entry | None:
        """The definition of that (qualified) name in our catalog, or None."""
        ...

    def columns(self, query: str) -> tuple[Column, ...] | None:
        """The result columns of a plain SQL query, by asking the engine's analyzer.

        The query may read relations ``__sqlx_op1 …`` that were announced by :meth:`announce`.
        None where the engine refuses the query; :meth:`explain_refusal` says why.
        """
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

    def names(self) -> tuple[str, ...]:
        """Names of tables and views, for did-you-mean."""
        ...

    def view_text(self, parts: tuple[str, ...]) -> str | None:
        """The stored query of a view, so that a versioned table can be found behind it; None for other names."""
        ...

    def live(self, entry: Entry) -> LiveRead:
        """How the rows of a definition come live; queries may read the name from now on.

        Raises:
            NotLiveError: its source cannot be read as a stream.
        """
        ...
