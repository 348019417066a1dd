"""Statements about definitions as they were written: what the parser hands to a catalog. Nothing is resolved yet."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from catalog.entries import Column, Kind

_NAME = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
Offsets = tuple[int, int]

#: How a kind of definition is spelt in statements and called in messages.
KIND_WORDS: dict[Kind, str] = {"stream": "STREAM", "versioned": "VERSIONED TABLE", "upsert": "UPSERT TABLE"}
KIND_NAMES: dict[Kind, str] = {"stream": "a stream", "versioned": "a versioned table", "upsert": "an upsert table"}


class Refused(Exception):
    """A definition that does not fit; the front end adds the text and the caret.

    Args:
        condition: name of an error condition.
        span: offsets in the statement that the caret is under.
        parameters: the values of its message.
    """

    def __init__(self, condition: str, span: Offsets, **parameters: str) -> None:
        super().__init__(condition)
        self.condition, self.span, self.parameters = condition, span, parameters


@dataclass(frozen=True)
class Definition:
    """One CREATE STREAM, CREATE VERSIONED TABLE or CREATE UPSERT TABLE.

    Attributes:
        kind: what is defined.
        name: the parts of its name.
        text: the statement.
        spans: clause ("NAME", "KEYS", "TIMESTAMP BY" …) to its offsets; "KEYS id" for each key column.
        replace, temporary, if_not_exists: as written.
        columns: declared columns; the type is "" where only a name was written.
        using: the data source of USING, or ""; options: its OPTIONS.
        relation: what is after FROM, as written without alias, or "".
        relation_parts: its name, where it is a plain one.
        alias: the alias after FROM relation AS.
        from_stream: FROM STREAM was written.
        query: the query after AS, or "".
        valid: the two columns of VALID, for FROM SCD2 TABLE.
        keys … properties: as in :class:`catalog.entries.Entry`.
    """

    kind: Kind
    name: tuple[str, ...]
    text: str
    spans: dict[str, Offsets]
    replace: bool = False
    temporary: bool = False
    if_not_exists: bool = False
    columns: tuple[Column, ...] = ()
    using: str = ""
    options: tuple[tuple[str, str], ...] = ()
    relation: str = ""
    relation_parts: tuple[str, ...] = ()
    alias: str = ""
    from_stream: bool = False
    query: str = ""
    valid: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    timestamp_by: str = ""
    sequence_by: str | None = None
    delete_when: str | None = None
    retention_us: int | None = None
    late_to: str | None = None
    max_future_us: int | None = None
    properties: tuple[tuple[str, str], ...] = field(default=())

    @property
    def is_pushed(self) -> bool:
        """Whether it has columns only: rows come by INSERT, or from the driver in replay."""
        return not (self.using or self.relation or self.query)

    def span(self, clause: str) -> Offsets:
        """Offsets of a clause, or of the name where the clause was not written."""
        return self.spans.get(clause, self.spans["NAME"])


@dataclass(frozen=True)
class Drop:
    """One DROP STREAM, DROP VERSIONED TABLE or DROP UPSERT TABLE."""

    kind: Kind
    name: tuple[str, ...]
    text: str
    span: Offsets
    if_exists: bool = False


@dataclass(frozen=True)
class Show:
    """SHOW STREAMS, SHOW VERSIONED TABLES or SHOW UPSERT TABLES."""

    kind: Kind


def part_text(part: str) -> str:
    """One part of a name as it has to be written in SQL.

    >>> part_text("rates"), part_text("my `rates`")
    ('`rates`', '`my ``rates```')
    """
    return "`" + part.replace("`", "``") + "`"


def name_text(parts: tuple[str, ...]) -> str:
    """A qualified name, quoted.

    >>> name_text(("db", "rates"))
    '`db`.`rates`'
    """
    return ".".join(part_text(part) for part in parts)


def shown_name(parts: tuple[str, ...]) -> str:
    """A qualified name for people: quoted only where it must be.

    >>> shown_name(("db", "rates")), shown_name(("my rates",))
    ('db.rates', '`my rates`')
    """
    plain = (part if part.replace("_", "a").isalnum() and not part[0].isdigit() else part_text(part) for part in parts)
    return ".".join(plain)


def name_parts(name: str | tuple[str, ...]) -> tuple[str, ...]:
    """The parts of a qualified name, without quotes.

    >>> name_parts("`a.b`.c"), name_parts(("a.b", "c"))
    (('a.b', 'c'), ('a.b', 'c'))
    """
    if not isinstance(name, str):
        return name
    return tuple((quoted.replace("``", "`") or plain) for quoted, plain in _NAME.findall(name))
