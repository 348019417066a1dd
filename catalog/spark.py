"""Definitions in a Spark session: views over plain Spark SQL, with our facts as their properties.

A definition can be read without us, shows up in SHOW TABLES, and is there for every process that shares the metastore.
Nothing is kept here: each look-up asks Spark's session catalog, so that definitions of other sessions are seen.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from catalog.binding import AnalysisError
from catalog.definitions import Definition, Drop, Show, name_parts, part_text, shown_name
from catalog.entries import Column, Entry
from catalog.planner import SESSION_CATALOG, Found, Planner
from catalog.relations import FILE_ARRIVAL, PARQUET_ARRIVAL
from catalog.statements import OWNER, Lowered, from_comment, from_properties, show_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEPARATOR = "\x01"


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
        self.spark = spark
        jvm: Any = spark.sparkContext._jvm
        self._identifiers = jvm.org.apache.spark.sql.catalyst.TableIdentifier
        self._option = jvm.scala.Option
        self._parsed: dict[str, Entry | None] = {}
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
        listed = self._session.listTables(self._session.getCurrentDatabase(), "*", True)
        return tuple(_last_part(text) for text in listed.mkString(_SEPARATOR).split(_SEPARATOR) if text)

    def entries(self) -> tuple[Entry, ...]:
        """The definitions of the current database and the session, by name."""
        listed = self._session.listViews(self._session.getCurrentDatabase(), "*").mkString(_SEPARATOR)
        names = sorted({_last_part(text) for text in listed.split(_SEPARATOR) if text})
        return tuple(entry for name in names if (entry := self.resolve((name,))) is not None)

    def insert_target(self, entry: Entry) -> str | None:
        """The data table into which INSERT INTO a definition appends; None where its rows come from elsewhere."""
        if entry.temporary and entry.relation.startswith("parquet.`"):
            return part_text(f"{name_parts(entry.name)[-1]}__log")
        return entry.relation if entry.relation.endswith("__log`") else None

    def plan_statement(self, statement: Definition | Drop | Show) -> Lowered:
        """A statement about definitions as plain Spark statements.

        Raises:
            Refused: it does not fit; :func:`sqlx.sql.definitions.carets` makes an error with a caret of it.
        """
        if isinstance(statement, Show):
            return Lowered(show_query(entry for entry in self.entries() if entry.kind == statement.kind))
        planner = Planner(self)
        return planner.drop(statement) if isinstance(statement, Drop) else planner.create(statement)

    @cached_property
    def _session(self) -> Any:
        """Spark's session catalog. Not before the first look-up: the session may be in the making."""
        return self.spark._jsparkSession.sessionState().catalog()

    @cached_property
    def _catalogs(self) -> Any:
        return self.spark._jsparkSession.sessionState().catalogManager()

    def current_catalog(self) -> str:
        """The name of the current catalog."""
        return str(self._catalogs.currentCatalog().name())

    def current_database(self) -> str:
        """The current database of Spark's own catalog."""
        return str(self._session.getCurrentDatabase())

    def has_database(self, name: str) -> bool:
        """Whether Spark's own catalog has that database."""
        return bool(self._session.databaseExists(name))

    def is_temporary(self, parts: tuple[str, ...]) -> bool:
        """Whether the name is that of a temporary view."""
        return len(parts) < 3 and bool(self._session.isTempView(self._identifier(parts)))

    def _identifier(self, parts: tuple[str, ...]) -> Any:
        if len(parts) == 1:
            return self._identifiers.apply(parts[0])
        return self._identifiers.apply(parts[-1], self._option.apply(parts[-2]))

    def find(self, parts: tuple[str, ...], *, permanent: bool = False) -> Found | None:
        """What is under a name; ``permanent`` passes over temporary views."""
        if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != SESSION_CATALOG):
            return None
        identifier, session = self._identifier(parts), self._session
        is_temporary = not permanent and len(parts) < 3 and bool(session.isTempView(identifier))
        if not is_temporary and not session.tableExists(identifier):
            return None
        if not is_temporary and len(parts) < 3 and self.current_catalog() != SESSION_CATALOG:
            return None
        if permanent:
            return self._found(session.getTableMetadata(identifier), is_temporary=False)
        return self._found(session.getTempViewOrPermanentTableMetadata(identifier), is_temporary=is_temporary)

    def _found(self, table: Any, *, is_temporary: bool) -> Found:
        if is_temporary:
            view = table.viewText()
            return Found(is_temporary, True, "", self._cached(str(view.get())) if view.isDefined() else None)
        is_view = bool(table.viewText().isDefined())
        text = str(table.properties().mkString(_SEPARATOR))
        properties = dict(pair.split(" -> ", 1) for pair in text.split(_SEPARATOR) if " -> " in pair)
        return Found(is_temporary, is_view, properties.get(OWNER, ""), self._cached(text) if is_view else None)

    def _cached(self, text: str) -> Entry | None:
        """The entry in the properties or the text of a view; the same text is read once."""
        if text not in self._parsed:
            pairs = dict(pair.split(" -> ", 1) for pair in text.split(_SEPARATOR) if " -> " in pair)
            self._parsed[text] = from_properties(pairs) or from_comment(text)
        return self._parsed[text]

    def _refresh(self, entry: Entry) -> None:
        """Let Spark list the files of a source anew: a definition reads what is there now."""
        if not entry.relation.endswith("__source`"):
            return
        parts = name_parts(entry.relation)
        if len(parts) > 1:
            self._session.invalidateCachedTable(self._identifier(parts))
        else:
            self.spark.catalog.refreshTable(entry.relation)

    def new_log(self, columns: tuple[Column, ...]) -> str:
        """The path of new, empty Parquet files in the warehouse, which go when the session ends."""
        jvm: Any = self.spark.sparkContext._jvm
        warehouse = self.spark.conf.get("spark.sql.warehouse.dir")
        path = f"{warehouse}/_sqlx_temporary/{uuid.uuid4().hex}"
        items = ", ".join(f"CAST(NULL AS {c.type}) AS {part_text(c.name)}" for c in columns)
        self.spark.sql(f"SELECT {items} WHERE false").write.parquet(path)
        directory = jvm.org.apache.hadoop.fs.Path(path)
        directory.getFileSystem(self.spark._jsparkSession.sessionState().newHadoopConf()).deleteOnExit(directory)
        return path

    def columns(self, query: str) -> tuple[Column, ...]:
        """The result columns of a query, from Spark's analyzer; nothing is run.

        Raises:
            AnalysisError: Spark refuses it.
        """
        with _refusals():
            return columns_of(self.spark._jsparkSession.sql(query).schema())

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
            arrival = _arrival(frame._jdf.queryExecution().analyzed())
            extra = [f"{expression} AS __arrived{n}" for n, expression in enumerate(arrival)]
            frame.selectExpr("*", *extra).createOrReplaceTempView(part_text(name))
        self.opened[name.lower()] = Opened(source, options)
        return arrival

    def close_source(self, name: str) -> None:
        """Drop such a view."""
        self.spark.catalog.dropTempView(name)
        self.opened.pop(name.lower(), None)

    def arrival_of(self, plan: Any) -> tuple[str, ...]:
        """The same of an analysed plan, which may be a stream's."""
        return _arrival(plan)

    def view_query(self, parts: tuple[str, ...]) -> str | None:
        """The query of a view as text; None where it has none, being made of a DataFrame."""
        view = self._session.getTempViewOrPermanentTableMetadata(self._identifier(parts)).viewText()
        return str(view.get()) if view.isDefined() else None

    def arrival(self, relation: str) -> tuple[str, ...]:
        """How the rows of a relation arrived, as ORDER BY expressions over them; () where Spark does not know."""
        return _arrival(self.spark._jsparkSession.sql(f"SELECT * FROM {relation}").queryExecution().analyzed().child())


def _arrival(plan: Any) -> tuple[str, ...]:
    """By the hidden columns of an analysed plan: those of files say when a file was written and where a row stood."""
    hidden = {str(column.name()): str(column.dataType().json()) for column in java_list(plan.metadataOutput())}
    fields = hidden.get("_metadata", "")
    if '"file_modification_time"' not in fields:
        return ()
    return PARQUET_ARRIVAL if '"row_index"' in fields else FILE_ARRIVAL


@contextmanager
def _refusals() -> Iterator[None]:
    """Spark's refusals, in Python's or in the JVM's clothes."""
    try:
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
    first = next(iter(str(text or "").splitlines()), condition)
    name = ".".join(name_parts(parameters.get("objectName", "").strip() or "?"))
    column = name if condition.startswith("UNRESOLVED_COLUMN") else ""
    missing = ".".join(name_parts(parameters.get("relationName", "").strip() or "?"))
    return AnalysisError(_without_frame(first), column, missing if condition == "TABLE_OR_VIEW_NOT_FOUND" else "")


def _without_frame(message: str) -> str:
    """A message without condition, SQLSTATE and position."""
    return re.sub(r"^\[[A-Z0-9_.]+\] | SQLSTATE: \w+.*$", "", message).strip()


def _last_part(identifier: str) -> str:
    return name_parts(identifier)[-1]


def java_list(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala's."""
    return [sequence.apply(n) for n in range(sequence.length())]


def type_text(data_type: DataType) -> str:
    """A type as text that Spark reads back, whatever the names of nested fields."""
    if isinstance(data_type, StructType):
        return f"struct<{','.join(f'{part_text(f.name)}:{type_text(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{type_text(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{type_text(data_type.keyType)},{type_text(data_type.valueType)}>"
    return str(data_type.simpleString())


def columns_of(java_schema: Any) -> tuple[Column, ...]:
    """The columns of a schema of the JVM."""
    schema = StructType.fromJson(json.loads(java_schema.json()))
    return tuple(Column(f.name, type_text(f.dataType), _char_length(f)) for f in schema.fields)


def _char_length(field: StructField) -> int:
    """The length of a CHAR column, which Spark keeps beside the type that it shows; else 0."""
    found = re.fullmatch(r"char\((\d+)\)", field.metadata.get("__CHAR_VARCHAR_TYPE_STRING", ""))
    return int(found[1]) if found else 0
