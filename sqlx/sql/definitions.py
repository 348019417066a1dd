"""Reads the statements that define, drop and list streams, versioned tables and upsert tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from catalog.definitions import KIND_NAMES, KIND_WORDS, Definition, Drop, Offsets, Refused, Show
from catalog.entries import Column, Kind
from sqlx.errors import BindError, TemporalParseError, did_you_mean
from sqlx.sql.cursor import Cursor
from sqlx.sql.intervals import parse_interval
from sqlx.sql.tokens import QUERY_WORDS, Token, tokenize, unquoted

# Reads what is inside the clauses of a definition: names, columns with types, properties.


class ListReader:
    """Reads lists in parentheses from a cursor.

    Attributes:
        spans: what was read ("KEYS id", "COLUMN id", "PROPERTY path" …) to its offsets.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.spans: dict[str, Offsets] = {}

    def error(self, condition: str, span: Offsets, **parameters: str) -> TemporalParseError:
        """An error with its caret."""
        return TemporalParseError(condition, self.cursor.text, span, **parameters)

    def in_parentheses(self, read_item: Callable[[], None]) -> None:
        """Items in parentheses, at least one, separated by commas."""
        if self.cursor.symbol() != "(":
            self.cursor.fail("`(`")
        self.cursor.closing()
        self.cursor.step()
        read_item()
        while self.cursor.symbol() == ",":
            self.cursor.step()
            read_item()
        if self.cursor.symbol() != ")":
            self.cursor.fail("`,` or `)`")
        self.cursor.step()

    def name_list(self, clause: str) -> tuple[str, ...]:
        found: list[str] = []

        def read_item() -> None:
            token = self.cursor.expect_name("the name of a column")
            self.spans[f"{clause} {token.name}"] = (token.start, token.end)
            found.append(token.name)

        self.in_parentheses(read_item)
        return tuple(found)

    def column_list(self) -> tuple[Column, ...]:
        start = self.cursor.index
        found: list[Column] = []

        def read_item() -> None:
            first = self.cursor.index
            name = self.cursor.expect_name("the name of a column")
            found.append(Column(name.name, self.type_text()))
            self.spans[f"COLUMN {name.name}"] = self.cursor.span_from(first).pair

        self.in_parentheses(read_item)
        self.spans["COLUMNS"] = self.cursor.span_from(start).pair
        return tuple(found)

    def type_text(self) -> str:
        """The text of a type: up to a comma or parenthesis that is not inside of one."""
        start, depth = self.cursor.index, 0
        while not self.cursor.done:
            symbol = self.cursor.symbol()
            if depth == 0 and symbol in (",", ")"):
                break
            depth += symbol.count("<") + (symbol == "(") - symbol.count(">") - (symbol == ")")
            self.cursor.step()
        return self.cursor.span_from(start).of(self.cursor.text) if self.cursor.index > start else ""

    def qualified(self, what: str) -> tuple[str, tuple[str, ...]]:
        """A dotted name: as written, and its parts."""
        start = self.cursor.index
        parts = tuple(part.name for part in self.cursor.path(what, "a name"))
        return self.cursor.span_from(start).of(self.cursor.text), parts

    def pairs(self, *, needs_equals: bool) -> tuple[tuple[str, str], ...]:
        found: list[tuple[str, str]] = []

        def read_item() -> None:
            start = self.cursor.index
            key = self.key_text()
            has_equals = self.cursor.symbol() == "="
            self.cursor.step(has_equals)
            if not has_equals and needs_equals:
                self.cursor.fail("`=`")
            found.append((key, self.value_text()))
            self.spans[f"PROPERTY {key}"] = self.cursor.span_from(start).pair

        self.in_parentheses(read_item)
        return tuple(found)

    def key_text(self) -> str:
        token = self.cursor.peek()
        if token is not None and token.kind == "string":
            return unquoted(self.cursor.next())
        return ".".join(self.qualified("the name of a property")[1])

    def value_text(self) -> str:
        token = self.cursor.peek()
        sign = "-" if token is not None and token.text == "-" else ""
        self.cursor.step(bool(sign))
        token = self.cursor.peek()
        if token is None or token.kind == "op":
            self.cursor.fail("a value")
        token = self.cursor.next()
        return sign + (unquoted(token) if token.kind == "string" else token.text)


# The clauses of a definition: each read where it is, in any order, at most once.


_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
#: The first words of a clause, and all of it; a longer one is before its beginning.
_HEADS: dict[str, tuple[str, ...]] = {
    "USING": ("USING",),
    "OPTIONS": ("OPTIONS",),
    "FROM": ("FROM",),
    "KEYS": ("KEYS",),
    "TIMESTAMP BY": ("TIMESTAMP", "BY"),
    "SEQUENCE BY": ("SEQUENCE", "BY"),
    "APPLY AS DELETE WHEN": ("APPLY", "AS", "DELETE", "WHEN"),
    "HISTORY RETENTION": ("HISTORY", "RETENTION"),
    "LATE TO": ("LATE", "TO"),
    "VALID": ("VALID",),
    "TBLPROPERTIES": ("TBLPROPERTIES",),
    "AS": ("AS",),
}
#: The words that begin a clause.
CLAUSES = tuple(words[0] for words in _HEADS.values())
_MEANT = {
    **dict.fromkeys(("PRIMARY", "UNIQUE"), "KEYS (column, …)"),
    **dict.fromkeys(("WATERMARK", "EVENT", "EVENTTIME", "ROWTIME"), "TIMESTAMP BY time"),
    **dict.fromkeys(("WITH", "LOCATION", "STORED"), "USING format OPTIONS (name 'value', …)"),
}
_TABLES_ONLY = {
    "KEYS": "Rows of a stream do not replace each other: leave KEYS out, or write CREATE VERSIONED TABLE (history by "
    "time) or CREATE UPSERT TABLE (the last row to arrive).",
    "APPLY AS DELETE WHEN": "A row of a stream always counts: filter it with AS SELECT … WHERE, or define a table.",
    "HISTORY RETENTION": "A stream keeps no history: GRACE PERIOD of a query says how long it waits.",
    "LATE TO": "Write LATE TO in the query that refuses late rows.",
    "VALID": "VALID belongs to CREATE VERSIONED TABLE … FROM SCD2 TABLE.",
}
_SCD2_HAS = {
    "TIMESTAMP BY": "the event time of an SCD2 row is the first column of VALID",
    "SEQUENCE BY": "an SCD2 table does not say when a row became known",
    "APPLY AS DELETE WHEN": "a row of an SCD2 table ends at the second column of VALID",
}


class Clauses(ListReader):
    """Reads everything after the name of a definition.

    Attributes:
        values: the fields of :class:`catalog.definitions.Definition` that were written.
    """

    def __init__(self, cursor: Cursor, kind: Kind) -> None:
        super().__init__(cursor)
        self.kind = kind
        self.values: dict[str, Any] = {}
        self.readers: dict[str, Callable[[], None]] = {
            "USING": self._using,
            "OPTIONS": lambda: self._set("options", self.pairs(needs_equals=False)),
            "FROM": self._from,
            "KEYS": lambda: self._set("keys", self.name_list("KEYS")),
            "TIMESTAMP BY": lambda: self._set("timestamp_by", self._expression("TIMESTAMP BY")),
            "SEQUENCE BY": lambda: self._set("sequence_by", self._expression("SEQUENCE BY")),
            "APPLY AS DELETE WHEN": lambda: self._set("delete_when", self._expression("APPLY AS DELETE WHEN")),
            "HISTORY RETENTION": self._retention,
            "LATE TO": lambda: self._set("late_to", self.qualified("the table that keeps late rows")[0]),
            "VALID": lambda: self._set("valid", self.name_list("VALID")),
            "TBLPROPERTIES": self._properties,
            "AS": self._query,
        }

    def read(self) -> None:
        """Read the column list and all clauses.

        Raises:
            TemporalParseError: a clause is broken, unknown or given twice.
        """
        if self.cursor.symbol() == "(":
            self.values["columns"] = self.column_list()
        while not self.cursor.done:
            self._clause()

    def check(self) -> None:
        """What must and may not stand together.

        Raises:
            TemporalParseError: a clause is missing or has no place here.
        """
        self._check_sources()
        for clause, hint in _TABLES_ONLY.items():
            if self.kind == "stream" and clause in self.spans:
                raise self._not_here(clause, hint)
        if "VALID" in self.spans and not self._is_scd2:
            raise self._not_here("VALID", _TABLES_ONLY["VALID"])
        if self.kind != "stream" and "KEYS" not in self.spans:
            raise self.error("DEFINITION.MISSING_KEYS", self.spans["NAME"], kind=KIND_WORDS[self.kind])
        if self._is_scd2:
            self._check_scd2()
        elif "TIMESTAMP BY" not in self.spans and self.values.get("using", "").lower() != "kafka":
            raise self.error("DEFINITION.MISSING_TIMESTAMP", self.spans["NAME"], kind=KIND_WORDS[self.kind])

    @property
    def _is_scd2(self) -> bool:
        return "SCD2" in self.spans

    def _not_here(self, clause: str, hint: str) -> TemporalParseError:
        kind = KIND_NAMES[self.kind]
        return self.error("DEFINITION.CLAUSE_NOT_HERE", self.spans[clause], clause=clause, kind=kind, hint=hint)

    def _check_sources(self) -> None:
        sources = [clause for clause in ("USING", "FROM", "AS") if clause in self.spans]
        if len(sources) > 1:
            first, second = sorted(sources[:2], key=lambda clause: self.spans[clause])
            raise self.error("DEFINITION.TWO_SOURCES", self.spans[second], first=first, second=second)
        if "OPTIONS" in self.spans and "USING" not in self.spans:
            raise self._not_here("OPTIONS", "OPTIONS belongs to USING source.")
        if sources in ([], ["USING"]) and any(not column.type for column in self.values.get("columns", ())):
            raise self.error("DEFINITION.NO_COLUMNS", self.spans["COLUMNS"])
        if not sources and "columns" not in self.values:
            raise self.error("DEFINITION.NO_COLUMNS", self.spans["NAME"])

    def _check_scd2(self) -> None:
        if self.kind != "versioned":
            raise self.error(
                "DEFINITION.CLAUSE_NOT_HERE",
                self.spans["SCD2"],
                clause="FROM SCD2 TABLE",
                kind=KIND_NAMES[self.kind],
                hint="An SCD2 table has a history: write CREATE VERSIONED TABLE.",
            )
        for clause, reason in _SCD2_HAS.items():
            if clause in self.spans:
                raise self._not_here(clause, f"Leave it out: {reason}.")
        if len(self.values.get("valid", ())) != 2:
            span = self.spans.get("VALID", self.spans["SCD2"])
            raise self.error("DEFINITION.MISSING_VALID", span, found=str(len(self.values.get("valid", ()))))
        self.values["timestamp_by"] = "`" + self.values["valid"][0].replace("`", "``") + "`"

    def _set(self, field: str, value: Any) -> None:
        self.values[field] = value

    def _head(self) -> str | None:
        """The clause that begins at the position."""
        for clause, words in _HEADS.items():
            if self.cursor.at(*words):
                return clause
        return None

    def _clause(self) -> None:
        start = self.cursor.index
        clause = self._head()
        if clause is None:
            self._unknown()
        self.cursor.step(len(_HEADS[clause]))
        if clause in self.spans:
            head = self.cursor.span_from(start).pair
            raise self.error("DEFINITION.CLAUSE_TWICE", head, clause=clause)
        self.spans[clause] = self.cursor.span_from(start).pair
        self.readers[clause]()
        self.spans[clause] = self.cursor.span_from(start).pair

    def _unknown(self) -> NoReturn:
        """A clause that is cut short or misspelt."""
        word = self.cursor.word()
        for words in _HEADS.values():
            if word == words[0]:
                self.cursor.step(next(n for n, w in enumerate(words) if self.cursor.word(n) != w))
                self.cursor.fail(" ".join(words[1:]))
        whole = next((words for words in _HEADS.values() if word in words), None)
        token = self.cursor.next()
        meant = _MEANT.get(word) or (" ".join(whole) if whole else None)
        suggestion = f"Did you mean `{meant}`? " if meant else did_you_mean(token.text, CLAUSES)
        span = token.start, token.end
        kind = KIND_NAMES[self.kind]
        raise self.error("DEFINITION.UNKNOWN_CLAUSE", span, word=token.text, kind=kind, suggestion=suggestion)

    def _expression(self, clause: str) -> str:
        following = self._head()
        if self.cursor.done or (following is not None and not self._reads_as_column(following)):
            self.cursor.fail(f"an expression after {clause}")
        return self.cursor.skip_expression().of(self.cursor.text)

    def _reads_as_column(self, head: str) -> bool:
        """A column may be called like a clause (`TIMESTAMP BY valid`), unless the clause goes on after it."""
        after = self.cursor.peek(1)
        return len(_HEADS[head]) == 1 and head != "AS" and (after is None or after.text != "(") and head != "FROM"

    def _using(self) -> None:
        self.values["using"] = self.qualified("a data source, for instance PARQUET")[0].replace("`", "")

    def _from(self) -> None:
        start = self.cursor.index
        if self.cursor.take("SCD2", "TABLE"):
            self.spans["SCD2"] = self.cursor.span_from(start).pair
        elif self.cursor.word() == "STREAM" and self._stream_is_keyword():
            self.cursor.step()
            self.values["from_stream"] = True
        self._relation()
        self._alias()

    def _stream_is_keyword(self) -> bool:
        following = self.cursor.peek(1)
        if following is None:
            return False
        self.cursor.step()
        is_name = following.text == "(" or (following.is_name and self._head() is None)
        self.cursor.index -= 1
        return is_name

    def _relation(self) -> None:
        start = self.cursor.index
        if self.cursor.symbol() == "(":
            self.cursor.skip_group()
        else:
            if self._head() is not None:
                self.cursor.fail("a relation after FROM")
            self.values["relation_parts"] = self.qualified("a relation")[1]
            if self.cursor.symbol() == "(":
                self.cursor.skip_group()
                del self.values["relation_parts"]
        self.spans["RELATION"] = self.cursor.span_from(start).pair
        self.values["relation"] = self.cursor.span_from(start).of(self.cursor.text)

    def _alias(self) -> None:
        """AS alias [(columns)]; AS with a query after it is the AS clause."""
        named = self.cursor.peek(1)
        if self.cursor.word() != "AS" or named is None or not named.is_name or named.word in _QUERY_WORDS:
            return
        start = self.cursor.index
        self.cursor.step(2)
        self.values["alias"] = named.name
        if self.cursor.symbol() == "(":  # new names for the columns: the relation becomes a query
            self.cursor.skip_group()
            alias = self.cursor.span_from(start).of(self.cursor.text)
            self.values["relation"] = f"(SELECT * FROM {self.values['relation']} {alias})"
            self.values.pop("relation_parts", None)

    def _retention(self) -> None:
        self.values["retention_us"] = self._interval("HISTORY RETENTION")

    def _interval(self, what: str) -> int:
        value, self.cursor.index = parse_interval(self.cursor.tokens, self.cursor.index, what, self.cursor.text)
        return value

    def _query(self) -> None:
        if self.cursor.done or not (self.cursor.word() in _QUERY_WORDS or self.cursor.symbol() == "("):
            self.cursor.fail("a query after AS")
        start, stop = self.cursor.index, self.cursor.stop
        words = [token.word for token in self.cursor.tokens[:stop][-2:]]
        self.cursor.index = stop - 2 if words == ["EMIT", "CHANGES"] else stop  # a definition does so anyway
        self.values["query"] = self.cursor.span_from(start).of(self.cursor.text)
        self.cursor.index = stop

    def _properties(self) -> None:
        pairs = self.pairs(needs_equals=True)
        for key, value in pairs:
            span = self.spans[f"PROPERTY {key}"]
            if key.lower().startswith("sqlx."):
                raise self.error("DEFINITION.RESERVED_PROPERTY", span, key=key)
            if key == "max_future":
                self.values["max_future_us"] = self._property_interval(key, value, span)
        self.values["properties"] = tuple(pair for pair in pairs if pair[0] != "max_future")

    def _property_interval(self, key: str, value: str, span: Offsets) -> int:
        literal = value if re.match(r"\s*-?\s*interval\b", value, re.IGNORECASE) else f"INTERVAL '{value}'"
        try:
            return parse_interval(tokenize(literal), 0, f"The property `{key}`", literal)[0]
        except TemporalParseError as error:
            parameters = {"found": f"`{value}`", "what": f"The property `{key}`"}
            raise self.error(error.condition, span, **parameters) from None


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
    cursor = Cursor.of_statement(text, tokens)
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
            cursor.step()
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
            cursor.step()
            cursor.fail("TABLE")
        return None
    if_exists = _optional(cursor, "IF", "EXISTS")
    name = _name(cursor, kind)
    _end(cursor)
    return Drop(kind, tuple(t.name for t in name), cursor.text, (name[0].start, name[-1].end), if_exists)


def _show(text: str, end: int) -> Show | None:
    """What is after SHOW. sqlglot takes it for one string, so it is read as words and comments here."""
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


# Reads the statements about running streams; the clauses of CREATE STREAMING TABLE stand in any order, once each.


_CLAUSES = ("USING", "OPTIONS", "CHECKPOINT", "TRIGGER", "TASKS", "BACKFILL", "TBLPROPERTIES", "AS")
_MOST_TASKS = 4096
_BACKFILL = "Write BACKFILL FROM archive UNTIL TIMESTAMP '2026-01-01', or BACKFILL orders FROM archive, rates FROM old."
_RELATION = "a table, a view, or a query in parentheses"
_ALTER = "PARTITIONS is how many of its TASKS run at once: ALTER STREAMING QUERY q SET PARTITIONS 8."


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
class Backfill:
    """The history of one source: BACKFILL [source] FROM relation [UNTIL cut].

    Attributes:
        relation: a name, or a query in parentheses.
        source: the parts of the name of the definition; () where the query reads but one stream.
        until: up to where it is history: a time, or a condition over its columns; "" is all of it.
        spans: "SOURCE", "RELATION" and "UNTIL" to where each is.
    """

    relation: str
    source: tuple[str, ...]
    until: str
    spans: dict[str, Offsets]


@dataclass(frozen=True)
class StreamingTable:
    """One CREATE STREAMING TABLE.

    Attributes:
        name: the parts of its name.
        text: the statement.
        spans: clause to its offsets; "NAME" always.
        query: the query after AS; query_start: where it is in the text.
        replace, if_not_exists: as written.
        using: the format, or "" for Parquet.
        options, properties: of OPTIONS and TBLPROPERTIES.
        checkpoint: the folder of CHECKPOINT, or "".
        trigger: when micro-batches start.
        tasks: of TASKS, or None.
        backfills: of BACKFILL.
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
    backfills: tuple[Backfill, ...] = ()

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
    """DESCRIBE or STOP STREAMING QUERY name, or ALTER STREAMING QUERY name SET PARTITIONS n.

    Attributes:
        action: what is to be done.
        name: the query.
        text: the statement.
        span: where it names the query.
        partitions: of SET PARTITIONS.
        partitions_span: where that number is.
    """

    action: Literal["DESCRIBE", "STOP", "ALTER"]
    name: tuple[str, ...]
    text: str
    span: Offsets
    partitions: int = 0
    partitions_span: Offsets = (0, 0)


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

    >>> from sqlx.sql.tokens import tokenize
    >>> text = "CREATE STREAMING TABLE t TASKS 4 AS SELECT 1"
    >>> parse_streaming(text, tokenize(text)).tasks
    4
    """
    cursor = Cursor.of_statement(text, tokens)
    if cursor.word() == "CREATE":
        return _create_streaming_table(cursor)
    if cursor.take("SHOW", "STREAMING", "QUERIES"):
        _end(cursor)
        return ShowQueries()
    for action in ("DESCRIBE", "DESC", "STOP", "ALTER"):
        # DESCRIBE streaming query is Spark's: the column `query` of a table `streaming`
        if cursor.at(action, "STREAMING", "QUERY") and (action in ("STOP", "ALTER") or cursor.peek(3)):
            cursor.step(3)
            return _command(cursor, action)
    return None


def _count(cursor: Cursor, hint: str) -> Token:
    """Step over a number of tasks or partitions."""
    token = cursor.peek()
    if token is None or not token.text.isdigit() or not 1 <= int(token.text) <= _MOST_TASKS:
        cursor.fail(f"a number from 1 to {_MOST_TASKS}", hint)
    cursor.step()
    return token


def _command(cursor: Cursor, action: str) -> QueryCommand:
    reader = ListReader(cursor)
    start = cursor.index
    name = reader.qualified("the name of a streaming query")[1]
    span = cursor.span_from(start).pair
    if action == "ALTER":
        if not cursor.take("SET", "PARTITIONS"):
            cursor.fail("SET PARTITIONS", _ALTER)
        token = _count(cursor, _ALTER)
        _end(cursor)
        return QueryCommand("ALTER", name, cursor.text, span, int(token.text), (token.start, token.end))
    _end(cursor)
    return QueryCommand("STOP" if action == "STOP" else "DESCRIBE", name, cursor.text, span)


def _create_streaming_table(cursor: Cursor) -> StreamingTable | None:
    words = [cursor.word(n) for n in range(5)]
    if words[1:3] != ["STREAMING", "TABLE"] and (words[1] != "OR" or words[3:5] != ["STREAMING", "TABLE"]):
        return None
    cursor.step()
    replace = cursor.take("OR", "REPLACE")
    if not replace and cursor.take("OR"):
        cursor.fail("REPLACE", "OR REPLACE starts anew; without it the query goes on from its checkpoint.")
    cursor.step(2)
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
    """Reads what is after the name."""

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(cursor)
        self.values: dict[str, Any] = {}
        self.readers: dict[str, Callable[[], None]] = {
            "USING": self._using,
            "OPTIONS": lambda: self._set("options", self.pairs(needs_equals=False)),
            "CHECKPOINT": lambda: self._set("checkpoint", self._folder()),
            "TRIGGER": self._trigger,
            "TASKS": self._tasks,
            "BACKFILL": self._backfills,
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
        self.cursor.step()
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
        cursor.step()
        if cursor.take("AVAILABLE", "NOW"):
            self._set("trigger", Trigger(available_now=True))
        elif cursor.take("EVERY"):
            every_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "TRIGGER (EVERY …)", cursor.text)
            self._set("trigger", Trigger(every_us=every_us))
        else:
            cursor.fail("AVAILABLE NOW or EVERY and an interval")
        if cursor.symbol() != ")":
            cursor.fail("`)`")
        cursor.step()

    def _tasks(self) -> None:
        token = _count(self.cursor, "TASKS is how many pieces the state has: TASKS 16.")
        self._set("tasks", int(token.text))

    def _backfills(self) -> None:
        found = [self._backfill()]
        while self.cursor.symbol() == ",":
            self.cursor.step()
            found.append(self._backfill())
        self._set("backfills", tuple(found))

    def _backfill(self) -> Backfill:
        cursor, spans = self.cursor, dict[str, Offsets]()
        source: tuple[str, ...] = ()
        if not cursor.at("FROM"):
            self._not_a_clause("FROM, or the name of a stream or table and FROM")
            start = cursor.index
            source = self.qualified("FROM, or the name of the stream or table whose history it is")[1]
            spans["SOURCE"] = cursor.span_from(start).pair
        if not cursor.take("FROM"):
            cursor.fail("FROM", _BACKFILL)
        start = cursor.index
        if cursor.symbol() == "(":
            cursor.skip_group()
        else:
            self._not_a_clause(_RELATION)
            self.qualified(_RELATION)
        relation = cursor.span_from(start)
        spans["RELATION"] = relation.pair
        until = ""
        if cursor.take("UNTIL"):
            self._not_a_clause("a time, or a condition")
            cut = cursor.skip_expression()
            spans["UNTIL"], until = cut.pair, cut.of(cursor.text)
        return Backfill(relation.of(cursor.text), source, until, spans)

    def _not_a_clause(self, expected: str) -> None:
        """The word that begins the next clause is no name."""
        if self.cursor.done or self.cursor.word() in self.readers:
            self.cursor.fail(expected, _BACKFILL)

    def _properties(self) -> None:
        found = self.pairs(needs_equals=True)
        for key, _ in found:
            if key.lower().startswith("sqlx."):
                raise self.error("DEFINITION.RESERVED_PROPERTY", self.spans[f"PROPERTY {key}"], key=key)
        self._set("properties", found)

    def _query(self) -> None:
        cursor = self.cursor
        if cursor.done or not (cursor.word() in QUERY_WORDS or cursor.symbol() == "("):
            cursor.fail("a query after AS")
        start = cursor.index
        cursor.index = cursor.stop
        span = cursor.span_from(start)
        self._set("query", span.of(cursor.text))
        self._set("query_start", span.start)
