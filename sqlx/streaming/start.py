"""Starts the query of a CREATE STREAMING TABLE: anew, or from where its checkpoint says that it stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event, RLock
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from catalog.spark import SparkCatalog, analysis_error
from catalog.statements import absolute
from sqlx.errors import BindError, RunError, TemporalSqlError, UnsupportedError
from sqlx.spark.binder import check_path
from sqlx.spark.histories import NO_HISTORIES, Histories
from sqlx.sql.definitions import StreamingTable, Trigger
from sqlx.sql.parser import late_span
from sqlx.streaming.backend import CHANGELOG, STORE, chosen, folder_for, misfit, start_conf
from sqlx.streaming.backend import NOTE as BACKEND_NOTE
from sqlx.streaming.backfill import Backfilling
from sqlx.streaming.checkpoint import Checkpoint, usual_checkpoint
from sqlx.streaming.history import check_possible
from sqlx.streaming.identity import UPSERTED, Identity, further_columns, goes_elsewhere
from sqlx.streaming.lakehouse import TableSink, check_catalog, keeps_batches, transactions_of
from sqlx.streaming.meaning import meaning_of
from sqlx.streaming.pages import show_on_ui
from sqlx.streaming.registry import RunningQuery, listen, queries_of
from sqlx.streaming.served import served_writer
from sqlx.streaming.sinks import (
    MODE_OPTION,
    NOTE,
    PASSING,
    BatchSink,
    BatchWriter,
    FileSink,
    KafkaSink,
    NothingSink,
    Output,
    Sink,
    find_sink,
    log_until,
    united,
)
from sqlx.streaming.tables import StreamTable, TableName, columns_of, folder_of, qualified
from sqlx.streaming.upsert import FileVersions, check_upsert, is_upsert, table_schema, upsert_sink
from udtf.engine import engine_of, is_remote
from udtf.engine.executors import is_local
from udtf.spark.tasks import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from catalog.entries import Column
    from sqlx.spark.stream import LateOutput, LiveQuery
    from udtf.stream.spec import ChangelogFolder


# The tables of LATE TO: made if missing, and written under the batch id of the result.


_PREVIEW = "a preview"
#: The checkpoint of a table is a folder of its name in the warehouse, and must not leave it.
_NAME = re.compile(r"\w{1,200}")
#: Besides tables: what can be written micro-batch by micro-batch, beside tables of refused rows.
_SHARING = frozenset({"noop", "preview", "kafka"})


def late_outputs(starter: Starter, live: LiveQuery, checkpoint: Checkpoint | None) -> list[Output]:
    """What goes to the tables of LATE TO; operators that name the same table share it.

    Raises:
        UnsupportedError: the result's sink cannot share a batch id with other tables.
        BindError: a table of that name is something else.
    """
    if not live.late:
        return []
    statement, sink = starter.statement, starter.sink
    shares = sink.file_format is not None or sink.format in _SHARING or keeps_batches(sink.format)
    if not (shares or starter.is_upsert):
        span = late_span(statement.text) or statement.span("USING")
        raise UnsupportedError("UNSUPPORTED.LATE_TO_SINK", statement.text, span, format=sink.format)
    of_table: dict[str, list[LateOutput]] = {}
    for late in live.late:
        of_table.setdefault(qualified(starter.spark, late.table).shown, []).append(late)
    files = sink if sink.file_format is not None or keeps_batches(sink.format) else _parquet(starter)
    return [_output(starter, lates, files, checkpoint) for lates in of_table.values()]


def _output(starter: Starter, lates: list[LateOutput], files: Sink, checkpoint: Checkpoint | None) -> Output:
    table = StreamTable(starter.spark, qualified(starter.spark, lates[0].table))
    columns = columns_of(lates[0].schema)
    owner = _PREVIEW if checkpoint is None else checkpoint.path
    has_rows = table.has_files() or (keeps_batches(files.format) and table.exists)
    if (checkpoint is None or starter.is_new) and has_rows:
        _begin_anew(starter, table, owner)
    found = table.columns if table.exists else columns
    if table.exists and table.checkpoint != owner:
        raise _refused(starter, table, "a table of that name is there already, which this stream did not make")
    if table.exists and table.format not in ("", files.format):
        raise _refused(starter, table, f"it is of {table.format}, and the result goes to {files.format}")
    found = _with_further(starter, table, found, columns, files.format)
    if any(_names(columns_of(late.schema)) != _names(found) for late in lates):
        raise _refused(starter, table, f"its columns are {', '.join(c.name for c in found)}")
    if not table.exists:
        location = table.location if table.has_files() else ""
        table.create(lates[0].schema, files.format, owner, location=location)
    is_kept = keeps_batches(files.format)
    if checkpoint is not None and not is_kept:
        log_until(starter.spark, table.location, files.file_format, lates[0].schema, checkpoint.last_batch)
    to = (
        TableSink(table, transactions_of(table, files.format))
        if is_kept
        else FileSink(table.location, files.file_format)
    )
    return Output(united([late.make for late in lates]), to, table.name.quoted)


def _with_further(
    starter: Starter, table: StreamTable, found: tuple[Column, ...], columns: tuple[Column, ...], format: str
) -> tuple[Column, ...]:
    """The columns of a table of refused rows, which gets those that its rows have since; it loses none."""
    further = tuple(column for column in columns if column.name.lower() not in _names(found))
    if not further or format not in BY_NAME or not _names(found) <= _names(columns):
        return found
    table.add_columns(further)
    names = ", ".join(f"`{column.name}`" for column in further)
    starter.notes.append(f"{table.name.shown} has got {names}; refused rows of before have NULL there.")
    return (*found, *further)


def _names(columns: tuple[Column, ...]) -> set[str]:
    return {column.name.lower() for column in columns}


def _begin_anew(starter: Starter, table: StreamTable, owner: str) -> None:
    """A new query numbers its micro-batches from 0 again, and those that a table has already are passed over."""
    if table.exists and table.checkpoint != owner:
        return  # somebody else's: the next check says so
    if owner != _PREVIEW and not starter.statement.replace:
        raise _refused(starter, table, "rows of an earlier query are there; CREATE OR REPLACE computes them anew")
    table.drop()
    if owner != _PREVIEW:
        starter.notes.append(f"OR REPLACE: dropped the table {table.name.shown}; all refused rows will be in it again.")


def _refused(starter: Starter, table: StreamTable, reason: str) -> BindError:
    text = starter.statement.text
    span = late_span(text) or starter.statement.span("AS")
    return BindError("STREAMING.LATE_TABLE", text, span, name=table.name.shown, reason=reason)


def _parquet(starter: Starter) -> Sink:
    return find_sink(starter.spark, replace(starter.statement, using="parquet"))


# The settings with which a streaming query starts.


_setting = RLock()


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Within it the session has these settings: a query keeps a copy of those of its start."""
    with _setting:
        before: dict[str, Any] = {name: spark.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, value)


# Hands a lowered query to Spark: through Spark's own sink, or micro-batch by micro-batch where there are several.


def begin(starter: Starter, live: LiveQuery, late: list[Output], checkpoint: Checkpoint | None) -> StreamingQuery:
    """Start the query.

    Args:
        starter: what is being started.
        live: its query.
        late: further tables; they make it write micro-batch by micro-batch.
        checkpoint: where it keeps how far it is; None is Spark's temporary folder.
    """
    if starter.sink.format == "kafka":
        starter.notes.append(NOTE)
    if late or starter.preview is not None or starter.is_upsert:
        frame: DataFrame = live.frame
        rows: Callable[[DataFrame], DataFrame] = _same
        if late and live.fat is not None and live.rows is not None:
            frame, rows = live.fat, live.rows
        outputs = [Output(rows, _batch_sink(starter, live)), *late]
        write: Callable[[DataFrame, int], None] = BatchWriter(outputs, starter.failures)
        if is_remote(starter.spark):
            assert checkpoint is not None, "a table has one"
            write = served_writer(frame, outputs, checkpoint.folder.path)
        return _writer(starter, frame, checkpoint).foreachBatch(write).start()
    sink, options = starter.sink, starter.options
    if sink.format == "kafka":
        return _records(starter, live, checkpoint)
    writer = _writer(starter, live.frame, checkpoint).format(sink.format).outputMode("append")
    writer = writer.options(**{key: value for key, value in options if key.lower() != "path"})
    if sink.kind != "plain":
        return writer.toTable(starter.name.text)
    return writer.start(absolute(starter.path) if starter.path else None)


def _records(starter: Starter, live: LiveQuery, checkpoint: Checkpoint | None) -> StreamingQuery:
    """Into a topic."""
    topic = KafkaSink(starter.statement, live).topic
    writer = _writer(starter, topic.records(live.frame), checkpoint)
    return writer.format("kafka").outputMode("append").options(**topic.options).start()


def _writer(starter: Starter, frame: DataFrame, checkpoint: Checkpoint | None) -> DataStreamWriter:
    writer = frame.writeStream.queryName(starter.name.parts[-1])
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint.path)
    trigger = starter.statement.trigger
    if trigger.available_now:
        return writer.trigger(availableNow=True)
    if trigger.every_us is not None:
        return writer.trigger(processingTime=f"{trigger.every_us // 1000} milliseconds")
    return writer


def _batch_sink(starter: Starter, live: LiveQuery) -> BatchSink:
    if starter.preview is not None:
        return starter.preview
    if starter.is_upsert:
        return upsert_sink(starter.table, starter.sink, starter.options, live)
    if keeps_batches(starter.sink.format):
        return TableSink(starter.table, transactions_of(starter.table, starter.sink.format))
    if starter.sink.format == "kafka":
        return KafkaSink(starter.statement, live).topic
    if starter.sink.file_format is None:
        return NothingSink()
    location = absolute(starter.path) if starter.to_path else starter.table.location
    return FileSink(location, starter.sink.file_format, starter.options)


def _same(batch: DataFrame) -> DataFrame:
    return batch


#: From the number of TASKS, where their changelogs are, and what is read in place of sources, to the query, lowered.
Lowered = Callable[[int, "ChangelogFolder | None", Histories], "LiveQuery"]
#: Said when a query goes on whose text is another one.
EDITED = "`{name}` goes on with another text: rows from now on are those of the new one."
#: Said when a query goes on whose sink is another one.
MOVED = "The rows of `{name}` go to {now} from now on; those of before stay in {before}."
#: What rows that were kept before do not have.
FURTHER = "What its state holds from before has NULL in {names}."
#: Formats whose columns go by their names, so that further ones may be added.
BY_NAME = frozenset({"parquet", "orc", "json", "avro", "delta", "iceberg"})
_CHANGING = "STREAMING_OUTPUT_MODE"
#: Sorting, set operations, joins and functions that Spark does not run on streams.
_NOT_ON_STREAMS = ("_LEGACY_ERROR_TEMP_3102", "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING")


@dataclass
class Starter:
    """One start of one query.

    Args:
        spark: the session.
        statement: what was written.
        lower: the query, lowered to that many TASKS; where their changelogs are (None: in Spark's state store), and
            what is read in place of sources.
        preview: a sink of the caller's own, in the place of the one that USING names.
        to_path: files go to the path in OPTIONS, without a table over them.
        waits: whether AVAILABLE NOW waits for the end.
        owner: who started it first, where a server starts it again.
    """

    spark: SparkSession
    statement: StreamingTable
    lower: Lowered
    preview: BatchSink | None = None
    to_path: bool = False
    waits: bool = True
    owner: str | None = None
    notes: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    is_new: bool = field(default=False, init=False)
    is_moved: bool = field(default=False, init=False)
    location: str = field(default="", init=False)
    changelog: ChangelogFolder | None = field(default=None, init=False)
    backfilling: Backfilling | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.name: TableName = qualified(self.spark, self.statement.name)
        self.is_upsert = self.preview is None and is_upsert(self.statement)
        self.table = StreamTable(self.spark, self.name)
        self.sink: Sink = find_sink(self.spark, self.statement) if self.preview is None else Sink("preview", "plain")
        if self.is_upsert:
            self._check_server("changes applied to", self.statement.span("USING"))
        check_path(self.statement.text, self.statement.span("USING"), self.sink.format, self.path)
        catalog = str(self.spark.conf.get("spark.sql.catalog.spark_catalog", ""))
        check_catalog(self.statement.text, self.statement.span("NAME"), self.sink.format, self.name, catalog)
        self._check_place(self.path, "OPTIONS")
        self._check_place(self.statement.checkpoint or "", "CHECKPOINT")
        if self.to_path:
            self.sink = replace(self.sink, kind="plain")
        if self.is_upsert and self.sink.kind == "files":
            self.table = FileVersions(self.spark, self.name, self.path)

    def start(self) -> RunningQuery | None:
        """Start it; None where IF NOT EXISTS finds it running.

        Raises:
            TemporalSqlError: it cannot be started, or ends at once.
        """
        running = queries_of(self.spark).find(self.name.shown)
        if running is not None and running.query.isActive:
            if self.statement.if_not_exists:
                return None
            if not self.statement.replace:
                raise self._refused("STREAMING.ALREADY_RUNNING", name=self.name.shown)
            queries_of(self.spark).check_may_end(self.spark, running)
        if not _NAME.fullmatch(self.name.parts[-1]):
            raise self._refused("STREAMING.NAME", "NAME", name=self.name.parts[-1])
        live = self._lowered()
        if self.sink.format == "delta":
            self.table.find_delta(self.path)
        if running is not None and self.statement.replace:
            running.stop()
        checkpoint = self._prepare(live)
        try:
            self._make_table(live, checkpoint)
            self._log_what_wrote_nothing(checkpoint, live.frame.schema)
            self._read_history(live, checkpoint)
            query = self._run(live, checkpoint)
        except Exception:
            if checkpoint is not None and self.is_new:
                self._remove(checkpoint)
            raise
        self._wait_for_start(query)
        keeper = queries_of(self.spark).keeper
        if keeper is not None:
            keeper.started(self.spark, self.statement, query)
        return query

    def _lowered(self) -> LiveQuery:
        self.changelog, self.backfilling = self.where_changelogs_are(), self._backfilling()
        beyond = NO_HISTORIES if self.backfilling is None else self.backfilling.beyond
        live = self.lower(self.tasks, self.changelog, beyond)
        self.notes += live.plan.notes
        if not live.frame.isStreaming:
            raise UnsupportedError("STREAMING.NOT_LIVE", self.statement.text, self.statement.span("AS"))
        if live.late:
            self._check_server("LATE TO beside", late_span(self.statement.text) or self.statement.span("AS"))
        if self.is_upsert:
            check_upsert(self.statement, self.sink, live)
        return live

    def where_changelogs_are(self) -> ChangelogFolder | None:
        """Where the changelogs go; None is Spark's state store. A checkpoint stays with what it began with."""
        asked, checkpoint = chosen(self.spark, self.statement.text), self._checkpoint()
        stored = None if checkpoint is None else self._goes_on_from(checkpoint)
        # With one executor a task always meets a worker that has its state.
        wanted = asked or (CHANGELOG if is_local(self.spark) else STORE)
        if (wanted if stored is None else stored.state) == STORE:
            return None
        reason = misfit(self.spark, checkpoint, dict(self.statement.options))
        if not reason:
            assert checkpoint is not None, "said to fit"
            return folder_for(self.spark, checkpoint, stored, self.tasks)
        if stored is not None:
            raise self._refused("STREAMING.STATE_ELSEWHERE", "CHECKPOINT", name=self.name.shown, reason=reason)
        if asked is not None:
            self.notes.append(BACKEND_NOTE.format(name=self.name.shown, reason=reason))
        return None

    def _backfilling(self) -> Backfilling | None:
        """What BACKFILL asks for, as far as its checkpoint has come."""
        if not self.statement.backfills:
            return None
        checkpoint = self._checkpoint()
        check_possible(self.statement, is_remote=is_remote(self.spark), has_checkpoint=checkpoint is not None)
        assert checkpoint is not None, "said to be there"
        is_new = self._goes_on_from(checkpoint) is None
        return Backfilling(self.spark, self.statement, checkpoint.path, is_new=is_new)

    @property
    def tasks(self) -> int:
        """TASKS, or the setting ``sqlx.tasks``."""
        return self.statement.tasks or configured_tasks(self.spark)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """OPTIONS of the format: without ours."""
        return tuple((key, value) for key, value in self.statement.options if key.lower() != MODE_OPTION)

    @property
    def path(self) -> str:
        """The path in OPTIONS, or ""."""
        return next((value for key, value in self.statement.options if key.lower() == "path"), "")

    # checkpoint and tables

    def _prepare(self, live: LiveQuery) -> Checkpoint | None:
        """The checkpoint, written or checked, and the table, made or found."""
        if self.sink.format == "memory" and self.statement.checkpoint:
            hint = "Rows in memory end with the process: leave CHECKPOINT out, or write to files."
            raise self._refused(
                "DEFINITION.CLAUSE_NOT_HERE", "CHECKPOINT", clause="CHECKPOINT", kind="a table in memory", hint=hint
            )
        checkpoint = self._checkpoint()
        if checkpoint is None:
            return None
        if self.statement.replace:
            self._start_anew(checkpoint)
        stored = self._goes_on_from(checkpoint)
        if stored is None and checkpoint.stored() is not None:
            self._remove(checkpoint)
        wanted = self._identity(live, stored)
        self.location = wanted.location
        if stored is None:
            self._refuse_leftovers()
            checkpoint.write(wanted)
            self.is_new = True
        else:
            self.is_moved = goes_elsewhere(stored, wanted)
            if checkpoint.check(stored, wanted, lambda: self._misfit(live)):
                self._add_columns(live)
                self._make_table(live, checkpoint)  # first: a checkpoint of a sink has its table
                checkpoint.write(wanted)
                self._say_what_changed(stored, wanted)
        return checkpoint

    def _say_what_changed(self, stored: Identity, wanted: Identity) -> None:
        if stored.query.split() != wanted.query.split():
            self.notes.append(EDITED.format(name=self.name.shown))
        if self.is_moved:
            before, now = (" in ".join(filter(None, (one.sink, one.location))) for one in (stored, wanted))
            self.notes.append(MOVED.format(name=self.name.shown, now=now, before=before))
        if further := further_columns(stored, wanted):
            self.notes.append(FURTHER.format(names=", ".join(f"`{name}`" for name in further)))

    def _misfit(self, live: LiveQuery) -> str:
        """Why the rows of an edited query do not fit into the table of those before; "" where they do."""
        if live.plan.result.shape != "append":
            return "its result is the changes of a table, and those of before would not be taken back"
        why = self._occupied() if self.is_moved else ""
        if why or self.sink.kind == "plain" or not self.table.exists:
            return why
        have, given = self.table.columns, columns_of(live.frame.schema)
        if have == given[: len(have)] and (self.sink.format in BY_NAME or have == given):
            return ""
        shown = (", ".join(f"{column.name} {column.type}" for column in columns) for columns in (have, given))
        return "the columns of its table are {}, and these rows would have {}".format(*shown)

    def _occupied(self) -> str:
        """Why rows cannot go to another sink or place from now on; "" where they can."""
        is_of_files = self.sink.file_format is not None
        if is_of_files and is_remote(self.spark):
            return "a client of Spark Connect cannot begin files with a later micro-batch than the first"
        if self.sink.kind != "plain" and self.table.exists:
            if self.table.is_of(self.sink.format, self.location):
                return ""
            return f"the table {self.name.shown} is there and holds what it wrote before; copy its rows and drop it"
        if is_of_files and self.table.has_files(self.location):  # its log may have the numbers of micro-batches to come
            return f"{folder_of(self.spark, self.location).shown} has the files of a stream already"
        return ""

    def _add_columns(self, live: LiveQuery) -> None:
        """Give the table the further columns of an edited query."""
        if self.sink.kind != "plain" and self.table.exists:
            self.table.add_columns(columns_of(live.frame.schema)[len(self.table.columns) :])

    def _log_what_wrote_nothing(self, checkpoint: Checkpoint | None, schema: StructType) -> None:
        """Micro-batches that moved state or wrote elsewhere: Spark's log of files wants to hear of every number."""
        if checkpoint is None or self.is_upsert or self.sink.file_format is None or is_remote(self.spark):
            return
        log_until(self.spark, self.location, self.sink.file_format, schema, checkpoint.last_batch)

    def _goes_on_from(self, checkpoint: Checkpoint) -> Identity | None:
        """The query before, whose state and results this one goes on from; None where it begins anew."""
        stored = None if self.statement.replace else checkpoint.stored()
        return None if stored is None or self._left_nothing(checkpoint, stored) else stored

    def _left_nothing(self, checkpoint: Checkpoint, stored: Identity) -> bool:
        """Whether the query before failed in its first micro-batch: the corrected one may begin in its place."""
        if stored.table != self.name.shown or checkpoint.has_results or self.sink.kind == "table":
            return False
        return not stored.location or not self.table.has_files(stored.location)

    def _remove(self, checkpoint: Checkpoint) -> None:
        if self.table.checkpoint == checkpoint.path:
            self.table.drop()
        checkpoint.folder.delete()

    def _refuse_leftovers(self) -> None:
        """A new stream over an old table would pass over its first batch ids, or mix with other rows."""
        if self.sink.kind != "plain" and self.table.exists:
            raise self._exists()
        if self.sink.kind == "files" and self.table.has_files():
            raise self._refused("STREAMING.FILES_EXIST", name=self.name.shown, path=self.table.location)

    def _checkpoint(self) -> Checkpoint | None:
        path = self.statement.checkpoint
        if not path:
            if self.sink.format in PASSING or self.preview is not None:
                return None
            path = usual_checkpoint(self.spark, self.name)
        return Checkpoint(self.spark, self.statement, path)

    def _identity(self, live: LiveQuery, stored: Identity | None) -> Identity:
        location = ""
        if self.sink.file_format is not None and self.path:
            location = folder_of(self.spark, self.path).path
        elif self.sink.kind == "files":
            location = (stored.location if stored is not None else "") or self.table.location
        meaning = meaning_of(SparkCatalog(self.spark), self.statement.query)
        sink = f"{self.sink.format}{UPSERTED}" if self.is_upsert else self.sink.format
        query, name, changelog = self.statement.query, self.name.shown, self.changelog
        state, partitions = (STORE, 0) if changelog is None else (CHANGELOG, changelog.partitions)
        start, end = self.statement.span("BACKFILL")
        backfill = " ".join(self.statement.text[start:end].split()) if self.statement.backfills else ""
        return Identity(
            query,
            live.fingerprint,
            self.tasks,
            name,
            sink,
            location,
            meaning,
            live.operators,
            state,
            partitions,
            backfill,
            live.held,
        )

    def _start_anew(self, checkpoint: Checkpoint) -> None:
        """OR REPLACE: the table and the checkpoint go."""
        stored = checkpoint.stored()
        if stored is not None and stored.table != self.name.shown:
            raise self._refused(
                "STREAMING.CHECKPOINT_OTHER_QUERY",
                "CHECKPOINT",
                path=checkpoint.folder.shown,
                difference=f"it is that of `{stored.table}`, this is `{self.name.shown}`",
                name=self.name.shown,
            )
        if self.sink.kind != "plain" and self.table.exists and not self.table.checkpoint:
            raise self._exists()
        if stored is None and not self.table.exists:
            return
        if self.sink.kind != "plain":
            self.table.drop()
        checkpoint.folder.delete()
        self.notes.append(
            f"OR REPLACE: dropped the table {self.name.shown} and its checkpoint {checkpoint.folder.shown}; "
            "the query reads its sources from their beginning."
        )

    def _make_table(self, live: LiveQuery, checkpoint: Checkpoint | None) -> None:
        statement = self.statement
        if checkpoint is None or self.sink.kind == "plain":
            return
        if self.table.exists:
            kept = self.table.checkpoint
            if kept != checkpoint.path and (kept or self.name.is_in_session_catalog):
                raise self._exists()
            return
        has_files = self.sink.kind == "files" and self.table.has_files(self.location)
        if checkpoint.has_results and not has_files and not self.is_moved:
            raise self._refused(
                "STREAMING.CHECKPOINT_WITHOUT_TABLE", name=self.name.shown, path=checkpoint.folder.shown
            )
        location = self.location if has_files and not self.path else ""
        schema = table_schema(live) if self.is_upsert else live.frame.schema
        try:
            self.table.create(schema, self.sink.format, checkpoint.path, self.options, statement.properties, location)
        except PySparkException as error:
            raise self._sink_refused(error) from error

    # the history

    def _read_history(self, live: LiveQuery, checkpoint: Checkpoint | None) -> None:
        """Let the query read what is history first, slice by slice; then its checkpoint is that of its sources."""
        backfilling = self.backfilling
        if backfilling is None or checkpoint is None:
            return
        if not backfilling.is_over:
            backfilling.prepare()
            history = self.lower(self.tasks, self.changelog, backfilling.instead)
            backfilling.check(history.frame)
            with self._at_once():
                for _ in backfilling.passes():
                    running = self._run(history, checkpoint)
                    self.is_new = False  # there is something that a next start goes on from
                    self._wait_for_start(running)
            self.notes.append(backfilling.note(self.name.shown))
        backfilling.hand_over(checkpoint, live.frame)

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """Within it a query reads what is there, and is waited for."""
        statement, waits = self.statement, self.waits
        self.statement, self.waits = replace(statement, trigger=Trigger(available_now=True)), True
        try:
            yield
        finally:
            self.statement, self.waits = statement, waits

    # the query

    def _run(self, live: LiveQuery, checkpoint: Checkpoint | None) -> RunningQuery:
        outputs = late_outputs(self, live, checkpoint)
        listen(self.spark)
        show_on_ui(self.spark)
        path = None if checkpoint is None else checkpoint.path
        conf = start_conf(self.spark, path, has_changelogs=self.changelog is not None)
        with settings(self.spark, {**live.conf, **conf}):
            try:
                query = begin(self, live, outputs, checkpoint)
            except TemporalSqlError:
                raise
            except PySparkException as error:
                raise self._start_refused(error) from error
        running = RunningQuery(
            name=self.name.shown,
            sink=self.sink.format,
            checkpoint="" if checkpoint is None else checkpoint.folder.shown,
            trigger=self.statement.trigger,
            query=query,
            watched=engine_of(self.spark).watched(query),
            failures=self.failures,
            tables=(*([self.name.quoted] if self.sink.kind == "files" else []), *(late.table for late in outputs)),
        )
        if self.statement.trigger.available_now and any(node.idle_us is not None for node in live.plan.operators()):
            running.end_when_read()
        if self.changelog is not None:
            running.changelog, running.totals.partitions = self.changelog.path, self.changelog.partitions
            running.blobs = self.changelog.blobs.path if self.changelog.blobs is not None else ""
        else:
            running.placement = engine_of(self.spark).placement(query)
        queries = queries_of(self.spark)
        running.owner = self.owner or queries.user_of(self.spark)
        running.start_again = replace(self, statement=replace(self.statement, replace=False), owner=running.owner).start
        queries.add(running)
        return running

    def _wait_for_start(self, running: RunningQuery) -> None:
        """Until it looks at its sources: what is wrong with them, or with the checkpoint, comes out here."""
        waited = Event()
        while running.is_starting():
            waited.wait(running.watched.look_seconds)
        if self.statement.trigger.available_now and self.waits:
            running.wait()
        error = running.error()
        if error is not None:
            raise error

    # what may be wrong

    def _check_place(self, path: str, at: str) -> None:
        """Clients of a server write in its folders only: no plan of Spark's shows where a stream writes."""
        found = queries_of(self.spark).outside(self.spark, path) if path else None
        if found is not None:
            raise self._refused("SERVE.REFUSED", at if at in self.statement.spans else "NAME", what=f"files in {found}")

    def _refused(self, condition: str, at: str = "NAME", /, **parameters: object) -> RunError:
        return RunError(condition, self.statement.text, self.statement.span(at), **parameters)

    def _exists(self) -> BindError:
        statement = self.statement
        return BindError("STREAMING.TABLE_EXISTS", statement.text, statement.span("NAME"), name=self.name.shown)

    def _check_server(self, what: str, span: tuple[int, int]) -> None:
        """What is written micro-batch by micro-batch a server can write to tables that keep the number of each."""
        if is_remote(self.spark) and not keeps_batches(self.sink.format):
            what = f"{what} a table of {self.sink.format}, which keeps no number of a micro-batch"
            raise UnsupportedError("UNSUPPORTED.CONNECT", self.statement.text, span, what=what)

    def _start_refused(self, error: PySparkException) -> Exception:
        statement, reason = self.statement, analysis_error(error)
        if _CHANGING in str(error.getCondition()):
            span = statement.span("USING") if "USING" in statement.spans else statement.span("NAME")
            return UnsupportedError(
                "STREAMING.ROWS_CHANGE", statement.text, span, format=self.sink.format, reason=reason
            )
        if error.getCondition() in _NOT_ON_STREAMS:
            span = (statement.query_start, len(statement.text.rstrip().rstrip(";")))
            return UnsupportedError("STREAMING.NOT_ON_STREAMS", statement.text, span, reason=str(reason).rstrip(";"))
        return self._sink_refused(error)

    def _sink_refused(self, error: PySparkException) -> RunError:
        reason: Any = analysis_error(error)
        return self._refused("STREAMING.SINK", "USING", format=self.sink.format, name=self.name.shown, reason=reason)
