"""The pipe operators of a query: what stands between one ``|>`` and the next."""

from __future__ import annotations

from sqlx.sql.tokens import Span, Token, tokenize_span


def pipe_operators(text: str, span: Span) -> list[tuple[Token, ...]]:
    """The tokens of each pipe operator, without its ``|>``; the first are those before all of them.

    >>> [[token.text for token in operator] for operator in pipe_operators("WHERE a |> DROP b", Span(0, 17))]
    [['WHERE', 'a'], ['DROP', 'b']]
    """
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokenize_span(text, span):
        if token.text == "|>" and depth == 0:
            found.append([])
            continue
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        found[-1].append(token)
    return [tuple(tokens) for tokens in found if tokens or tokens is found[0]]
