"""Which edits of a query its state outlives: those of the text around its operators, which itself remembers nothing."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Final, Protocol

from sqlx.sql.parser import scan
from sqlx.sql.tokens import LexicalError, tokenize

#: Words of queries in which Spark keeps state of its own, or which do not answer row by row.
_REMEMBERS: Final = frozenset(
    {"DISTINCT", "EXCEPT", "GROUP", "INTERSECT", "JOIN", "LIMIT", "MINUS", "OVER", "UNION", "WATERMARK"}
)


class Text(Protocol):
    """The texts of a query.

    Attributes:
        query: as it was written.
        fingerprint: what its operators are, behind the query around them.
        operators: the end of that.
        held: the columns that only go through its states, see `LiveQuery.held`.
    """

    @property
    def query(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def operators(self) -> str: ...

    @property
    def held(self) -> str: ...


def keeps_state(stored: Text, wanted: Text) -> bool:
    """Whether a query may go on from the checkpoint of another text: its operators are the same, to the letter.

    Args:
        stored: what the checkpoint belongs to.
        wanted: what is to go on; table, sink, TASKS and the meaning of names are known to be the same.
    """
    if not stored.operators or stored.operators != wanted.operators:
        return False
    if _read(stored.query) != _read(wanted.query) or changed_type(stored, wanted):
        return False
    return not any(_words(_around(one)) & _REMEMBERS for one in (stored, wanted))


def changed_type(stored: Text, wanted: Text) -> str:
    """The first column of states that has another type now, in words; "" where there is none."""
    before, now = _columns(stored.held), _columns(wanted.held)
    name = next((name for name, column in before.items() if now.get(name, column) != column), None)
    if name is None:
        return ""
    (shown, kept), (_, read) = before[name], now[name]
    return f"its state holds {shown} as {kept.upper()}, its query reads {read.upper()}"


def further_columns(stored: Text, wanted: Text) -> list[str]:
    """The columns that states are to hold from now on, under the names of the query."""
    before = _columns(stored.held)
    return [shown for name, (shown, _) in _columns(wanted.held).items() if name not in before]


def _columns(held: str) -> dict[str, list[str]]:
    """By operator and column the name and the type; none of a checkpoint that did not note it."""
    found: dict[str, list[str]] = json.loads(held or "{}")
    return found


def _around(identity: Text) -> str:
    """The query around the operators."""
    return identity.fingerprint.removesuffix(identity.operators)


def _words(sql: str) -> frozenset[str]:
    """Its words, without JOIN LATERAL: what is made of each row alone, as the names of an operator's columns are."""
    try:
        words = [token.word for token in tokenize(sql)]
    except LexicalError:
        return _REMEMBERS
    return frozenset(word for word, after in pairwise([*words, ""]) if (word, after) != ("JOIN", "LATERAL"))


def _read(query: str) -> list[tuple[str, ...]] | None:
    """The relations that a query reads, in order: Spark tells sources apart by their places."""
    try:
        return [tuple(part.lower() for part in relation.parts) for relation in scan(query).read()]
    except LexicalError:
        return None
