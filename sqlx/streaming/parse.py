"""Reads the statements about running streams; the clauses of CREATE STREAMING TABLE stand in any order, once each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from catalog.definitions import Offsets
from sqlx.cursor import Cursor
from sqlx.ddl_reader import ListReader
from sqlx.dialect import Token
from sqlx.errors import UnsupportedError, did_you_mean
from sqlx.intervals import parse_interval
from sqlx.words import QUERY_WORDS

_CLAUSES = ("USING", "OPTIONS", "CHECKPOINT", "TRIGGER", "TASKS", "TBLPROPERTIES", "AS")
_MOST_TASKS = 4096


@dataclass(frozen=True)
class Trigger:
    """When micro-batches start: as fast as they can, every so often, or until all that is there now is read.

    Attributes:
        available_now: all that is there now, then the query ends.
        every_us: from the start of one micro-batch to the next; None is as fast as possible.
    """

    available_now: bool = False
    every_us: int | None = None

    def __str__(self) -> str:
        """The clause, as SHOW STREAMING QUERIES prints it."""
        if self.available_now:
            return "AVAILABLE NOW"
        return "as fast as possible" if self.every_us is None else f"EVERY {self.every_us / 1e6:g} SECONDS"


@dataclass(frozen=True)
class StreamingTable:
    """One CREATE STREAMING TABLE.

    Attributes:
        name: the parts of its name.
        text: the statement.
        spans: clause to its offsets; "NAME" always.
        query: the query behind AS; query_start: where it stands in the text.
        replace, if_not_exists: as written.
        using: the format, or "" for Parquet.
        options, properties: of OPTIONS and TBLPROPERTIES.
        checkpoint: the folder of CHECKPOINT, or "".
        trigger: when micro-batches start.
        tasks: of TASKS, or None.
    """

    name: tuple[str, ...]
    text: str
    spans: dict[str, Offsets]
    query: str
    query_start: int
    replace: bool = False
    if_not_exists: bool = False
    using: str = ""
    options: tuple[tuple[str, str], ...] = ()
    checkpoint: str = ""
    trigger: Trigger = Trigger()
    tasks: int | None = None
    properties: tuple[tuple[str, str], ...] = ()

    @property
    def format(self) -> str:
        """The format of the sink; Parquet where none was written."""
        return self.using or "parquet"

    def span(self, clause: str) -> Offsets:
        """Offsets of a clause, or of the name where the clause was not written."""
        return self.spans.get(clause, self.spans["NAME"])


@dataclass(frozen=True)
class ShowQueries:
    """SHOW STREAMING QUERIES."""


@dataclass(frozen=True)
class QueryCommand:
    """DESCRIBE STREAMING QUERY name or STOP STREAMING QUERY name."""

    action: Literal["DESCRIBE", "STOP"]
    name: tuple[str, ...]
    text: str
    span: Offsets


Statement = StreamingTable | ShowQueries | QueryCommand


def parse_streaming(text: str, tokens: tuple[Token, ...]) -> Statement | None:
    """Read one statement about running streams.

    Args:
        text: one statement; a semicolon at its end is fine.
        tokens: its tokens.

    Returns:
        What it says, or None where it is no statement of this kind.

    Raises:
        TemporalParseError: it begins like one, but does not follow the grammar.
        UnsupportedError: ALTER STREAMING QUERY.

    >>> from sqlx.dialect import tokenize
    >>> text = "CREATE STREAMING TABLE t TASKS 4 AS SELECT 1"
    >>> parse_streaming(text, tokenize(text)).tasks
    4
    """
    stop = len(tokens) - bool(tokens and tokens[-1].text == ";")
    cursor = Cursor(text, tokens, stop=stop)
    if cursor.word() == "CREATE":
        return _create(cursor)
    if cursor.take("SHOW", "STREAMING", "QUERIES"):
        _end(cursor)
        return ShowQueries()
    for action in ("DESCRIBE", "DESC", "STOP", "ALTER"):
        # DESCRIBE streaming query is Spark's: the column `query` of a table `streaming`
        if cursor.at(action, "STREAMING", "QUERY") and (action in ("STOP", "ALTER") or cursor.peek(3)):
            cursor.index += 3
            return _command(cursor, action)
    return None


def _command(cursor: Cursor, action: str) -> QueryCommand:
    reader = ListReader(cursor)
    start = cursor.index
    name = reader.qualified("the name of a streaming query")[1]
    span = cursor.span_from(start).pair
    if action == "ALTER":
        whole = (cursor.tokens[0].start, cursor.tokens[cursor.stop - 1].end)
        raise UnsupportedError("UNSUPPORTED.ALTER_STREAMING_QUERY", cursor.text, whole, name=".".join(name))
    _end(cursor)
    return QueryCommand("STOP" if action == "STOP" else "DESCRIBE", name, cursor.text, span)


def _create(cursor: Cursor) -> StreamingTable | None:
    words = [cursor.word(n) for n in range(5)]
    if words[1:3] != ["STREAMING", "TABLE"] and (words[1] != "OR" or words[3:5] != ["STREAMING", "TABLE"]):
        return None
    cursor.index += 1
    replace = cursor.take("OR", "REPLACE")
    if not replace and cursor.take("OR"):
        cursor.fail("REPLACE", "OR REPLACE starts anew; without it the query goes on from its checkpoint.")
    cursor.index += 2
    clauses = _Clauses(cursor)
    if_not_exists = cursor.take("IF", "NOT", "EXISTS")
    if not if_not_exists and cursor.at("IF", "NOT"):
        cursor.fail("IF NOT EXISTS")
    start = cursor.index
    name = clauses.qualified("the name of a streaming table")[1]
    clauses.spans["NAME"] = cursor.span_from(start).pair
    if replace and if_not_exists:
        raise clauses.error("DEFINITION.REPLACE_OR_KEEP", clauses.spans["NAME"])
    clauses.read()
    return StreamingTable(
        name, cursor.text, clauses.spans, replace=replace, if_not_exists=if_not_exists, **clauses.values
    )


class _Clauses(ListReader):
    """Reads what stands behind the name."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self.values: dict[str, Any] = {}
        self.readers: dict[str, Callable[[], None]] = {
            "USING": self._using,
            "OPTIONS": lambda: self._set("options", self.pairs(needs_equals=False)),
            "CHECKPOINT": lambda: self._set("checkpoint", self._folder()),
            "TRIGGER": self._trigger,
            "TASKS": self._tasks,
            "TBLPROPERTIES": self._properties,
            "AS": self._query,
        }

    def read(self) -> None:
        """Read all clauses; the query ends them."""
        if self.cursor.symbol() == "(":
            self.cursor.fail("a clause, or AS with a query", "The columns of a streaming table are those of its query.")
        while not self.cursor.done:
            self._clause()
        if "AS" not in self.spans:
            self.cursor.fail("AS with a query")

    def _set(self, field: str, value: Any) -> None:
        self.values[field] = value

    def _clause(self) -> None:
        start = self.cursor.index
        clause = self.cursor.word()
        if clause not in self.readers:
            self._unknown()
        self.cursor.index += 1
        if clause in self.spans:
            raise self.error("DEFINITION.CLAUSE_TWICE", self.cursor.span_from(start).pair, clause=clause)
        self.readers[clause]()
        self.spans[clause] = self.cursor.span_from(start).pair

    def _unknown(self) -> NoReturn:
        token = self.cursor.next()
        close = did_you_mean(token.text, _CLAUSES)
        suggestion = close if close.startswith("Did") else ""
        span = token.start, token.end
        raise self.error(
            "STREAMING.UNKNOWN_CLAUSE", span, word=token.text, clauses=", ".join(_CLAUSES), suggestion=suggestion
        )

    def _using(self) -> None:
        if self.cursor.word() in self.readers:
            self.cursor.fail("a format, for instance PARQUET")
        self._set("using", self.qualified("a format, for instance PARQUET")[0].replace("`", ""))

    def _folder(self) -> str:
        token = self.cursor.peek()
        if token is None or token.kind != "string":
            self.cursor.fail("a folder in quotes", "Write CHECKPOINT '/checkpoints/name'.")
        folder = self.value_text()
        if not folder.strip():
            self.cursor.index -= 1
            self.cursor.fail("a folder in quotes", "Write CHECKPOINT '/checkpoints/name'.")
        return folder

    def _trigger(self) -> None:
        cursor = self.cursor
        if cursor.symbol() != "(":
            cursor.fail("`(`", "Write TRIGGER (AVAILABLE NOW) or TRIGGER (EVERY INTERVAL 10 SECONDS).")
        cursor.index += 1
        if cursor.take("AVAILABLE", "NOW"):
            self._set("trigger", Trigger(available_now=True))
        elif cursor.take("EVERY"):
            every_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "TRIGGER (EVERY …)", cursor.text)
            self._set("trigger", Trigger(every_us=every_us))
        else:
            cursor.fail("AVAILABLE NOW or EVERY and an interval")
        if cursor.symbol() != ")":
            cursor.fail("`)`")
        cursor.index += 1

    def _tasks(self) -> None:
        token = self.cursor.peek()
        if token is None or not token.text.isdigit() or not 1 <= int(token.text) <= _MOST_TASKS:
            self.cursor.fail(f"a number from 1 to {_MOST_TASKS}", "TASKS is how many pieces the state has: TASKS 16.")
        self._set("tasks", int(self.cursor.next().text))

    def _properties(self) -> None:
        found = self.pairs(needs_equals=True)
        for key, _ in found:
            if key.lower().startswith("sqlx."):
                raise self.error("DEFINITION.RESERVED_PROPERTY", self.spans[f"PROPERTY {key}"], key=key)
        self._set("properties", found)

    def _query(self) -> None:
        cursor = self.cursor
        if cursor.done or not (cursor.word() in QUERY_WORDS or cursor.symbol() == "("):
            cursor.fail("a query behind AS")
        start = cursor.index
        cursor.index = cursor.stop
        span = cursor.span_from(start)
        self._set("query", span.of(cursor.text))
        self._set("query_start", span.start)


def _end(cursor: Cursor) -> None:
    if not cursor.done:
        cursor.fail("the end of the statement")
