"""Parameters (``:name`` and ``?``) put into the text as literals, so that every query cut out of it has them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sqlx.dialect import Span, Token
from sqlx.edits import Edits


def substitute_parameters(text: str, tokens: tuple[Token, ...], context: Any) -> str:
    """Replace parameter markers by the SQL of their values.

    Args:
        text: the statement.
        tokens: its tokens.
        context: Spark's NamedParameterContext, PositionalParameterContext or HybridParameterContext, or None.
    """
    kind = "" if context is None else str(context.getClass().getSimpleName())
    if kind.startswith("Named"):
        params = context.params()
        return _named(text, tokens, {str(k): params.apply(k).sql() for k in _names(params)})
    if kind.startswith("Positional"):
        return _positional(text, tokens, _values(context.params()))
    if kind.startswith("Hybrid"):  # EXECUTE IMMEDIATE … USING: which of both it is, the text says
        values, names = _values(context.args()), context.paramNames()
        by_name = {str(names.apply(n)): value for n, value in enumerate(values) if names.apply(n)}
        return _named(text, tokens, by_name) if by_name else _positional(text, tokens, values)
    return text


def _names(params: Any) -> list[str]:
    iterator = params.keysIterator()
    names = []
    while iterator.hasNext():
        names.append(iterator.next())
    return names


def _values(params: Any) -> list[str]:
    return [params.apply(n).sql() for n in range(params.length())]


def _named(text: str, tokens: tuple[Token, ...], values: dict[str, str]) -> str:
    edits = Edits(text)
    for colon, name in pairwise(tokens):
        if colon.text == ":" and colon.end == name.start and name.text in values:
            edits.replace(Span(colon.start, name.end), values[name.text])
    return edits.render()


def _positional(text: str, tokens: tuple[Token, ...], values: list[str]) -> str:
    edits = Edits(text)
    markers = [t for t in tokens if t.text == "?"]
    for marker, value in zip(markers, values, strict=False):
        edits.replace(Span(marker.start, marker.end), value)
    return edits.render()
