"""The query of a streaming statement: its errors point into the whole statement."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlx.errors import RefusedBySpark, TemporalSqlError


@contextmanager
def carets_in(text: str, start: int) -> Iterator[None]:
    """Let errors about a query point into the statement around it.

    Args:
        text: the statement.
        start: where the query begins in it.

    Raises:
        TemporalSqlError: as it was, with the statement's line and caret.
    """
    try:
        yield
    except RefusedBySpark:
        raise
    except TemporalSqlError as error:
        if error.span is None or error.text is None or not text.startswith(error.text, start):
            raise
        span = (error.span[0] + start, error.span[1] + start)
        raise type(error)(error.condition, text, span, **error.parameters) from error.__cause__
