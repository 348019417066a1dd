"""Names and types as a Spark session sees them: its analyzer is asked, nothing is guessed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import StructType

from catalog.entries import Column, Entry
from catalog.spark import SparkCatalog, columns_of, type_text
from sqlx.probes import probing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_LISTED_FILES = 64
#: Milliseconds since 2017, then the row: where files cannot be listed. Files of one millisecond interleave by row.
_BY_MODIFICATION = "((unix_millis(_metadata.file_modification_time) - 1483228800000) * 16777216 + _metadata.row_index)"


class SparkBinder:
    """Binds against one session.

    Args:
        spark: the session.
        catalog: its definitions.
        portable: the text is to be kept: it names no files of today.
    """

    def __init__(self, spark: SparkSession, catalog: SparkCatalog, portable: bool = False) -> None:
        self.spark, self.catalog, self.portable = spark, catalog, portable
        self._known: dict[str, tuple[Column, ...] | None] = {}
        self._stand_ins: dict[str, str] = {}
        self._refusal: Exception | None = None

    def entry(self, parts: tuple[str, ...]) -> Entry | None:
        """The definition of that name in our catalog, or None."""
        return self.catalog.resolve(".".join(parts))

    def columns(self, query: str) -> tuple[Column, ...] | None:
        """The result columns of a query, or None where Spark refuses it."""
        if query not in self._known:
            self._known[query] = self._analyze(query)
        return self._known[query]

    def _analyze(self, query: str) -> tuple[Column, ...] | None:
        try:
            with probing():
                return columns_of(self._plan(query).schema())
        except AnalysisException as error:
            self._refusal = error
            return None

    def _plan(self, query: str) -> Any:
        for name, stand_in in self._stand_ins.items():
            query = re.sub(rf"\b{name}\b", stand_in, query)
        return self.spark._jsparkSession.sql(query).queryExecution().analyzed()

    def refusal(self) -> Exception | None:
        """Spark's own error for the query that was refused last."""
        return self._refusal

    def announce(self, name: str, columns: tuple[Column, ...]) -> None:
        """Let queries read the result of an operator, by a stand-in of its columns."""
        items = ", ".join(f"CAST(NULL AS {c.type}) AS {c.name}" for c in columns) or "1 AS __none"
        self._stand_ins[name] = f"(SELECT {items})"

    def common_type(self, left: str, right: str) -> str | None:
        """The type to which Spark's analyzer casts both sides of ``=``."""
        query = f"SELECT CAST(NULL AS {left}) = CAST(NULL AS {right})"
        try:
            with probing():
                analyzed = self._plan(query)
        except AnalysisException:
            return None
        alias = analyzed.expressions().head()
        return _compared_type(alias.child())

    def insert_target(self, entry: Entry) -> str | None:
        """The data table beside a definition of columns only."""
        return self.catalog.insert_target(entry)

    def names(self) -> tuple[str, ...]:
        """Tables and views of the current database, and temporary ones."""
        try:
            return tuple(t.name for t in self.spark.catalog.listTables())
        except PySparkException:
            return ()

    def view_text(self, parts: tuple[str, ...]) -> str | None:
        """The stored query of a permanent view."""
        catalog = self.spark._jsparkSession.sessionState().catalog()
        try:
            with probing():
                identifier = self.spark._jsparkSession.sessionState().sqlParser().parseTableIdentifier(_path(parts))
                table = catalog.getTempViewOrPermanentTableMetadata(identifier)
        except (PySparkException, Py4JError):
            return None
        return str(table.viewText().get()) if table.viewText().isDefined() else None

    def arrival(self, relation: str) -> str:
        """Order of arrival: files by modification time, path and row; other sources as they are delivered."""
        row = "_metadata.row_index"
        try:
            with probing():
                frame = self.spark._jsparkSession.sql(f"SELECT {row}, _metadata.file_path FROM {relation}")
        except AnalysisException:
            return "monotonically_increasing_id()"
        paths = list(frame.inputFiles())
        if self.portable or len(paths) > _MOST_LISTED_FILES:
            return _BY_MODIFICATION
        if len(paths) <= 1:
            return row
        listed = ", ".join(_file_literal(path) for _, path in sorted((self._modified(path), path) for path in paths))
        return f"(CAST(array_position(array({listed}), _metadata.file_path) AS BIGINT) * 1099511627776 + {row})"

    def _modified(self, path: str) -> int:
        """When a file was modified, in milliseconds."""
        jvm: Any = self.spark.sparkContext._jvm
        hadoop: Any = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(path))
        system = hadoop.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration())
        return int(system.getFileStatus(hadoop).getModificationTime())


def _file_literal(path: str) -> str:
    """A path of ``inputFiles`` as ``_metadata.file_path`` spells it: the same but for the slashes of local files."""
    text = re.sub("^file:/+", "file:/", path)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _compared_type(comparison: Any) -> str:
    """The type in which an analysed comparison compares."""
    schema = {"type": "struct", "fields": [{"name": "x", "nullable": True, "metadata": {}}]}
    schema["fields"][0]["type"] = json.loads(comparison.left().dataType().json())  # type: ignore[index]
    return type_text(StructType.fromJson(schema).fields[0].dataType)


def _path(parts: tuple[str, ...]) -> str:
    return ".".join(f"`{p.replace('`', '``')}`" for p in parts)
