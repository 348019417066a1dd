"""Reads of definitions that are plain SQL: history(t), a table as of a constant time, INSERT INTO a definition."""

from __future__ import annotations

from collections.abc import Callable

from catalog.entries import Entry
from catalog.relations import as_of_sql, history_sql
from sqlx.bind.binder import Binder, LiveRead, NotLiveError
from sqlx.errors import BindError, UnsupportedError
from sqlx.sql.structure import Relation
from sqlx.sql.tokens import Span, Token, tokenize, tokenize_span


def rewritten_read(
    text: str, relation: Relation, binder: Binder, query_behind: Callable[[Entry], str | None]
) -> tuple[Span, str] | None:
    """The edit that turns a special read of a definition into plain SQL; None for every other relation.

    Args:
        text: the statement.
        relation: in one of its FROM clauses.
        binder: names and types.
        query_behind: the query of a definition over another versioned table.

    Raises:
        BindError: history of something that keeps none, or a version by its number.
    """
    found = None
    if relation.kind == "function" and relation.call == "history":
        found = _history(text, relation, binder)
    elif relation.kind == "name" and relation.travel is not None and relation.travel_time is not None:
        found = _as_of(text, relation, binder)
    if found is None:
        return None
    entry, edit = found
    if query_behind(entry) is not None:
        raise BindError("BIND.DERIVED_HISTORY", text, relation.body.pair, name=entry.name)
    return edit


_Read = tuple[Entry, tuple[Span, str]]


def _history(text: str, relation: Relation, binder: Binder) -> _Read | None:
    names = [t for t in tokenize_span(text, relation.body)[2:-1] if t.text != "."]
    if not names or not all(t.is_name for t in names):
        return None
    entry = binder.entry(tuple(t.name for t in names))
    if entry is None:
        return None
    _needs_versions(text, entry, relation, "history()")
    return entry, (relation.body, f"({history_sql(entry)})")


def _as_of(text: str, relation: Relation, binder: Binder) -> _Read | None:
    entry = binder.entry(relation.parts)
    if entry is None or relation.travel is None or relation.travel_time is None:
        return None
    _needs_versions(text, entry, relation, "AS OF a time")
    if relation.travel_kind.endswith("VERSION"):
        raise BindError("BIND.VERSION_NUMBER", text, relation.travel.pair, name=entry.name)
    time = relation.travel_time.of(text)
    alias = "" if relation.alias is not None else f" AS {relation.parts[-1]}"
    return entry, (Span(relation.body.start, relation.travel.end), f"({as_of_sql(entry, time)}){alias}")


def _needs_versions(text: str, entry: Entry, relation: Relation, what: str) -> None:
    if entry.kind != "versioned":
        found = "a stream" if entry.kind == "stream" else "an upsert table"
        raise BindError("BIND.NO_HISTORY", text, relation.body.pair, what=what, name=entry.name, found=found)


def insert_target(text: str, binder: Binder) -> tuple[Span, str] | None:
    """The edit by which INSERT INTO a definition of columns only appends to its data table; None for all others.

    Raises:
        UnsupportedError: the definition reads another relation.
    """
    found = insert_name(tokenize(text))
    entry = binder.entry(found[0]) if found else None
    if found is None or entry is None:
        return None
    target = binder.insert_target(entry)
    if target is None:
        raise UnsupportedError("UNSUPPORTED.INSERT", text, found[1].pair, name=entry.name)
    return found[1], target


def insert_name(tokens: tuple[Token, ...]) -> tuple[tuple[str, ...], Span] | None:
    """The target of an INSERT: its name's parts and where they stand; None for other statements."""
    if not tokens or tokens[0].word != "INSERT" or len(tokens) < 3 or tokens[1].word != "INTO":
        return None
    at = 3 if tokens[2].word == "TABLE" and len(tokens) > 3 and tokens[3].is_name else 2
    start = at
    while at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    parts = tuple(t.name for t in tokens[start : at + 1 : 2])
    return parts, Span(tokens[start].start, tokens[at].end)


def live_read(binder: Binder, entry: Entry, text: str, span: Span) -> LiveRead:
    """How a definition is read live.

    Raises:
        UnsupportedError: its source is no stream.
    """
    try:
        return binder.live(entry)
    except NotLiveError as error:
        raise UnsupportedError(
            "STREAMING.SOURCE_NOT_LIVE", text, span.pair, name=entry.name, reason=error.reason
        ) from error
