"""A position in the tokens of a statement, and the questions that a recursive-descent reader asks of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from sqlx.errors import TemporalParseError
from sqlx.sql.tokens import Span, Token

_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_INFIX_WORDS = frozenset(
    {"AND", "OR", "NOT", "IS", "LIKE", "ILIKE", "RLIKE", "REGEXP", "IN", "BETWEEN", "DIV", "COLLATE", "ESCAPE"}
)
_UNIT = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNITS = frozenset(unit + plural for unit in _UNIT for plural in ("", "S"))
_LITERAL_TYPES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "X", "TIME"})


class Cursor:
    """Reads tokens from left to right within ``[index, stop)``."""

    def __init__(self, text: str, tokens: tuple[Token, ...], index: int = 0, stop: int | None = None) -> None:
        self.text, self.tokens = text, tokens
        self.stop = len(tokens) if stop is None else stop
        self.index = index

    @classmethod
    def of_statement(cls, text: str, tokens: tuple[Token, ...]) -> Cursor:
        """At the start of a statement; a semicolon at its end is none of it."""
        return cls(text, tokens, stop=len(tokens) - bool(tokens and tokens[-1].text == ";"))

    def step(self, count: int = 1) -> None:
        """Step over tokens; never past the end, however far a reader steps."""
        self.index = min(self.index + count, self.stop)

    @property
    def done(self) -> bool:
        """Whether all tokens were read."""
        return self.index >= self.stop

    def peek(self, ahead: int = 0) -> Token | None:
        """The token ``ahead`` of the position, or None past the end."""
        at = self.index + ahead
        return self.tokens[at] if at < self.stop else None

    def word(self, ahead: int = 0) -> str:
        """The upper-case word there, or ""."""
        at = self.index + ahead
        return self.tokens[at].word if at < self.stop else ""

    def symbol(self, ahead: int = 0) -> str:
        """The text of the operator there, or ""."""
        at = self.index + ahead
        return self.tokens[at].symbol if at < self.stop else ""

    def at(self, *words: str) -> bool:
        """Whether exactly these words follow."""
        return all(self.word(n) == w for n, w in enumerate(words))

    def take(self, *words: str) -> bool:
        """Step over these words if they follow."""
        if not self.at(*words):
            return False
        self.step(len(words))
        return True

    def next(self) -> Token:
        """Step over one token and return it."""
        token = self.tokens[self.index]
        self.step()
        return token

    @property
    def offset(self) -> int:
        """Character offset of the next token (of the end of the text after the last)."""
        token = self.peek()
        return token.start if token else self.last_end

    @property
    def last_end(self) -> int:
        """Character offset after the token that was read last."""
        return self.tokens[self.index - 1].end if self.index else 0

    def span_from(self, start_index: int) -> Span:
        """From the token at ``start_index`` to the one that was read last; empty where none was."""
        if start_index >= self.index:
            return Span(self.last_end, self.last_end)
        return Span(self.tokens[start_index].start, self.last_end)

    def options(self, found: dict[str, Span], read: Callable[[], str | None], duplicate: str) -> None:
        """Read options in any order until none follows, and note where each is.

        Args:
            found: option name to its span, filled here.
            read: reads one option; its name, or None where none follows.
            duplicate: the condition of an option that is given twice.

        Raises:
            TemporalParseError: one is given twice.
        """
        while not self.done:
            start = self.index
            name = read()
            if name is None:
                return
            span = self.span_from(start)
            if name in found:
                raise TemporalParseError(duplicate, self.text, span.pair, option=name)
            found[name] = span

    def fail(self, expected: str, hint: str = "") -> NoReturn:
        """Raise PARSE.EXPECTED at the next token.

        Raises:
            TemporalParseError: always.
        """
        token = self.tokens[self.index] if self.index < len(self.tokens) else None  # also what closes a group
        span = (token.start, token.end) if token else (self.last_end, self.last_end + 1)
        found = f"`{token.text}`" if token else "the end of the text"
        raise TemporalParseError("PARSE.EXPECTED", self.text, span, expected=expected, found=found, hint=hint)

    def expect_name(self, what: str) -> Token:
        """Step over a name.

        Raises:
            TemporalParseError: something else is there.
        """
        token = self.peek()
        if token is None or not token.is_name:
            self.fail(what)
        return self.next()

    def path(self, what: str, behind: str = "a name after the dot") -> list[Token]:
        """Step over a dotted name; its parts.

        Raises:
            TemporalParseError: there is no name, or none after a dot; the arguments say what was expected.
        """
        parts = [self.expect_name(what)]
        while self.symbol() == ".":
            self.step()
            parts.append(self.expect_name(behind))
        return parts

    def expressions(self) -> list[Span]:
        """Step over expressions with commas between them, at least one; their spans.

        Raises:
            TemporalParseError: there is no expression.
        """
        found = [self.skip_expression()]
        while self.symbol() == ",":
            self.step()
            found.append(self.skip_expression())
        return found

    def closing(self) -> int:
        """Index of the parenthesis that closes the one at the position.

        Raises:
            TemporalParseError: it is never closed.
        """
        depth = 0
        for index in range(self.index, self.stop):
            token = self.tokens[index]
            if token.kind == "op":
                depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if depth == 0:
                return index
        self.index = self.stop
        return self.fail("`)`")

    def skip_group(self) -> None:
        """Step over a group in parentheses or brackets, or over one token."""
        self.index = min((self.closing() if self.symbol() in _OPEN else self.index) + 1, self.stop)

    def skip_expression(self) -> Span:
        """Step over one expression: it ends where two operands stand side by side, or at a comma or parenthesis.

        Returns:
            The span of the expression.

        Raises:
            TemporalParseError: there is no expression.
        """
        start = self.index
        complete = False
        while not self.done and self.symbol() not in (",", ")", "]", "}", ";", "|>"):
            if complete and not self._continues():
                break
            complete = self._operator() if complete else self._operand()
        if self.index == start or not complete:
            self.fail("an expression")
        return self.span_from(start)

    def skip_cast(self) -> None:
        """Step over ``::`` and the type after it."""
        is_nested = self.word(1) in ("ARRAY", "MAP", "STRUCT")
        self.step(2)
        if self.symbol() == "(":
            self.skip_group()
        depth = 0
        while is_nested and not self.done:
            depth += self.symbol().count("<") - self.symbol().count(">")
            self.step()
            if depth <= 0:
                return

    def _continues(self) -> bool:
        """Whether the next token goes on with an expression that could end here."""
        token = self.peek()
        infix = self.word() in _INFIX_WORDS or self.at("AT", "TIME", "ZONE")
        return token is not None and (token.kind == "op" or infix)

    def _operand(self) -> bool:
        """Step over an operand (True), or over a prefix of one (False)."""
        word, symbol = self.word(), self.symbol()
        if word in ("AND", "OR"):
            self.fail("an expression")
        if word == "CASE":
            self._skip_case()
        elif word == "INTERVAL":
            self._skip_interval()
        elif (symbol and symbol not in ("(", "[", "?", "*")) or word == "NOT":
            self.step()
            return False
        else:
            self.skip_group()
            following = self.peek()
            if word in _LITERAL_TYPES and following and following.kind == "string":
                self.step()
        return True

    def _operator(self) -> bool:
        """Step over an operator; returns whether the expression is complete after it."""
        symbol = self.symbol()
        if symbol in ("(", "["):
            self.skip_group()
            return True
        if symbol == "::":
            self.skip_cast()
            return True
        if self.take("IS"):
            return self._is_test()
        if self.take("AT", "TIME", "ZONE"):
            return False
        if self.take("NOT"):  # x NOT IN (…)
            return True
        self.step()
        return False

    def _is_test(self) -> bool:
        """What follows IS: [NOT] DISTINCT FROM wants an operand, [NOT] NULL is complete."""
        self.take("NOT")
        if self.take("DISTINCT", "FROM"):
            return False
        self.step()
        return True

    def _skip_case(self) -> None:
        depth = 0
        while not self.done:
            word = self.word()
            depth += (word == "CASE") - (word == "END")
            self.skip_group()
            if depth == 0:
                return
        self.fail("END")

    def _skip_interval(self) -> None:
        """INTERVAL, then values with units ('1' DAY 2 HOURS, '1 02' DAY TO HOUR), or one string."""
        self.step()
        while not self.done:
            while self.symbol() in ("-", "+"):
                self.step()
            self.skip_group()
            if self.word() not in _UNITS:
                return
            self.step()
            if self.word() == "TO":
                self.step(2)
            following = self.peek()
            if following is None or following.kind not in ("number", "string") or self.word(1) not in _UNITS:
                return
