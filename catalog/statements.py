"""The plain Spark statements that make, drop and list definitions, as text."""

from __future__ import annotations

import base64
import json
import os.path
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from catalog.definitions import KIND_WORDS, Definition, part_text
from catalog.entries import Column, Entry
from catalog.relations import current_rows_sql

# An entry as the properties of a Spark view, and back; temporary views have none, so theirs stand in a comment.


PREFIX = "sqlx."
#: Marks the tables that were made for a definition: the name of the definition.
OWNER = "sqlx.of"
#: Which shape the properties have; a reader refuses what it does not know.
FORMAT = "1"
_TEXTS = (
    "kind",
    "name",
    "relation",
    "timestamp_by",
    "sequence_by",
    "delete_when",
    "late_to",
    "valid_from",
    "valid_to",
    "alias",
    "topic",
)
_NUMBERS = ("retention_us", "max_future_us")
_FLAGS = ("temporary", "from_stream")
_LISTS = ("keys", "arrival", "properties", "columns")
_COMMENT = re.compile(r"/\* sqlx:([A-Za-z0-9+/=]+) \*/")


def to_properties(entry: Entry) -> dict[str, str]:
    """The facts of an entry under their property names; what is not given is left out.

    >>> entry = Entry("stream", "orders", (Column("ts", "timestamp"),), "`t`", "ts")
    >>> to_properties(entry)["sqlx.timestamp_by"]
    'ts'
    >>> from_properties(to_properties(entry)) == entry
    True
    """
    facts: dict[str, str] = {"format": FORMAT}
    facts |= {name: str(value) for name in (*_TEXTS, *_NUMBERS) if (value := getattr(entry, name)) not in (None, "")}
    facts |= {name: "true" for name in _FLAGS if getattr(entry, name)}
    facts |= {name: json.dumps(_plain(getattr(entry, name))) for name in _LISTS if getattr(entry, name)}
    return {PREFIX + name: value for name, value in facts.items()}


def from_properties(properties: dict[str, str]) -> Entry | None:
    """The entry that the properties of a view describe; None where it is no definition, or one of a newer format."""
    if properties.get(PREFIX + "format") != FORMAT:
        return None
    facts = {name[len(PREFIX) :]: value for name, value in properties.items() if name.startswith(PREFIX)}
    values: dict[str, Any] = {name: facts.get(name) for name in _TEXTS if name in facts}
    values |= {name: int(facts[name]) for name in _NUMBERS if name in facts}
    values |= {name: True for name in _FLAGS if name in facts}
    lists = {name: json.loads(facts.get(name, "[]")) for name in _LISTS}
    values |= {name: tuple(lists[name]) for name in ("keys", "arrival")}
    values["properties"] = tuple((key, value) for key, value in lists["properties"])
    values["columns"] = tuple(Column(name, kind) for name, kind in lists["columns"])
    return Entry(**{"relation": "", **values})


def with_comment(query: str, entry: Entry) -> str:
    """A query that carries the entry in a comment after its SELECT."""
    packed = base64.b64encode(json.dumps(to_properties(entry)).encode()).decode()
    return query.replace("SELECT ", f"SELECT /* sqlx:{packed} */ ", 1)


def from_comment(query: str) -> Entry | None:
    """The entry that the text of a temporary view carries, or None."""
    found = _COMMENT.search(query, 0, 200_000)
    return from_properties(json.loads(base64.b64decode(found[1]))) if found else None


def _plain(values: tuple[Any, ...]) -> list[Any]:
    return [[value.name, value.type] if isinstance(value, Column) else value for value in values]


#: A statement without effect and without result, for IF [NOT] EXISTS.
NOTHING = "DROP VIEW IF EXISTS `__sqlx_nothing`"
_UNITS = (("DAY", 86_400_000_000), ("HOUR", 3_600_000_000), ("MINUTE", 60_000_000), ("SECOND", 1_000_000))
_LISTED = "name, kind, keys, timestamp_by, retention, source"


@dataclass(frozen=True)
class Lowered:
    """A temporal statement in Spark's words.

    Attributes:
        final: the statement that is in its place; Spark runs it and gives its result.
        prepare: statements that are run before, in this order.
    """

    final: str
    prepare: list[str] = field(default_factory=list)


def literal(value: str) -> str:
    r"""A string literal of Spark SQL.

    >>> print(literal("it's"))
    'it\'s'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def create_view(name: str, entry: Entry, read: Entry, *, replace: bool) -> str:
    """The statement that makes the view of a definition: its current rows, with all facts as properties.

    Args:
        name: of the view.
        entry: the definition.
        read: the same, as its rows are read.
        replace: there may be one already.
    """
    head = "CREATE OR REPLACE" if replace else "CREATE"
    rows = current_rows_sql(read)
    if entry.temporary:
        return f"{head} TEMPORARY VIEW {name} AS {with_comment(rows, entry)}"
    properties = {**dict(entry.properties), **to_properties(entry)}
    return f"{head} VIEW {name} TBLPROPERTIES ({_pairs(properties.items())}) AS {rows}"


def create_log(name: str, owner: str, columns: tuple[Column, ...]) -> str:
    """The data table of a definition of columns only."""
    return f"CREATE TABLE {name} ({_columns(columns)}) USING parquet TBLPROPERTIES ({_pairs([(OWNER, owner)])})"


def create_temporary_log(name: str, columns: tuple[Column, ...], path: str) -> str:
    """The same for a temporary definition: files of the session."""
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} ({_columns(columns)}) USING parquet OPTIONS (path {literal(path)})"


def create_source(name: str, definition: Definition, owner: str) -> str:
    """What USING reads, as a relation of Spark's."""
    columns = f" ({_columns(definition.columns)})" if definition.columns else ""
    options = [f"{literal(key)} {literal(value)}" for key, value in source_options(definition).items()]
    using = f"USING {'.'.join(part_text(part) for part in definition.using.split('.'))}"
    given = f" OPTIONS ({', '.join(options)})" if options else ""
    if definition.temporary:
        return f"CREATE OR REPLACE TEMPORARY VIEW {name}{columns} {using}{given}"
    return f"CREATE TABLE {name}{columns} {using}{given} TBLPROPERTIES ({_pairs([(OWNER, owner)])})"


def create_source_view(name: str, query: str, owner: str, *, temporary: bool) -> str:
    """The query after AS or FROM as a view, so that Spark remembers in which database its names were meant."""
    if temporary:
        return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {query}"
    return f"CREATE VIEW {name} TBLPROPERTIES ({_pairs([(OWNER, owner)])}) AS {query}"


def source_options(definition: Definition) -> dict[str, str]:
    """The OPTIONS; a relative path is meant from where the user is, not from the warehouse."""
    return {key: absolute(value) if key.lower() == "path" else value for key, value in definition.options}


def show_query(entries: Iterable[Entry]) -> str:
    """A query that lists definitions."""
    rows = [f"({', '.join(_listed(entry))})" for entry in entries]
    if not rows:
        empty = ", ".join(f"CAST(NULL AS STRING) AS {column}" for column in _LISTED.split(", "))
        return f"SELECT {empty} WHERE false"
    return f"SELECT * FROM VALUES {', '.join(rows)} AS definitions({_LISTED})"


def interval_text(value_us: int) -> str:
    """An interval for people.

    >>> interval_text(7 * 86_400_000_000), interval_text(90_000_000), interval_text(1)
    ('7 DAYS', '90 SECONDS', '1 MICROSECOND')
    """
    for unit, length_us in _UNITS:
        if value_us and value_us % length_us == 0:
            return _counted(value_us // length_us, unit)
    return _counted(value_us, "MICROSECOND")


def _counted(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 'S'}"


def _listed(entry: Entry) -> list[str]:
    retention = "NULL" if entry.retention_us is None else literal(interval_text(entry.retention_us))
    kind = KIND_WORDS[entry.kind] if not entry.temporary else f"TEMPORARY {KIND_WORDS[entry.kind]}"
    keys = literal(", ".join(entry.keys)) if entry.keys else "NULL"
    return [literal(entry.name), literal(kind), keys, literal(entry.timestamp_by), retention, literal(entry.relation)]


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{part_text(column.name)} {column.type}" for column in columns)


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in pairs)


def absolute(path: str) -> str:
    """A path as it is meant from where the user is.

    >>> absolute("s3a://bucket/x"), absolute("/x")
    ('s3a://bucket/x', '/x')
    """
    return path if ":" in path or path.startswith("/") else os.path.abspath(path)
