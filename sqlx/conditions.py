"""Takes an ON condition apart: its conjuncts, and the comparison that each one is."""

from __future__ import annotations

from dataclasses import dataclass

from sqlx.dialect import Span, Token

COMPARISONS = frozenset({"=", "==", "<=>", ">=", ">", "<=", "<"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_NOT_COMPARED = frozenset({"OR", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "IS", "AND"})


@dataclass(frozen=True)
class Conjunct:
    """One conjunct of a condition: its tokens, and its two sides where it is a single comparison."""

    tokens: tuple[Token, ...]
    operator: str = ""
    left: tuple[Token, ...] = ()
    right: tuple[Token, ...] = ()

    @property
    def span(self) -> Span:
        """Where it stands in the text."""
        return span_of(self.tokens)


def span_of(tokens: tuple[Token, ...]) -> Span:
    """From the first to the last token."""
    return Span(tokens[0].start, tokens[-1].end)


def split_conjuncts(tokens: tuple[Token, ...]) -> list[Conjunct]:
    """The conjuncts of a condition; parentheses around all of it or around one conjunct are seen through.

    >>> from sqlx.dialect import tokenize
    >>> [c.operator for c in split_conjuncts(tokenize("(a.x = b.x AND a.t >= b.t) AND a.y BETWEEN 1 AND 2"))]
    ['=', '>=', '']
    """
    tokens = unwrapped(tokens)
    parts = _split_and(tokens)
    if len(parts) > 1:
        return [conjunct for part in parts for conjunct in split_conjuncts(part)]
    return [_comparison(tokens)]


def unwrapped(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """The tokens without parentheses around all of them."""
    while (
        len(tokens) > 2
        and tokens[0].text == "("
        and tokens[1].word not in ("SELECT", "WITH")
        and _partner(tokens) == len(tokens) - 1
    ):
        tokens = tokens[1:-1]
    return tokens


def _partner(tokens: tuple[Token, ...]) -> int:
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "op":
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
        if depth == 0:
            return index
    return -1


def _top_level(tokens: tuple[Token, ...]) -> list[tuple[int, Token]]:
    """The tokens outside of parentheses and CASE … END."""
    depth = 0
    found: list[tuple[int, Token]] = []
    for index, token in enumerate(tokens):
        closes = (token.kind == "op" and token.text in _CLOSE) or token.word == "END"
        depth -= closes
        if depth == 0 and not closes:
            found.append((index, token))
        depth += (token.kind == "op" and token.text in _OPEN) or token.word == "CASE"
    return found


def _split_and(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """Split at AND, leaving that of BETWEEN alone; a condition with OR is one piece."""
    top = _top_level(tokens)
    if any(t.word == "OR" for _, t in top):
        return [tokens]
    parts: list[tuple[Token, ...]] = []
    start, betweens = 0, 0
    for index, token in top:
        if token.word == "BETWEEN":
            betweens += 1
        elif token.word == "AND" and betweens:
            betweens -= 1
        elif token.word == "AND":
            parts.append(tokens[start:index])
            start = index + 1
    return [*parts, tokens[start:]]


def _comparison(tokens: tuple[Token, ...]) -> Conjunct:
    top = _top_level(tokens)
    operators = [(n, t) for n, t in top if t.kind == "op" and t.text in COMPARISONS | {"<>", "!="}]
    if len(operators) != 1 or any(t.word in _NOT_COMPARED or t.text == "!" for _, t in top):
        return Conjunct(tokens)
    at, operator = operators[0]
    if operator.text not in COMPARISONS or at == 0 or at == len(tokens) - 1:
        return Conjunct(tokens)
    symbol = "=" if operator.text == "==" else operator.text
    return Conjunct(tokens, symbol, tokens[:at], tokens[at + 1 :])
