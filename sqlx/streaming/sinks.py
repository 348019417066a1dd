"""Where the rows of a stream go: a table of files, a table of another catalog, or a sink without a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from catalog.spark import analysis_error
from sqlx.connectors.artifacts import CONNECTORS
from sqlx.errors import BindError, did_you_mean
from sqlx.streaming.parse import StreamingTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SinkKind = Literal["files", "table", "plain"]
_TABLE_FORMATS = frozenset({"delta", "iceberg", "hudi", "paimon"})
_KNOWN = ("parquet", "csv", "json", "orc", "text", "avro", "delta", "kafka", "memory", "console", "noop")
#: Sinks whose rows end with the process: they need no checkpoint that outlives it.
PASSING = frozenset({"memory", "console"})
_SINK_CLASSES = (
    "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink",
    "org.apache.spark.sql.execution.streaming.FileStreamSink",  # before Spark 4.1
)


@dataclass(frozen=True)
class Sink:
    """A format that was found.

    Attributes:
        format: its name as written.
        kind: a table of files (exactly once through Spark's own log), another table, or no table.
        file_format: the JVM's FileFormat, where the rows are files.
    """

    format: str
    kind: SinkKind
    file_format: Any = None


def find_sink(spark: SparkSession, statement: StreamingTable) -> Sink:
    """The sink that USING names.

    Raises:
        BindError: Spark finds no such format.
    """
    name = statement.format.lower()
    if name in PASSING:
        return Sink(name, "plain")
    jvm: Any = spark.sparkContext._jvm
    java: Any = spark._jsparkSession
    try:
        found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            statement.format, java.sessionState().conf()
        )
    except (PySparkException, Py4JError) as error:
        raise _unknown(statement, error) from None
    file_format = _file_format(jvm, found)
    if file_format is not None:
        return Sink(name, "files", file_format)
    return Sink(name, "table" if name in _TABLE_FORMATS else "plain")


def _unknown(statement: StreamingTable, error: Exception) -> BindError:
    reason = ""
    if statement.format.lower() in CONNECTORS:
        return BindError("CONNECTOR.NEEDED", statement.text, statement.span("USING"), name=statement.format.lower())
    if isinstance(error, PySparkException) and "NOT_ENABLED" in str(error.getCondition()):
        reason = f" {analysis_error(error)}"
    suggestion = "" if reason else did_you_mean(statement.format, _KNOWN)
    span = statement.span("USING")
    return BindError(
        "STREAMING.UNKNOWN_FORMAT", statement.text, span, format=statement.format, reason=reason, suggestion=suggestion
    )


def _file_format(jvm: Any, found: Any) -> Any:
    """The FileFormat behind a data source's class; None where it writes no files."""
    execution = "org.apache.spark.sql.execution.datasources"
    source = found.getDeclaredConstructor(_nothing(jvm)).newInstance(_no_values(jvm))
    if _is(jvm, source, f"{execution}.v2.FileDataSourceV2"):
        inner = source.fallbackFileFormat()
        source = inner.getDeclaredConstructor(_nothing(jvm)).newInstance(_no_values(jvm))
    return source if _is(jvm, source, f"{execution}.FileFormat") else None


def _nothing(jvm: Any) -> Any:
    return jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Class"), 0)


def _no_values(jvm: Any) -> Any:
    return jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.Object"), 0)


def _is(jvm: Any, value: Any, name: str) -> bool:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return bool(jvm.java.lang.Class.forName(name, True, loader).isInstance(value))


class FileSink:
    """Spark's own sink of files, written to from a micro-batch: a batch id that is in its log is passed over.

    Args:
        location: the folder of the table's files.
        file_format: the JVM's FileFormat.
        options: of OPTIONS.
    """

    def __init__(self, location: str, file_format: Any, options: tuple[tuple[str, str], ...] = ()) -> None:
        self.location, self._format, self._options = location, file_format, options

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Write the rows of a micro-batch, unless they are written."""
        jvm: Any = rows.sparkSession.sparkContext._jvm
        none = jvm.PythonUtils.toSeq([])
        options = jvm.PythonUtils.toScalaMap({key: value for key, value in self._options if key.lower() != "path"})
        sink_class = _sink_class(jvm)
        session = rows._jdf.sparkSession()
        sink_class(session, self.location, self._format, none, options).addBatch(batch_id, rows._jdf)


class NothingSink:
    """Computes the rows and forgets them (USING noop)."""

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Compute the rows of a micro-batch."""
        del batch_id
        rows.write.format("noop").mode("append").save()


def _sink_class(jvm: Any) -> Any:
    for name in _SINK_CLASSES:
        found: Any = jvm
        for part in name.split("."):
            found = getattr(found, part)
        if callable(found) and type(found).__name__ == "JavaClass":
            return found
    raise AssertionError(_SINK_CLASSES)
