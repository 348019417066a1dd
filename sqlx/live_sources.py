"""Definitions read live on Spark: streaming DataFrames that carry each row's event time and order of arrival along.

A definition over a table or files reads what is added to them; one over a query reads the query live (its definitions,
and the one table of Spark's in it). Arrival is SEQUENCE BY; else of files modification time, path and row; else rows
are taken as their source delivers them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from catalog.definitions import name_parts, part_text
from catalog.entries import Entry
from catalog.relations import alias_text
from sqlx.arrival import ROW, Arrival
from sqlx.bind import NotLiveError
from sqlx.errors import TemporalSqlError
from sqlx.live_topics import lanes, topic_frame
from sqlx.scanner import scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from catalog.spark import SparkCatalog

_FILES = re.compile(r"^`?(parquet|orc|csv|json|text|avro|delta)`?\.`(.*)`$", re.IGNORECASE | re.DOTALL)
_NOT_IN_STREAMS = "monotonically_increasing_id()"


@dataclass(frozen=True)
class LiveSource:
    """A definition as a stream.

    Attributes:
        frame: its columns and the hidden one.
        arrival: what the hidden column says, over the frame.
    """

    frame: DataFrame
    arrival: Arrival


def open_live(
    spark: SparkSession, catalog: SparkCatalog, entry: Entry, run_live: Callable[[str], DataFrame]
) -> LiveSource:
    """Open a definition's source as a stream.

    Args:
        spark: the session.
        catalog: its definitions.
        entry: the definition.
        run_live: runs a query as a stream.

    Raises:
        NotLiveError: there is no way.
    """
    try:
        below = _definition_below(catalog, entry)
        if entry.topic:
            frame, order, is_sequence = topic_frame(spark, catalog, entry), lanes(entry), False
        elif below is not None:
            source = open_live(spark, catalog, below, run_live)
            frame, order, is_sequence = source.frame, source.arrival.order, source.arrival.is_sequence
        else:
            frame = _rows(spark, catalog, entry, run_live)
            order, is_sequence = () if entry.sequence_by else _order(catalog, frame), False
        if entry.sequence_by:
            order, is_sequence = (entry.sequence_by,), True
        arrival = Arrival(f"CAST(({entry.timestamp_by}) AS TIMESTAMP)", order, is_sequence)
        columns = [part_text(column.name) for column in entry.columns]
        # NB: the alias first: expressions of the definition may qualify their columns with it.
        row = arrival.struct
        if entry.topic and entry.delete_when:
            row = f"{row[:-1]}, 'deleted', coalesce({entry.delete_when}, false))"
        live = frame.alias(alias_text(entry).strip("`")).selectExpr(*columns, f"{row} AS {ROW}")
    except PySparkException as error:
        if isinstance(error, TemporalSqlError):
            raise
        reason = f"Spark says: {_first_line(error)}"
        raise NotLiveError(reason) from error
    shown = tuple(f"{ROW}.o{number}" for number in range(len(order)))
    return LiveSource(live, Arrival(f"{ROW}.time", shown, arrival.is_sequence))


def _definition_below(catalog: SparkCatalog, entry: Entry) -> Entry | None:
    """The definition that another one reads by its name: its rows bring their arrival along."""
    if entry.relation.startswith("(") or _FILES.match(entry.relation):
        return None
    return catalog.resolve(name_parts(entry.relation))


def _rows(spark: SparkSession, catalog: SparkCatalog, entry: Entry, run_live: Callable[[str], DataFrame]) -> DataFrame:
    """The rows of a definition's relation as they are added to it."""
    relation = entry.relation
    files = _FILES.match(relation)
    schema = ", ".join(f"{part_text(column.name)} {column.type}" for column in entry.columns)
    if files is not None:
        reader = spark.readStream.format(files[1].lower())
        return (reader if files[1].lower() == "delta" else reader.schema(schema)).load(files[2])
    if relation.startswith("("):
        return _streaming(run_live(_with_stream(relation[1:-1])))
    parts = name_parts(relation)
    opened = catalog.opened.get(parts[-1].lower()) if len(parts) == 1 else None
    if opened is not None:
        reader = spark.readStream.format(opened.source).options(**opened.options)
        return (reader if opened.source.lower() == "delta" else reader.schema(schema)).load()
    if len(parts) < 3 and catalog.is_temporary(parts):
        frame = spark.table(relation)
        return frame if frame.isStreaming else _streaming(_view(catalog, parts, run_live))
    found = catalog.find(parts)
    if found is not None and found.is_view:
        return _streaming(_view(catalog, parts, run_live))
    return spark.readStream.table(relation)


def _view(catalog: SparkCatalog, parts: tuple[str, ...], run_live: Callable[[str], DataFrame]) -> DataFrame:
    text = catalog.view_query(parts)
    if text is None:
        reason = "it reads a temporary view of rows that are no stream"
        raise NotLiveError(reason)
    return run_live(_with_stream(text))


def _streaming(frame: DataFrame) -> DataFrame:
    if not frame.isStreaming:
        reason = "its query reads no stream; write STREAM before the table of Spark's that is to be live"
        raise NotLiveError(reason)
    return frame


def _with_stream(query: str) -> str:
    """The query with STREAM before its relation, where it is the only one."""
    named = [
        relation
        for level in scan(query).walk()
        for block in level.blocks
        for item in block.items
        for relation in (item.relation, *(join.relation for join in item.joins))
        if relation.kind == "name"
    ]
    if len(named) != 1 or named[0].stream:
        return query
    start = named[0].span.start
    return f"{query[:start]}STREAM {query[start:]}"


def _order(catalog: SparkCatalog, frame: Any) -> tuple[str, ...]:
    """How rows of files arrived; () where the source alone knows, as behind a query."""
    if not _is_leaf(frame):
        return ()
    found = catalog.arrival_of(frame._jdf.queryExecution().analyzed())
    return tuple(expression for expression in found if expression != _NOT_IN_STREAMS)


def _is_leaf(frame: Any) -> bool:
    """Whether the frame is a source under its name, whose hidden columns can be read."""
    plan = frame._jdf.queryExecution().analyzed()
    while plan.getClass().getSimpleName() == "SubqueryAlias":
        plan = plan.child()
    return bool(plan.children().isEmpty())


def _first_line(error: PySparkException) -> str:
    return next(iter(str(error).splitlines()), "").strip()
