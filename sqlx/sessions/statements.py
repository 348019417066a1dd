"""Decides what a statement is, and rewrites ours to plain Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from catalog.definitions import Definition, Drop, Show, name_text
from catalog.entries import Entry
from catalog.spark import SparkCatalog
from catalog.statements import Lowered, literal
from sqlx.bind.reads import CURRENT_ROWS
from sqlx.bind.spark_errors import in_definition, meant
from sqlx.errors import BindError, TemporalSqlError, UnsupportedError
from sqlx.plan.compiler import compile_query, is_order_in_view, named_order
from sqlx.plan.nodes import Plan
from sqlx.plan.subquery_text import is_query
from sqlx.sessions.explain import explain_plan
from sqlx.sessions.script import at_its_turn, refuse_stale
from sqlx.sessions.stored import (
    StoredHead,
    is_body,
    keeps_text,
    parameters_named,
    store,
    store_current_rows,
    stored_head,
)
from sqlx.spark.aggregates import PROPERTY
from sqlx.spark.batch import Views, kept, lower_body, lower_query, lower_to_views
from sqlx.spark.binder import SparkBinder, check_definition
from sqlx.spark.histories import NO_HISTORIES, Histories
from sqlx.spark.stream import Keeping, LiveQuery, check_late, lower_stream, ready
from sqlx.spark.view_text import shows_definitions
from sqlx.sql.definitions import Statement, StreamingTable, carets, parse_definition, parse_streaming
from sqlx.sql.edits import Edits
from sqlx.sql.explanation import parse_explanation
from sqlx.sql.parser import calculated_names, is_script, late_span, scan
from sqlx.sql.tokens import CLAUSE_PAIRS, LexicalError, Span, Token, tokenize, with_backquotes
from sqlx.sql.verification import Verification, parse_verification
from sqlx.streaming.commands import carets_in, carry_out
from sqlx.streaming.state import state_of
from sqlx.streaming.tables import refuse_write, write_target
from sqlx.verify.recording import record
from sqlx.verify.report import Finding, Watch, compare, findings_sql, unwatched
from udtf.engine import engine_of
from udtf.engine.asking import probing
from udtf.engine.release import release_of
from udtf.spark.tasks import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from udtf.spark.kept import Stateful
    from udtf.stream.spec import ChangelogFolder


#: Puts the values of parameters (``:name`` and ``?``) into a text as literals: every query cut out of it has them.
PutIn = Callable[[str, "tuple[Token, ...]"], str]


def substitute_parameters(text: str, tokens: tuple[Token, ...], context: Any) -> str:
    """Replace parameter markers by the SQL of their values.

    Args:
        text: the statement.
        tokens: its tokens.
        context: Spark's NamedParameterContext, PositionalParameterContext or HybridParameterContext, or None.
    """
    kind = "" if context is None else str(context.getClass().getSimpleName())
    if kind.startswith("Named"):
        params = context.params()
        return named_values(text, tokens, {str(k): params.apply(k).sql() for k in _names(params)})
    if kind.startswith("Positional"):
        return positional_values(text, tokens, _values(context.params()))
    if kind.startswith("Hybrid"):  # EXECUTE IMMEDIATE … USING: which of both it is, the text says
        values, names = _values(context.args()), context.paramNames()
        by_name = {str(names.apply(n)): value for n, value in enumerate(values) if names.apply(n)}
        return named_values(text, tokens, by_name) if by_name else positional_values(text, tokens, values)
    return text


def _names(params: Any) -> list[str]:
    iterator = params.keysIterator()
    names = []
    while iterator.hasNext():
        names.append(iterator.next())
    return names


def _values(params: Any) -> list[str]:
    return [params.apply(n).sql() for n in range(params.length())]


def named_values(text: str, tokens: tuple[Token, ...], values: Mapping[str, str]) -> str:
    """The text with values, as SQL, in the place of ``:name``."""
    edits = Edits(text)
    for colon, name in pairwise(tokens):
        if colon.text == ":" and colon.end == name.start and name.text in values:
            edits.replace(Span(colon.start, name.end), values[name.text])
    return edits.render()


def positional_values(text: str, tokens: tuple[Token, ...], values: Sequence[str]) -> str:
    """The text with values, as SQL, in the place of ``?``."""
    edits = Edits(text)
    markers = [t for t in tokens if t.text == "?"]
    for marker, value in zip(markers, values, strict=False):
        edits.replace(Span(marker.start, marker.end), value)
    return edits.render()


_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)+"
_PAIRS = (
    ("AS", "OF"), ("DEDUPLICATE", "WITHIN"), ("GRACE", "(?:PERIOD|INTERVAL)"), ("LATE", "TO"),
    ("EXPLAIN", "TEMPORAL"), ("VERSIONED", "TABLES?"), ("UPSERT", "TABLES?"), ("SHOW", "STREAMS"),
    ("STREAMING", "TABLE"), ("STREAMING", "QUER(?:Y|IES)"),
    ("VERIFY", "BATCH"), ("EMIT", "(?:FINAL|CHANGES|ON|AFTER|EVERY|CORRECTIONS)"),
)  # fmt: skip
_WORDS = ("ASOF", "STREAM", "MATCH_CONDITION")
#: Spark's parser takes them as calls of functions that it would look for.
_FUNCTIONS = frozenset({"history", "state", "sliding_window", "descriptor", CURRENT_ROWS})
_CALLS = (CURRENT_ROWS, "history", "state", "as_of", "deduplicate", "sliding_window", "DESCRIPTOR")
#: In every statement that can be temporal is one of these; looking for them costs a hundredth of the pattern.
_MARKS = (
    "of", "deduplicate", "grace", "late", "temporal", "versioned", "upsert", "stream", "verify", "emit",
    "match_condition", "history", "state", "sliding_window", "descriptor", "insert", "merge", "update", "delete",
    "truncate", "alter", "load", CURRENT_ROWS,
)  # fmt: skip
_SCAN = re.compile(
    rf"\b(?:{'|'.join([*(f'{a}{_GAP}{b}' for a, b in _PAIRS), *_WORDS])})\b"
    rf"|\b(?:{'|'.join(_CALLS)})\s*\(|\bINSERT{_GAP}(?:INTO|OVERWRITE)\b|^\s*(?:MERGE|UPDATE|DELETE|TRUNCATE|ALTER|LOAD)\b",
    re.IGNORECASE | re.DOTALL,
)


def may_be_ours(text: str) -> bool:
    """A cheap look at a statement: whether it can be temporal at all. All others pay nothing else.

    >>> may_be_ours("SELECT 1"), may_be_ours("SELECT * FROM a JOIN b AS /* at */ OF a.ts ON a.k = b.k")
    (False, True)
    >>> may_be_ours("SELECT k FROM s GROUP BY k, window(ts, '1 hour') GRACE INTERVAL 1 MINUTE LATE TO late")
    True
    """
    lowered = text.lower()
    return any(mark in lowered for mark in _MARKS) and _SCAN.search(text) is not None


@dataclass(frozen=True)
class Rewritten:
    """Plain Spark SQL in a statement's place; where there is neither it nor a plan, it is done already.

    Attributes:
        sql: the statement.
        notes: what the compiler wants to say once.
        frame: a query with operators, in place of the statement.
        body: the same of the body of a function, as Spark's plan.
    """

    sql: str | None
    notes: tuple[str, ...] = ()
    frame: DataFrame | None = None
    body: Any = None


class SessionStatements:
    """The statements of one session.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.engine = spark, engine_of(spark)
        self.catalog = SparkCatalog(spark)
        self.views = Views(spark)

    def rewrite(self, text: str, accepted: Callable[[], bool], put_in: PutIn) -> Rewritten | None:
        """Plain Spark SQL for a temporal statement; None for one of Spark's, which reaches it unchanged.

        Args:
            text: the statement.
            accepted: whether Spark's parser takes it.
            put_in: puts the values of parameters into a text, with its tokens.

        Raises:
            TemporalSqlError: the statement is ours and wrong.
        """
        try:
            text = self._as_read(text)
            tokens = tokenize(text)
        except LexicalError:
            return None
        if is_script(tokens):
            return self._script(put_in(text, tokens), accepted)
        text = self._with_names(text, tokens, put_in)
        tokens = tokenize(text)
        self._refuse_write(text, tokens, accepted)
        running = parse_streaming(text, tokens)
        if running is not None:
            return self._carry_out(running, text)
        head = _words(tokens, 1)
        if head == ["CREATE"] or (head in (["DROP"], ["SHOW"]) and not accepted()):
            definition = parse_definition(text)
            if definition is not None:
                return self._define(text, definition)
        if not _has_clause(tokens) and not accepted() and not self._reads_live_on_4_0(text):
            return None
        text = put_in(text, tokens)
        try:
            return self._query(text, tokenize(text))
        except TemporalSqlError:
            if accepted() and not (self._names_ours(tokenize(text)) or self._is_live(text)):
                return None  # words of ours in places where Spark reads them otherwise: SELECT deduplicate within
            raise

    def frame_of(self, query: str) -> DataFrame | None:
        """The rows of a temporal query, live where it reads a STREAM; None for one of Spark's.

        Raises:
            TemporalSqlError: the query is ours and wrong.
        """
        rewritten = self._query(query, tokenize(query))
        if rewritten is None:
            return None
        return self.engine.query(rewritten.sql) if rewritten.sql is not None else rewritten.frame

    def _refuse_write(self, text: str, tokens: tuple[Token, ...], accepted: Callable[[], bool]) -> None:
        """Refuse to write what only a stream writes, and to change what a definition shows."""
        written = write_target(text, tokens) if accepted() else None
        if written is None:
            return
        refuse_write(self.spark, text, written)
        verb, parts = written.verb.word, tuple(part.name for part in written.name)
        entry = self.catalog.resolve(parts) if verb in ("UPDATE", "DELETE", "MERGE") else None
        if entry is not None:
            raise UnsupportedError("UNSUPPORTED.WRITE", text, written.place, verb=verb, name=entry.name)

    def _carry_out(self, running: Statement, _text: str) -> Rewritten:
        """A statement about running streams."""
        return Rewritten(*carry_out(self.spark, running, self.live))

    def _as_read(self, text: str) -> str:
        """A statement as Spark reads it: with its variables put in, and with names in double quotes as names."""
        if "${" in text:
            text = self.engine.substituted(text)
        if '"' in text and self.engine.quotes_names:
            text = with_backquotes(text, tokenize(text))
        return text

    def _with_names(self, text: str, tokens: tuple[Token, ...], put_in: PutIn) -> str:
        """A statement with the names that `IDENTIFIER(expression)` stands for, where they can be said beforehand."""
        if not calculated_names(text, tokens):
            return text
        text = put_in(text, tokens)
        edits = Edits(text)
        for span in calculated_names(text, tokenize(text)):
            try:
                with probing():
                    ((name,),) = self.engine.query(f"SELECT {span.of(text)}").collect()
            except PySparkException:  # Spark says what is wrong
                continue
            if isinstance(name, str):
                edits.replace(span, literal(name))
        return edits.render()

    def _script(self, text: str, accepted: Callable[[], bool]) -> Rewritten | None:
        """A SQL script: what cannot be compiled when it is its turn is compiled now, over tables as they are then."""
        tokens = tokenize(text)
        turns = at_its_turn(text, tokens, partial(self._is_ours, accepted), self._names_read)
        if turns.stays is None:
            return None if turns.text == text else Rewritten(turns.text)
        if compile_query(turns.text, self._binder(), in_session=False).operators():
            refuse_stale(text, turns)
        with kept(True):
            return self._query(turns.text, tokenize(turns.text)) or Rewritten(turns.text)

    def _is_ours(self, accepted: Callable[[], bool], text: str, tokens: tuple[Token, ...]) -> bool:
        """Whether a statement of a script, or a piece of its control flow, is temporal; Spark may take all of it."""
        if not may_be_ours(text):
            return False
        if accepted() or self._is_taken(text):
            return self._names_ours(tokens)
        if _has_clause(tokens) or self._names_ours(tokens):
            return True
        is_definition = _words(tokens, 1) in (["CREATE"], ["DROP"]) and parse_definition(text) is not None
        return is_definition or parse_streaming(text, tokens) is not None

    def _names_read(self, text: str) -> frozenset[str] | None:
        """Of the relations that a statement reads and their columns, in lower case; None where one is not there yet."""
        found: set[str] = set()
        level, binder = scan(text), self._binder()
        for relation in level.read():
            entry = binder.entry(relation.parts)
            read = entry.columns if entry else binder.columns(f"SELECT * FROM {name_text(relation.parts)}")
            if read is None:
                return None
            found.update(column.name.lower() for column in read)
            found.add(relation.parts[-1].lower())
        for relation in level.relations():
            found.update(token.name.lower() for token in (relation.alias, *relation.columns) if token is not None)
        return frozenset(found)

    def _is_taken(self, text: str) -> bool:
        """Whether Spark's parser takes a statement."""
        return self.engine.refusal(text) is None

    def _names_ours(self, tokens: tuple[Token, ...]) -> bool:
        """Whether a statement that Spark's parser takes is ours all the same.

        It names a definition, it calls a function of ours that Spark does not know, or it is an ASOF join.
        """
        if any(a.word == "ASOF" and b.word in ("JOIN", "LEFT", "INNER") for a, b in pairwise(tokens)):
            return True
        calls = {a.name for a, b in pairwise(tokens) if a.is_name and b.text == "(" and a.name.lower() in _FUNCTIONS}
        if any(not self.spark.catalog.functionExists(name) for name in calls):
            return True
        return any(self.catalog.resolve(parts) is not None for parts in self.engine.may_be_views(_paths(tokens)))

    def _define(self, text: str, definition: Definition | Drop | Show) -> Rewritten:
        lowered = self.lower_definition(text, definition)
        for statement in lowered.prepare:
            self._prepare(statement)
        if not isinstance(definition, Definition) or definition.kind == "stream":
            return Rewritten(lowered.final)
        self._prepare(lowered.final)
        self._show_in_order(definition)
        return Rewritten(None)

    def _show_in_order(self, definition: Definition) -> None:
        """Let the view of a table go by the order of what it is made of, where only we know that."""
        entry, binder = self.catalog.resolve(definition.name), self._binder()
        if entry is not None and not is_order_in_view(entry, binder):
            store_current_rows(definition.name, entry, binder)

    def _prepare(self, statement: str) -> None:
        """Run a statement that comes before another one."""
        self.spark.sql(statement)

    def lower_definition(self, text: str, definition: Definition | Drop | Show) -> Lowered:
        """The plain Spark statements that a definition stands for."""
        if isinstance(definition, Definition):
            check_definition(definition)
        try:
            with carets(text):
                return self.catalog.plan_statement(definition, self._in_order)
        except BindError as error:
            raise in_definition(error, text) from error.__cause__

    def _in_order(self, entry: Entry) -> Entry:
        return named_order(entry, self._binder())

    def plan(self, text: str, portable: bool = False) -> Plan:
        """The plan of a query, or of a statement around one; a portable one names no files of today."""
        running = parse_streaming(text, tokenize(text))
        if isinstance(running, StreamingTable):
            return compile_query(running.query, self._binder(portable), streaming=True)
        return compile_query(text, self._binder(portable), streaming=self._reads_live(text))

    def live(
        self,
        statement: StreamingTable,
        tasks: int,
        changelog: ChangelogFolder | None = None,
        histories: Histories = NO_HISTORIES,
    ) -> LiveQuery:
        """The query of a streaming statement, lowered to a live stream of that many tasks; see `lower_stream`."""
        binder = self._binder()
        binder.changelog, binder.histories = changelog, histories
        with carets_in(statement.text, statement.query_start):
            plan = compile_query(statement.query, binder, streaming=True)
            wanted = dict(statement.properties).get(PROPERTY)
            keeping = Keeping(tasks, changelog=changelog)
            lowered = lower_stream(plan, self.spark, binder.live_frames, keeping, wanted)
            check_late(plan, lowered.read_once)
            return lowered

    def _binder(self, portable: bool = False) -> SparkBinder:
        binder = SparkBinder(self.spark, self.catalog, portable)
        binder.state = self._state
        return binder

    def _state(self, name: str, text: str, span: Span) -> str:
        """A view of what a streaming query keeps."""
        return self.views.register(state_of(self.spark, name, text, span.pair, self.stateful))

    def stateful(self, query: str, tasks: int, strategy: str | None) -> tuple[str, Sequence[Stateful]]:
        """The fingerprint of a live query as it is now, and its operators."""
        binder = self._binder()
        lowered = lower_stream(
            compile_query(query, binder, streaming=True), self.spark, binder.live_frames, Keeping(tasks), strategy
        )
        return lowered.fingerprint, (*binder.stateful, *lowered.stateful)

    def _query(self, text: str, tokens: tuple[Token, ...]) -> Rewritten | None:
        about = self._about_query(text, tokens)
        if about is not None:
            return Rewritten(about)
        head = stored_head(text, tokens)
        if self._reads_live(text):
            return self._live_query(text, tokens)
        binder = self._binder()
        is_called = is_body(text)
        if is_called or head is not None:
            binder.parameters = None if head is None else head.parameters
        in_session = not is_called and (head is None or head.kind == "view")
        with parameters_named(head):
            plan = compile_query(text if head is None else head.query, binder, in_session=in_session)
        if head is not None and self._keeps_text(head, plan):
            self._store(head, plan, binder)
            return Rewritten(None, plan.notes)
        if head is not None:  # plain SQL once its reads are rewritten: Spark keeps the view
            plan = compile_query(text, binder)
        if not plan.operators():
            return None if plan.root.sql == plan.text else Rewritten(plan.root.sql, plan.notes)
        if is_query(text):
            if in_session:
                return Rewritten(None, plan.notes, lower_query(plan, self.spark, binder.analyzed))
            return Rewritten(None, plan.notes, body=lower_body(plan, self.spark, binder.analyzed))
        with kept(tokens[0].word == "CACHE"):
            return Rewritten(lower_to_views(plan, self.spark, self.views, binder.analyzed), plan.notes)

    def _about_query(self, text: str, tokens: tuple[Token, ...]) -> str | None:
        """What EXPLAIN TEMPORAL or VERIFY say of a query, as a query that shows it; None for every other statement."""
        if (start := parse_explanation(text, tokens)) is not None:
            with carets_in(text, start):
                return _as_rows(self.explained(text[start:]))
        asked = parse_verification(text, tokens)
        if asked is None:
            return None
        with carets_in(text, asked.start):
            return findings_sql(self.verified(asked))

    def explained(self, text: str) -> str:
        """What EXPLAIN TEMPORAL shows.

        Raises:
            TemporalSqlError: the query is wrong.
            ParseException: neither we nor Spark's parser take it.
        """
        return explain_plan(self.taken_plan(text), self.spark)

    def taken_plan(self, text: str, portable: bool = False) -> Plan:
        """The plan of a statement that nobody runs: where nothing of it is ours, Spark's parser has to take it.

        Raises:
            TemporalSqlError: the query is wrong.
            ParseException: neither we nor Spark's parser take it.
        """
        plan = self.plan(text, portable)
        is_plain = not plan.operators() and plan.root.sql == plan.text
        refusal = self.engine.refusal(plan.text) if is_plain and not self._reads_live_on_4_0(text) else None
        if refusal is not None:
            raise meant(refusal, plan.text)
        return plan

    def verified(self, asked: Verification, watch: Watch = unwatched) -> tuple[Finding, ...]:
        """What VERIFY BATCH = STREAM finds.

        Raises:
            TemporalSqlError: the query is wrong, reads what was not recorded, or replay cannot run it.
        """

        def bounded(query: str) -> DataFrame:
            return self.frame_of(query) or self.engine.query(query)

        return compare(record(self.spark, self.catalog, asked.query), bounded, asked.shuffles, watch)

    def _keeps_text(self, head: StoredHead, plan: Plan) -> bool:
        """Whether a view or a function keeps the query that was written; else Spark keeps what is made of it."""
        return keeps_text(head, plan)

    def _store(self, head: StoredHead, plan: Plan, _bound: SparkBinder) -> None:
        """Make a view or a function of a query with operators."""
        store(head, plan, self._binder())

    def _reads_live(self, text: str) -> bool:
        """Whether a statement reads a temporal definition with STREAM, or a view over one."""
        if "stream" not in text.lower():
            return False
        named = [relation.parts for relation in scan(text).relations() if relation.stream and relation.parts]
        return any(self.catalog.resolve(n) is not None or shows_definitions(self.catalog, n) for n in named)

    def _is_live(self, text: str) -> bool:
        """The same of a statement that may not be of the language."""
        try:
            return self._reads_live(text)
        except TemporalSqlError:  # Spark's refusal says why
            return False

    def _reads_live_on_4_0(self, text: str) -> bool:
        """Whether Spark refuses a live read of a definition: its parser knows STREAM since 4.1."""
        return release_of(self.spark.version) == (4, 0) and self._is_live(text)

    def _live_query(self, text: str, tokens: tuple[Token, ...]) -> Rewritten:
        """A streaming query whose result the caller runs; rows that are refused TO a table would need a second sink.

        Raises:
            UnsupportedError: a command is around it, or it has LATE TO.
        """
        if not is_query(text):
            what = f"{tokens[0].text.upper()} takes the rows of now"
            raise UnsupportedError("UNSUPPORTED.STREAM_ON_SPARK", text, (tokens[0].start, tokens[0].end), what=what)
        binder = self._binder()
        plan = compile_query(text, binder, streaming=True)
        live = lower_stream(plan, self.spark, binder.live_frames, Keeping(configured_tasks(self.spark)))
        if live.late:
            raise UnsupportedError("UNSUPPORTED.LATE_TO_NEEDS_TABLE", text, late_span(text))
        notes = (*plan.notes, *ready(self.spark, live.conf))
        return Rewritten(None, notes, live.frame)


def _words(tokens: tuple[Token, ...], count: int) -> list[str]:
    return [t.word for t in tokens[:count]]


def _has_clause(tokens: tuple[Token, ...]) -> bool:
    """Whether a refused statement holds words of ours, so that our message is better than Spark's."""
    pairs = {(a.word, b.word) for a, b in pairwise(tokens)}
    words = {t.word for t in tokens}
    return bool(pairs & (CLAUSE_PAIRS | {("EXPLAIN", "TEMPORAL"), ("VERIFY", "BATCH")})) or bool(
        words & {"ASOF", "MATCH_CONDITION", "DESCRIPTOR"}
    )


def _paths(tokens: tuple[Token, ...]) -> set[tuple[str, ...]]:
    """The (qualified) names of a statement: what stands for a relation is among them."""
    found: set[tuple[str, ...]] = set()
    path: tuple[str, ...] = ()
    dotted = False
    for token in tokens:
        if token.is_name:
            path = (*path, token.name) if dotted else (token.name,)
            found |= {path}
        dotted = token.text == "." and bool(path)
    return found


def _as_rows(text: str) -> str:
    lines = ", ".join("('" + line.replace("\\", "\\\\").replace("'", "\\'") + "')" for line in text.splitlines())
    return f"SELECT plan FROM VALUES {lines} AS t(plan)"
