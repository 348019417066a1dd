"""Where the rows of a stream go: a table of files, a table of another catalog, or a sink without a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from pyspark.errors import PySparkException

from catalog.definitions import part_text
from catalog.spark import analysis_error
from catalog.statements import absolute, literal
from sqlx.connectors.jars import CONNECTORS
from sqlx.errors import BindError, did_you_mean
from sqlx.spark.stream import CHANGE_TYPE
from sqlx.sql.definitions import StreamingTable
from sqlx.streaming.tables import SINK_LOG, folder_of
from udtf.engine import engine_of
from udtf.engine.folders import HadoopFolder, last_number
from udtf.engine.java import Py4JError, Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from sqlx.spark.stream import LiveQuery


# Several tables under one batch id: the result of a stream, and the rows that its operators refused.
#
# A micro-batch is computed once and kept while it is written; each table's own log knows which batch ids it has, so a
# micro-batch that runs again after a crash writes what is missing and nothing twice.


class BatchSink(Protocol):
    """Takes the rows of one micro-batch; those of a batch id that it has are computed, and not written again."""

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Write the rows of a micro-batch."""
        ...


@dataclass(frozen=True)
class Output:
    """One of the tables: what of a micro-batch goes there.

    Attributes:
        rows: from the micro-batch to its rows.
        sink: where they go.
        table: database and name of their table, as SQL.
    """

    rows: Callable[[DataFrame], DataFrame]
    sink: BatchSink
    table: str = ""


@dataclass(frozen=True)
class BatchWriter:
    """What Spark calls for each micro-batch.

    Attributes:
        outputs: in the order in which they are written.
        failures: gets what goes wrong, with its own type: Java would only see text.
    """

    outputs: Sequence[Output]
    failures: list[Exception]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch to all outputs."""
        try:
            self._write(batch, batch_id)
        except (PySparkException, Py4JJavaError) as error:
            self.failures.append(error)
            origin = getattr(error, "_origin", None)
            raise (Py4JJavaError(str(error), origin) if origin is not None else error) from error
        except Exception as error:
            self.failures.append(error)
            raise

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        kept = batch.persist() if len(self.outputs) > 1 else batch
        try:
            for output in self.outputs:
                output.sink.write(batch_id, output.rows(kept))
        finally:
            if len(self.outputs) > 1:
                kept.unpersist()


def united(makes: Sequence[Callable[[DataFrame], DataFrame]]) -> Callable[[DataFrame], DataFrame]:
    """Rows of several origins as one, for operators that refuse rows to the same table."""

    def unite(batch: DataFrame) -> DataFrame:
        first, *others = (make(batch) for make in makes)
        for other in others:
            first = first.unionByName(other)
        return first

    return unite


# Rows of a stream as records of a Kafka topic: key columns as the key, a deletion as a record without a value.


#: Said once at the start of a stream into a topic.
NOTE = (
    "Kafka gets each row at least once: a micro-batch that runs again after a failure writes its records again. Readers"
    " of a topic with keys see the same last value; others should tell records apart by a column."
)
_OURS = frozenset({"value.format", "value.schema", "key.format", "key.schema", "key.columns"})
_FORMATS = ("json", "avro", "string")


@dataclass(frozen=True)
class Topic:
    """Takes rows as records.

    Attributes:
        options: of Spark's connector.
        columns: what makes the key and the value of a row, as SQL.
    """

    options: dict[str, str]
    columns: tuple[str, ...]

    def records(self, rows: DataFrame) -> DataFrame:
        """The rows with `key` and `value`, or `value` alone."""
        return rows.selectExpr(*self.columns)

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Write the rows of a micro-batch; a topic does not know which it has."""
        del batch_id
        self.records(rows).write.format("kafka").options(**self.options).save()


@dataclass(frozen=True)
class KafkaSink:
    """How rows become records.

    Args:
        statement: CREATE STREAMING TABLE … USING kafka.
        live: its query.
    """

    statement: StreamingTable
    live: LiveQuery

    @property
    def topic(self) -> Topic:
        """What takes the rows.

        Raises:
            BindError: an option is missing, or does not fit the query's columns.
        """
        for name, example in (("kafka.bootstrap.servers", "localhost:9092"), ("topic", "prices")):
            if name not in self._given:
                raise self._error("KAFKA.OPTION_MISSING", option=name, example=example)
        options = {key: value for key, value in self.statement.options if key.lower() not in _OURS}
        return Topic(options, self._columns())

    def _columns(self) -> tuple[str, ...]:
        if "value.format" not in self._given:
            raise self._error("KAFKA.OPTION_MISSING", option="value.format", example="json")
        keys = self._keys()
        columns = [name for name in self.live.frame.columns if name != CHANGE_TYPE or self._shape == "changelog"]
        value_format = self._format("value.format", "json")
        shown = [name for name in columns if name not in keys] if value_format == "string" else columns
        value = self._encoded("value", shown, value_format)
        if self._shape == "upsert":
            value = f"if({CHANGE_TYPE} = 'delete', NULL, {value})"
        key_format = self._format("key.format", "string" if len(keys) == 1 else "json")
        key = [f"{self._encoded('key', keys, key_format)} AS key"] if keys else []
        return (*key, f"{value} AS value")

    @property
    def _given(self) -> dict[str, str]:
        return {key.lower(): value for key, value in self.statement.options}

    @property
    def _shape(self) -> str:
        return self.live.plan.result.shape

    def _keys(self) -> list[str]:
        """The columns of the key: those that are named, else those by which the result's rows replace each other."""
        columns = self.live.frame.columns
        written = [name.strip() for name in self._given.get("key.columns", "").split(",") if name.strip()]
        known = {column.lower(): column for column in columns}
        for name in written:
            if name.lower() not in known:
                suggestion = did_you_mean(name, columns)
                raise self._error("KAFKA.KEY_COLUMN", "PROPERTY key.columns", column=name, suggestion=suggestion)
        named = [known[name.lower()] for name in written]
        return named or [columns[place] for place in self.live.plan.result.keys if self._shape != "append"]

    def _format(self, option: str, default: str) -> str:
        found = self._given.get(option, default).lower()
        if found not in _FORMATS:
            known = ", ".join(f"'{name}'" for name in _FORMATS)
            raise self._error("KAFKA.OPTION_VALUE", f"PROPERTY {option}", option=option, found=found, known=known)
        return found

    def _encoded(self, what: str, columns: list[str], kind: str) -> str:
        if kind == "string":
            if len(columns) != 1:
                raise self._error("KAFKA.ONE_COLUMN", what=what, count=str(len(columns)))
            return f"CAST({part_text(columns[0])} AS STRING)"
        struct = ", ".join(f"{literal(name)}, {part_text(name)}" for name in columns)
        if kind == "json":  # a column without a value is said to be NULL, so that readers see all columns
            return f"to_json(named_struct({struct}), map('ignoreNullFields', 'false'))"
        schema = self._given.get(f"{what}.schema", "")
        return f"to_avro(named_struct({struct}){f', {literal(schema)}' if schema else ''})"

    def _error(self, condition: str, at: str = "OPTIONS", /, **parameters: object) -> BindError:
        spans = self.statement.spans
        span = spans.get(at) or spans.get("OPTIONS") or self.statement.span("USING")
        return BindError(condition, self.statement.text, span, **parameters)


SinkKind = Literal["files", "table", "plain"]
#: The option that says whether changes are added to a table or applied to it.
MODE_OPTION = "write.mode"
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
        file_format: what writes its files, where the rows are files.
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
    try:
        file_format = engine_of(spark).file_format(statement.format)
    except (PySparkException, Py4JError) as error:
        raise _unknown(statement, error) from None
    if name in _TABLE_FORMATS:  # a server says of some of them what it says of files
        return Sink(name, "table")
    return Sink(name, "plain") if file_format is None else Sink(name, "files", file_format)


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


class FileSink:
    """Spark's own sink of files, written to from a micro-batch: a batch id that is in its log is passed over.

    The rows are computed all the same: an operator whose tasks did not run has no state to commit, and Spark would
    refuse to go on.

    Args:
        location: the folder of the table's files.
        file_format: the JVM's FileFormat.
        options: of OPTIONS.
    """

    def __init__(self, location: str, file_format: Any, options: tuple[tuple[str, str], ...] = ()) -> None:
        self.location, self._format, self._options = location, file_format, options
        self._is_first = True  # only this micro-batch of a start can have been written before

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Write the rows of a micro-batch, unless they are written."""
        if self._is_first and self._has(rows.sparkSession, batch_id):
            NothingSink().write(batch_id, rows)
        self._is_first = False
        jvm: Any = rows.sparkSession.sparkContext._jvm
        none = jvm.PythonUtils.toSeq([])
        options = jvm.PythonUtils.toScalaMap({key: value for key, value in self._options if key.lower() != "path"})
        sink_class = _sink_class(jvm)
        session = rows._jdf.sparkSession()
        sink_class(session, self.location, self._format, none, options).addBatch(batch_id, rows._jdf)

    def _has(self, spark: SparkSession, batch_id: int) -> bool:
        return last_logged(spark, self.location) >= batch_id


#: An entry of Spark's log of files that names none.
_NO_FILES: Final = "v1"
_COMPACTED_EVERY: Final = "spark.sql.streaming.fileSink.log.compactInterval"


def last_logged(spark: SparkSession, location: str) -> int:
    """The last micro-batch in the log of a table of files; -1 where there is no log."""
    return last_number(folder_of(spark, location).names(SINK_LOG))


def log_until(spark: SparkSession, location: str, file_format: Any, schema: StructType, batch_id: int) -> None:
    """Note micro-batches without rows in the log of a table, up to one that is finished.

    Each is a file without rows; it has the columns of the table, since not all readers ask for them by name. A table
    that had no rows until then gets a log that begins there.
    """
    last = last_logged(spark, location)
    if last < 0:
        _begin_log(spark, location, batch_id)
    elif last < batch_id:
        nothing = spark.createDataFrame([], schema)
        for number in range(last + 1, batch_id + 1):
            FileSink(location, file_format).write(number, nothing)


def _begin_log(spark: SparkSession, location: str, batch_id: int) -> None:
    """Empty entries up to a micro-batch, from the last that Spark will ask for when it next compacts its log."""
    every = int(spark.conf.get(_COMPACTED_EVERY) or 10)
    log = HadoopFolder(spark, f"{absolute(location)}/{SINK_LOG}")
    for number in range(max(0, (batch_id + 1) // every * every - 1), batch_id + 1):
        log.write(f"{number}.compact" if (number + 1) % every == 0 else str(number), _NO_FILES)


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
