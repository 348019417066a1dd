"""Reads a FROM clause: relations with their aliases, joins with their conditions, and where they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlx.as_of_reader import AsOfReader
from sqlx.cursor import Cursor
from sqlx.deduplicate_reader import DeduplicateReader
from sqlx.dialect import CLAUSE_PAIRS, Span, Token
from sqlx.structure import FromItem, Join, Level, Relation
from sqlx.window_relations import windowed
from sqlx.words import AFTER_QUERY, JOIN_WORDS, NO_ALIAS, QUERY_WORDS, TAIL_WORDS, TRAVEL_WORDS

if TYPE_CHECKING:
    from sqlx.scanner import Scanner


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
        """The comma-separated items of a FROM clause; the cursor stands behind FROM."""
        around, self.level = self.level, level
        found = [self._item(cursor, level)]
        while cursor.symbol() == ",":
            cursor.index += 1
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
        """A pivot closes what stands before it: its columns are new ones."""
        self.as_of.check_pivot(cursor, item)
        cursor.index += 1
        if cursor.word() in ("INCLUDE", "EXCLUDE"):
            cursor.index += 2
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
            cursor.index += 1
        lateral = cursor.take("LATERAL")
        found = self._body(cursor, level, stream)
        found.stream, found.lateral = stream, lateral
        self._extensions(cursor, found)
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
            self.scanner.inside(cursor, level)
            span = cursor.span_from(start)
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
        cursor.index += 1
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
            cursor.index += 1
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
            cursor.index += 1
            cursor.skip_group()
        if cursor.take("TABLESAMPLE"):
            cursor.skip_group()
            if cursor.take("REPEATABLE"):
                cursor.skip_group()
        if cursor.at("WATERMARK") and cursor.peek(1) is not None and cursor.word(1) not in NO_ALIAS:
            cursor.index += 1
            cursor.skip_expression()
            if cursor.take("AS"):
                cursor.index += 1
            if cursor.take("DELAY", "OF"):
                cursor.skip_expression()

    def _travel(self, cursor: Cursor, found: Relation) -> None:
        ahead = 1 if cursor.word() == "FOR" else 0
        if cursor.word(ahead) not in TRAVEL_WORDS or (cursor.word(ahead + 1), cursor.word(ahead + 2)) != ("AS", "OF"):
            return
        start = cursor.index
        kind = cursor.word(ahead)
        cursor.index += ahead + 3
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
        cursor.index += 2 if explicit else 1
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
        """Whether the query qualifies a name with ASOF, so that it is an alias (design.md, section 2)."""
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
        cursor.index += len(words)
        head = cursor.span_from(start)
        kind = " ".join(w for w in words if w not in ("JOIN", "ASOF"))
        join = Join(kind, head, self.relation(cursor, level))
        if self.as_of.applies(cursor, join, "ASOF" in words):
            self.as_of.read(cursor, join, head, "ASOF" in words)
            self.scanner.nested(self.as_of.first_index, cursor.index, level)
        else:
            self._condition(cursor, join, level)
        join.span = cursor.span_from(start)
        return join

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
                cursor.index += 1
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
        cursor.index += 1
        inner = Cursor(cursor.text, self.tokens, cursor.index + 1, cursor.closing())
        columns = [inner.expect_name("a column")]
        while inner.symbol() == ",":
            inner.index += 1
            columns.append(inner.expect_name("a column"))
        cursor.skip_group()
        return tuple(columns)


def _names_asof(level: Level) -> bool:
    """Whether a relation in a subquery is called ASOF there: then the qualifier is that one's."""
    blocks = [block for inner in level.walk() for block in inner.blocks]
    relations = [r for b in blocks for item in b.items for r in (item.relation, *(j.relation for j in item.joins))]
    return any(r.alias is not None and r.alias.word == "ASOF" for r in relations)
