"""Reads the structure of a statement from its tokens: levels, common table expressions and query blocks.

Why so: docs/design/20261122_read_once.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, NoReturn

from sqlx.errors import TemporalParseError
from sqlx.sql.cursor import Cursor
from sqlx.sql.intervals import parse_interval
from sqlx.sql.pipes import pipe_operators
from sqlx.sql.structure import (
    AsOfClause,
    Block,
    Cte,
    DeduplicateClause,
    Direction,
    EmitClause,
    EmitKind,
    FromItem,
    Join,
    Late,
    Level,
    Pipe,
    QueryTail,
    Relation,
    Shape,
    WhenFull,
)
from sqlx.sql.tokens import (
    AFTER_QUERY,
    CLAUSE_PAIRS,
    JOIN_WORDS,
    NO_ALIAS,
    QUERY_WORDS,
    TAIL_WORDS,
    TRAVEL_WORDS,
    LexicalError,
    Span,
    Token,
    tokenize,
    tokenize_span,
    unquoted,
)
from sqlx.sql.windows import windowed

# Reads the AS OF join in its four spellings, with its options (docs/operators/as_of_join.md).


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
    """Say that AS OF is in the wrong place.

    Raises:
        TemporalParseError: always.
    """
    span = (tokens[0].start, tokens[-1].end)
    raise TemporalParseError("AS_OF_JOIN.PLACE", text, span, clause=" ".join(t.word for t in tokens), where=where)


_SYSTEM_TIME: Final = ("FOR", "SYSTEM_TIME", "AS", "OF")


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
        if named and cursor.at(*_SYSTEM_TIME):
            after = Cursor(cursor.text, self.reader.tokens, cursor.index + len(_SYSTEM_TIME), cursor.stop)
            return names_a_column(self.reader.tokens, *self._indexes(after.skip_expression()))
        if relation.travel_time is None or relation.travel_kind not in ("SYSTEM_TIME", "TIMESTAMP"):
            return False
        return names_a_column(self.reader.tokens, *self._indexes(relation.travel_time))

    def refuse_late(self, cursor: Cursor) -> None:
        """AS OF where only a condition can go on.

        Raises:
            TemporalParseError: it is there.
        """
        is_travel = cursor.index > 0 and self.reader.tokens[cursor.index - 1].word == "SYSTEM_TIME"  # of a constant
        if cursor.at("AS", "OF") and self.starts_time(cursor.peek(2)) and not is_travel:
            refuse_place(cursor.text, cursor.tokens[cursor.index : cursor.index + 2], "after the condition of a join")

    def check_pivot(self, cursor: Cursor, item: FromItem) -> None:
        """AS OF before the PIVOT at the cursor: what it made of the join would have to be pivoted.

        Raises:
            TemporalParseError: it is there.
        """
        for join in item.joins:
            if join.as_of is not None:
                head = tokenize_span(cursor.text, join.as_of.head)
                refuse_place(cursor.text, head, f"before {cursor.word()} in one FROM clause")

    def check_pipes(self, tail: Span) -> None:
        """AS OF in a later pipe operator (``|> WHERE … |> JOIN r AS OF …``): what is before it is no relation.

        Raises:
            TemporalParseError: it is there.
        """
        _, *operators = pipe_operators(self.reader.scanner.text, tail)
        for operator in operators:
            if operator[0].word in JOIN_WORDS:
                self._check_piped_join(operator)

    def _check_piped_join(self, operator: tuple[Token, ...]) -> None:
        depth = 0
        for n, token in enumerate(operator):
            depth += (token.text == "(") - (token.text == ")")
            words = tuple(t.word for t in operator[n : n + 2])
            timed = words == ("AS", "OF") and self.starts_time(operator[n + 2] if n + 2 < len(operator) else None)
            if depth == 0 and (timed or words in _ASOF_JOINS):
                where = "in a pipe operator that does not follow FROM"
                refuse_place(self.reader.scanner.text, operator[n : n + 2], where)

    def _indexes(self, span: Span) -> tuple[int, int]:
        inside = [n for n, t in enumerate(self.reader.tokens) if span.start <= t.start < span.end]
        return inside[0], inside[-1] + 1

    def read(self, cursor: Cursor, join: Join, head: Span, has_asof: bool) -> None:
        """Read the clause into ``join.as_of``; the cursor is after the relation.

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
        """Whether a word of ours is where an alias could: it is none unless the condition follows it."""
        bound = cursor.word() in ("INCLUSIVE", "EXCLUSIVE")
        option = cursor.word() in ("DIRECTION", "TOLERANCE", "GRACE")
        return bound or cursor.at("IDLE", "TIMEOUT") or (option and cursor.word(1) not in ("ON", "USING"))

    def travels_on(self, cursor: Cursor, relation: Relation) -> bool:
        """Whether a word of ours follows ``FOR SYSTEM_TIME AS OF l.ts``, where an alias could."""
        if relation.travel_time is None or not self._goes_on(cursor):
            return False
        return names_a_column(self.reader.tokens, *self._indexes(relation.travel_time))

    def _as_of_time(self, cursor: Cursor, clause: AsOfClause) -> None:
        start = cursor.index
        clause.spelling = "system_time" if cursor.take("FOR", "SYSTEM_TIME") else "as_of"
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
            cursor.step(2 if cursor.at("GRACE", "PERIOD") else 1)
            clause.grace_us = self._interval(cursor, "GRACE PERIOD")
            return "GRACE PERIOD"
        if cursor.take("IDLE", "TIMEOUT"):
            clause.idle_us = self._interval(cursor, "IDLE TIMEOUT")
            return "IDLE TIMEOUT"
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
        cursor.step()
        clause.direction = direction
        return "DIRECTION"

    def _sort_items(self, cursor: Cursor) -> tuple[Span, ...]:
        items: list[Span] = []
        while not items or cursor.symbol() == ",":
            cursor.step(1 if items else 0)
            start = cursor.index
            cursor.skip_expression()
            if cursor.word() in ("ASC", "DESC"):
                cursor.step()
            if cursor.at("NULLS") and cursor.word(1) in ("FIRST", "LAST"):
                cursor.step(2)
            items.append(cursor.span_from(start))
        return tuple(items)

    def table_name(self, cursor: Cursor) -> str:
        """The name of the table after LATE TO, as written."""
        start = cursor.index
        cursor.path("the name of a table")
        return cursor.span_from(start).of(cursor.text)


# Reads DEDUPLICATE WITHIN after a relation (docs/operators/deduplicate.md).


_LATE: dict[str, Late] = {"FORWARD": "forward", "DROP": "drop", "TO": "to"}
_INFIX = frozenset("AND OR NOT IS LIKE ILIKE RLIKE REGEXP IN BETWEEN DIV COLLATE".split())


class DeduplicateReader:
    """Reads DEDUPLICATE clauses for a :class:`FromReader`."""

    def __init__(self, reader: FromReader) -> None:
        self.reader = reader

    def wrapped(self, cursor: Cursor, found: Relation, start: int, level: Level) -> Relation:
        """The relation with the deduplications that stand after it; the cursor is after its alias.

        Args:
            cursor: the position.
            found: the relation so far.
            start: index of its first token.
            level: where it is.

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
        """``FROM r |> DEDUPLICATE …`` is ``FROM r DEDUPLICATE …``; the cursor is after the FROM clause."""
        while self.is_pipe(cursor) and not item.joins:
            inner = item.relation
            cursor.step()
            clause = self.clause(cursor, level)
            span = Span(inner.span.start, cursor.last_end)
            item.relation = Relation("deduplicated", span, span, inner.parts, inner.alias)
            item.relation.inner, item.relation.deduplicate, item.end = inner, clause, span.end

    def pipe(self, cursor: Cursor, level: Level) -> None:
        """One pipe operator ``|> DEDUPLICATE …`` after others; the cursor is before it."""
        start = cursor.index
        cursor.step()
        clause = self.clause(cursor, level)
        level.pipes.append(Pipe(cursor.span_from(start), clause))

    def is_pipe(self, cursor: Cursor) -> bool:
        """Whether ``|> DEDUPLICATE WITHIN`` follows."""
        return cursor.symbol() == "|>" and cursor.word(1) == "DEDUPLICATE" and cursor.word(2) == "WITHIN"

    def clause(self, cursor: Cursor, level: Level) -> DeduplicateClause:
        """Read one clause; the cursor is at DEDUPLICATE.

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
        if clause.idle_us is not None and not clause.keeps_last:
            raise TemporalParseError("DEDUPLICATE.IDLE_FIRST", cursor.text, clause.options["IDLE TIMEOUT"].pair)
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
            cursor.step(2)
            clause.time = cursor.skip_expression()
            return "ON TIME"
        if cursor.at("KEEP") and cursor.word(1) in ("FIRST", "LAST"):
            clause.keeps_last = cursor.word(1) == "LAST"
            cursor.step(2)
            return "KEEP"
        if cursor.at("LATE") and cursor.word(1) in _LATE:
            clause.late = _LATE[cursor.word(1)]
            cursor.step(2)
            clause.late_to = self.reader.as_of.table_name(cursor) if clause.late == "to" else None
            return "LATE"
        if cursor.take("IDLE", "TIMEOUT"):
            clause.idle_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "IDLE TIMEOUT", cursor.text)
            return "IDLE TIMEOUT"
        return None

    def _is_time(self, cursor: Cursor) -> bool:
        """Whether ON TIME is ours, and not the condition of a join that begins with a column called ``time``."""
        if not cursor.at("ON", "TIME"):
            return False
        following = cursor.peek(2)
        if following is None or following.word in _INFIX:
            return following is None
        return following.is_name or following.text == "("


# Reads a FROM clause: relations with their aliases, joins with their conditions, and where they end.


class FromReader:
    """Reads relations and joins for a scanner, which reads the levels inside their parentheses."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.tokens = scanner.tokens
        self.as_of = AsOfReader(self)
        self.deduplicate = DeduplicateReader(self)
        self.level: Level | None = None
        self.qualifying = [
            token.start
            for token, following in zip(self.tokens, self.tokens[1:], strict=False)
            if token.word == "ASOF" and following.text == "."
        ]

    def items(self, cursor: Cursor, level: Level) -> list[FromItem]:
        """The comma-separated items of a FROM clause; the cursor is after FROM."""
        around, self.level = self.level, level
        found = [self._item(cursor, level)]
        while cursor.symbol() == ",":
            cursor.step()
            found.append(self._item(cursor, level))
        self.level = around
        return found

    def _item(self, cursor: Cursor, level: Level) -> FromItem:
        item = FromItem(self.relation(cursor, level))
        while not cursor.done:
            if cursor.word() in ("PIVOT", "UNPIVOT"):
                self._pivot(cursor, item)
            elif self._join_words(cursor):
                item.joins.append(self._join(cursor, level))
            else:
                break
        item.end = cursor.last_end
        return item

    def _pivot(self, cursor: Cursor, item: FromItem) -> None:
        """A pivot closes what is before it: its columns are new ones."""
        self.as_of.check_pivot(cursor, item)
        cursor.step()
        if cursor.word() in ("INCLUDE", "EXCLUDE"):
            cursor.step(2)
        cursor.skip_group()
        pivoted = Relation("other", Span(0, 0), Span(0, 0))
        self.name(cursor, pivoted)
        pivoted.span = pivoted.body = Span(item.start, cursor.last_end)
        item.relation, item.joins = pivoted, []

    # relations

    def relation(self, cursor: Cursor, level: Level) -> Relation:
        """One relation with what follows it: time travel, sample, watermark, alias."""
        start = cursor.index
        stream = self._is_stream(cursor)
        if stream:
            cursor.step()
        lateral = cursor.take("LATERAL")
        found = self._body(cursor, level, stream)
        found.stream, found.lateral = stream or found.stream, lateral
        self._extensions(cursor, found)
        if not self.as_of.travels_on(cursor, found):
            self.name(cursor, found)
        found.span = cursor.span_from(start)
        return self.deduplicate.wrapped(cursor, found, start, level)

    def _is_stream(self, cursor: Cursor) -> bool:
        following = cursor.peek(1)
        if cursor.word() != "STREAM" or following is None:
            return False
        return following.text == "(" or (following.is_name and following.word not in NO_ALIAS | {"AS"})

    def _body(self, cursor: Cursor, level: Level, stream: bool) -> Relation:
        if cursor.symbol() == "(":
            return self._parenthesis(cursor, level, stream)
        start = cursor.index
        if cursor.word() == "VALUES":
            return self._values(cursor, level)
        parts = cursor.path("a relation")
        if cursor.symbol() == "(":
            named = _identifier(cursor) if [part.word for part in parts] == ["IDENTIFIER"] else None
            self.scanner.inside(cursor, level)
            span = cursor.span_from(start)
            if named is not None:
                return Relation("name", span, span, parts=named)
            return windowed(cursor.text, self.tokens, Relation("function", span, span, call=parts[-1].name.lower()))
        span = cursor.span_from(start)
        return Relation("name", span, span, parts=tuple(p.name for p in parts))

    def _parenthesis(self, cursor: Cursor, level: Level, stream: bool) -> Relation:
        start = cursor.index
        if stream:
            inner = Cursor(cursor.text, self.tokens, cursor.index + 1, cursor.closing())
            found = self._body(inner, level, stream=False)
            cursor.skip_group()
            return found
        if self._is_query(cursor):
            inside = self.scanner.inside(cursor, level)
            span = cursor.span_from(start)
            return Relation("query", span, span, query=inside)
        inner = Cursor(cursor.text, self.tokens, cursor.index + 1, cursor.closing())
        group = self._item(inner, level)
        if not inner.done:
            inner.fail("`)`")
        cursor.skip_group()
        span = cursor.span_from(start)
        return Relation("group", span, span, group=group)

    def _is_query(self, cursor: Cursor) -> bool:
        """Whether the parenthesis at the position holds a query rather than relations."""
        if cursor.word(1) in QUERY_WORDS:
            return True
        if cursor.symbol(1) != "(":
            return False
        inner = Cursor(cursor.text, self.tokens, cursor.index + 1, cursor.closing())
        holds_query = self._is_query(inner)
        inner.skip_group()
        return holds_query and (inner.done or inner.word() in AFTER_QUERY)

    def _values(self, cursor: Cursor, level: Level) -> Relation:
        start = cursor.index
        cursor.step()
        while True:
            first = cursor.index
            cursor.skip_expression()
            self.scanner.nested(first, cursor.index, level)
            following = cursor.peek(1)
            if (
                cursor.symbol() != ","
                or following is None
                or (following.is_name and following.word not in ("STRUCT", "ROW"))
            ):
                break
            cursor.step()
        span = cursor.span_from(start)
        return Relation("values", span, span)

    def _extensions(self, cursor: Cursor, found: Relation) -> None:
        """Time travel, sample, watermark and options, in the order in which Spark takes them."""
        self._travel(cursor, found)
        first = cursor.index
        self._extra(cursor)
        if cursor.index > first:
            found.extra = cursor.span_from(first)

    def _extra(self, cursor: Cursor) -> None:
        if cursor.at("WITH") and cursor.symbol(1) == "(":
            cursor.step()
            cursor.skip_group()
        if cursor.take("TABLESAMPLE"):
            cursor.skip_group()
            if cursor.take("REPEATABLE"):
                cursor.skip_group()
        if cursor.at("WATERMARK") and cursor.peek(1) is not None and cursor.word(1) not in NO_ALIAS:
            cursor.step()
            cursor.skip_expression()
            if cursor.take("AS"):
                cursor.step()
            if cursor.take("DELAY", "OF"):
                cursor.skip_expression()

    def _travel(self, cursor: Cursor, found: Relation) -> None:
        ahead = 1 if cursor.word() == "FOR" else 0
        if cursor.word(ahead) not in TRAVEL_WORDS or (cursor.word(ahead + 1), cursor.word(ahead + 2)) != ("AS", "OF"):
            return
        start = cursor.index
        kind = cursor.word(ahead)
        cursor.step(ahead + 3)
        found.travel_time = cursor.skip_expression()
        found.travel, found.travel_kind = cursor.span_from(start), kind

    def name(self, cursor: Cursor, relation: Relation) -> None:
        """``[AS] name [(columns)]`` becomes the relation's alias; nothing is read where something else follows."""
        relation.alias = self._alias(cursor)
        if relation.alias is not None and cursor.symbol() == "(":
            relation.columns = self.column_list(cursor)

    def column_list(self, cursor: Cursor) -> tuple[Token, ...]:
        """The names in the parenthesis at the position; () where it holds anything else, which Spark will refuse."""
        start, stop = cursor.index, cursor.closing()
        inside = self.tokens[start + 1 : stop]
        cursor.index = stop + 1
        plain = all(t.is_name if n % 2 == 0 else t.text == "," for n, t in enumerate(inside)) and len(inside) % 2 == 1
        return inside[::2] if plain else ()

    def _alias(self, cursor: Cursor) -> Token | None:
        token, following = cursor.peek(), cursor.peek(1)
        explicit = cursor.word() == "AS"
        if explicit:
            token, following = following, cursor.peek(2)
            if token is not None and token.word == "OF" and self.as_of.starts_time(following):
                return None
        if token is None or not token.is_name or (not explicit and self._starts_clause(token, following)):
            return None
        cursor.step(2 if explicit else 1)
        return token

    def _starts_clause(self, token: Token, following: Token | None) -> bool:
        if token.kind == "quoted":
            return False
        if token.word == "ASOF":
            return not self._asof_qualifies() and following is not None and following.word in ("JOIN", "LEFT", "INNER")
        pair = (token.word, following.word if following else "")
        nearest = token.word in ("APPROX", "EXACT", "NEAREST")
        return token.word in NO_ALIAS or pair in CLAUSE_PAIRS or (nearest and pair[1] != "")

    def _asof_qualifies(self) -> bool:
        """Whether the query qualifies a name with ASOF, so that it is an alias."""
        if self.level is None or not self.qualifying:
            return False
        span = self.level.span
        own = [child.span for child in self.level.children if _names_asof(child)]
        inside = [at for at in self.qualifying if span.start <= at < span.end]
        return any(not any(other.start <= at < other.end for other in own) for at in inside)

    # joins

    def _join_words(self, cursor: Cursor) -> list[str]:
        """The words up to and with JOIN; empty where no join starts."""
        words: list[str] = []
        while cursor.word(len(words)) in JOIN_WORDS:
            words.append(cursor.word(len(words)))
            if words[-1] == "JOIN":
                return words
        return []

    def _join(self, cursor: Cursor, level: Level) -> Join:
        start = cursor.index
        words = self._join_words(cursor)
        cursor.step(len(words))
        head = cursor.span_from(start)
        kind = " ".join(w for w in words if w not in ("JOIN", "ASOF"))
        join = Join(kind, head, self.relation(cursor, level))
        if self.as_of.applies(cursor, join, "ASOF" in words):
            self.as_of.read(cursor, join, head, "ASOF" in words)
            self.scanner.nested(self.as_of.first_index, cursor.index, level)
        else:
            self._condition(cursor, join, level)
        join.span = cursor.span_from(start)
        if cursor.at("ON") or (cursor.at("USING") and cursor.symbol(1) == "("):
            at = cursor.tokens[cursor.index]
            raise TemporalParseError("KEYED_JOIN.SECOND_CONDITION", cursor.text, (at.start, at.end), word=at.word)
        return join

    def piped(self, cursor: Cursor, item: FromItem, level: Level) -> None:
        """``FROM l |> JOIN r AS OF …`` is ``FROM l JOIN r AS OF …``; the cursor is after the FROM clause."""
        while cursor.symbol() == "|>" and cursor.word(1) in JOIN_WORDS:
            start, inside = cursor.index, len(level.children)
            cursor.step()
            join = self._join(cursor, level)
            if join.as_of is None:  # Spark's
                cursor.index = start
                del level.children[inside:]
                return
            join.span = cursor.span_from(start)
            item.joins.append(join)
            item.end = join.span.end

    def _condition(self, cursor: Cursor, join: Join, level: Level) -> None:
        """The condition of a join that is Spark's: passed over up to the next join, comma or clause."""
        if cursor.at("USING") and cursor.symbol(1) == "(":
            join.using = self.using(cursor)
            return
        first = cursor.index
        has_on = cursor.at("ON")
        while not cursor.done and not self._ends_condition(cursor):
            self.as_of.refuse_late(cursor)
            if cursor.symbol() == "(":
                self.scanner.inside(cursor, level)
            else:
                cursor.step()
        if has_on and cursor.index > first + 1:
            join.on = cursor.span_from(first + 1)

    def _ends_condition(self, cursor: Cursor) -> bool:
        if cursor.symbol() in (",", ";", "|>", ")"):
            return True
        word = cursor.word()
        if word in TAIL_WORDS or (word, cursor.word(1)) in CLAUSE_PAIRS - {("AS", "OF")}:
            return self.tokens[cursor.index - 1].text != "."
        return word in ("PIVOT", "UNPIVOT", "LATERAL") or bool(self._join_words(cursor))

    def using(self, cursor: Cursor) -> tuple[Token, ...]:
        """``USING (a, b)``: the column tokens."""
        cursor.step()
        inner = Cursor(cursor.text, self.tokens, cursor.index + 1, cursor.closing())
        columns = [inner.expect_name("a column")]
        while inner.symbol() == ",":
            inner.step()
            columns.append(inner.expect_name("a column"))
        cursor.skip_group()
        return tuple(columns)


def _names_asof(level: Level) -> bool:
    """Whether a relation in a subquery is called ASOF there: then the qualifier is that one's."""
    blocks = [block for inner in level.walk() for block in inner.blocks]
    relations = [r for b in blocks for item in b.items for r in (item.relation, *(j.relation for j in item.joins))]
    return any(r.alias is not None and r.alias.word == "ASOF" for r in relations)


_SET_WORDS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_BEFORE_HIVE_FROM = frozenset({"AS", "EXPLAIN", "TEMPORAL", "EXTENDED", "FORMATTED", "ALL", "COST", "CODEGEN"})


@lru_cache(maxsize=16)
def scan(text: str) -> Level:
    """The level of the whole statement, with everything inside; a statement is read once, and nobody changes it.

    Args:
        text: one statement.

    Raises:
        LexicalError: a string or comment is not closed.
        TemporalParseError: a temporal clause is broken, a parenthesis is not closed, or too many are in each other.

    >>> level = scan("SELECT o.id FROM o JOIN r AS OF o.ts ON o.k = r.k")
    >>> join = level.blocks[0].items[0].joins[0]
    >>> join.relation.parts, join.as_of.spelling
    (('r',), 'as_of')
    """
    with readable(text):
        return Scanner(text, tokenize(text)).scan()


@contextmanager
def readable(text: str) -> Iterator[None]:
    """Within it a statement is read by functions that call themselves for what is nested in it.

    Raises:
        TemporalParseError: `PARSE.TOO_DEEP` where they call themselves too often.
    """
    try:
        yield
    except RecursionError:
        tokens = [token for token in tokenize(text) if token.text in ("(", ")")]
        depths = list(accumulate(1 if token.text == "(" else -1 for token in tokens))
        deepest = tokens[depths.index(max(depths))] if tokens else None
        place = None if deepest is None else (deepest.start, deepest.end)
        raise TemporalParseError("PARSE.TOO_DEEP", text, place, depth=max(depths, default=0)) from None


def _identifier(cursor: Cursor) -> tuple[str, ...] | None:
    """The name that `IDENTIFIER('name')` stands for, at its parenthesis; None where an expression makes it."""
    inside = cursor.tokens[cursor.index + 1 : cursor.closing()]
    if not _is_string(inside):
        return None
    try:
        tokens = tokenize(unquoted(inside[0]))
    except LexicalError:  # Spark says so
        return None
    is_path = all(token.is_name if n % 2 == 0 else token.text == "." for n, token in enumerate(tokens))
    return tuple(token.name for token in tokens[::2]) if is_path and len(tokens) % 2 else None


def calculated_names(text: str, tokens: tuple[Token, ...]) -> list[Span]:
    """The arguments of `IDENTIFIER(…)` that are more than a string, whose name only Spark can calculate.

    >>> text = "SELECT * FROM IDENTIFIER('a' || :b) JOIN IDENTIFIER('c')"
    >>> [span.of(text) for span in calculated_names(text, tokenize(text))]
    ["'a' || :b"]
    >>> calculated_names("SELECT IDENTIFIER('a' || 'b'", tokenize("SELECT IDENTIFIER('a' || 'b'"))
    []
    """
    found: list[Span] = []
    for n, (word, parenthesis) in enumerate(pairwise(tokens)):
        if word.word == "IDENTIFIER" and parenthesis.text == "(":
            try:
                inside = tokens[n + 2 : Cursor(text, tokens, n + 1, len(tokens)).closing()]
            except TemporalParseError:  # it is never closed, as Spark says
                return found
            is_query = any(token.word == "SELECT" for token in inside)  # Spark takes none there
            if inside and not _is_string(inside) and not is_query:
                found.append(Span(inside[0].start, inside[-1].end))
    return found


def _is_string(tokens: tuple[Token, ...]) -> bool:
    return len(tokens) == 1 and tokens[0].kind == "string"


def is_script(tokens: tuple[Token, ...]) -> bool:
    """Whether a statement is a SQL script."""
    return bool(tokens) and tokens[0].word == "BEGIN"


class Scanner:
    """One pass over the tokens of one statement."""

    def __init__(self, text: str, tokens: tuple[Token, ...]) -> None:
        self.text, self.tokens = text, tokens
        self.reader = FromReader(self)
        self._ends = _SET_WORDS | {"DO"} if is_script(tokens) else _SET_WORDS  # FOR row AS query DO

    def scan(self) -> Level:
        """The level of the whole statement."""
        return self._level(Cursor(self.text, self.tokens), None, Span(0, len(self.text)))

    def _level(self, cursor: Cursor, parent: Level | None, span: Span, cte: Cte | None = None) -> Level:
        level = Level(span, parent, cte=cte)
        if parent is not None:
            parent.children.append(level)
        first = cursor.index
        while not cursor.done:
            if cursor.word() == "WITH" and self._is_cte(cursor):
                self._ctes(cursor, level)
            elif cursor.word() == "SELECT" or (cursor.word() == "FROM" and self._starts_query(cursor, first, level)):
                self._block(cursor, level)
            elif cursor.symbol() == "(":
                self.inside(cursor, level)
            else:
                cursor.step()
        return level

    def _starts_query(self, cursor: Cursor, first: int, level: Level) -> bool:
        """Whether a FROM comes before its SELECT or pipes: at the start, or after CREATE VIEW v AS or EXPLAIN."""
        if cursor.index == first:
            return True
        return self.tokens[cursor.index - 1].word in _BEFORE_HIVE_FROM | _SET_WORDS or (
            bool(level.ctes) and not level.blocks and self.tokens[cursor.index - 1].text == ")"
        )

    def _is_cte(self, cursor: Cursor) -> bool:
        if cursor.word(1) == "RECURSIVE" and cursor.word(2) != "AS":
            return True
        named = cursor.peek(1)
        return named is not None and named.is_name and (cursor.word(2) == "AS" or cursor.symbol(2) == "(")

    def _ctes(self, cursor: Cursor, level: Level) -> None:
        cursor.take("WITH")
        level.recursive = cursor.take("RECURSIVE")
        while True:
            start = cursor.index
            name = cursor.expect_name("the name of a common table expression")
            columns = self.reader.column_list(cursor) if cursor.symbol() == "(" else ()
            if cursor.take("MAX", "RECURSION", "LEVEL"):
                cursor.step()
            if not cursor.take("AS") or cursor.symbol() != "(":
                return  # not a CTE after all: Spark will say so
            stop = self.tokens[cursor.closing()].end
            cte = Cte(name.name, Span(self.tokens[start].start, stop), level, columns)
            cte.query = self.inside(cursor, level, cte)
            level.ctes.append(cte)
            if cursor.symbol() != ",":
                return
            cursor.step()

    def inside(self, cursor: Cursor, parent: Level, cte: Cte | None = None) -> Level:
        """The level between the parenthesis at the position and its partner; the cursor moves after it."""
        stop = cursor.closing()
        span = Span(self.tokens[cursor.index].end, self.tokens[stop].start)
        level = self._level(Cursor(self.text, self.tokens, cursor.index + 1, stop), parent, span, cte)
        cursor.index = stop + 1
        return level

    def nested(self, start: int, stop: int, level: Level) -> None:
        """Read the levels in the parentheses among the tokens ``[start, stop)`` (subqueries in expressions)."""
        cursor = Cursor(self.text, self.tokens, start, stop)
        while not cursor.done:
            if cursor.symbol() == "(":
                self.inside(cursor, level)
            else:
                cursor.step()

    def _block(self, cursor: Cursor, level: Level) -> None:
        start = cursor.index
        pipe = cursor.word() == "FROM"
        select: Span | None = None
        if not pipe:
            cursor.step()
            select = self._until(cursor, level, TAIL_WORDS - {"SELECT", "MAP", "REDUCE"} | {"FROM"})
        items: list[FromItem] = []
        if cursor.symbol(1) != ";" and cursor.peek(1) is not None and cursor.take("FROM"):  # FROM at the end is a name
            items = self.reader.items(cursor, level)
            if len(items) == 1 and pipe:
                self.reader.deduplicate.piped(cursor, items[0], level)
                self.reader.piped(cursor, items[0], level)
        tail = self._until(cursor, level, self._ends)
        if "|>" in self.text:
            self.reader.as_of.check_pipes(tail)
        level.blocks.append(Block(cursor.span_from(start), select, items, tail, level, pipe))

    def _until(self, cursor: Cursor, level: Level, stops: frozenset[str]) -> Span:
        """Step up to one of ``stops`` (or the end of the statement), reading levels on the way; what was passed."""
        start = cursor.offset
        first = cursor.index
        while not cursor.done and cursor.symbol() != ";":
            if cursor.word() in stops and not self._is_operator(cursor):
                break
            if cursor.symbol() == "(":
                self.inside(cursor, level)
            elif self.reader.deduplicate.is_pipe(cursor):
                self.reader.deduplicate.pipe(cursor, level)
            else:
                cursor.step()
        return Span(start, cursor.last_end if cursor.index > first else start)

    def _is_operator(self, cursor: Cursor) -> bool:
        """Whether a clause word is something else there: IS DISTINCT FROM, t.from, * EXCEPT (a), AS limit."""
        before = self.tokens[cursor.index - 1] if cursor.index else None
        if before is None:
            return False
        if before.text in (".", "|>") or before.word == "AS":
            return True
        if cursor.word() == "WINDOW":  # window(ts, …) and window.start, no clause that names windows
            return cursor.word(2) != "AS"
        if cursor.word() == "GROUP" and before.word == "WITHIN":  # WITHIN GROUP (ORDER BY …)
            return True
        if cursor.word() == "EXCEPT":
            return before.text == "*" and cursor.symbol(1) == "("
        if cursor.word() == "FROM" and before.word == "DISTINCT":
            words = [t.word for t in self.tokens[max(0, cursor.index - 3) : cursor.index - 1]]
            return words[-1:] == ["IS"] or words == ["IS", "NOT"]
        return False


# Reads what follows the FROM clause of a query block: WHERE, GROUP BY, and our GRACE, LATE TO and EMIT.
#
# Source: docs/operators/emit.md; KIP-328.


_CLAUSES = frozenset("WHERE HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET QUALIFY LATERAL".split())
_PAIRS = frozenset({("GROUP", "BY"), ("GRACE", "PERIOD"), ("GRACE", "INTERVAL"), ("LATE", "TO")})
_EMITS = frozenset({"FINAL", "ON", "AFTER", "CHANGES", "EVERY", "CORRECTIONS"})
_GROUPING_SETS = frozenset({"ROLLUP", "CUBE"})
_INSIDE = frozenset(  # after one of these words EMIT is a column
    "AND OR NOT IN LIKE ILIKE RLIKE IS BETWEEN DIV CASE WHEN THEN ELSE DISTINCT FROM BY WHERE HAVING".split()
)
_SHAPES: dict[str, Shape] = {"APPEND": "append", "UPSERT": "upsert", "CHANGELOG": "changelog"}
_FULL: dict[tuple[str, ...], WhenFull] = {("EMIT", "EARLY"): "emit", ("FAIL",): "fail", ("SPILL",): "spill"}
_BYTES = {"BYTES": 1, "BYTE": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def read_tail(text: str, block: Block) -> QueryTail:
    """The clauses after the FROM clause of a block; they are read once, and kept in the block.

    Raises:
        TemporalParseError: one of ours is broken, or given twice.
    """
    if block.clauses is None:
        tokens, inside = tokenize(text), tokenize_span(text, block.tail)
        if not inside or block.pipe:
            block.clauses = QueryTail()
        else:
            first = tokens.index(inside[0])
            block.clauses = _TailReader(Cursor(text, tokens, first, first + len(inside))).read()
    return block.clauses


class _TailReader:
    """One pass over a tail."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor, self.tail = cursor, QueryTail()

    def read(self) -> QueryTail:
        """All clauses, whatever their order: Spark says what is wrong with that of its own.

        Raises:
            TemporalParseError: one of ours, or a condition or a grouping, is broken.
        """
        cursor, tail = self.cursor, self.tail
        while not cursor.done:
            start = cursor.index
            if cursor.symbol() == "|>":
                cursor.step(cursor.stop - cursor.index)
                tail.pipes = cursor.span_from(start)
            elif cursor.take("WHERE"):
                tail.where = self._condition()
            elif cursor.take("GROUP", "BY"):
                tail.group = self._group()
                tail.grouping = cursor.span_from(start)
            elif cursor.take("HAVING"):
                tail.having = self._condition()
            elif cursor.word() in ("GRACE", "LATE", "EMIT") and self._starts_clause():
                self._ours(start)
            else:
                is_lateral = cursor.at("LATERAL")
                cursor.skip_group()
                self._to_clause()
                (tail.laterals if is_lateral else tail.rest).append(cursor.span_from(start))
        return tail

    def _ours(self, start: int) -> None:
        cursor, tail = self.cursor, self.tail
        word = cursor.word()
        name = {"GRACE": "GRACE PERIOD", "LATE": "LATE TO", "EMIT": "EMIT"}[word]
        taken = {"GRACE": tail.grace, "LATE": tail.late, "EMIT": tail.emit}[word]
        if word == "GRACE":
            cursor.take("GRACE", "PERIOD") or cursor.take("GRACE")
            tail.grace_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "GRACE PERIOD", cursor.text)
            tail.grace = cursor.span_from(start)
        elif word == "LATE":
            cursor.take("LATE", "TO")
            tail.late_to = self._name()
            tail.late = cursor.span_from(start)
        else:
            tail.emit = read_emit(cursor)
        if taken is not None:
            raise TemporalParseError("EMIT.DUPLICATE_OPTION", cursor.text, cursor.span_from(start).pair, option=name)
        if not cursor.done and not self._starts_clause():
            options = "AS, BUFFER MAX, WHEN FULL, IDLE TIMEOUT or the end"
            cursor.fail(options if word == "EMIT" else "a clause or the end")

    def _name(self) -> str:
        return ".".join(part.text for part in self.cursor.path("the name of a table"))

    def _condition(self) -> Span:
        start = self.cursor.index
        self._to_clause()
        if self.cursor.index == start:
            self.cursor.fail("a condition")
        return self.cursor.span_from(start)

    def _group(self) -> tuple[Span, ...]:
        found = [self._grouping()]
        while self.cursor.symbol() == ",":
            self.cursor.step()
            found.append(self._grouping())
        return tuple(found)

    def _grouping(self) -> Span:
        """One item of GROUP BY, with the WITH ROLLUP or GROUPING SETS after it."""
        cursor, start = self.cursor, self.cursor.index
        if self._starts_clause():
            cursor.fail("an expression")
        if not cursor.at("GROUPING", "SETS"):
            cursor.skip_expression()
        if cursor.take("GROUPING", "SETS"):
            cursor.skip_group()
        elif cursor.word() == "WITH" and cursor.word(1) in _GROUPING_SETS:
            cursor.step(2)
        if not cursor.done and not self._starts_clause() and cursor.symbol() != ",":
            cursor.fail("`,` or a clause")
        return cursor.span_from(start)

    def _to_clause(self) -> None:
        while not self.cursor.done and not self._starts_clause():
            self.cursor.skip_group()

    def _starts_clause(self) -> bool:
        cursor = self.cursor
        before = cursor.tokens[cursor.index - 1] if cursor.index else None
        if before is not None and (before.text == "." or before.word == "AS"):
            return False
        word, following = cursor.word(), cursor.word(1)
        if cursor.symbol() == "|>":
            return True
        if word == "EMIT":
            return following in _EMITS or _ends_operand(before)
        if word == "WINDOW":  # a named window, and no call of window(…)
            return cursor.word(2) == "AS"
        return word in _CLAUSES or (word, following) in _PAIRS


def _ends_operand(token: Token | None) -> bool:
    """Whether an expression may end with the token, so that the word after it is none of its names."""
    if token is None or token.kind == "op":
        return token is not None and token.text in (")", "]", "}")
    return token.word not in _INSIDE


def read_emit(cursor: Cursor) -> EmitClause:
    """Read one EMIT clause; the cursor is at EMIT.

    Raises:
        TemporalParseError: something is missing, twice, or not of the clause's form.
    """
    start = cursor.index
    cursor.take("EMIT")
    clause = EmitClause(Span(0, 0), Span(0, 0), _kind(cursor))
    if clause.kind == "every":
        clause.every_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "EMIT EVERY", cursor.text)
        if not cursor.take("PER", "KEY"):
            hint = "The interval counts for each key on its own: EMIT EVERY INTERVAL '5' SECONDS PER KEY."
            cursor.fail("PER KEY", hint)
    clause.head = cursor.span_from(start)
    cursor.options(clause.options, lambda: _option(cursor, clause), "EMIT.DUPLICATE_OPTION")
    clause.span = cursor.span_from(start)
    if clause.kind == "corrections" and clause.shape is None:
        clause.shape = "changelog"
    return clause


def _kind(cursor: Cursor) -> EmitKind:
    if cursor.take("FINAL") or cursor.take("ON", "WINDOW", "CLOSE") or cursor.take("AFTER", "WINDOW", "CLOSE"):
        return "final"
    if cursor.take("CHANGES"):
        return "changes"
    if cursor.take("EVERY"):
        return "every"
    if cursor.take("CORRECTIONS"):
        return "corrections"
    expected = "FINAL, CHANGES, CORRECTIONS, EVERY, ON WINDOW CLOSE or AFTER WINDOW CLOSE"
    if cursor.word() in ("ON", "AFTER"):
        cursor.index, expected = cursor.index + 1, "WINDOW CLOSE"
    return cursor.fail(expected)


def _option(cursor: Cursor, clause: EmitClause) -> str | None:
    """Read one option; its name, or None where none follows."""
    if cursor.at("AS"):
        cursor.step()
        clause.shape = _SHAPES.get(cursor.word())
        if clause.shape is None:
            cursor.fail("APPEND, UPSERT or CHANGELOG")
        cursor.step()
        return "AS"
    if cursor.take("BUFFER", "MAX"):
        return _buffer(cursor, clause)
    if cursor.take("WHEN", "FULL"):
        found = next((words for words in _FULL if cursor.take(*words)), None)
        if found is None:
            cursor.fail("EMIT EARLY, FAIL or SPILL")
        clause.when_full = _FULL[found]
        return "WHEN FULL"
    if cursor.take("IDLE", "TIMEOUT"):
        clause.idle_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "IDLE TIMEOUT", cursor.text)
        return "IDLE TIMEOUT"
    return None


def _buffer(cursor: Cursor, clause: EmitClause) -> str:
    """``n ROWS`` or ``n BYTES``; the one and the other may stand together."""
    number = cursor.peek()
    if number is None or number.kind != "number" or not number.text.isdigit():
        cursor.fail("a number of rows or bytes")
    cursor.step()
    unit = cursor.word()
    if unit in ("ROWS", "ROW"):
        clause.max_rows = int(number.text)
    elif unit in _BYTES:
        clause.max_bytes = int(number.text) * _BYTES[unit]
    else:
        cursor.fail("ROWS, BYTES, KB, MB or GB")
    cursor.step()
    return "BUFFER MAX ROWS" if unit in ("ROWS", "ROW") else "BUFFER MAX BYTES"


def items_of(text: str, span: Span | None) -> list[tuple[Token, ...]]:
    """The tokens between the commas of a list, such as a select list; parentheses are kept together."""
    if span is None:
        return []
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokenize_span(text, span):
        if token.kind == "op":
            depth += (token.text in "([{") - (token.text in ")]}")
            if token.text == "," and depth == 0:
                found.append([])
                continue
        found[-1].append(token)
    return [tuple(item) for item in found if item]


def late_span(text: str, tokens: tuple[Token, ...] | None = None) -> tuple[int, int] | None:
    """Where the first LATE TO is, with its table.

    >>> late_span("SELECT 1 FROM a LATE TO b WHERE c")
    (16, 25)
    """
    tokens = tokenize(text) if tokens is None else tokens
    for at, token in enumerate(tokens[:-1]):
        if token.word == "LATE" and tokens[at + 1].word == "TO":
            return token.start, tokens[min(at + 2, len(tokens) - 1)].end
    return None
