"""Definitions in a Spark session: views over plain Spark SQL, with our facts as their properties.

A definition can be read without us, shows up in SHOW TABLES, and is there for every process that shares the metastore.
Nothing is kept here: each look-up asks Spark's session catalog, so that definitions of other sessions are seen.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from catalog.binding import AnalysisError
from catalog.definitions import Definition, Drop, Show, name_parts, part_text, shown_name
from catalog.entries import Column, Entry
from catalog.planner import Found, Planner
from catalog.relations import FILE_ARRIVAL, PARQUET_ARRIVAL
from catalog.statements import OWNER, Lowered, from_comment, from_properties, show_query
from udtf.engine import engine_of
from udtf.engine.asking import probing
from udtf.engine.engine import MODIFIED, ROW, Relation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Opened:
    """A data source behind a temporary view, as it was opened."""

    source: str
    options: dict[str, str]


class SparkCatalog:
    """The definitions that one Spark session sees.

    Args:
        spark: the session.

    Attributes:
        opened: temporary views of this session over data sources, by lower-case name: a stream opens them anew.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark, self.engine = spark, engine_of(spark)
        self._parsed: dict[object, Entry | None] = {}
        self.opened: dict[str, Opened] = {}

    def resolve(self, name: str | tuple[str, ...]) -> Entry | None:
        """The definition of that name, or None; one look-up in Spark's session catalog.

        Args:
            name: its parts, or text in which they are separated by dots.

        Returns:
            The entry under the name that was asked for, which is how it can be reached from here.
        """
        parts = name_parts(name)
        found = self.find(parts)
        if found is None or found.entry is None:
            return None
        self._refresh(found.entry)
        return replace(found.entry, name=shown_name(parts))

    def names(self) -> tuple[str, ...]:
        """The tables and views of the current database and the session, for did-you-mean."""
        return tuple(map(_last_part, self.engine.names()))

    def entries(self) -> tuple[Entry, ...]:
        """The definitions of the current database and the session, by name."""
        names = sorted(set(map(_last_part, self.engine.names(views=True))))
        return tuple(entry for name in names if (entry := self.resolve((name,))) is not None)

    def insert_target(self, entry: Entry) -> str | None:
        """The data table into which INSERT INTO a definition appends; None where its rows come from elsewhere."""
        if entry.temporary and entry.relation.startswith("parquet.`"):
            return part_text(f"{name_parts(entry.name)[-1]}__log")
        return entry.relation if entry.relation.endswith("__log`") else None

    def plan_statement(
        self, statement: Definition | Drop | Show, in_order: Callable[[Entry], Entry] = lambda entry: entry
    ) -> Lowered:
        """A statement about definitions as plain Spark statements.

        Args:
            statement: the statement.
            in_order: finds out how the rows of a table arrived that are made of those of a stream.

        Raises:
            Refused: it does not fit; :func:`sqlx.sql.definitions.carets` makes an error with a caret of it.
        """
        if isinstance(statement, Show):
            return Lowered(show_query(entry for entry in self.entries() if entry.kind == statement.kind))
        planner = Planner(self, in_order)
        return planner.drop(statement) if isinstance(statement, Drop) else planner.create(statement)

    def current_catalog(self) -> str:
        """The name of the current catalog."""
        return self.engine.current_catalog

    def current_database(self) -> str:
        """The current database of Spark's own catalog."""
        return self.engine.current_database

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has that database."""
        return self.engine.has_database(name)

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is that of a temporary view."""
        return self.engine.is_temporary(parts)

    def find(self, parts: tuple[str, ...], *, permanent: bool = False) -> Found | None:
        """What is under a name; ``permanent`` passes over temporary views."""
        relation = self.engine.relation(parts, permanent=permanent)
        if relation is None:
            return None
        owner = relation.properties.get(OWNER, "")
        return Found(relation.is_temporary, relation.is_view, owner, self._entry(relation))

    def _entry(self, relation: Relation) -> Entry | None:
        """The entry in the properties or the text of a view; the same ones are read once."""
        if not relation.is_view or relation.text is None:
            return None
        known = relation.text if relation.is_temporary else tuple(relation.properties.items())
        if known not in self._parsed:
            found = from_comment(relation.text) if relation.is_temporary else from_properties(dict(relation.properties))
            self._parsed[known] = found
        return self._parsed[known]

    def _refresh(self, entry: Entry) -> None:
        """Let Spark list the files of a source anew: a definition reads what is there now."""
        if entry.relation.endswith("__source`"):
            self.engine.refresh(name_parts(entry.relation))

    def new_log(self, columns: tuple[Column, ...]) -> str:
        """The path of new, empty Parquet files in the warehouse, which go when the session ends."""
        warehouse = self.spark.conf.get("spark.sql.warehouse.dir")
        path = f"{warehouse}/_sqlx_temporary/{uuid.uuid4().hex}"
        items = ", ".join(f"CAST(NULL AS {c.type}) AS {part_text(c.name)}" for c in columns)
        self.spark.sql(f"SELECT {items} WHERE false").write.parquet(path)
        self.engine.delete_at_end(path)
        return path

    def columns(self, query: str) -> tuple[Column, ...]:
        """The result columns of a query, from Spark's analyzer; nothing is run.

        Raises:
            AnalysisError: Spark refuses it.
        """
        with _refusals():
            return columns_of(self.spark.sql(query).schema)

    def open_source(
        self, name: str, source: str, options: dict[str, str], columns: tuple[Column, ...]
    ) -> tuple[str, ...]:
        """Make a temporary view over a data source; see :class:`catalog.planner.Session`.

        Raises:
            AnalysisError: the source cannot be read.
        """
        reader = self.spark.read.format(source).options(**options)
        schema = ", ".join(f"{part_text(c.name)} {c.type}" for c in columns)
        with _refusals():
            frame = (reader.schema(schema) if columns else reader).load()
            arrival = _arrival(self.engine.hidden_of(frame))
            extra = [f"{expression} AS __arrived{n}" for n, expression in enumerate(arrival)]
            frame.selectExpr("*", *extra).createOrReplaceTempView(part_text(name))
        self.opened[name.lower()] = Opened(source, options)
        return arrival

    def close_source(self, name: str) -> None:
        """Drop such a view."""
        self.spark.catalog.dropTempView(name)
        self.opened.pop(name.lower(), None)

    def view(self, parts: tuple[str, ...]) -> Relation | None:
        """A view whose query is known as text; None where it has none, being made of a DataFrame."""
        found = self.engine.relation(parts)
        return None if found is None or found.text is None else found

    def arrival(self, relation: str) -> tuple[str, ...]:
        """How the rows of a relation arrived, as ORDER BY expressions over them; () where Spark does not know."""
        return _arrival(self.engine.hidden(relation))

    def arrival_of(self, source: DataFrame) -> tuple[str, ...]:
        """The same of a source that a reader has opened; it may be a stream."""
        return _arrival(self.engine.hidden_of(source))


def _arrival(hidden: frozenset[str]) -> tuple[str, ...]:
    """By the hidden columns: those of files say when a file was written and where a row stood."""
    if MODIFIED not in hidden:
        return ()
    return PARQUET_ARRIVAL if ROW in hidden else FILE_ARRIVAL


@contextmanager
def _refusals() -> Iterator[None]:
    """Spark's refusals, in Python's or in the JVM's clothes."""
    try:
        with probing():
            yield
    except PySparkException as error:
        raise analysis_error(error) from error
    except Exception as error:
        if not hasattr(error, "java_exception"):  # py4j's error is known by what it carries
            raise
        raise analysis_error(error) from error


def analysis_error(error: Exception) -> AnalysisError:
    """Spark's refusal in one line, with the name that it did not find."""
    captured: Any = error
    if not isinstance(error, PySparkException):
        first = str(captured.java_exception.getMessage() or captured.java_exception).splitlines()[0]
        return AnalysisError(_without_frame(first))
    condition = captured.getCondition() or ""
    parameters = captured.getMessageParameters() or {}
    origin: Any = getattr(captured, "_origin", None)  # PySpark looks texts up by condition, and knows Spark's only
    text = origin.getMessage() if origin is not None else captured.getMessage()
    first = next((line for line in str(text or "").splitlines() if line.strip()), condition)
    name = ".".join(name_parts(parameters.get("objectName", "").strip() or "?"))
    column = name if condition.startswith("UNRESOLVED_COLUMN") else ""
    missing = ".".join(name_parts(parameters.get("relationName", "").strip() or "?"))
    return AnalysisError(_without_frame(first), column, missing if condition == "TABLE_OR_VIEW_NOT_FOUND" else "")


def _without_frame(message: str) -> str:
    """A message without condition, SQLSTATE and position."""
    return re.sub(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w+.*$", "", message).strip()


def _last_part(identifier: str) -> str:
    return name_parts(identifier)[-1]


def type_text(data_type: DataType) -> str:
    """A type as text that Spark reads back, whatever the names of nested fields."""
    if isinstance(data_type, StructType):
        return f"struct<{','.join(f'{part_text(f.name)}:{type_text(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{type_text(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{type_text(data_type.keyType)},{type_text(data_type.valueType)}>"
    return str(data_type.simpleString())


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema."""
    return tuple(Column(f.name, type_text(f.dataType), _char_length(f)) for f in schema.fields)


def _char_length(field: StructField) -> int:
    """The length of a CHAR column, which Spark keeps beside the type that it shows; else 0."""
    found = re.fullmatch(r"char\((\d+)\)", field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return int(found[1]) if found else 0
