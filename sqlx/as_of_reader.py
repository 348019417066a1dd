"""Reads the AS OF join in its four spellings, with its options (design.md, section 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sqlx.clauses import AsOfClause, Direction
from sqlx.cursor import Cursor
from sqlx.dialect import Span, Token, tokenize_span
from sqlx.errors import TemporalParseError
from sqlx.intervals import parse_interval
from sqlx.structure import FromItem, Join
from sqlx.words import JOIN_WORDS

if TYPE_CHECKING:
    from sqlx.from_clause import FromReader

_NOT_TIME = frozenset(
    {"ON", "USING", "JOIN", "WHERE", "LEFT", "RIGHT", "INNER", "FULL", "CROSS", "GROUP", "ORDER", "LIMIT"}
)
_CONSTANT_WORDS = frozenset(
    "CURRENT_TIMESTAMP CURRENT_DATE LOCALTIMESTAMP DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ INTERVAL AS STRING AND "
    "OR NOT NULL YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND YEARS MONTHS WEEKS DAYS HOURS MINUTES "
    "SECONDS MILLISECONDS MICROSECONDS".split()
)
_ASOF_JOINS = frozenset({("ASOF", "JOIN"), ("ASOF", "LEFT"), ("ASOF", "INNER")})
_DIRECTIONS: dict[str, Direction] = {"BACKWARD": "backward", "FORWARD": "forward", "NEAREST": "nearest"}


def names_a_column(tokens: tuple[Token, ...], start: int, stop: int) -> bool:
    """Whether an expression refers to a column: then ``FOR SYSTEM_TIME AS OF`` is a join and not time travel."""
    for index in range(start, stop):
        token = tokens[index]
        called = index + 1 < stop and tokens[index + 1].text == "("
        if token.is_name and not called and token.word not in _CONSTANT_WORDS:
            return True
    return False


def refuse_place(text: str, tokens: tuple[Token, ...], where: str) -> NoReturn:
    """Say that AS OF stands in the wrong place.

    Raises:
        TemporalParseError: always.
    """
    span = (tokens[0].start, tokens[-1].end)
    raise TemporalParseError("AS_OF_JOIN.PLACE", text, span, clause=" ".join(t.word for t in tokens), where=where)


class AsOfReader:
    """Reads AS OF clauses for a :class:`FromReader`."""

    def __init__(self, reader: FromReader) -> None:
        self.reader = reader
        self.first_index = 0

    def starts_time(self, token: Token | None) -> bool:
        """Whether ``AS OF`` before this token is our clause; an alias named OF is followed by a clause word."""
        return token is not None and token.word not in _NOT_TIME and token.text not in (",", ")", ";")

    def applies(self, cursor: Cursor, join: Join, has_asof: bool) -> bool:
        """Whether the join, read up to its relation, is an AS OF join."""
        relation = join.relation
        named = relation.alias is not None  # a second alias cannot be meant
        if has_asof or (cursor.at("AS", "OF") and (named or self.starts_time(cursor.peek(2)))):
            return True
        if relation.travel_time is None or relation.travel_kind not in ("SYSTEM_TIME", "TIMESTAMP"):
            return False
        first, stop = self._indexes(relation.travel_time)
        return names_a_column(self.reader.tokens, first, stop)

    def refuse_late(self, cursor: Cursor) -> None:
        """AS OF where only a condition can go on.

        Raises:
            TemporalParseError: it stands there.
        """
        if cursor.at("AS", "OF") and self.starts_time(cursor.peek(2)):
            refuse_place(cursor.text, cursor.tokens[cursor.index : cursor.index + 2], "behind the condition of a join")

    def check_pivot(self, cursor: Cursor, item: FromItem) -> None:
        """AS OF before the PIVOT at the cursor: what it made of the join would have to be pivoted.

        Raises:
            TemporalParseError: it stands there.
        """
        for join in item.joins:
            if join.as_of is not None:
                head = tokenize_span(cursor.text, join.as_of.head)
                refuse_place(cursor.text, head, f"before {cursor.word()} in one FROM clause")

    def check_pipes(self, tail: Span) -> None:
        """AS OF in a pipe operator (``|> JOIN r AS OF …``): only a FROM clause takes it.

        Raises:
            TemporalParseError: it stands there.
        """
        tokens = [t for t in self.reader.tokens if tail.start <= t.start < tail.end]
        depth, joins = 0, False
        for n, token in enumerate(tokens):
            depth += (token.text == "(") - (token.text == ")")
            words = tuple(t.word for t in tokens[n : n + 2])
            if token.text == "|>":
                joins = words[-1] in JOIN_WORDS
            timed = words == ("AS", "OF") and self.starts_time(tokens[n + 2] if n + 2 < len(tokens) else None)
            if depth == 0 and joins and (timed or words in _ASOF_JOINS):
                refuse_place(self.reader.scanner.text, tuple(tokens[n : n + 2]), "in a pipe operator")

    def _indexes(self, span: Span) -> tuple[int, int]:
        inside = [n for n, t in enumerate(self.reader.tokens) if span.start <= t.start < span.end]
        return inside[0], inside[-1] + 1

    def read(self, cursor: Cursor, join: Join, head: Span, has_asof: bool) -> None:
        """Read the clause into ``join.as_of``; the cursor stands behind the relation.

        Raises:
            TemporalParseError: something is missing, twice, or not of the clause's form.
        """
        self.first_index = cursor.index
        clause = join.as_of = AsOfClause("asof_alias", head)
        if has_asof:
            self._match_condition(cursor, clause)
        elif join.relation.travel is not None:
            clause.spelling, clause.head = "system_time", join.relation.travel
            clause.time = join.relation.travel_time
            self._bound(cursor, clause)
        else:
            self._as_of_time(cursor, clause)
        if join.relation.alias is None and not self._goes_on(cursor):
            self.reader.name(cursor, join.relation)
        self._options(cursor, clause)
        self._condition(cursor, join, clause)
        self._options(cursor, clause)

    def _goes_on(self, cursor: Cursor) -> bool:
        """Whether a word of ours stands where an alias could: it is none unless the condition follows it."""
        bound = cursor.word() in ("INCLUSIVE", "EXCLUSIVE")
        option = cursor.word() in ("DIRECTION", "TOLERANCE", "GRACE")
        return bound or (option and cursor.word(1) not in ("ON", "USING"))

    def _as_of_time(self, cursor: Cursor, clause: AsOfClause) -> None:
        start = cursor.index
        clause.spelling = "as_of"
        cursor.take("AS", "OF")
        clause.head = cursor.span_from(start)
        clause.time = cursor.skip_expression()
        self._bound(cursor, clause)

    def _bound(self, cursor: Cursor, clause: AsOfClause) -> None:
        if cursor.word() in ("INCLUSIVE", "EXCLUSIVE"):
            clause.exclusive = cursor.next().word == "EXCLUSIVE"

    def _match_condition(self, cursor: Cursor, clause: AsOfClause) -> None:
        if not cursor.take("MATCH_CONDITION"):
            return
        clause.spelling = "match_condition"
        if cursor.symbol() != "(":
            cursor.fail("`(`", "Write MATCH_CONDITION (left.time >= right.time).")
        stop = cursor.closing()
        clause.time = Span(self.reader.tokens[cursor.index].end, self.reader.tokens[stop].start)
        cursor.index = stop + 1

    def _condition(self, cursor: Cursor, join: Join, clause: AsOfClause) -> None:
        if cursor.take("ON"):
            join.on = cursor.skip_expression()
        elif cursor.at("USING") and cursor.symbol(1) == "(":
            join.using = self.reader.using(cursor)
        elif clause.spelling != "match_condition" and join.kind not in ("NATURAL", "CROSS"):
            cursor.fail("ON or USING", "An AS OF join needs the equalities of its keys: ON l.id = r.id, or USING (id).")

    def _options(self, cursor: Cursor, clause: AsOfClause) -> None:
        cursor.options(clause.options, lambda: self._option(cursor, clause), "AS_OF_JOIN.DUPLICATE_OPTION")

    def _option(self, cursor: Cursor, clause: AsOfClause) -> str | None:
        """Read one option; its name, or None where none follows."""
        if cursor.take("TOLERANCE"):
            clause.tolerance_us = self._interval(cursor, "TOLERANCE")
            return "TOLERANCE"
        if cursor.take("DIRECTION"):
            return self._direction(cursor, clause)
        if cursor.at("GRACE"):
            cursor.index += 2 if cursor.at("GRACE", "PERIOD") else 1
            clause.grace_us = self._interval(cursor, "GRACE PERIOD")
            return "GRACE PERIOD"
        if cursor.take("TIES", "BY"):
            clause.ties = self._sort_items(cursor)
            return "TIES BY"
        if cursor.take("KNOWN", "AS", "OF"):
            clause.known = cursor.skip_expression()
            return "KNOWN AS OF"
        if cursor.take("WITH", "REASON"):
            clause.reason = cursor.expect_name("a name").name if cursor.take("AS") else "match_reason"
            return "WITH REASON"
        if cursor.take("LATE", "TO"):
            clause.late_to = self.table_name(cursor)
            return "LATE TO"
        return None

    def _interval(self, cursor: Cursor, what: str) -> int:
        value, cursor.index = parse_interval(self.reader.tokens, cursor.index, what, cursor.text)
        return value

    def _direction(self, cursor: Cursor, clause: AsOfClause) -> str:
        direction = _DIRECTIONS.get(cursor.word())
        if direction is None:
            cursor.fail("BACKWARD, FORWARD or NEAREST")
        cursor.index += 1
        clause.direction = direction
        return "DIRECTION"

    def _sort_items(self, cursor: Cursor) -> tuple[Span, ...]:
        items: list[Span] = []
        while not items or cursor.symbol() == ",":
            cursor.index += 1 if items else 0
            start = cursor.index
            cursor.skip_expression()
            if cursor.word() in ("ASC", "DESC"):
                cursor.index += 1
            if cursor.at("NULLS") and cursor.word(1) in ("FIRST", "LAST"):
                cursor.index += 2
            items.append(cursor.span_from(start))
        return tuple(items)

    def table_name(self, cursor: Cursor) -> str:
        """The name of the table behind LATE TO, as written."""
        start = cursor.index
        cursor.path("the name of a table")
        return cursor.span_from(start).of(cursor.text)
