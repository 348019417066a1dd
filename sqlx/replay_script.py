"""A replay script: definitions and exactly one query, read in order, bound, and compiled for live rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from threading import get_ident
from typing import NoReturn

from catalog import MemoryCatalog
from catalog.binding import bind_entry, declared_relation
from catalog.definitions import Definition, Drop
from catalog.entries import Entry
from sqlx.compiler import compile_query
from sqlx.ddl import carets, parse_definition
from sqlx.dialect import LexicalError, Span, tokenize
from sqlx.errors import BindError, TemporalParseError
from sqlx.plan import Fragment, Plan
from sqlx.replay_duckdb import DuckDbBinder, Engine, EngineAnalyzer
from sqlx.replay_fragments import FragmentRunner

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
    runners: dict[tuple[Fragment, bool], FragmentRunner] = field(default_factory=dict)

    @property
    def pushed(self) -> dict[str, Entry]:
        """The definitions that rows can be pushed to, by name in lower case, without quotes."""
        entries = (self.catalog.resolve(name) for name in self.catalog.names())
        return {plain(e.name): e for e in entries if e is not None and e.name.lower() not in self.derived}

    def runner(self, fragment: Fragment, reads_table: bool = False) -> FragmentRunner:
        """What runs a fragment; it keeps no rows, so that all drivers of the script share it.

        Raises:
            UnsupportedError: the fragment would need memory.
        """
        if (fragment, reads_table) not in self.runners:
            self.runners[fragment, reads_table] = FragmentRunner(self.engine, fragment, reads_table)
        return self.runners[fragment, reads_table]


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
    return script


def _refuse(text: str, found: str) -> NoReturn:
    first = text.strip().split("\n")[0]
    start = text.find(first)
    raise TemporalParseError("REPLAY.SCRIPT", text, (start, start + len(first)), found=found)


def _statements(text: str) -> list[str]:
    """The statements between semicolons."""
    try:
        tokens = tokenize(text)
    except LexicalError as error:
        raise TemporalParseError("REPLAY.SCRIPT", found=f"it cannot be read: {error}") from error
    spans: list[Span] = []
    start: int | None = None
    for token in tokens:
        if token.text == ";":
            start = None
        elif start is None:
            start = token.start
            spans.append(Span(start, token.end))
        else:
            spans[-1] = Span(start, token.end)
    return [span.of(text) for span in spans]


def _define(script: Script, definition: Definition) -> None:
    """Bind one definition; rows are pushed to it unless it reads other definitions of the script."""
    source = _source(script, definition)
    if source is None and not definition.columns:
        name, text, span = ".".join(definition.name), definition.text, definition.spans["NAME"]
        raise BindError("REPLAY.NO_COLUMNS", text, span, name=name)
    plan = None if source is None else _compiled(script, f"SELECT * FROM {source}")
    if plan is None:
        definition = replace(definition, using="", relation="", relation_parts=(), query="")
    with carets(definition.text):
        relation = declared_relation(definition) if plan is None else f"({plan.root.sql})"
        entry = bind_entry(definition, relation, EngineAnalyzer(script.engine))
    if not script.catalog.define(entry, replace=definition.replace):
        if not definition.if_not_exists:
            _refuse(definition.text, f"`{entry.name}` is defined twice")
        return
    script.engine.define(definition.name, entry.columns)
    script.derived.pop(entry.name.lower(), None)
    if plan is not None:
        sql = f"SELECT * FROM {entry.relation}"
        script.derived[entry.name.lower()] = replace(plan.root, sql=sql, columns=script.engine.schema(sql))


def _source(script: Script, definition: Definition) -> str | None:
    """The relation over other definitions that a definition reads, or None where rows are pushed to it."""
    if definition.query:
        return f"({definition.query})"
    known = definition.relation_parts and script.catalog.resolve(definition.relation_parts)
    is_query = definition.relation.startswith("(")
    return definition.relation if known or is_query else None


def _compiled(script: Script, query: str) -> Plan:
    return compile_query(query, DuckDbBinder(script.engine, script.catalog), streaming=True)
