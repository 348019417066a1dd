"""Splits a script into its statements, for Spark, the command line and replay alike."""

from __future__ import annotations

from sqlx.dialect import Span, tokenize


def statement_spans(text: str) -> list[Span]:
    """The statements of a script, split at semicolons; BEGIN … END of a compound statement is one.

    >>> [s.of("SELECT 1; SELECT ';' ;") for s in statement_spans("SELECT 1; SELECT ';' ;")]
    ['SELECT 1', "SELECT ';'"]
    """
    spans: list[Span] = []
    start: int | None = None
    end = depth = 0
    for token in tokenize(text):
        if token.text == ";" and depth == 0:
            if start is not None:
                spans.append(Span(start, end))
            start = None
            continue
        if start is None:
            start = token.start
            depth = 1 if token.word == "BEGIN" else 0
        elif depth:
            depth += (token.word in ("BEGIN", "CASE", "IF", "WHILE", "LOOP", "REPEAT", "FOR")) - (token.word == "END")
        end = token.end
    return [*spans, Span(start, end)] if start is not None else spans
