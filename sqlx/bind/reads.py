"""Reads of definitions that are plain SQL: history(t), a table as of a constant time, INSERT INTO a definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from catalog.entries import Entry
from catalog.relations import as_of_sql, current_rows_sql, history_sql
from sqlx.bind.binder import Binder, InOrder, LiveRead, NotLiveError
from sqlx.bind.refusals import check_known
from sqlx.errors import BindError, UnsupportedError
from sqlx.sql.parser import scan
from sqlx.sql.structure import FromItem, Level, Relation
from sqlx.sql.tokens import Span, Token, tokenize, tokenize_span, unquoted

#: In the view of a definition: the rows of now, in the order of rows that operators make.
CURRENT_ROWS = "sqlx_current_rows"


def rewritten_read(text: str, relation: Relation, binder: Binder, in_order: InOrder) -> tuple[Span, str] | None:
    """The edit that turns a special read of a definition into plain SQL; None for every other relation.

    Args:
        text: the statement.
        relation: one of its relations.
        binder: names and types.
        in_order: of a definition how its rows arrived.

    Raises:
        BindError: history of something that keeps none, or a version by its number.
    """
    if relation.kind == "function" and relation.call == "history":
        return _history(text, relation, binder, in_order)
    if relation.kind == "function" and relation.call == CURRENT_ROWS:
        return _current(text, relation, binder, in_order)
    if relation.kind == "function" and relation.call == "state":
        return _state(text, relation, binder)
    if relation.kind == "name" and relation.travel is not None and relation.travel_time is not None:
        return _as_of(text, relation, binder, in_order)
    return None


def query_behind(binder: Binder, entry: Entry) -> str | None:
    """The query of a definition over another versioned table; None for a definition over anything else."""
    query = query_of(binder, entry)
    return query if query is not None and names_versions(binder, scan(query)) else None


def query_of(binder: Binder, entry: Entry) -> str | None:
    """The query that a definition is over, be it the name of another one; None where it is over a table or files."""
    if entry.relation.startswith("("):
        return entry.relation[1:-1]
    parts = tuple(token.name for token in tokenize(entry.relation) if token.is_name)
    return binder.view_text(parts) if binder.entry(parts) is None else f"SELECT * FROM {entry.relation}"


def names_versions(binder: Binder, root: Level) -> bool:
    """Whether rows of a stored query are versions of a table; another one reads like a plain table.

    An AS OF join picks from the versions on its right side: its rows are those of its left one.
    """
    if any(level.recursive for level in root.walk()):
        return False
    items = [item for block in root.blocks for item in block.items]
    return any(shows_versions(binder, relation, root) for item in items for relation in _kept_relations(item))


def _kept_relations(item: FromItem) -> Iterator[Relation]:
    """The relations whose rows a FROM item hands on."""
    for relation in (item.relation, *(join.relation for join in item.joins if join.as_of is None)):
        yield from (relation,) if relation.group is None else _kept_relations(relation.group)


def shows_versions(binder: Binder, relation: Relation, level: Level) -> bool:
    """Whether the rows of a relation are versions of a table, and not as of one time; by its name or a query."""
    if relation.travel is not None:
        return False
    if relation.inner is not None:
        return shows_versions(binder, relation.inner, level)
    query = level.query_of(relation)
    if query is not None or not relation.parts:
        return query is not None and names_versions(binder, query)
    entry, view = binder.entry(relation.parts), binder.view_text(relation.parts)
    is_versioned = entry is not None and entry.kind == "versioned"
    return is_versioned or (view is not None and names_versions(binder, scan(view)))


def _history(text: str, relation: Relation, binder: Binder, in_order: InOrder) -> tuple[Span, str] | None:
    names = _argument(text, relation)
    entry = binder.entry(tuple(t.name for t in names)) if names and all(t.is_name for t in names) else None
    if entry is None:
        if binder.columns(f"SELECT * FROM {relation.body.of(text)}") is None:
            _refuse_history(text, relation, names, binder)
        return None  # somebody's own function of that name
    _needs_versions(text, entry, relation, "history()")
    _refuse_derived(text, relation, binder, entry)
    return relation.body, f"({history_sql(in_order(entry).entry)})"


def _argument(text: str, call: Relation) -> list[Token]:
    """The parts of the name that a table function takes."""
    return [token for token in tokenize_span(text, call.body)[2:-1] if token.text != "."]


def _current(text: str, relation: Relation, binder: Binder, in_order: InOrder) -> tuple[Span, str] | None:
    entry = binder.entry(tuple(token.name for token in _argument(text, relation)))
    return None if entry is None else (relation.body, f"({current_rows_sql(in_order(entry).entry)})")


def _refuse_history(text: str, relation: Relation, names: list[Token], binder: Binder) -> NoReturn:
    """Say what history() takes.

    Raises:
        BindError: always.
    """
    if not names or not all(t.is_name for t in names):
        raise BindError("BIND.HISTORY_NAME", text, relation.body.pair)
    name, span = ".".join(t.name for t in names), Span(names[0].start, names[-1].end)
    check_known(binder, text, span, name, span.of(text))
    raise BindError("BIND.NO_HISTORY", text, span.pair, what="history()", name=name, found="a plain relation")


def _state(text: str, relation: Relation, binder: Binder) -> tuple[Span, str] | None:
    given = tokenize_span(text, relation.body)[2:-1]
    if len(given) != 1 or given[0].kind != "string":
        raise BindError("BIND.STATE_NAME", text, relation.body.pair)
    alias = "" if relation.alias is not None else " AS state"
    return relation.body, binder.state_relation(unquoted(given[0]), text, relation.body) + alias


def _as_of(text: str, relation: Relation, binder: Binder, in_order: InOrder) -> tuple[Span, str] | None:
    entry = binder.entry(relation.parts)
    if entry is None or relation.travel is None or relation.travel_time is None:
        return None
    _needs_versions(text, entry, relation, "AS OF a time")
    if relation.travel_kind.endswith("VERSION"):
        raise BindError("BIND.VERSION_NUMBER", text, relation.travel.pair, name=entry.name)
    _refuse_derived(text, relation, binder, entry)
    time = relation.travel_time.of(text)
    alias = "" if relation.alias is not None else f" AS {relation.parts[-1]}"
    return Span(relation.body.start, relation.travel.end), f"({as_of_sql(in_order(entry).entry, time)}){alias}"


def _refuse_derived(text: str, relation: Relation, binder: Binder, entry: Entry) -> None:
    if query_behind(binder, entry) is not None:
        raise BindError("BIND.DERIVED_HISTORY", text, relation.body.pair, name=entry.name)


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
