"""Reads DEDUPLICATE WITHIN behind a relation (design.md, section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlx.clauses import DeduplicateClause, Late
from sqlx.cursor import Cursor
from sqlx.dialect import Span
from sqlx.errors import TemporalParseError
from sqlx.intervals import parse_interval
from sqlx.structure import FromItem, Level, Pipe, Relation

if TYPE_CHECKING:
    from sqlx.from_clause import FromReader

_LATE: dict[str, Late] = {"FORWARD": "forward", "DROP": "drop", "TO": "to"}
_INFIX = frozenset("AND OR NOT IS LIKE ILIKE RLIKE REGEXP IN BETWEEN DIV COLLATE".split())


class DeduplicateReader:
    """Reads DEDUPLICATE clauses for a :class:`FromReader`."""

    def __init__(self, reader: FromReader) -> None:
        self.reader = reader

    def wrapped(self, cursor: Cursor, found: Relation, start: int, level: Level) -> Relation:
        """The relation with the deduplications that stand behind it; the cursor stands behind its alias.

        Args:
            cursor: the position.
            found: the relation so far.
            start: index of its first token.
            level: where it stands.

        Raises:
            TemporalParseError: something is missing, twice, or not of the clause's form.
        """
        while cursor.at("DEDUPLICATE", "WITHIN"):
            clause = self.clause(cursor, level)
            body = cursor.span_from(start)
            found = Relation("deduplicated", body, body, found.parts, inner=found, deduplicate=clause)
            self.reader.name(cursor, found)
            found.own_alias = found.alias is not None
            found.alias = found.alias or (found.inner.alias if found.inner else None)
            found.span = cursor.span_from(start)
        return found

    def piped(self, cursor: Cursor, item: FromItem, level: Level) -> None:
        """``FROM r |> DEDUPLICATE …`` is ``FROM r DEDUPLICATE …``; the cursor stands behind the FROM clause."""
        while self.is_pipe(cursor) and not item.joins:
            inner = item.relation
            cursor.index += 1
            clause = self.clause(cursor, level)
            span = Span(inner.span.start, cursor.last_end)
            item.relation = Relation("deduplicated", span, span, inner.parts, inner.alias)
            item.relation.inner, item.relation.deduplicate, item.end = inner, clause, span.end

    def pipe(self, cursor: Cursor, level: Level) -> None:
        """One pipe operator ``|> DEDUPLICATE …`` behind others; the cursor stands before it."""
        start = cursor.index
        cursor.index += 1
        clause = self.clause(cursor, level)
        level.pipes.append(Pipe(cursor.span_from(start), clause))

    def is_pipe(self, cursor: Cursor) -> bool:
        """Whether ``|> DEDUPLICATE WITHIN`` follows."""
        return cursor.symbol() == "|>" and (cursor.word(1), cursor.word(2)) == ("DEDUPLICATE", "WITHIN")

    def clause(self, cursor: Cursor, level: Level) -> DeduplicateClause:
        """Read one clause; the cursor stands at DEDUPLICATE.

        Raises:
            TemporalParseError: something is missing, twice, or not of the clause's form.
        """
        start = cursor.index
        cursor.take("DEDUPLICATE", "WITHIN")
        clause = DeduplicateClause(cursor.span_from(start))
        what = "DEDUPLICATE WITHIN"
        clause.interval_us, cursor.index = parse_interval(self.reader.tokens, cursor.index, what, cursor.text)
        self._by(cursor, clause)
        cursor.options(clause.options, lambda: self._option(cursor, clause), "DEDUPLICATE.DUPLICATE_OPTION")
        if clause.keeps_last and clause.late == "forward":
            raise TemporalParseError("DEDUPLICATE.LAST_FORWARD", cursor.text, clause.options["LATE"].pair)
        self.reader.scanner.nested(start, cursor.index, level)
        return clause

    def _by(self, cursor: Cursor, clause: DeduplicateClause) -> None:
        hint = "Say which rows are duplicates of each other: DEDUPLICATE WITHIN INTERVAL '10' MINUTES BY (id)."
        if not cursor.take("BY"):
            cursor.fail("BY", hint)
        if cursor.symbol() != "(":
            cursor.fail("`(`", hint)
        inner = Cursor(cursor.text, cursor.tokens, cursor.index + 1, cursor.closing())
        by = inner.expressions()
        if not inner.done:
            inner.fail("`,` or `)`")
        clause.by = tuple(by)
        cursor.skip_group()

    def _option(self, cursor: Cursor, clause: DeduplicateClause) -> str | None:
        """Read one option; its name, or None where none follows."""
        if self._is_time(cursor):
            cursor.index += 2
            clause.time = cursor.skip_expression()
            return "ON TIME"
        if cursor.at("KEEP") and cursor.word(1) in ("FIRST", "LAST"):
            clause.keeps_last = cursor.word(1) == "LAST"
            cursor.index += 2
            return "KEEP"
        if cursor.at("LATE") and cursor.word(1) in _LATE:
            clause.late = _LATE[cursor.word(1)]
            cursor.index += 2
            clause.late_to = self.reader.as_of.table_name(cursor) if clause.late == "to" else None
            return "LATE"
        return None

    def _is_time(self, cursor: Cursor) -> bool:
        """Whether ON TIME is ours, and not the condition of a join that begins with a column called ``time``."""
        if not cursor.at("ON", "TIME"):
            return False
        following = cursor.peek(2)
        if following is None or following.word in _INFIX:
            return following is None
        return following.is_name or following.text == "("
