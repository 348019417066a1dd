"""Carries out the statements about running streams in one session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.definitions import name_parts
from catalog.statements import literal
from sqlx.errors import BindError, RefusedBySpark, TemporalSqlError, did_you_mean
from sqlx.spark.histories import Histories
from sqlx.sql.definitions import QueryCommand, ShowQueries, Statement, StreamingTable
from sqlx.streaming.observed import snapshot
from sqlx.streaming.registry import Registry, RunningQuery, queries_of
from sqlx.streaming.rescale import rescale
from sqlx.streaming.start import Starter
from sqlx.streaming.tables import qualified
from udtf.stream.folder_log import notes_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.spark.stream import LiveQuery
    from udtf.stream.spec import ChangelogFolder


#: From a statement, its number of TASKS, where their changelogs are, and what is read in place of which sources, to its
#: query, lowered.
Lower = Callable[[StreamingTable, int, "ChangelogFolder | None", Histories], "LiveQuery"]

#: How a worker came by the state of a task, in words.
CAME_BY = {
    "cache": "from memory",
    "sibling": "from the memory of another worker",
    "tail": "from memory and the tail of the changelog",
    "snapshot": "from the changelog",
    "nothing": "new",
}
_LISTED = ("name", "status", "sink", "trigger", "started", "batches", "rows", "checkpoint", "id", "error")


def carry_out(spark: SparkSession, statement: Statement, lower: Lower) -> tuple[str | None, tuple[str, ...]]:
    """Carry out a statement.

    Args:
        spark: the session.
        statement: what was written.
        lower: lowers the query of CREATE STREAMING TABLE.

    Returns:
        A query that shows its result, or None where it has none; and what to say beside.

    Raises:
        TemporalSqlError: it cannot be carried out.
    """
    if isinstance(statement, StreamingTable):
        starter = Starter(spark, statement, partial(lower, statement))
        starter.start()
        return None, tuple(starter.notes)
    if isinstance(statement, ShowQueries):
        return rows_sql(_LISTED, [_listed(query) for query in queries_of(spark).all()]), ()
    if statement.action == "ALTER":
        moved = rescale(spark, statement)
        shown = (moved.name, str(moved.before), str(moved.after), f"{moved.pause_ms} ms")
        return rows_sql(("name", "partitions_before", "partitions", "pause"), [shown]), ()
    query = _find(spark, statement)
    if statement.action == "DESCRIBE":
        return rows_sql(("property", "value"), list(_described(query))), ()
    queries = queries_of(spark)
    queries.check_may_end(spark, query)
    query.stop()
    if queries.keeper is not None:
        queries.keeper.stopped(query)
    return rows_sql(("name", "status"), [(query.name, query.status)]), ()


def _find(spark: SparkSession, statement: QueryCommand) -> RunningQuery:
    name = qualified(spark, statement.name).shown
    query = queries_of(spark).find(name)
    if query is None:
        known = [query.name for query in queries_of(spark).all()]
        asked = ".".join(statement.name)
        parts = [name.rsplit(".", 1)[-1] for name in known]
        suggestion = did_you_mean(statement.name[-1], parts if len(statement.name) == 1 else known)
        raise BindError("STREAMING.UNKNOWN_QUERY", statement.text, statement.span, name=asked, suggestion=suggestion)
    return query


def _listed(query: RunningQuery) -> tuple[str | None, ...]:
    one = snapshot(query)
    return (
        *(one.name, one.status, one.sink, one.trigger, one.started),
        *(str(one.batches), str(one.rows), query.checkpoint or None, query.id, one.error),
    )


def _described(query: RunningQuery) -> Iterable[tuple[str, str | None]]:
    totals = query.refresh()
    yield from zip(_LISTED[:5], _listed(query)[:5], strict=True)
    yield "checkpoint", query.checkpoint or None
    yield "id", query.id
    if query.owner is not None:
        yield "owner", query.owner
    error = query.error()
    yield "error", None if error is None else str(error)
    yield "state", query.changelog or "Spark's state store"
    yield from totals.lines()
    yield from _tasks(query)


def _tasks(query: RunningQuery) -> Iterable[tuple[str, str]]:
    """Each task whose changelog is a folder: what it keeps, who had it last, and how that one came by its state."""
    if not query.changelog:
        return
    for operator in sorted(totals for totals in query.totals.observed):
        for task, note in notes_in(Path(query.changelog, operator), operator).items():
            kept = f"{note['rows']} rows, {note['bytes']} bytes"
            came_by = f"{CAME_BY.get(note['restored'], note['restored'])}, {note['restore_us'] / 1000:.0f} ms"
            yield f"{operator}.{task}", f"{kept}, worker {note['worker']}, {came_by}, micro-batch {note['batch']}"


def rows_sql(names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> str:
    """A query of constant rows.

    >>> rows_sql(("a",), [("x",), (None,)])
    "SELECT * FROM VALUES ('x'), (CAST(NULL AS STRING)) AS t(`a`)"
    """
    listed = ", ".join(f"`{name}`" for name in names)
    if not rows:
        return "SELECT " + ", ".join(f"CAST(NULL AS STRING) AS `{name}`" for name in names) + " WHERE false"
    texts = ", ".join(f"({', '.join(_value(value) for value in row)})" for row in rows)
    return f"SELECT * FROM VALUES {texts} AS t({listed})"


def _value(value: str | None) -> str:
    return "CAST(NULL AS STRING)" if value is None else literal(value)


# The query of a streaming statement: its errors point into the whole statement.


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


# Reads of a table that a stream writes: Spark keeps the list of its files in each session and does not look again.


def look_again(text: str, queries: Registry, refresh: Callable[[str], None]) -> None:
    """Forget the list of files of each table of a stream that a statement may read.

    Args:
        text: the statement.
        queries: the queries of the application.
        refresh: does it for a table, by its database and name as SQL.
    """
    lowered = text.lower()
    for query in queries.all():
        for table in query.tables:
            if name_parts(table)[-1].lower() in lowered:
                refresh(table)
