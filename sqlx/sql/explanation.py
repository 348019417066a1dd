"""``EXPLAIN TEMPORAL query``, read."""

from __future__ import annotations

from sqlx.sql.cursor import Cursor
from sqlx.sql.tokens import Token


def parse_explanation(text: str, tokens: tuple[Token, ...]) -> int | None:
    """Read one statement.

    Args:
        text: the statement; a semicolon at its end is fine.
        tokens: its tokens.

    Returns:
        Where the words end and the query begins, or None where it is no such statement.

    Raises:
        TemporalParseError: no query follows.

    >>> from sqlx.sql.tokens import tokenize
    >>> text = "EXPLAIN /* every stage */ TEMPORAL SELECT 1"
    >>> text[parse_explanation(text, tokenize(text)):]
    ' SELECT 1'
    """
    cursor = Cursor.of_statement(text, tokens)
    if not cursor.take("EXPLAIN", "TEMPORAL"):
        return None
    if cursor.done:
        cursor.fail("a query")
    return tokens[cursor.index - 1].end
