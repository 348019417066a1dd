"""What a query reads, as it was recorded: the definitions and their rows, in the order in which they arrived."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from catalog.definitions import KIND_WORDS, name_parts, part_text
from catalog.entries import Entry
from catalog.relations import alias_text, source_query
from catalog.statements import literal
from sqlx.errors import BindError, RunError, UnsupportedError, did_you_mean
from sqlx.plan.table_reads import joins_or_groups
from sqlx.replay.script import Script, read_script
from sqlx.replay.types import Misfit, Values, parse_type, reader_of, to_micros
from sqlx.spark.view_text import view_text
from sqlx.sql.edits import Edits
from sqlx.sql.parser import scan
from sqlx.sql.tokens import Span
from udtf.engine import engine_of
from udtf.engine.engine import MODIFIED, ROW
from udtf.engine.settings import whole_number
from udtf.spark.arrow_types import collected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from catalog.spark import SparkCatalog
    from sqlx.sql.structure import Relation

#: The setting that says how many rows are replayed at most.
ROWS: Final = "sqlx.verify.rows"
_MOST_ROWS: Final = 200_000
_FILES: Final = (f"_metadata.{MODIFIED}", "_metadata.file_path", f"_metadata.{ROW}")


@dataclass(frozen=True)
class Arrival:
    """One recorded row.

    Attributes:
        entry: the definition that it is of.
        values: its columns.
        time_us: its event time, microseconds; None where it has none.
        order: what says when it arrived, comparable with those of other rows; () where nothing does.
    """

    entry: Entry
    values: Values
    time_us: int | None
    order: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Recording:
    """What was recorded.

    Attributes:
        script: the definitions and the query, for replay.
        arrivals: the rows in the order of arrival; where that is not known, in the order of event time.
        is_known: whether it is known.
        bounded: the query as a bounded one.
    """

    script: Script
    arrivals: tuple[Arrival, ...]
    is_known: bool
    bounded: str


def record(spark: SparkSession, catalog: SparkCatalog, query: str) -> Recording:
    """Read what a query reads.

    Args:
        spark: the session.
        catalog: its definitions.
        query: the query; STREAM before its relations is fine.

    Raises:
        UnsupportedError: `VERIFY.NOT_RECORDED`, it reads something else than definitions; `VERIFY.READS_NOTHING`; or
            replay cannot run it.
        RunError: `VERIFY.TOO_MANY_ROWS`.
        BindError: there is no such relation; `VERIFY.SAME_NAME`, two definitions of different databases have one name.
    """
    read = scan(query).read()
    entries: dict[str, Entry] = {}
    bounded, replayed = Edits(query), Edits(query)
    for relation in read:
        entry = _entry(spark, catalog, query, relation)
        name = _own_name(entry)
        if replace(entries.setdefault(name.lower(), entry), name="") != replace(entry, name=""):
            raise BindError("VERIFY.SAME_NAME", query, relation.body.pair, name=name)
        if relation.stream:
            bounded.replace(Span(relation.span.start, relation.body.start), "")
        if len(relation.parts) > 1:
            replayed.replace(relation.body, part_text(name))
    if not entries:
        raise UnsupportedError("VERIFY.READS_NOTHING", query, (0, len(query)))
    definitions: dict[str, str] = {}
    sources: dict[str, Entry] = {}
    for name, entry in entries.items():
        _define(catalog, name, entry, definitions, sources)
    script = read_script(";\n".join([*definitions.values(), replayed.render()]))
    found = {name: _rows(spark, entry, script.pushed[name]) for name, entry in sources.items()}
    return Recording(script, *_in_order(found), bounded.render())


def _entry(spark: SparkSession, catalog: SparkCatalog, query: str, relation: Relation) -> Entry:
    found, name = catalog.resolve(relation.parts), relation.body.of(query)
    if found is None and not spark.catalog.tableExists(name):
        suggestion = did_you_mean(name, engine_of(spark).names())
        raise BindError("BIND.UNKNOWN_RELATION", query, relation.body.pair, name=name, suggestion=suggestion)
    if found is None or found.valid_from is not None:
        raise UnsupportedError("VERIFY.NOT_RECORDED", query, relation.body.pair, name=name)
    return found


def _own_name(entry: Entry) -> str:
    return name_parts(entry.name)[-1]


def _define(
    catalog: SparkCatalog, name: str, entry: Entry, definitions: dict[str, str], sources: dict[str, Entry]
) -> None:
    """Add the definition to those of replay, after those that it reads itself."""
    if name in definitions:
        return
    source = _source(catalog, entry)
    behind = {_own_name(one).lower(): one for one in _behind(catalog, source_query(replace(entry, relation=source)))}
    for other, one in behind.items():
        _define(catalog, other, one, definitions, sources)
    if not behind:
        sources[name] = entry
    definitions[name] = _statement(entry, source if behind else "")


def _source(catalog: SparkCatalog, entry: Entry) -> str:
    """What a definition is over: the query of a table whose rows change with other rows, for it is run again.

    Of any other query the rows are recorded as it shows them, so that replay need not know what it calculates.
    """
    view = None
    if entry.is_table and not entry.topic and not entry.relation.startswith("("):
        view = view_text(catalog, name_parts(entry.relation))
    if view is None:
        return entry.relation
    return f"({view})" if joins_or_groups(view, scan(view)) else entry.relation


def _behind(catalog: SparkCatalog, text: str) -> Iterable[Entry]:
    """The definitions that another one reads."""
    found = [catalog.resolve(relation.parts) for relation in scan(text).read()]
    return [entry for entry in found if entry is not None]


def _statement(entry: Entry, source: str) -> str:
    """A definition as a script of replay has it: with columns whose rows are pushed, or over other definitions."""
    columns = ", ".join(f"{part_text(column.name)} {column.type}" for column in entry.columns)
    alias = f" AS {part_text(entry.alias)}" if source and entry.alias else ""
    pieces = [
        f"CREATE {KIND_WORDS[entry.kind]} {part_text(_own_name(entry))}",
        f"FROM {source}{alias}" if source else f"({columns})",
        f"KEYS ({', '.join(map(part_text, entry.keys))})" if entry.keys else "",
        f"TIMESTAMP BY {entry.timestamp_by}",
        f"SEQUENCE BY {entry.sequence_by}" if entry.sequence_by else "",
        f"APPLY AS DELETE WHEN {entry.delete_when}" if entry.delete_when else "",
        f"HISTORY RETENTION {_interval(entry.retention_us)}" if entry.retention_us is not None else "",
    ]
    future = f"TBLPROPERTIES ('max_future' = {literal(_interval(entry.max_future_us))})" if entry.max_future_us else ""
    return " ".join(filter(None, [*pieces, future]))


def _interval(length_us: int) -> str:
    return f"INTERVAL '{length_us}' MICROSECONDS"


def _rows(spark: SparkSession, entry: Entry, pushed: Entry) -> list[Arrival]:
    """The rows of a definition that reads Spark's own tables, with what says when they arrived."""
    order = _order(spark, entry)
    columns = ", ".join(part_text(column.name) for column in entry.columns)
    source = f"{entry.relation} AS {alias_text(entry)}"
    asked = [f"({entry.timestamp_by}) AS __time", *(f"{one} AS __order{n}" for n, one in enumerate(order))]
    frame = engine_of(spark).query(f"SELECT {columns}, {', '.join(asked)} FROM {source}")
    most = whole_number(spark, ROWS, _MOST_ROWS, least=1)
    width = len(entry.columns)
    kinds = [reader_of(parse_type(column.type)) for column in entry.columns]
    found = []
    for row in rows_of(frame.limit(most + 1)):
        values = tuple(_read(entry, n, kinds[n], value) for n, value in enumerate(row[:width]))
        found.append(Arrival(pushed, values, to_micros(utc(row[width])), tuple(map(utc, row[width + 1 :]))))
    if len(found) > most:
        raise RunError("VERIFY.TOO_MANY_ROWS", name=entry.name, most=f"{most:,}", setting=ROWS)
    return found


def _read(entry: Entry, place: int, read: Any, value: Any) -> Any:
    try:
        return read(utc(value))
    except Misfit:
        column = entry.columns[place]
        raise UnsupportedError("VERIFY.TYPE", name=entry.name, column=column.name, type=column.type.upper()) from None


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame as values of Python; columns may have the same name."""
    table = collected(frame.toDF(*[f"c{n}" for n in range(len(frame.columns))]))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def utc(value: Any) -> Any:
    """A moment in UTC; anything else as it is."""
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo is not None else value


def _order(spark: SparkSession, entry: Entry) -> tuple[str, ...]:
    if entry.sequence_by is not None:
        return (entry.sequence_by,)
    if entry.arrival:
        return entry.arrival
    return _FILES if {MODIFIED, ROW} <= engine_of(spark).hidden(entry.relation) else ()


def _in_order(rows_of_each: dict[str, list[Arrival]]) -> tuple[tuple[Arrival, ...], bool]:
    """All rows in the order of arrival, and whether it is known: that of several inputs where a clock is theirs all."""
    everything = [row for rows in rows_of_each.values() for row in rows]
    has_order = all(row.order and row.order[0] is not None for row in everything)
    if has_order and (len(rows_of_each) == 1 or all(isinstance(row.order[0], dt.datetime) for row in everything)):
        return tuple(sorted(everything, key=lambda row: (row.order[0], not row.entry.is_table, recorded(row)))), True
    each = [row for rows in rows_of_each.values() for row in sorted(rows, key=recorded)]
    return in_event_time(each), False


def _spelled(value: Any) -> Any:
    return (value is not None, value if value is not None else 0)


def recorded(row: Arrival) -> tuple[Any, ...]:
    """What orders rows as they were recorded."""
    return tuple(_spelled(value) for value in row.order)


def in_event_time(arrivals: Iterable[Arrival]) -> tuple[Arrival, ...]:
    """In the order of event time, of equal ones tables first; rows without a time come first."""
    return tuple(sorted(arrivals, key=lambda row: (_spelled(row.time_us), not row.entry.is_table)))
