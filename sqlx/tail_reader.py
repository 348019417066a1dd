"""Reads what follows the FROM clause of a query block: WHERE, GROUP BY, and our GRACE, LATE TO and EMIT.

Source: design.md, section 2 (query_tail, emit); KIP-328.
"""

from __future__ import annotations

from sqlx.clauses import EmitClause, EmitKind, QueryTail, Shape, WhenFull
from sqlx.cursor import Cursor
from sqlx.dialect import Span, Token, tokenize
from sqlx.errors import TemporalParseError, UnsupportedError
from sqlx.intervals import parse_interval
from sqlx.structure import Block

_CLAUSES = frozenset("WHERE HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET QUALIFY LATERAL".split())
_PAIRS = frozenset({("GROUP", "BY"), ("GRACE", "PERIOD"), ("GRACE", "INTERVAL"), ("LATE", "TO")})
_EMITS = frozenset({"FINAL", "ON", "AFTER", "CHANGES", "EVERY", "CORRECTIONS"})
_GROUPING_SETS = frozenset({"ROLLUP", "CUBE"})
_INSIDE = frozenset(  # behind one of these words EMIT is a column
    "AND OR NOT IN LIKE ILIKE RLIKE IS BETWEEN DIV CASE WHEN THEN ELSE DISTINCT FROM BY WHERE HAVING".split()
)
_SHAPES: dict[str, Shape] = {"APPEND": "append", "UPSERT": "upsert", "CHANGELOG": "changelog"}
_FULL: dict[tuple[str, ...], WhenFull] = {("EMIT", "EARLY"): "emit", ("FAIL",): "fail", ("SPILL",): "spill"}
_BYTES = {"BYTES": 1, "BYTE": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def read_tail(text: str, block: Block) -> QueryTail:
    """The clauses behind the FROM clause of a block.

    Raises:
        TemporalParseError: one of ours is broken, or given twice.
    """
    tokens = tokenize(text)
    inside = [n for n, t in enumerate(tokens) if block.tail.start <= t.start and t.end <= block.tail.end]
    if not inside or block.pipe:
        return QueryTail()
    return _TailReader(Cursor(text, tokens, inside[0], inside[-1] + 1)).read()


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
            if cursor.take("WHERE"):
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
            self.cursor.index += 1
            found.append(self._grouping())
        return tuple(found)

    def _grouping(self) -> Span:
        """One item of GROUP BY, with the WITH ROLLUP or GROUPING SETS behind it."""
        cursor, start = self.cursor, self.cursor.index
        if self._starts_clause():
            cursor.fail("an expression")
        if not cursor.at("GROUPING", "SETS"):
            cursor.skip_expression()
        if cursor.take("GROUPING", "SETS"):
            cursor.skip_group()
        elif cursor.word() == "WITH" and cursor.word(1) in _GROUPING_SETS:
            cursor.index += 2
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
        if word == "EMIT":
            return following in _EMITS or _ends_operand(before)
        if word == "WINDOW":  # a named window, and no call of window(…)
            return cursor.word(2) == "AS"
        return word in _CLAUSES or (word, following) in _PAIRS


def _ends_operand(token: Token | None) -> bool:
    """Whether an expression may end with the token, so that the word behind it is none of its names."""
    if token is None or token.kind == "op":
        return token is not None and token.text in (")", "]", "}")
    return token.word not in _INSIDE


def read_emit(cursor: Cursor) -> EmitClause:
    """Read one EMIT clause; the cursor stands at EMIT.

    Raises:
        TemporalParseError: something is missing, twice, or not of the clause's form.
        UnsupportedError: EMIT CORRECTIONS.
    """
    start = cursor.index
    cursor.take("EMIT")
    clause = EmitClause(Span(0, 0), Span(0, 0), _kind(cursor, start))
    if clause.kind == "every":
        clause.every_us, cursor.index = parse_interval(cursor.tokens, cursor.index, "EMIT EVERY", cursor.text)
        if not cursor.take("PER", "KEY"):
            hint = "The interval counts for each key on its own: EMIT EVERY INTERVAL '5' SECONDS PER KEY."
            cursor.fail("PER KEY", hint)
    clause.head = cursor.span_from(start)
    cursor.options(clause.options, lambda: _option(cursor, clause), "EMIT.DUPLICATE_OPTION")
    clause.span = cursor.span_from(start)
    return clause


def _kind(cursor: Cursor, start: int) -> EmitKind:
    if cursor.take("FINAL") or cursor.take("ON", "WINDOW", "CLOSE") or cursor.take("AFTER", "WINDOW", "CLOSE"):
        return "final"
    if cursor.take("CHANGES"):
        return "changes"
    if cursor.take("EVERY"):
        return "every"
    if cursor.take("CORRECTIONS"):
        raise UnsupportedError("UNSUPPORTED.EMIT_CORRECTIONS", cursor.text, cursor.span_from(start).pair)
    expected = "FINAL, CHANGES, EVERY, ON WINDOW CLOSE or AFTER WINDOW CLOSE"
    if cursor.word() in ("ON", "AFTER"):
        cursor.index, expected = cursor.index + 1, "WINDOW CLOSE"
    return cursor.fail(expected)


def _option(cursor: Cursor, clause: EmitClause) -> str | None:
    """Read one option; its name, or None where none follows."""
    if cursor.at("AS"):
        cursor.index += 1
        clause.shape = _SHAPES.get(cursor.word())
        if clause.shape is None:
            cursor.fail("APPEND, UPSERT or CHANGELOG")
        cursor.index += 1
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
    cursor.index += 1
    unit = cursor.word()
    if unit in ("ROWS", "ROW"):
        clause.max_rows = int(number.text)
    elif unit in _BYTES:
        clause.max_bytes = int(number.text) * _BYTES[unit]
    else:
        cursor.fail("ROWS, BYTES, KB, MB or GB")
    cursor.index += 1
    return "BUFFER MAX ROWS" if unit in ("ROWS", "ROW") else "BUFFER MAX BYTES"


def items_of(text: str, span: Span | None) -> list[tuple[Token, ...]]:
    """The tokens between the commas of a list, such as a select list; parentheses are kept together."""
    if span is None:
        return []
    tokens = tokenize(text)
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if not (span.start <= token.start and token.end <= span.end):
            continue
        if token.kind == "op":
            depth += (token.text in "([{") - (token.text in ")]}")
            if token.text == "," and depth == 0:
                found.append([])
                continue
        found[-1].append(token)
    return [tuple(item) for item in found if item]
