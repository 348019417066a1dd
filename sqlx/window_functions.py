"""Reads the calls that group by windows: window, session_window and our sliding_window.

Source: Spark's functions of these names; KIP-450 (sliding windows), semantics.md sections 12, 13, B14.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from sqlx.cursor import Cursor
from sqlx.dialect import Span, Token, tokenize
from sqlx.errors import BindError, TemporalParseError, UnsupportedError
from sqlx.intervals import parse_interval
from udtf.operators.window_aggregate_config import Window

CALLS = ("window", "session_window", "sliding_window")
_MOST_ARGUMENTS = {"window": 4, "session_window": 2, "sliding_window": 2}
_WANTED = {"window": "a time, a length, and perhaps a slide and a start", "session_window": "a time and a gap"}
_LENGTHS = {"window": "length", "session_window": "gap", "sliding_window": "length"}


@dataclass(frozen=True)
class WindowCall:
    """A window of a GROUP BY.

    Attributes:
        span: the call.
        column: what the select list calls the window: `window` or `session_window`, `sliding_window`.
        time: span of its first argument.
        window: the windows it makes.
    """

    span: Span
    column: str
    time: Span
    window: Window


def window_call(text: str, tokens: tuple[Token, ...]) -> WindowCall | None:
    """The window call that an expression is; None for any other.

    Raises:
        BindError: a length is not above zero, or the slide is longer than the window.
        TemporalParseError: an argument is no interval.
    """
    if len(tokens) < 3 or tokens[0].name.lower() not in CALLS or not tokens[0].is_name or tokens[1].text != "(":
        return None
    cursor = Cursor(text, tokens, 1)
    if cursor.closing() != len(tokens) - 1:
        return None
    name = tokens[0].name.lower()
    inner = Cursor(text, tokens, 2, len(tokens) - 1)
    arguments = [] if inner.done else inner.expressions()
    if not inner.done:
        inner.fail("`,` or `)`")
    span = Span(tokens[0].start, tokens[-1].end)
    if not 2 <= len(arguments) <= _MOST_ARGUMENTS[name]:
        wanted, plural = _WANTED.get(name, "a time and a length"), "s" * (len(arguments) != 1)
        raise BindError(
            "WINDOW.ARGUMENTS",
            text,
            span.pair,
            function=name,
            wanted=wanted,
            count=f"{len(arguments)} argument{plural}",
        )
    lengths = [length_us(text, argument, name) for argument in arguments[1:]]
    return WindowCall(span, name, arguments[0], _window(text, name, arguments, lengths))


def _window(text: str, name: str, arguments: list[Span], lengths: list[int]) -> Window:
    size_us = lengths[0]
    if size_us <= 0:
        _refuse(text, arguments[1], "WINDOW.LENGTH", function=name, what=_LENGTHS[name])
    if name != "window":
        return Window("session" if name == "session_window" else "sliding", size_us)
    slide_us = lengths[1] if len(lengths) > 1 else size_us
    if slide_us <= 0:
        _refuse(text, arguments[2], "WINDOW.LENGTH", function=name, what="slide")
    if slide_us > size_us:
        _refuse(text, arguments[2], "WINDOW.SLIDE")
    return Window("time", size_us, slide_us, lengths[2] % slide_us if len(lengths) > 2 else 0)


def _refuse(text: str, span: Span, condition: str, **parameters: str) -> NoReturn:
    raise BindError(condition, text, span.pair, found=span.of(text), **parameters)


def length_us(text: str, span: Span, what: str) -> int:
    """The length that an argument gives: an INTERVAL literal, or a string such as '10 minutes'.

    Raises:
        TemporalParseError: it is neither.
        UnsupportedError: it is an expression: how long a window is must be known before rows come.
    """
    tokens = [t for t in tokenize(text) if span.start <= t.start and t.end <= span.end]
    if len(tokens) == 1 and tokens[0].kind == "string":
        written = tokens[0].text[1:-1].strip()
        literal = f"INTERVAL '{written[8:].strip() if written.lower().startswith('interval') else written}'"
        try:
            return parse_interval(tokenize(literal), 0, what, literal, allow_negative=True)[0]
        except TemporalParseError as error:
            parameters = {**error.parameters, "found": tokens[0].text}
            raise TemporalParseError(error.condition, text, span.pair, **parameters) from None
    if tokens and (tokens[0].word == "INTERVAL" or tokens[0].text in "+-"):
        value_us, end = parse_interval(tokens, 0, what, text, allow_negative=True)
        if end == len(tokens):
            return value_us
    raise UnsupportedError("WINDOW.LENGTH_EXPRESSION", text, span.pair, function=what, found=span.of(text))
