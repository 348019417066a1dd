"""What a checkpoint belongs to, and which edits of a query its state outlives.

Those are edits of the text around its operators, which itself remembers nothing, and of what the operators hand on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from sqlx.sql.parser import scan
from sqlx.sql.tokens import LexicalError, tokenize

#: Words of queries in which Spark keeps state of its own, or which do not answer row by row.
_REMEMBERS: Final = frozenset(
    {"DISTINCT", "EXCEPT", "GROUP", "INTERSECT", "JOIN", "LIMIT", "MINUS", "OVER", "UNION", "WATERMARK"}
)
_SHOWN: Final = 60
#: Ends the format of a sink to whose table changes are applied: it has all rows, or is none.
UPSERTED: Final = " OPTIONS (write.mode 'upsert')"


@dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to.

    Attributes:
        query: the query as written.
        fingerprint: what its operators, TASKS and state are, as text.
        tasks: TASKS.
        table: the name of the table, or of the sink's query.
        sink: the format of the sink.
        location: where the table's files are; "" where the sink has none.
        meaning: what the names in the query mean.
        operators: the end of the fingerprint, without the query around the operators.
        state: where the state of its operators is, see `sqlx.streaming.backend`.
        partitions: over how many partitions its tasks are spread, where Spark does not say it.
        backfill: BACKFILL as written, or "".
        held: the columns that only go through its states, see `LiveQuery.held`.
    """

    query: str
    fingerprint: str
    tasks: int
    table: str
    sink: str
    location: str = ""
    meaning: str = ""
    operators: str = ""
    state: str = "store"
    partitions: int = 0
    backfill: str = ""
    held: str = ""


def is_edited(stored: Identity, wanted: Identity) -> bool:
    """Whether its state outlives what differs: the text around the operators, and where the rows go from now on."""
    same = replace(wanted, query=stored.query, fingerprint=stored.fingerprint)
    if UPSERTED not in stored.sink + wanted.sink:
        same = replace(same, sink=stored.sink, location=stored.location)
    if difference_of(stored, same):
        return False
    return stored.fingerprint == wanted.fingerprint or keeps_state(stored, wanted)


def goes_elsewhere(stored: Identity, wanted: Identity) -> bool:
    """Whether the rows from now on go to another sink, or to another place."""
    return (stored.sink, stored.location) != (wanted.sink, wanted.location)


def difference_of(stored: Identity, wanted: Identity) -> str:
    """What differs, in words; "" where nothing does.

    >>> one = Identity("SELECT 1", "f", 16, "t", "parquet")
    >>> difference_of(one, Identity("SELECT 1", "g", 8, "t", "parquet"))
    'it was written with TASKS 16, this is TASKS 8'
    """
    if stored.table != wanted.table:
        return f"it is that of `{stored.table}`, this is `{wanted.table}`"
    if stored.sink != wanted.sink:
        return f"it was written with USING {stored.sink}, this is USING {wanted.sink}"
    if stored.tasks != wanted.tasks:
        return f"it was written with TASKS {stored.tasks}, this is TASKS {wanted.tasks}"
    if stored.backfill != wanted.backfill:
        before, now = (one.backfill or "no BACKFILL" for one in (stored, wanted))
        return f"it was begun with {before}, this is with {now}"
    if stored.location != wanted.location:
        return f"its rows are in {stored.location}, these would go to {wanted.location}"
    changed = _changed_meaning(stored.meaning, wanted.meaning)
    other_type = changed_type(stored, wanted)
    if other_type or stored.fingerprint == wanted.fingerprint:
        return changed or other_type
    old, new = " ".join(stored.query.split()), " ".join(wanted.query.split())
    if old == new:
        return (
            changed or "what the names in its query mean has changed since (a definition, its columns or its retention)"
        )
    before, now = _where_they_differ(old, new)
    return f"its query reads {before}, this one {now}"


def _changed_meaning(stored: str, wanted: str) -> str:
    old, new = (dict(line.split(": ", 1) for line in text.splitlines()) for text in (stored, wanted))
    changed = next((name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)), None)
    if changed is None:
        return ""
    before, now = _where_they_differ(old.get(changed, "nothing"), new.get(changed, "nothing"))
    return f"`{changed}` was {before}, it is {now}"


def _where_they_differ(old: str, new: str) -> tuple[str, str]:
    """The parts of two texts around the first place at which they differ."""
    at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return _shown_around(old, at), _shown_around(new, at)


def _shown_around(text: str, at: int) -> str:
    """The part of a query that differs."""
    start = max(0, text.rfind(" ", 0, max(0, at - 20)) + 1) if at > 20 else 0
    part = text[start : start + _SHOWN]
    return f"`{'…' if start else ''}{part}{'…' if start + _SHOWN < len(text) else ''}`"


def keeps_state(stored: Identity, wanted: Identity) -> bool:
    """Whether a query may go on from the checkpoint of another text: its operators are the same, to the letter.

    Args:
        stored: what the checkpoint belongs to.
        wanted: what is to go on; table, sink, TASKS and the meaning of names are known to be the same.
    """
    if stored.operators != wanted.operators:
        return False
    if _read(stored.query) != _read(wanted.query) or changed_type(stored, wanted):
        return False
    return not any(_words(_around(one)) & _REMEMBERS for one in (stored, wanted))


def changed_type(stored: Identity, wanted: Identity) -> str:
    """The first column of states that has another type now, in words; "" where there is none."""
    before, now = _columns(stored.held), _columns(wanted.held)
    name = next((name for name, column in before.items() if now.get(name, column) != column), None)
    if name is None:
        return ""
    (shown, kept), (_, read) = before[name], now[name]
    return f"its state holds {shown} as {kept.upper()}, its query reads {read.upper()}"


def further_columns(stored: Identity, wanted: Identity) -> list[str]:
    """The columns that states are to hold from now on, under the names of the query."""
    before = _columns(stored.held)
    return [shown for name, (shown, _) in _columns(wanted.held).items() if name not in before]


def _columns(held: str) -> dict[str, list[str]]:
    """By operator and column the name and the type."""
    found: dict[str, list[str]] = json.loads(held or "{}")
    return found


def _around(identity: Identity) -> str:
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
