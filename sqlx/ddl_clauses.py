"""The clauses of a definition: each read where it stands, in any order, at most once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from catalog.definitions import KIND_NAMES, KIND_WORDS, Offsets
from catalog.entries import Kind
from sqlx.cursor import Cursor
from sqlx.ddl_reader import ListReader
from sqlx.dialect import tokenize
from sqlx.errors import TemporalParseError, did_you_mean
from sqlx.intervals import parse_interval

_QUERY_WORDS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
#: The first words of a clause, and all of it; a longer one stands before its beginning.
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
    """Reads everything behind the name of a definition.

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
        self.cursor.index += len(_HEADS[clause])
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
                self.cursor.index += next(n for n, w in enumerate(words) if self.cursor.word(n) != w)
                self.cursor.fail(" ".join(words[1:]))
        token = self.cursor.next()
        suggestion = did_you_mean(token.text, CLAUSES)
        span = token.start, token.end
        kind = KIND_NAMES[self.kind]
        raise self.error("DEFINITION.UNKNOWN_CLAUSE", span, word=token.text, kind=kind, suggestion=suggestion)

    def _expression(self, clause: str) -> str:
        following = self._head()
        if self.cursor.done or (following is not None and not self._reads_as_column(following)):
            self.cursor.fail(f"an expression behind {clause}")
        return self.cursor.skip_expression().of(self.cursor.text)

    def _reads_as_column(self, head: str) -> bool:
        """A column may be called like a clause (`TIMESTAMP BY valid`), unless the clause goes on behind it."""
        after = self.cursor.peek(1)
        return len(_HEADS[head]) == 1 and head != "AS" and (after is None or after.text != "(") and head != "FROM"

    def _using(self) -> None:
        self.values["using"] = self.qualified("a data source, for instance PARQUET")[0].replace("`", "")

    def _from(self) -> None:
        start = self.cursor.index
        if self.cursor.take("SCD2", "TABLE"):
            self.spans["SCD2"] = self.cursor.span_from(start).pair
        elif self.cursor.word() == "STREAM" and self._stream_is_keyword():
            self.cursor.index += 1
            self.values["from_stream"] = True
        self._relation()
        self._alias()

    def _stream_is_keyword(self) -> bool:
        following = self.cursor.peek(1)
        if following is None:
            return False
        self.cursor.index += 1
        is_name = following.text == "(" or (following.is_name and self._head() is None)
        self.cursor.index -= 1
        return is_name

    def _relation(self) -> None:
        start = self.cursor.index
        if self.cursor.symbol() == "(":
            self.cursor.skip_group()
        else:
            if self._head() is not None:
                self.cursor.fail("a relation behind FROM")
            self.values["relation_parts"] = self.qualified("a relation")[1]
            if self.cursor.symbol() == "(":
                self.cursor.skip_group()
                del self.values["relation_parts"]
        self.spans["RELATION"] = self.cursor.span_from(start).pair
        self.values["relation"] = self.cursor.span_from(start).of(self.cursor.text)

    def _alias(self) -> None:
        """AS alias [(columns)]; AS with a query behind it is the AS clause."""
        named = self.cursor.peek(1)
        if self.cursor.word() != "AS" or named is None or not named.is_name or named.word in _QUERY_WORDS:
            return
        start = self.cursor.index
        self.cursor.index += 2
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
            self.cursor.fail("a query behind AS")
        start = self.cursor.index
        self.cursor.index = self.cursor.stop
        self.values["query"] = self.cursor.span_from(start).of(self.cursor.text)

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
