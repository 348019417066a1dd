"""Decides what a statement is, and rewrites ours to plain Spark SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from catalog.definitions import Definition, Drop, Show
from catalog.spark import SparkCatalog
from catalog.statements import Lowered
from sqlx.compiler import compile_query
from sqlx.cut import is_query
from sqlx.ddl import carets, parse_definition
from sqlx.delta import check_definition
from sqlx.dialect import CLAUSE_PAIRS, LexicalError, Token, tokenize
from sqlx.errors import TemporalParseError, UnsupportedError
from sqlx.lower import Views, lower_operators, lower_to_views
from sqlx.lower_native import PROPERTY
from sqlx.lower_stream import LiveQuery, lower_stream, ready
from sqlx.parameters import substitute_parameters
from sqlx.plan import Plan
from sqlx.scanner import scan
from sqlx.spark_binder import SparkBinder
from sqlx.stages import explain_plan
from sqlx.streaming.commands import carry_out
from sqlx.streaming.late import late_span
from sqlx.streaming.parse import StreamingTable, parse_streaming
from sqlx.streaming.queries import carets_in
from sqlx.views import create_temporary_view, create_view, view_head
from udtf.spark.stream_conf import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GAP = r"(?:\s|/\*.*?\*/|--[^\n]*\n)+"
_PAIRS = (
    ("AS", "OF"), ("DEDUPLICATE", "WITHIN"), ("GRACE", "PERIOD"), ("EXPLAIN", "TEMPORAL"), ("VERSIONED", "TABLES?"),
    ("UPSERT", "TABLES?"), ("SHOW", "STREAMS"), ("STREAMING", "TABLE"), ("STREAMING", "QUER(?:Y|IES)"),
    ("VERIFY", "BATCH"), ("EMIT", "(?:FINAL|CHANGES|ON|AFTER|EVERY|CORRECTIONS)"),
)  # fmt: skip
_WORDS = ("ASOF", "STREAM", "MATCH_CONDITION")
_SCAN = re.compile(
    "|".join(
        [rf"\b{a}{_GAP}{b}\b" for a, b in _PAIRS]
        + [rf"\b{w}\b" for w in _WORDS]
        + [r"\bhistory\s*\(", r"\b(?:as_of|deduplicate|sliding_window|DESCRIPTOR)\s*\(", r"^\s*INSERT\b"]
    ),
    re.IGNORECASE | re.DOTALL,
)


def may_be_ours(text: str) -> bool:
    """A cheap look at a statement: whether it can be ours at all. All others pay nothing else.

    >>> may_be_ours("SELECT 1"), may_be_ours("SELECT * FROM a JOIN b AS /* at */ OF a.ts ON a.k = b.k")
    (False, True)
    """
    return _SCAN.search(text) is not None


@dataclass(frozen=True)
class Rewritten:
    """Plain Spark SQL in a statement's place; None: it is done already.

    Attributes:
        sql: the statement.
        notes: what the compiler wants to say once.
        frames: results that it reads by name.
    """

    sql: str | None
    notes: tuple[str, ...] = ()
    frames: dict[str, DataFrame] = field(default_factory=dict)


class SessionStatements:
    """The statements of one session.

    Args:
        spark: the session.
        parser: Spark's own parser, where it is known.
    """

    def __init__(self, spark: SparkSession, parser: Any = None) -> None:
        self.spark = spark
        self._parser = parser
        self.catalog = SparkCatalog(spark)
        self.views = Views(spark)

    def rewrite(self, text: str, accepted: bool, context: Any = None) -> Rewritten | None:
        """Plain Spark SQL for a statement of ours; None for one of Spark's, which reaches it unchanged.

        Args:
            text: the statement.
            accepted: whether Spark's parser takes it.
            context: Spark's parameter context, or None.

        Raises:
            TemporalSqlError: the statement is ours and wrong.
        """
        try:
            tokens = tokenize(text)
        except LexicalError:
            return None
        running = parse_streaming(text, tokens)
        if running is not None:
            return Rewritten(*carry_out(self.spark, running, self.live))
        if not accepted or _words(tokens, 3)[:1] == ["CREATE"]:
            definition = parse_definition(text)
            if definition is not None:
                return self._define(text, definition)
        if not accepted and not _has_clause(tokens):
            return None
        text = substitute_parameters(text, tokens, context)
        try:
            return self._query(text, tokenize(text))
        except TemporalParseError as error:
            if accepted and error.condition == "PARSE.CLAUSE_PLACE":
                return None  # two names side by side, as Spark reads them: SELECT deduplicate within
            raise

    def _define(self, text: str, definition: Definition | Drop | Show) -> Rewritten:
        lowered = self.lower_definition(text, definition)
        for statement in lowered.prepare:
            self.spark.sql(statement)
        return Rewritten(lowered.final)

    def lower_definition(self, text: str, definition: Definition | Drop | Show) -> Lowered:
        """The plain Spark statements that a definition stands for."""
        if isinstance(definition, Definition):
            check_definition(definition)
        with carets(text):
            return self.catalog.plan_statement(definition)

    def plan(self, text: str, portable: bool = False) -> Plan:
        """The plan of a query, or of a statement around one; a portable one names no files of today."""
        running = parse_streaming(text, tokenize(text))
        if isinstance(running, StreamingTable):
            return compile_query(running.query, self._binder(portable), streaming=True)
        return compile_query(text, self._binder(portable), streaming=self._reads_live(text))

    def live(self, statement: StreamingTable, tasks: int) -> LiveQuery:
        """The query of a streaming statement, lowered to a live stream of that many tasks."""
        binder = self._binder()
        with carets_in(statement.text, statement.query_start):
            plan = compile_query(statement.query, binder, streaming=True)
            wanted = dict(statement.properties).get(PROPERTY)
            return lower_stream(plan, self.spark, binder.live_frames, tasks, wanted)

    def _binder(self, portable: bool = False) -> SparkBinder:
        return SparkBinder(self.spark, self.catalog, portable, self._parser)

    def _query(self, text: str, tokens: tuple[Token, ...]) -> Rewritten | None:
        if _words(tokens, 2) == ["EXPLAIN", "TEMPORAL"]:
            return Rewritten(_as_rows(explain_plan(self.plan(text[tokens[1].end :]), self.spark)))
        head = view_head(text, tokens)
        if self._reads_live(text):
            return self._live_query(text, tokens)
        binder = self._binder()
        plan = compile_query(text if head is None else head.query, binder)
        if head is not None and not plan.operators():  # plain SQL once its reads are rewritten: Spark keeps the view
            head, plan = None, compile_query(text, binder)
        if not plan.operators():
            return None if plan.root.sql == plan.text else Rewritten(plan.root.sql, plan.notes)
        if head is not None and head.temporary:
            sql = lower_to_views(plan, self.spark, self.views, binder.analyzed)
            create_temporary_view(head, sql, binder)
            return Rewritten(None, plan.notes)
        if head is not None:
            create_view(head, plan, self._binder())
            return Rewritten(None, plan.notes)
        if plan.root.columns:
            return Rewritten(plan.root.sql, plan.notes, lower_operators(plan, self.spark, binder.analyzed))
        return Rewritten(lower_to_views(plan, self.spark, self.views, binder.analyzed), plan.notes)

    def _reads_live(self, text: str) -> bool:
        """Whether a statement reads a definition of ours with STREAM."""
        if "stream" not in text.lower():
            return False
        relations = scan(text).relations()
        return any(r.stream and r.parts and self.catalog.resolve(r.parts) is not None for r in relations)

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
        live = lower_stream(plan, self.spark, binder.live_frames, configured_tasks(self.spark))
        if live.late:
            raise UnsupportedError("UNSUPPORTED.LATE_TO_NEEDS_TABLE", text, late_span(text))
        notes = (*plan.notes, *ready(self.spark, live.conf))
        return Rewritten(live.sql, notes, dict(live.read_by_root))


def _words(tokens: tuple[Token, ...], count: int) -> list[str]:
    return [t.word for t in tokens[:count]]


def _has_clause(tokens: tuple[Token, ...]) -> bool:
    """Whether a refused statement holds words of ours, so that our message is better than Spark's."""
    pairs = {(a.word, b.word) for a, b in pairwise(tokens)}
    words = {t.word for t in tokens}
    return bool(pairs & (CLAUSE_PAIRS | {("EXPLAIN", "TEMPORAL")})) or bool(
        words & {"ASOF", "MATCH_CONDITION", "DESCRIPTOR"}
    )


def _as_rows(text: str) -> str:
    lines = ", ".join("('" + line.replace("\\", "\\\\").replace("'", "\\'") + "')" for line in text.splitlines())
    return f"SELECT plan FROM VALUES {lines} AS t(plan)"
