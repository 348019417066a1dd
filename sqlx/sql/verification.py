"""``VERIFY BATCH = STREAM query [SHUFFLE ARRIVALS n]``, read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlx.sql.cursor import Cursor
from sqlx.sql.tokens import Token

_EXAMPLE: Final = (
    "Write VERIFY BATCH = STREAM SELECT …, and SHUFFLE ARRIVALS 5 behind it for five more orders of arrival."
)
_MOST: Final = 1000


@dataclass(frozen=True)
class Verification:
    """What is to be verified.

    Attributes:
        query: its text.
        start: where that begins in the statement.
        shuffles: in how many further orders of arrival.
    """

    query: str
    start: int
    shuffles: int = 0


def parse_verification(text: str, tokens: tuple[Token, ...]) -> Verification | None:
    """Read one statement.

    Args:
        text: the statement; a semicolon at its end is fine.
        tokens: its tokens.

    Returns:
        What it says, or None where it is no such statement.

    Raises:
        TemporalParseError: it begins like one, but does not follow the grammar.

    >>> from sqlx.sql.tokens import tokenize
    >>> text = "VERIFY BATCH = STREAM SELECT 1 SHUFFLE ARRIVALS 3"
    >>> parse_verification(text, tokenize(text))
    Verification(query='SELECT 1', start=22, shuffles=3)
    """
    cursor = Cursor.of_statement(text, tokens)
    if not cursor.take("VERIFY", "BATCH"):
        return None
    if cursor.symbol() != "=":
        cursor.fail("=", _EXAMPLE)
    cursor.step()
    if not cursor.take("STREAM"):
        cursor.fail("STREAM", _EXAMPLE)
    if cursor.done:
        cursor.fail("a query", _EXAMPLE)
    start, last = cursor.index, _shuffle(tokens[: cursor.stop])
    if last is None:
        return Verification(text[tokens[start].start : tokens[cursor.stop - 1].end], tokens[start].start)
    count = Cursor(text, tokens, last + 2, cursor.stop)
    found = count.peek()
    if found is None or not found.text.isdigit() or not 0 < int(found.text) <= _MOST:
        count.fail(f"how many orders, from 1 to {_MOST}", _EXAMPLE)
    if last <= start:
        Cursor(text, tokens, last, cursor.stop).fail("a query", _EXAMPLE)
    if last + 3 < cursor.stop:
        Cursor(text, tokens, last + 3, cursor.stop).fail("the end of the statement", _EXAMPLE)
    return Verification(
        text[tokens[start].start : tokens[last - 1].end], tokens[start].start, int(tokens[last + 2].text)
    )


def _shuffle(tokens: tuple[Token, ...]) -> int | None:
    """Where SHUFFLE ARRIVALS stands, the last of its kind."""
    places = range(len(tokens) - 2, -1, -1)
    return next((n for n in places if (tokens[n].word, tokens[n + 1].word) == ("SHUFFLE", "ARRIVALS")), None)
