"""Reads the statements that define, drop and list streams, versioned tables and upsert tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from catalog.definitions import KIND_NAMES, Definition, Drop, Refused, Show
from catalog.entries import Kind
from sqlx.cursor import Cursor
from sqlx.ddl_clauses import CLAUSES, Clauses
from sqlx.dialect import Token, tokenize
from sqlx.errors import BindError, TemporalParseError

__all__ = ["Definition", "Drop", "Show", "carets", "parse_definition"]

_OURS = re.compile(r"\b(?:STREAMS?|VERSIONED|UPSERT)\b", re.IGNORECASE)
_GAP = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)+", re.DOTALL)
_KINDS: dict[tuple[str, ...], Kind] = {
    ("STREAM",): "stream",
    ("VERSIONED", "TABLE"): "versioned",
    ("UPSERT", "TABLE"): "upsert",
}
_LISTS: dict[tuple[str, ...], Kind] = {
    ("STREAMS",): "stream",
    ("VERSIONED", "TABLES"): "versioned",
    ("UPSERT", "TABLES"): "upsert",
}


def parse_definition(text: str) -> Definition | Drop | Show | None:
    """Read one statement about definitions.

    Args:
        text: one statement; a semicolon at its end is fine.

    Returns:
        What it says, or None where it is no statement of this kind.

    Raises:
        TemporalParseError: it begins like one, but does not follow the grammar.
        LexicalError: a string or comment is not closed.

    >>> parse_definition("CREATE STREAM orders (id INT, ts TIMESTAMP) TIMESTAMP BY ts").timestamp_by
    'ts'
    >>> parse_definition("CREATE TABLE orders (id INT)") is None
    True
    """
    if not _OURS.search(text):
        return None
    tokens = tokenize(text)
    cursor = Cursor(text, tokens, stop=len(tokens) - bool(tokens and tokens[-1].text == ";"))
    if cursor.take("CREATE"):
        return _create(cursor)
    if cursor.take("DROP"):
        return _drop(cursor)
    return _show(text, cursor.last_end) if cursor.take("SHOW") else None


@contextmanager
def carets(text: str) -> Iterator[None]:
    """Turn what a catalog refuses into an error with the line and the caret.

    Raises:
        BindError: the catalog refused the statement.
    """
    try:
        yield
    except Refused as refused:
        raise BindError(refused.condition, text, refused.span, **refused.parameters) from refused.__cause__


def _kind(cursor: Cursor, kinds: dict[tuple[str, ...], Kind]) -> Kind | None:
    return next((kind for words, kind in kinds.items() if cursor.take(*words)), None)


def _create(cursor: Cursor) -> Definition | None:
    replace = cursor.take("OR", "REPLACE")
    is_global = cursor.take("GLOBAL")
    temporary = cursor.take("TEMPORARY") or cursor.take("TEMP")
    start = cursor.index
    kind = _kind(cursor, _KINDS)
    if kind is None:
        if cursor.word() in ("VERSIONED", "UPSERT") and not is_global:
            cursor.index += 1
            cursor.fail("TABLE")
        return None
    if is_global:
        _refuse_global(cursor, start, kind)
    if_not_exists = _optional(cursor, "IF", "NOT", "EXISTS")
    name = _name(cursor, kind)
    clauses = Clauses(cursor, kind)
    clauses.spans["NAME"] = (name[0].start, name[-1].end)
    if replace and if_not_exists:
        raise clauses.error("DEFINITION.REPLACE_OR_KEEP", clauses.spans["NAME"])
    if temporary and len(name) > 1:
        raise clauses.error("DEFINITION.TEMPORARY_NAME", clauses.spans["NAME"], name=".".join(t.name for t in name))
    clauses.read()
    clauses.check()
    return Definition(
        kind=kind,
        name=tuple(t.name for t in name),
        text=cursor.text,
        spans=clauses.spans,
        replace=replace,
        temporary=temporary,
        if_not_exists=if_not_exists,
        **clauses.values,
    )


def _refuse_global(cursor: Cursor, start: int, kind: Kind) -> None:
    """Kafka's global tables are copies that every task reads: they cannot be versioned (semantics.md 3)."""
    span = cursor.tokens[start - 1].start, cursor.last_end
    raise TemporalParseError("DEFINITION.GLOBAL", cursor.text, span, kind=KIND_NAMES[kind].capitalize())


def _optional(cursor: Cursor, *words: str) -> bool:
    """IF [NOT] EXISTS: once it has begun, all of it has to follow."""
    if cursor.take(*words):
        return True
    following = cursor.peek(1)
    if cursor.word() == words[0] and following and following.word in words:
        cursor.fail(" ".join(words))
    return False


def _name(cursor: Cursor, kind: Kind) -> list[Token]:
    token = cursor.peek()
    if token and (token.word in CLAUSES or token.word == "AS") and cursor.word(1) in ("BY", "SELECT"):
        cursor.fail(f"the name of {KIND_NAMES[kind]}")
    return cursor.path(f"the name of {KIND_NAMES[kind]}", "a name")


def _drop(cursor: Cursor) -> Drop | None:
    kind = _kind(cursor, _KINDS)
    if kind is None:
        if cursor.word() in ("VERSIONED", "UPSERT"):
            cursor.index += 1
            cursor.fail("TABLE")
        return None
    if_exists = _optional(cursor, "IF", "EXISTS")
    name = _name(cursor, kind)
    _end(cursor)
    return Drop(kind, tuple(t.name for t in name), cursor.text, (name[0].start, name[-1].end), if_exists)


def _show(text: str, end: int) -> Show | None:
    """What stands behind SHOW. sqlglot takes it for one string, so it is read as words and comments here."""
    words = _GAP.sub(" ", text[end:]).strip().rstrip("; ").upper().split()
    if tuple(words) in _LISTS:
        return Show(_LISTS[tuple(words)])
    if words[:1] in (["STREAMS"], ["VERSIONED"], ["UPSERT"]):
        found = " ".join(words)
        span = text.upper().find(words[0], end), len(text.rstrip())
        expected = "STREAMS, VERSIONED TABLES or UPSERT TABLES"
        raise TemporalParseError("PARSE.EXPECTED", text, span, expected=expected, found=f"`{found}`", hint="")
    return None


def _end(cursor: Cursor) -> None:
    if not cursor.done:
        cursor.fail("the end of the statement")
