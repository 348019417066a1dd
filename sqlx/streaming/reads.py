"""Reads of a table that a stream writes: Spark keeps the list of its files in each session and does not look again."""

from __future__ import annotations

from typing import Any

from catalog.definitions import name_parts
from sqlx.streaming.registry import Registry


def look_again(java_session: Any, text: str, queries: Registry) -> None:
    """Forget the list of files of each table of a stream that a statement may read.

    Args:
        java_session: the session that runs it.
        text: the statement.
        queries: the queries of the application.
    """
    lowered = text.lower()
    for query in queries.all():
        for table in query.tables:
            if name_parts(table)[-1].lower() in lowered:
                state = java_session.sessionState()
                state.catalog().invalidateCachedTable(state.sqlParser().parseTableIdentifier(table))
