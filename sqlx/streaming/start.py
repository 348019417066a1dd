"""Starts the query of a CREATE STREAMING TABLE: anew, or from where its checkpoint says that it stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from catalog.spark import analysis_error
from sqlx.delta import check_path
from sqlx.errors import BindError, RunError, TemporalSqlError, UnsupportedError
from sqlx.streaming.batches import BatchSink
from sqlx.streaming.checkpoint import Checkpoint, Identity
from sqlx.streaming.folders import Folder
from sqlx.streaming.late import late_outputs
from sqlx.streaming.listening import listen
from sqlx.streaming.parse import StreamingTable
from sqlx.streaming.registry import RunningQuery, registry
from sqlx.streaming.settings import settings
from sqlx.streaming.sinks import PASSING, Sink, find_sink
from sqlx.streaming.tables import StreamTable, TableName, qualified
from sqlx.streaming.writing import begin
from udtf.spark.stream_conf import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.lower_stream import LiveQuery

_LOOK_SECONDS = 0.02
_CHANGING = ("STREAMING_OUTPUT_MODE", "_LEGACY_ERROR_TEMP_3102")


@dataclass
class Starter:
    """One start of one query.

    Args:
        spark: the session.
        statement: what was written.
        lower: from the number of TASKS to the query, lowered.
        preview: a sink of the caller's own, in the place of the one that USING names.
        to_path: files go to the path in OPTIONS, without a table over them.
        waits: whether AVAILABLE NOW waits for the end.
    """

    spark: SparkSession
    statement: StreamingTable
    lower: Callable[[int], LiveQuery]
    preview: BatchSink | None = None
    to_path: bool = False
    waits: bool = True
    notes: list[str] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    is_new: bool = field(default=False, init=False)
    location: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.name: TableName = qualified(self.spark, self.statement.name)
        self.table = StreamTable(self.spark, self.name)
        self.sink: Sink = find_sink(self.spark, self.statement) if self.preview is None else Sink("preview", "plain")
        check_path(self.statement.text, self.statement.span("USING"), self.sink.format, self.path)
        if self.to_path:
            self.sink = replace(self.sink, kind="plain")

    def start(self) -> RunningQuery | None:
        """Start it; None where IF NOT EXISTS finds it running.

        Raises:
            TemporalSqlError: it cannot be started, or ends at once.
        """
        running = registry(self.spark.sparkContext).find(self.name.shown)
        if running is not None and running.query.isActive:
            if self.statement.if_not_exists:
                return None
            if not self.statement.replace:
                raise self._refused("STREAMING.ALREADY_RUNNING", name=self.name.shown)
        live = self.lower(self.tasks)
        self.notes += live.plan.notes
        if not live.frame.isStreaming:
            raise UnsupportedError("STREAMING.NOT_LIVE", self.statement.text, self.statement.span("AS"))
        if running is not None and self.statement.replace:
            running.stop()
        checkpoint = self._prepare(live)
        try:
            self._make_table(live, checkpoint)
            query = self._run(live, checkpoint)
        except Exception:
            if checkpoint is not None and self.is_new:
                self._remove(checkpoint)
            raise
        self._wait_for_start(query)
        keeper = registry(self.spark.sparkContext).keeper
        if keeper is not None:
            keeper.started(self.spark, self.statement, query)
        return query

    @property
    def tasks(self) -> int:
        """TASKS, or the setting ``sqlx.tasks``."""
        return self.statement.tasks or configured_tasks(self.spark)

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
        stored = checkpoint.stored()
        if stored is not None and self._left_nothing(checkpoint, stored):
            self._remove(checkpoint)
            stored = None
        wanted = self._identity(live, stored)
        if stored is None:
            self._refuse_leftovers()
            checkpoint.write(wanted)
            self.is_new = True
        else:
            checkpoint.check(stored, wanted)
        self.location = wanted.location
        return checkpoint

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
            database = "" if self.name.parts[-2] == "default" else f"{self.name.parts[-2]}."
            path = f"{self.spark.conf.get('spark.sql.warehouse.dir')}/_checkpoints/{database}{self.name.parts[-1]}"
        return Checkpoint(self.spark, self.statement, path)

    def _identity(self, live: LiveQuery, stored: Identity | None) -> Identity:
        location = ""
        if self.sink.file_format is not None and self.path:
            location = Folder(self.spark, self.path).path
        elif self.sink.kind == "files":
            location = stored.location if stored is not None else self.table.location
        return Identity(self.statement.query, live.fingerprint, self.tasks, self.name.shown, self.sink.format, location)

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
            if self.name.is_in_session_catalog and self.table.checkpoint != checkpoint.path:
                raise self._exists()
            return
        has_files = self.sink.kind == "files" and self.table.has_files(self.location)
        if checkpoint.has_results and not has_files:
            raise self._refused(
                "STREAMING.CHECKPOINT_WITHOUT_TABLE", name=self.name.shown, path=checkpoint.folder.shown
            )
        location = self.location if has_files and not self.path else ""
        try:
            self.table.create(
                live.frame.schema, self.sink.format, checkpoint.path, statement.options, statement.properties, location
            )
        except PySparkException as error:
            raise self._sink_refused(error) from error

    # the query

    def _run(self, live: LiveQuery, checkpoint: Checkpoint | None) -> RunningQuery:
        outputs = late_outputs(self, live, checkpoint)
        listen(self.spark)
        with settings(self.spark, live.conf):
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
            failures=self.failures,
            tables=(*([self.name.quoted] if self.sink.kind == "files" else []), *(late.table for late in outputs)),
        )
        registry(self.spark.sparkContext).add(running)
        return running

    def _wait_for_start(self, running: RunningQuery) -> None:
        """Until it looks at its sources: what is wrong with them, or with the checkpoint, comes out here."""
        waited = Event()
        while running.is_starting():
            waited.wait(_LOOK_SECONDS)
        if self.statement.trigger.available_now and self.waits:
            running.wait()
        error = running.error()
        if error is not None:
            raise error

    # what may be wrong

    def _refused(self, condition: str, at: str = "NAME", /, **parameters: object) -> RunError:
        return RunError(condition, self.statement.text, self.statement.span(at), **parameters)

    def _exists(self) -> BindError:
        statement = self.statement
        return BindError("STREAMING.TABLE_EXISTS", statement.text, statement.span("NAME"), name=self.name.shown)

    def _start_refused(self, error: PySparkException) -> Exception:
        if any(condition in str(error.getCondition()) for condition in _CHANGING):
            statement = self.statement
            span = statement.span("USING") if "USING" in statement.spans else statement.span("NAME")
            reason = analysis_error(error)
            return UnsupportedError(
                "STREAMING.ROWS_CHANGE", statement.text, span, format=self.sink.format, reason=reason
            )
        return self._sink_refused(error)

    def _sink_refused(self, error: PySparkException) -> RunError:
        reason: Any = analysis_error(error)
        return self._refused("STREAMING.SINK", "USING", format=self.sink.format, name=self.name.shown, reason=reason)
