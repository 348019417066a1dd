"""Reads the structure of a statement from its tokens: levels, common table expressions and query blocks."""

from __future__ import annotations

from sqlx.cursor import Cursor
from sqlx.dialect import Span, Token, tokenize
from sqlx.from_clause import FromReader
from sqlx.structure import Block, Cte, FromItem, Level
from sqlx.words import TAIL_WORDS

_SET_WORDS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_BEFORE_HIVE_FROM = frozenset({"AS", "EXPLAIN", "TEMPORAL", "EXTENDED", "FORMATTED", "ALL", "COST", "CODEGEN"})


def scan(text: str) -> Level:
    """The level of the whole statement, with everything inside.

    Args:
        text: one statement.

    Raises:
        LexicalError: a string or comment is not closed.
        TemporalParseError: a clause of ours is broken, or a parenthesis is not closed.

    >>> level = scan("SELECT o.id FROM o JOIN r AS OF o.ts ON o.k = r.k")
    >>> join = level.blocks[0].items[0].joins[0]
    >>> join.relation.parts, join.as_of.spelling
    (('r',), 'as_of')
    """
    return Scanner(text, tokenize(text)).scan()


class Scanner:
    """One pass over the tokens of one statement."""

    def __init__(self, text: str, tokens: tuple[Token, ...]) -> None:
        self.text, self.tokens = text, tokens
        self.reader = FromReader(self)

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
                cursor.index += 1
        return level

    def _starts_query(self, cursor: Cursor, first: int, level: Level) -> bool:
        """Whether a FROM comes before its SELECT or pipes: at the start, or behind CREATE VIEW v AS or EXPLAIN."""
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
                cursor.index += 1
            if not cursor.take("AS") or cursor.symbol() != "(":
                return  # not a CTE after all: Spark will say so
            stop = self.tokens[cursor.closing()].end
            cte = Cte(name.name, Span(self.tokens[start].start, stop), level, columns)
            cte.query = self.inside(cursor, level, cte)
            level.ctes.append(cte)
            if cursor.symbol() != ",":
                return
            cursor.index += 1

    def inside(self, cursor: Cursor, parent: Level, cte: Cte | None = None) -> Level:
        """The level between the parenthesis at the position and its partner; the cursor moves behind it."""
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
                cursor.index += 1

    def _block(self, cursor: Cursor, level: Level) -> None:
        start = cursor.index
        pipe = cursor.word() == "FROM"
        select: Span | None = None
        if not pipe:
            cursor.index += 1
            select = self._until(cursor, level, TAIL_WORDS - {"SELECT", "MAP", "REDUCE"} | {"FROM"})
        items: list[FromItem] = []
        if cursor.symbol(1) != ";" and cursor.peek(1) is not None and cursor.take("FROM"):  # FROM at the end is a name
            items = self.reader.items(cursor, level)
            if len(items) == 1 and pipe:
                self.reader.deduplicate.piped(cursor, items[0], level)
        tail = self._until(cursor, level, _SET_WORDS)
        if pipe:
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
                cursor.index += 1
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
