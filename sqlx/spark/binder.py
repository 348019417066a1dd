"""Names and types as a Spark session sees them: its analyzer is asked, nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING
from zlib import crc32

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from catalog.definitions import Definition, name_parts, name_text, part_text, shown_name
from catalog.entries import Column, Entry
from catalog.kafka import FACTS, read_at_once, split_topic_query
from catalog.spark import SparkCatalog, columns_of, type_text
from catalog.statements import literal
from sqlx.bind.binder import ROW, LiveRead, NotLiveError, RowOrder
from sqlx.connectors.jars import is_43
from sqlx.errors import TemporalSqlError, UnsupportedError
from sqlx.plan.compiler import compile_query
from sqlx.plan.nodes import not_followed, other_keys, reads_changes
from sqlx.plan.subquery_text import stands_in
from sqlx.spark.batch import query_frame
from sqlx.spark.histories import Histories, event_time, place_of, shown
from sqlx.spark.stream import Followed, Keeping, LiveQuery, lower_stream, lower_updates
from sqlx.spark.view_text import shows_definitions, view_text
from sqlx.sql.parser import scan
from sqlx.sql.tokens import Span, quoted
from udtf.engine import engine_of
from udtf.engine.asking import probing
from udtf.engine.engine import spelled_path
from udtf.engine.java import Py4JError
from udtf.engine.release import release_of
from udtf.spark.kept import Stateful
from udtf.spark.tasks import configured_tasks
from udtf.stream.interleave import AT, LANE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from udtf.stream.spec import ChangelogFolder


# Topics of Kafka read live: their records as they come, each with its place in its partition.


_RAW, _PARSED = "__sqlx_topic", "__sqlx_parsed"
#: Options of a bounded read alone.
_BOUNDED = frozenset({"endingoffsets", "endingoffsetsbytimestamp", "endingtimestamp", "path", "serialization.format"})
_BEGINNINGS = frozenset({"startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp"})
_FIRST_PARTITION_BIT = 1 << 20


def topic_frame(spark: SparkSession, catalog: SparkCatalog, entry: Entry, within: str) -> DataFrame:
    """The rows of a topic as they come, from its beginning on unless OPTIONS say otherwise.

    Where records that cannot be read are passed over or shown with NULL, they are counted in the progress of the query
    (``kafka_<name>``: ``read``, ``malformed``), by each of its readers (`read_through`).
    """
    opened = read_at_once(_options(spark, catalog, entry))  # what older releases made has not got all of it
    options = {key: value for key, value in opened.items() if key.lower() not in _BOUNDED}
    if not _BEGINNINGS & {key.lower() for key in options}:
        options["startingOffsets"] = "earliest"  # as a bounded read begins, so that both see the same rows
    raw = spark.readStream.format("kafka").options(**options).load()
    shown, parsed, condition = split_topic_query(entry.relation[1:-1])
    frame = query_frame(parsed.replace(entry.topic, _RAW), spark, {_RAW: raw})
    if "raise_error" not in condition:
        counts = F.count(F.lit(1)).alias("read"), F.count_if("__bad").alias("malformed")
        frame = frame.observe(f"kafka_{read_through(within, entry)}", *counts)
    return query_frame(f"{shown} FROM {_PARSED} AS __sqlx_records{condition}", spark, {_PARSED: frame})


def read_through(within: str, entry: Entry) -> str:
    """What the readers of a definition in one query are told apart by.

    Args:
        within: the same of the definition that reads it, or "".
        entry: the definition.
    """
    return "_".join([*([within] if within else []), entry.name.replace("`", "").replace(".", "_")])


def lanes(entry: Entry) -> tuple[str, ...]:
    """The order of arrival: each partition is a lane of its own, also beside those of other definitions in a union."""
    topic = f"crc32({FACTS}.topic)" if f"{FACTS}.topic" in entry.arrival else f"{crc32(entry.name.encode())}L"
    lane = f"{topic} * {_FIRST_PARTITION_BIT} + {FACTS}.partition"
    return (f"named_struct('{LANE}', {lane}, '{AT}', {FACTS}.offset)",)


def _options(spark: SparkSession, catalog: SparkCatalog, entry: Entry) -> dict[str, str]:
    """The options with which the raw records were opened."""
    parts = name_parts(entry.topic)
    if entry.temporary:
        return catalog.opened[parts[-1].lower()].options
    return engine_of(spark).options(parts)


# Definitions read live on Spark: streaming DataFrames that carry each row's event time and order of arrival along.
#
# A definition over a table or files reads what is added to them; one over a query reads the query live (its
# definitions, and the one table of Spark's in it). Arrival is SEQUENCE BY; else of files modification time, path and
# row; else rows are taken as their source delivers them.


_FILES = re.compile(r"^`?(parquet|orc|csv|json|text|avro|delta)`?\.`(.*)`$", re.IGNORECASE | re.DOTALL)
_NOT_IN_STREAMS = "monotonically_increasing_id()"
_LEFT_OUT = "__left_out"


@dataclass(frozen=True)
class LiveSource:
    """A definition as a stream.

    Attributes:
        frame: its columns and the hidden one.
        arrival: what the hidden column says, over the frame.
        shows_deleted: the hidden column says which rows delete their key.
    """

    frame: DataFrame
    arrival: RowOrder
    shows_deleted: bool = False


#: Runs a query behind a definition as a stream; one over tables that change as their updates.
RunLive = Callable[[str], "LiveSource | Followed"]


def open_live(
    spark: SparkSession, catalog: SparkCatalog, entry: Entry, run_live: RunLive, histories: Histories, within: str = ""
) -> LiveSource:
    """Open a definition's source as a stream.

    Args:
        spark: the session.
        catalog: its definitions.
        entry: the definition.
        run_live: runs a query behind the definition.
        histories: what is read in place of which sources.
        within: through which definitions it is read.

    Raises:
        NotLiveError: there is no way.
    """
    stands_in, left_out = histories.get(place_of(catalog, entry.name)) if histories else None, ""
    deletes = f"({entry.delete_when})" if entry.delete_when and entry.topic else None
    try:
        frame, order = _rows(spark, catalog, entry, run_live, {} if stands_in is not None else histories, within)
        if stands_in is not None:
            frame, order, left_out = stands_in(entry, _rows_alone(entry, frame, order), order)
        time = event_time(entry) if entry.timestamp_by else order.time or "CAST(NULL AS TIMESTAMP)"
        if isinstance(frame, Followed):  # what is deleted shows nothing but its key
            time = f"IF({Followed.DELETED}, {frame.order.time}, {time})"
            deletes = f"{Followed.DELETED} OR ({entry.delete_when or 'false'})"
            frame = frame.frame
        if entry.sequence_by:
            order = RowOrder(None, (entry.sequence_by,), is_sequence=True)
        columns = [part_text(column.name) for column in entry.columns]
        # NB: the alias first: expressions of the definition may qualify their columns with it.
        row = replace(order, time=time).struct
        if deletes is not None:
            row = f"{row[:-1]}, 'deleted', coalesce({deletes}, false))"
        # All at once: what Spark hides in a source (`_metadata`) does not come through a filter on each release.
        left = [f"{left_out} AS {_LEFT_OUT}"] if left_out else []
        live = shown(entry, frame).selectExpr(*columns, f"{row} AS {ROW}", *left)
        live = live.where(f"NOT {_LEFT_OUT}").drop(_LEFT_OUT) if left else live
    except PySparkException as error:
        if isinstance(error, TemporalSqlError):
            raise
        reason = f"Spark says: {_first_line(error)}"
        raise NotLiveError(reason) from error
    orders = tuple(f"{ROW}.o{number}" for number in range(len(order.order)))
    return LiveSource(live, RowOrder(f"{ROW}.time", orders, order.is_sequence), deletes is not None)


def _rows_alone(entry: Entry, found: DataFrame | Followed, order: RowOrder) -> DataFrame:
    """Rows in whose place those of a history can be read."""
    if isinstance(found, Followed):
        reason = "it shows the updates of a table: give a history to the definitions that it reads"
        raise NotLiveError(reason)
    if order.is_sequence and not entry.sequence_by:
        reason = "its rows are ordered by a SEQUENCE BY of what it reads: give a history to that"
        raise NotLiveError(reason)
    return found


def _rows(
    spark: SparkSession, catalog: SparkCatalog, entry: Entry, run_live: RunLive, histories: Histories, within: str
) -> tuple[DataFrame | Followed, RowOrder]:
    """The rows of a definition's source as they are added to it, and how they arrived; or its updates."""
    below = _definition_below(catalog, entry)
    if entry.topic:
        return topic_frame(spark, catalog, entry, within), RowOrder(None, lanes(entry))
    if below is not None and not (below.is_table and entry.is_table):
        source = open_live(spark, catalog, below, run_live, histories, read_through(within, entry))
        return source.frame, source.arrival
    read = _read(spark, catalog, entry) if below is None else f"SELECT * FROM {entry.relation}"
    if not isinstance(read, str):
        return read, RowOrder(None, () if entry.sequence_by else _order(catalog, read))
    found = _run_with_stream(spark, catalog, read, run_live) if below is None else run_live(read)
    if isinstance(found, Followed):
        return found, found.order
    if not found.frame.isStreaming:
        reason = "its query reads no stream; write STREAM before the table of Spark's that is to be live"
        raise NotLiveError(reason)
    return found.frame, found.arrival


def _definition_below(catalog: SparkCatalog, entry: Entry) -> Entry | None:
    """The definition that another one reads by its name: its rows bring their arrival along."""
    if entry.relation.startswith("(") or _FILES.match(entry.relation):
        return None
    return catalog.resolve(name_parts(entry.relation))


def _read(spark: SparkSession, catalog: SparkCatalog, entry: Entry) -> DataFrame | str:
    """The rows of a table, files or a stream of Spark's as they are added to it; else the query that is read."""
    relation = entry.relation
    files = _FILES.match(relation)
    schema = ", ".join(f"{part_text(column.name)} {column.type}" for column in entry.columns)
    if files is not None:
        reader = spark.readStream.format(files[1].lower())
        return (reader if files[1].lower() == "delta" else reader.schema(schema)).load(files[2])
    if relation.startswith("("):
        return relation[1:-1]
    parts = name_parts(relation)
    opened = catalog.opened.get(parts[-1].lower()) if len(parts) == 1 else None
    if opened is not None:
        reader = spark.readStream.format(opened.source).options(**opened.options)
        return (reader if opened.source.lower() == "delta" else reader.schema(schema)).load()
    if len(parts) < 3 and catalog.is_temporary(parts):
        frame = spark.table(relation)
        return frame if frame.isStreaming else _view_query(catalog, parts)
    found = catalog.find(parts)
    return _view_query(catalog, parts) if found is not None and found.is_view else spark.readStream.table(relation)


def _view_query(catalog: SparkCatalog, parts: tuple[str, ...]) -> str:
    text = view_text(catalog, parts)
    if text is None:
        reason = "it reads a temporary view of rows that are no stream"
        raise NotLiveError(reason)
    return text


_streams = count(1)


def _run_with_stream(
    spark: SparkSession, catalog: SparkCatalog, query: str, run_live: RunLive
) -> LiveSource | Followed:
    """Run a query with its relation read as a stream, where it is the only one; Spark knows STREAM since 4.1."""
    relations = scan(query).read()
    if len(relations) != 1 or relations[0].stream:
        return run_live(query)
    (relation,) = relations
    if release_of(spark.version) > (4, 0) or shows_definitions(catalog, relation.parts):  # Spark does not see it then
        return run_live(f"{query[: relation.span.start]}STREAM {query[relation.span.start :]}")
    if catalog.resolve(relation.parts) is not None:  # read live by itself
        return run_live(query)
    engine = engine_of(spark)
    name = f"__sqlx_stream{next(_streams)}"
    read = engine.read_as(spark.readStream.table(name_text(relation.parts)), name)
    alias = "" if relation.alias is not None else f" AS {part_text(relation.parts[-1])}"
    try:
        return run_live(f"{query[: relation.body.start]}{read}{alias}{query[relation.body.end :]}")
    finally:
        engine.forget(name)


def _order(catalog: SparkCatalog, frame: DataFrame) -> tuple[str, ...]:
    """How rows of files arrived; () where the source alone knows, as after a query."""
    if not catalog.engine.is_leaf(frame):
        return ()
    return tuple(expression for expression in catalog.arrival_of(frame) if expression != _NOT_IN_STREAMS)


def _without_late(lowered: LiveQuery) -> LiveQuery:
    if lowered.late:
        reason = f"its query keeps refused rows in `{lowered.late[0].table}`, which only the query that is run can"
        raise NotLiveError(reason)
    return lowered


def _first_line(error: PySparkException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


_MOST_LISTED_FILES = 64
#: Milliseconds since 2017, then the row: where files cannot be listed. Files of one millisecond interleave by row.
_BY_MODIFICATION = "((unix_millis(_metadata.file_modification_time) - 1483228800000) * 16777216 + _metadata.row_index)"
#: Files read by their path, which have the hidden columns of Parquet.
_PARQUET = re.compile(r"parquet\.`", re.IGNORECASE)


class SparkBinder:
    """Binds against one session.

    Args:
        spark: the session.
        catalog: its definitions.
        portable: the text is to be kept: it names no files of today.
    """

    carries_row_order = True

    def __init__(self, spark: SparkSession, catalog: SparkCatalog, portable: bool = False) -> None:
        self.spark, self.catalog, self.portable = spark, catalog, portable
        self.engine = engine_of(spark)
        self.analyzed: dict[str, DataFrame] = {}
        self._known: dict[str, tuple[Column, ...] | None] = {}
        self._compared: dict[tuple[str, str], str | None] = {}
        self._stand_ins: dict[str, str] = {}
        self._refusal: Exception | None = None
        self.live_frames: dict[str, DataFrame] = {}
        self._live: dict[str, LiveRead] = {}
        #: Makes a relation of what a query keeps, see `state_relation`.
        self.state: Callable[[str, str, Span], str] | None = None
        #: Operators in the queries behind the definitions that were read live.
        self.stateful: tuple[Stateful, ...] = ()
        #: The definitions through which the query is read, which name its operators: another reader has its own.
        self.within = ""
        #: Where operators behind definitions keep their changelogs; None: in Spark's state store.
        self.changelog: ChangelogFolder | None = None
        #: What is read in place of which live sources.
        self.histories: Histories = {}
        #: Of the function whose body is compiled; None where it is called, and any name may be one.
        self.parameters: frozenset[str] | None = frozenset()

    @property
    def case_sensitive(self) -> bool:
        """Of `spark.sql.caseSensitive`."""
        return self.engine.case_sensitive

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
                return columns_of(self._dataset(query).schema)
        except AnalysisException as error:
            self._refusal = error
            return None

    def is_stream(self, query: str) -> bool:
        """Whether a query reads one of Spark's own streams; it is asked as `columns` is."""
        return self.columns(query) is not None and self._dataset(query).isStreaming

    def standing_in(self, query: str) -> str:
        """The query with a stand-in of its columns for each relation that was announced."""
        for name, stand_in in self._stand_ins.items():
            query = re.sub(rf"\b{name}\b", f"({stand_in})".replace("\\", r"\\"), query)
        return query

    def _dataset(self, query: str) -> DataFrame:
        """The query as Spark's analyzer leaves it, over stand-ins; it is kept for whoever runs it."""
        if query not in self.analyzed:
            read = {name: stand_in for name, stand_in in self._stand_ins.items() if stands_in(name, query)}
            self.analyzed[query] = self.engine.query(query, read)
        return self.analyzed[query]

    def refusal(self) -> Exception | None:
        """Spark's own error for the query that was refused last."""
        return self._refusal

    def announce(self, name: str, columns: tuple[Column, ...]) -> None:
        """Let queries read the result of an operator, by a stand-in of its columns."""
        items = ", ".join(f"CAST(NULL AS {c.type}) AS {quoted(c.name)}" for c in columns) or "1 AS __none"
        self._stand_ins[name] = f"SELECT {items}"

    def viewed(self, parts: tuple[str, ...]) -> Entry | None:
        """A view over definitions, as a stream of the rows that it shows."""
        if not shows_definitions(self.catalog, parts):
            return None
        name = name_text(parts)
        return Entry("stream", shown_name(parts), self.columns(f"SELECT * FROM {name}") or (), name, timestamp_by="")

    def live(self, entry: Entry) -> LiveRead:
        """The definition as a stream, under a name of its own; kept in ``live_frames`` for whoever runs the query.

        Raises:
            NotLiveError: its source cannot be read as a stream.
        """
        if entry.name not in self._live:
            name = f"__sqlx_live{len(self._live) + 1}"
            run_live = partial(self._run_live, entry)
            source = open_live(self.spark, self.catalog, entry, run_live, self.histories, self.within)
            self.announce(name, columns_of(source.frame.schema))
            self.live_frames[name] = source.frame
            self._live[entry.name] = LiveRead(name, source.arrival, source.shows_deleted)
        return self._live[entry.name]

    def _run_live(self, entry: Entry, query: str) -> LiveSource | Followed:
        """A query behind a definition, as a stream; what changes as its updates.

        Its rows come in the order of those it reads, but where the definition has an order of its own, or a history
        is read in their place, which knows nothing of that.
        """
        binder = SparkBinder(self.spark, self.catalog, self.portable)
        binder.changelog = self.changelog
        binder.within = read_through(self.within, entry)
        stands_in = place_of(self.catalog, entry.name) in self.histories
        if not stands_in:
            binder.histories = self.histories
        plan = compile_query(query, binder, streaming=True, hands_on=entry.sequence_by is None and not stands_in)
        keeping = Keeping(configured_tasks(self.spark), binder.within, self.changelog)
        if not reads_changes(plan.root):
            lowered = lower_stream(plan, self.spark, binder.live_frames, keeping)
            self.stateful += (*binder.stateful, *lowered.stateful)
            return LiveSource(_without_late(lowered).frame, plan.carried or RowOrder())
        reason = not_followed(plan, is_table=entry.is_table)
        if reason is not None:
            raise NotLiveError(reason)
        keys = other_keys(plan, entry.keys)
        if keys is not None:
            reason = f"a table that is derived from a table has its key: {keys}"
            raise NotLiveError(reason)
        followed, lowered = lower_updates(plan, self.spark, binder.live_frames, keeping)
        self.stateful += (*binder.stateful, *lowered.stateful)
        _without_late(lowered)
        return followed

    def common_type(self, left: str, right: str) -> str | None:
        """The type to which Spark's analyzer casts both sides of ``=``."""
        if (left, right) not in self._compared:
            found = self.engine.compared_type(left, right)
            self._compared[left, right] = None if found is None else type_text(found)
        return self._compared[left, right]

    def insert_target(self, entry: Entry) -> str | None:
        """The data table beside a definition of columns only."""
        return self.catalog.insert_target(entry)

    def state_relation(self, name: str, text: str, span: Span) -> str:
        """A view of what the query keeps; without a session that holds views it cannot be read."""
        if self.state is None:
            raise UnsupportedError("UNSUPPORTED.STATE_HERE", text, span.pair)
        return self.state(name, text, span)

    def names(self) -> tuple[str, ...]:
        """Tables and views of the current database, and temporary ones."""
        try:
            return tuple(t.name for t in self.spark.catalog.listTables())
        except PySparkException:
            return ()

    def is_variable(self, name: str) -> bool:
        """Whether Spark knows the name where there is no relation."""
        return self.columns(f"SELECT {name}") is not None

    def is_parameter(self, name: str) -> bool:
        """Whether the body that is compiled is of a function with such a parameter; called, any name may be one."""
        return self.parameters is None or name.lower() in self.parameters

    def view_text(self, parts: tuple[str, ...]) -> str | None:
        """The stored query of a permanent view."""
        try:
            with probing():
                return view_text(self.catalog, parts)
        except (PySparkException, Py4JError):
            return None

    def arrival(self, relation: str) -> str:
        """Order of arrival: files by modification time, path and row; other sources as they are delivered."""
        row, unknown = "_metadata.row_index", "monotonically_increasing_id()"
        try:
            with probing():
                # A look at the hidden columns first: most relations have none, and a refusal takes Spark long. Files by
                # their path have them, and Spark reads their schema at each look.
                if not _PARQUET.match(relation):
                    read = self._dataset(f"SELECT * FROM {relation}")
                    if not self.engine.hidden(relation, read):
                        return unknown
                frame = self._dataset(f"SELECT {row}, _metadata.file_path FROM {relation}")
                paths = list(frame.inputFiles())
        except AnalysisException:
            return unknown
        if self.portable or len(paths) > _MOST_LISTED_FILES:
            return _BY_MODIFICATION
        if len(paths) <= 1:
            return row
        modified = self.engine.modified(paths, relation)
        ordered = sorted(paths, key=lambda path: (modified[path], path))
        listed = ", ".join(literal(spelled_path(path)) for path in ordered)
        return f"(CAST(array_position(array({listed}), _metadata.file_path) AS BIGINT) * 1099511627776 + {row})"


# What Delta Lake cannot do on a PySpark that its connector was not made for.


def check_path(text: str, span: tuple[int, int], source: str, path: str) -> None:
    """Refuse a Delta table by its path where that is not safe.

    On PySpark 4.3 an append by path raises after it has committed, so that whoever tries again writes its rows twice;
    reads by path fail as well. By its name a table is read and written as on 4.2.

    Args:
        text: the statement.
        span: where it says so.
        source: of USING.
        path: of OPTIONS, or "".

    Raises:
        UnsupportedError: it is one.
    """
    if source.lower() == "delta" and path and is_43():
        raise UnsupportedError("DELTA.PATH", text, span, path=path)


def check_definition(definition: Definition) -> None:
    """The same of what a definition reads, and options that a Delta table in the catalog does not keep.

    Raises:
        UnsupportedError: it is one.
    """
    path = next((value for key, value in definition.options if key.lower() == "path"), "")
    check_path(definition.text, definition.span("OPTIONS"), definition.using, path)
    others = [key for key, _ in definition.options if key.lower() != "path"]
    if definition.using.lower() == "delta" and others and not definition.temporary:
        raise UnsupportedError("DELTA.OPTIONS", definition.text, definition.span("OPTIONS"), option=others[0])
    source, *rest = definition.relation_parts or ("",)
    if rest and ("/" in rest[-1] or ":" in rest[-1]):
        check_path(definition.text, definition.span("RELATION"), source, rest[-1])
