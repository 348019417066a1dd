"""A replay script: definitions and exactly one query, read in order, bound, and compiled for live rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import get_ident
from typing import NoReturn

from sqlglot.errors import ParseError

from catalog import MemoryCatalog
from catalog.binding import bind_entry, declared_relation
from catalog.definitions import KIND_WORDS, Definition, Drop
from catalog.entries import Entry
from sqlx.bind.comparison import check_collation
from sqlx.bind.spark_errors import closest, near_miss_error
from sqlx.errors import BindError, TemporalParseError, TemporalSqlError, UnsupportedError, did_you_mean
from sqlx.plan.compiler import compile_query
from sqlx.plan.nodes import Fragment, Plan, Source, TableChanges, not_followed, other_keys, reads_changes
from sqlx.replay.duckdb import DuckDbBinder, Engine, EngineAnalyzer
from sqlx.replay.fragments import FragmentRunner
from sqlx.sql.definitions import carets, parse_definition
from sqlx.sql.tokens import LexicalError, statement_spans, tokenize

_NO_RELATION = re.compile(r"Table with name (\S+) does not exist")
_NOT_FOUND = re.compile(r'Referenced (?:column|table) "([^"]+)" not found| "([^"]+)" does not have a column named "')
_QUERY_WORDS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")


@dataclass
class Script:
    """A script that was read.

    Attributes:
        engine: knows its relations.
        catalog: the definitions.
        plan: the query.
        definitions: the statements that define, as written.
        derived: name (lower case) to the query behind a definition over other definitions.
    """

    engine: Engine
    catalog: MemoryCatalog
    definitions: list[str] = field(default_factory=list)
    derived: dict[str, Fragment] = field(default_factory=dict)
    plan: Plan = field(init=False)
    runners: dict[tuple[Fragment, bool, bool], FragmentRunner] = field(default_factory=dict)

    @property
    def pushed(self) -> dict[str, Entry]:
        """The definitions that rows can be pushed to, by name in lower case, without quotes."""
        entries = (self.catalog.resolve(name) for name in self.catalog.names())
        return {plain(e.name): e for e in entries if e is not None and e.name.lower() not in self.derived}

    def runner(self, fragment: Fragment, reads_table: bool = False, is_bare: bool = False) -> FragmentRunner:
        """What runs a fragment (bare: without its condition); it keeps no rows, so all drivers of the script share it.

        Raises:
            UnsupportedError: the fragment would need memory, or calculates what is not known to answer as on Spark.
        """
        key = (fragment, reads_table, is_bare)
        if key not in self.runners:
            with self.pointing():
                self.runners[key] = FragmentRunner(self.engine, fragment, reads_table, is_bare)
        return self.runners[key]

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Give an error about a calculation its line and caret, at the first place where it is written."""
        try:
            yield
        except UnsupportedError as error:
            if error.text is not None:
                raise
            texts = (self.plan.text, *self.definitions)
            text, span = (self.plan.text, error.span) if error.span is not None else _place(error, texts)
            raise UnsupportedError(error.condition, text, span, **error.parameters) from error


def _place(error: TemporalSqlError, texts: Sequence[str]) -> tuple[str, tuple[int, int]] | tuple[None, None]:
    """Where stands what an error is about: the first place of a calculation, and of a mere word its only one."""
    call, word = error.parameters.get("call", ""), error.parameters.get("written", "")
    tokens = tokenize(call)
    if len(tokens) > 1 and tokens[1].text == "(":  # written in another way, such as with named_struct
        word = f"{tokens[0].text}("
    calls, words = ([(t, place) for t in texts for place in _places(what, t)] for what in (call, word))
    if calls or len(words) == 1:
        return (calls or words)[0]
    return None, None


def _places(written: str, text: str) -> Iterator[tuple[int, int]]:
    """Where some words stand in a text, spaces and the case of letters aside."""
    wanted = [token.text.upper() for token in tokenize(written)]
    tokens = tokenize(text)
    for start in range(len(tokens) - len(wanted) + 1 if wanted else 0):
        found = tokens[start : start + len(wanted)]
        if [token.text.upper() for token in found] == wanted:
            yield found[0].start, found[-1].end


def plain(name: str) -> str:
    """A name in lower case, without quotes."""
    return name.replace("`", "").lower()


def read_script(text: str) -> Script:
    """Read a script; the same text again costs nothing.

    Raises:
        TemporalParseError: it is not definitions and one query, or one of them is broken.
        BindError, UnsupportedError: a name or type does not fit, or replay cannot run it.
    """
    return _read_once(text, get_ident())  # a DuckDB connection belongs to one thread


@lru_cache(maxsize=64)
def _read_once(text: str, thread: int) -> Script:
    del thread
    return _read(text)


def _read(text: str) -> Script:
    engine = Engine()
    script = Script(engine, MemoryCatalog())
    queries: list[str] = []
    for statement in _statements(text):
        definition = parse_definition(statement)
        if isinstance(definition, Definition):
            _define(script, definition)
            script.definitions.append(statement)
        elif isinstance(definition, Drop):
            script.catalog.drop(".".join(definition.name))
        elif (definition is None and tokenize(statement)[0].word in _QUERY_WORDS) or statement.startswith("("):
            queries.append(statement)
        else:
            _refuse(statement, f"found `{' '.join(statement.split()[:3])} …`")
    if len(queries) != 1:
        _refuse(queries[1] if queries else text, f"found {len(queries)} queries")
    script.plan = _compiled(script, queries[0])
    if not any(isinstance(node, Source) for node in script.plan.root.walk()):
        _refuse(queries[0], "found a query that reads none of them")
    return script


def _refuse(text: str, found: str) -> NoReturn:
    first = text.strip().split("\n")[0]
    start = text.find(first)
    raise TemporalParseError("REPLAY.SCRIPT", text, (start, start + len(first)), found=found)


def _statements(text: str) -> list[str]:
    """The statements between semicolons."""
    try:
        spans = statement_spans(text)
    except LexicalError as error:
        raise TemporalParseError("REPLAY.SCRIPT", found=f"it cannot be read: {error}") from error
    return [span.of(text) for span in spans]


def _define(script: Script, definition: Definition) -> None:
    """Bind one definition; rows are pushed to it unless it reads other definitions of the script."""
    source = _source(script, definition)
    if source is None and not definition.columns:
        name, text, span = ".".join(definition.name), definition.text, definition.spans["NAME"]
        raise BindError("REPLAY.NO_COLUMNS", text, span, name=name)
    for column in definition.columns:
        check_collation(definition.text, definition.spans[f"COLUMN {column.name}"], column.name, column.type)
    if not definition.timestamp_by:  # of a topic it may be left out, but in replay no record has a time of its own
        parameters = {"kind": KIND_WORDS[definition.kind]}
        raise TemporalParseError(
            "DEFINITION.MISSING_TIMESTAMP", definition.text, definition.spans["NAME"], **parameters
        )
    plan = None if source is None else _compiled(script, definition.query or f"SELECT * FROM {source}")
    if plan is not None:
        _check_derived(plan, definition)
    else:
        definition = replace(definition, using="", relation="", relation_parts=(), query="")
    with carets(definition.text):
        relation = declared_relation(definition) if source is None or plan is None else _relation_of(source, plan)
        entry = bind_entry(definition, relation, EngineAnalyzer(script.engine))
    if not script.catalog.define(entry, replace=definition.replace):
        if not definition.if_not_exists:
            _refuse(definition.text, f"`{entry.name}` is defined twice")
        return
    script.engine.define(definition.name, entry.columns)
    script.derived.pop(entry.name.lower(), None)
    if plan is not None:
        sql = f"SELECT * FROM ({plan.root.sql})"
        script.derived[entry.name.lower()] = replace(plan.root, sql=sql, columns=script.engine.schema(sql))


def _relation_of(source: str, plan: Plan) -> str:
    """The query of a definition: as it was written where it reads a table by its changes, see `query_behind`."""
    if not (reads_changes(plan.root) and all(isinstance(node, TableChanges) for node in plan.operators())):
        return f"({plan.root.sql})"
    return source if source.startswith("(") else f"({plan.text})"


def _check_derived(plan: Plan, definition: Definition) -> None:
    """A table that is derived from a table has its key.

    Raises:
        UnsupportedError: `STREAMING.SOURCE_NOT_LIVE`: the definition is a stream, or nothing can follow its query.
        BindError: `DEFINITION.DERIVED_KEYS`: the KEYS are other columns.
    """
    if not reads_changes(plan.root):
        return
    reason = not_followed(plan, is_table=definition.kind != "stream")
    if reason is not None:
        text, span = definition.text, definition.spans["NAME"]
        raise UnsupportedError("STREAMING.SOURCE_NOT_LIVE", text, span, name=".".join(definition.name), reason=reason)
    keys = other_keys(plan, definition.keys)
    if keys is not None:
        raise BindError("DEFINITION.DERIVED_KEYS", definition.text, definition.spans["KEYS"], keys=keys)


def _source(script: Script, definition: Definition) -> str | None:
    """The relation over other definitions that a definition reads, or None where rows are pushed to it."""
    if definition.query:
        return f"({definition.query})"
    known = definition.relation_parts and script.catalog.resolve(definition.relation_parts)
    is_query = definition.relation.startswith("(")
    return definition.relation if known or is_query else None


def _compiled(script: Script, query: str) -> Plan:
    try:
        plan = compile_query(query, DuckDbBinder(script.engine, script.catalog), streaming=True)
        script.engine.schema(plan.root.sql)
        return plan
    except BindError as error:
        raise _with_caret(error, query, script.catalog) or error from error


def _with_caret(error: BindError, query: str, catalog: MemoryCatalog) -> TemporalSqlError | None:
    """Point at the column that DuckDB does not find, or at that of a relation which has no such column."""
    if error.condition != "REPLAY.QUERY_REFUSED":
        return None
    if isinstance(error.__cause__, ParseError):
        return _syntax_error(error.__cause__, query)
    text, span = _place(error, [query])
    if text is not None:
        return BindError(error.condition, text, span, **error.parameters)
    reason = error.parameters["reason"]
    missing, relation = _NOT_FOUND.search(reason), _NO_RELATION.search(reason)
    if missing is None:
        return relation and _unknown_relation(relation[1], query, catalog)
    entries = [entry for name in catalog.names() if (entry := catalog.resolve(name)) is not None]
    known = {column.name.lower(): column.name for entry in entries for column in entry.columns}
    tokens = tokenize(query)
    for first, dot, last in zip(tokens, (*tokens[1:], None), (*tokens[2:], None, None), strict=False):
        is_path = dot is not None and dot.text == "." and last is not None
        column = last if is_path and last is not None else first
        if first.name.lower() == (missing[1] or missing[2]).lower() and column.name.lower() not in known:
            suggestion = did_you_mean(column.name, known.values())
            span = (first.start, column.end)
            return BindError("BIND.UNKNOWN_COLUMN", query, span, column=query[slice(*span)], suggestion=suggestion)
    return None


def _syntax_error(error: ParseError, query: str) -> TemporalSqlError | None:
    """Point at the word where reading stopped; what is before it was perhaps rewritten, as the end of it was not."""
    if not error.errors:
        return None
    word, before = error.errors[0]["highlight"], error.errors[0]["start_context"]
    place = closest(query, word, before)
    if place is None:
        return None
    near = near_miss_error(query, tokenize(query), place[0])
    reason = f"syntax error at or near `{word}`"
    return near or BindError("REPLAY.QUERY_REFUSED", query, place, reason=reason)


def _unknown_relation(name: str, query: str, catalog: MemoryCatalog) -> BindError | None:
    token = next((t for t in tokenize(query) if t.name.lower() == name.lower()), None)
    if token is None:
        return None
    suggestion = did_you_mean(name, catalog.names())
    return BindError("BIND.UNKNOWN_RELATION", query, (token.start, token.end), name=token.name, suggestion=suggestion)
