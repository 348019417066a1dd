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
from sqlx.bind import LiveRead
from sqlx.compiler import compile_query
from sqlx.dialect import quoted
from sqlx.live_sources import open_live
from sqlx.lower_stream import lower_stream
from sqlx.probes import probing
from sqlx.spark_datasets import dataset
from udtf.spark.stream_conf import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_LISTED_FILES = 64
#: Milliseconds since 2017, then the row: where files cannot be listed. Files of one millisecond interleave by row.
_BY_MODIFICATION = "((unix_millis(_metadata.file_modification_time) - 1483228800000) * 16777216 + _metadata.row_index)"


class SparkBinder:
    """Binds against one session.

    Args:
        spark: the session.
        catalog: its definitions.
        portable: the text is to be kept: it names no files of today.
        parser: Spark's own parser, where it is known: what is asked here is plain SQL, and the way through ours
            would be a detour.
    """

    carries_arrival = True

    def __init__(self, spark: SparkSession, catalog: SparkCatalog, portable: bool = False, parser: Any = None) -> None:
        self.spark, self.catalog, self.portable = spark, catalog, portable
        self._parser = parser or spark._jsparkSession.sessionState().sqlParser()
        self.analyzed: dict[str, Any] = {}
        self._known: dict[str, tuple[Column, ...] | None] = {}
        self._stand_ins: dict[str, str] = {}
        self._refusal: Exception | None = None
        self.live_frames: dict[str, DataFrame] = {}
        self._live: dict[str, LiveRead] = {}

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
                return columns_of(self._dataset(query).schema())
        except AnalysisException as error:
            self._refusal = error
            return None

    def _dataset(self, query: str) -> Any:
        """The query as Spark's analyzer leaves it; one without stand-ins is kept for whoever runs it."""
        text = query
        for name, stand_in in self._stand_ins.items():
            text = re.sub(rf"\b{name}\b", stand_in, text)
        if text in self.analyzed:
            return self.analyzed[text]
        found = dataset(self.spark, self._parser.parsePlan(text))
        if text == query:
            self.analyzed[text] = found
        return found

    def refusal(self) -> Exception | None:
        """Spark's own error for the query that was refused last."""
        return self._refusal

    def announce(self, name: str, columns: tuple[Column, ...]) -> None:
        """Let queries read the result of an operator, by a stand-in of its columns."""
        items = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in columns) or "1 AS __none"
        self._stand_ins[name] = f"(SELECT {items})"

    def live(self, entry: Entry) -> LiveRead:
        """The definition as a stream, under a name of its own; kept in ``live_frames`` for whoever runs the query.

        Raises:
            NotLiveError: its source cannot be read as a stream.
        """
        if entry.name not in self._live:
            name = f"__sqlx_live{len(self._live) + 1}"
            source = open_live(self.spark, self.catalog, entry, self._run_live)
            self.announce(name, columns_of(source.frame._jdf.schema()))
            self.live_frames[name] = source.frame
            self._live[entry.name] = LiveRead(name, source.arrival)
        return self._live[entry.name]

    def _run_live(self, query: str) -> DataFrame:
        """A query behind a definition, as a stream."""
        binder = SparkBinder(self.spark, self.catalog, self.portable, self._parser)
        plan = compile_query(query, binder, streaming=True)
        return lower_stream(plan, self.spark, binder.live_frames, configured_tasks(self.spark)).frame

    def common_type(self, left: str, right: str) -> str | None:
        """The type to which Spark's analyzer casts both sides of ``=``."""
        query = f"SELECT CAST(NULL AS {left}) = CAST(NULL AS {right})"
        try:
            with probing():
                analyzed = self._dataset(query).queryExecution().analyzed()
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
        try:
            with probing():
                return self.catalog.view_query(parts)
        except (PySparkException, Py4JError):
            return None

    def arrival(self, relation: str) -> str:
        """Order of arrival: files by modification time, path and row; other sources as they are delivered."""
        row, unknown = "_metadata.row_index", "monotonically_increasing_id()"
        try:
            with probing():
                # A look at the hidden columns first: most relations have none, and a refusal takes Spark long.
                hidden = self._dataset(f"SELECT * FROM {relation}").queryExecution().analyzed().child()
                if "_metadata" not in str(hidden.metadataOutput().mkString(" ")):
                    return unknown
                frame = self._dataset(f"SELECT {row}, _metadata.file_path FROM {relation}")
        except AnalysisException:
            return unknown
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
