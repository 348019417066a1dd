"""``sqlx run --stream``: a script's last query, or its streaming tables, until they end or somebody stops them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from catalog.definitions import name_parts
from sqlx.cli.output import Result, err, fetch, note, out, show
from sqlx.cli.scripts import Script, Statement, error_place, is_query, run_scripts
from sqlx.cli.standby import stand_by
from sqlx.failures import CommandError, is_lost
from sqlx.sql.definitions import QueryCommand, StreamingTable, Trigger, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.lease import Lease
from sqlx.streaming.registry import RunningQuery, Totals, queries_of
from sqlx.streaming.rescale import rescale
from sqlx.streaming.start import Lowered, Starter
from udtf.engine import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOOK_SECONDS = 0.25
_UNITS = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))
_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@dataclass(frozen=True)
class StreamOptions:
    """What the command line says about streams.

    Attributes:
        checkpoint: the folder of ``--checkpoint``.
        output: ``FORMAT:PATH`` of ``--output``; "" prints the first rows.
        once: read what is there now, then end.
        limit: the most rows to print.
        standby: wait until no other process runs these streams.
        prepared: what lowers streams that were prepared while standing by, by the text of the statement.
    """

    checkpoint: str = ""
    output: str = ""
    once: bool = False
    limit: int = 20
    standby: bool = False
    prepared: Mapping[str, Lowered] = field(default_factory=dict)


@dataclass
class Preview:
    """A sink that counts all rows and keeps the first of them for the terminal."""

    limit: int
    count: int = 0
    last: int = -1
    kept: Result | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Take a micro-batch; all of it is computed, since an operator's state belongs to whole micro-batches."""
        with self.lock:
            if batch_id <= self.last:
                return
            whole = rows.persist()
            self.count += whole.count()
            have = 0 if self.kept is None else len(self.kept.rows)
            found = fetch(whole, self.limit - have) if have < self.limit or self.kept is None else None
            whole.unpersist()
            if found is not None:
                before = () if self.kept is None else self.kept.rows
                self.kept = replace(found, rows=(*before, *found.rows))
            self.last = batch_id

    @property
    def result(self) -> Result | None:
        """What is to be shown."""
        return None if self.kept is None else replace(self.kept, has_more=self.count > len(self.kept.rows))


def run_streams(spark: SparkSession, scripts: Sequence[Script], options: StreamOptions) -> None:
    """Run scripts; their streaming tables and their last query as live streams.

    Args:
        spark: the session.
        scripts: as :func:`sqlx.cli.scripts.read_scripts` gives them.
        options: of the command line.

    Raises:
        CommandError: there is no stream in the scripts.
        typer.Exit: somebody stopped them.
    """
    lease = None
    if options.standby:
        stood = stand_by(spark, scripts, options.checkpoint)
        lease, scripts, options = stood.lease, stood.scripts, replace(options, prepared=stood.prepared)
    statements = [statement for script in scripts for statement in script.statements]
    started: list[RunningQuery] = []
    preview, has_server = Preview(options.limit), True
    try:
        for script in scripts:
            for statement in script.statements:
                with error_place(statement):
                    query = start_stream(spark, statement, statement is statements[-1], options, preview)
                if query is None:
                    run_scripts(spark, [Script((statement,), script.model)], options.limit)
                else:
                    started.append(query)
        if not started:
            msg = "There is no stream to run: --stream runs CREATE STREAMING TABLE, and the last query of a script."
            raise CommandError(msg)
        code = follow(started, lease)
    except Exception as error:
        has_server = not is_lost(error)
        raise
    finally:
        _end(started if has_server else (), lease)
    result = _kept_by_server(spark, started, options.limit) if is_remote(spark) else preview.result
    if result is not None:
        show(result)
    if code:
        raise typer.Exit(code)


@contextmanager
def watchable(spark: SparkSession, port: int | None) -> Iterator[None]:
    """Within it the queries of this process can be watched over HTTP, where a port is given.

    Raises:
        CommandError: the port is taken.
    """
    from sqlx.serving.metrics import MetricsServer

    server = None if port is None else MetricsServer(port, queries_of(spark))
    if server is not None:
        note(f"Streams: {server.url}, and /metrics for Prometheus.")
    try:
        yield
    finally:
        if server is not None:
            server.stop()


def _end(queries: Sequence[RunningQuery], lease: Lease | None) -> None:
    for query in queries:
        query.query.stop()
    if lease is not None:
        lease.release()


def _kept_by_server(spark: SparkSession, started: Sequence[RunningQuery], limit: int) -> Result | None:
    """The first rows of a last query whose rows go nowhere else; None where there was none."""
    in_memory = [query.name for query in started if query.sink == "memory" and not query.checkpoint]
    return fetch(spark.table(in_memory[-1]), limit) if in_memory else None


def stop_leftovers(spark: SparkSession) -> None:
    """Stop the streams that a script without ``--stream`` has started: they end with the command."""
    for query in queries_of(spark).all():
        if query.query.isActive:
            query.stop()
            note(f"{query.name}: stopped with this command; --stream keeps it running.")


def rescale_stopped(spark: SparkSession, query: str, partitions: int) -> None:
    """Move the state of a query that does not run here, and say how long it took.

    Args:
        spark: the session.
        query: its name, or the folder of its checkpoint.
        partitions: how many it is to have.
    """
    path = query if "/" in query else ""
    name = (query.rstrip("/").rpartition("/")[2],) if path else name_parts(query)
    text = f"sqlx rescale {query} {partitions}"
    named = (len("sqlx rescale "), len(text) - len(str(partitions)) - 1)
    moved = rescale(spark, QueryCommand("ALTER", name, text, named, partitions, (named[1] + 1, len(text))), path)
    out.print(f"{moved.name}: {moved.before} → {moved.after} partitions in {moved.pause_ms} ms.")


def start_stream(
    spark: SparkSession, statement: Statement, is_last: bool, options: StreamOptions, preview: Preview
) -> RunningQuery | None:
    """Start a statement as a stream.

    Args:
        spark: the session.
        statement: CREATE STREAMING TABLE, or a query that reads a stream.
        is_last: whether a query is to be run; one before the last only defines what the others read.
        options: where its rows go, and until when it runs.
        preview: takes the rows of a query that go nowhere else.

    Returns:
        The query; None where the statement is no stream.
    """
    from sqlx.sessions.session import statements_of

    text = statement.text
    made = parse_streaming(text, tokenize(text))
    if not isinstance(made, StreamingTable):
        if not (is_last and is_query(text)):
            return None
        made = _as_table(text, options)
    elif options.checkpoint and not made.checkpoint:
        made = replace(made, checkpoint=f"{options.checkpoint}/{made.name[-1]}")
    if options.once:
        made = replace(made, trigger=Trigger(available_now=True))
    is_preview = "OUTPUT" in made.spans and not options.output
    if is_preview and is_remote(spark):  # micro-batches do not come to a client: its server keeps the rows
        made = replace(made, using="memory", checkpoint="")
    starter = Starter(
        spark,
        made,
        options.prepared.get(text) or partial(statements_of(spark).live, made),
        preview=preview if is_preview and not is_remote(spark) else None,
        to_path="OUTPUT" in made.spans,
        waits=False,
    )
    query = starter.start()
    for text in starter.notes:
        note(f"NOTE: {text}")
    return query


def _as_table(text: str, options: StreamOptions) -> StreamingTable:
    """The last query of a script as a streaming table: it has no name, and what it writes is said beside it."""
    format_, _, path = options.output.partition(":")
    if options.output and not format_:
        msg = f"--output takes FORMAT:PATH, found {options.output}."
        raise CommandError(msg, "Write --output parquet:/folder, or leave it out to see the first rows.")
    spans = {"NAME": (0, len(text)), "AS": (0, len(text)), "OUTPUT": (0, 0)}
    checkpoint = options.checkpoint or (f"{path}/_checkpoint" if path else "")
    chosen = (("path", path),) if path else ()
    return StreamingTable(("query",), text, spans, text, 0, using=format_, options=chosen, checkpoint=checkpoint)


def follow(queries: Sequence[RunningQuery], lease: Lease | None = None) -> int:
    """Show how far they are until they end or a signal comes; the exit code.

    Args:
        queries: what runs.
        lease: what this process holds as long as it may run them.

    Raises:
        TemporalSqlError: one of them failed, or another process has taken over.
    """
    with _asked_to_stop() as asked, _line() as bar:
        lines = {query.name: bar.add_task(query.name, total=None, detail="starting") for query in queries}
        while not asked and any(query.query.isActive for query in queries):
            threading.Event().wait(_LOOK_SECONDS)
            if lease is not None:
                lease.check()
            for query in queries:
                bar.update(lines[query.name], detail=summary(query.refresh()))
        if asked:
            bar.update(next(iter(lines.values())), detail="stopping after the running micro-batch")
            for query in queries:
                query.stop()
    for query in queries:
        error = query.error()
        if error is not None:
            if lease is not None:
                lease.check()  # it failed since another process had its micro-batch: that is what is to be said
            raise error
        note(f"{query.name}: {query.status}, {summary(query.refresh())}. {_where(query)}")
    return _CODES[asked[0]] if asked else 0


def _where(query: RunningQuery) -> str:
    if not query.checkpoint:
        return "No checkpoint was kept; --checkpoint DIR keeps one, to go on from."
    return f"The same command goes on from its checkpoint {query.checkpoint}."


@contextmanager
def _asked_to_stop() -> Iterator[list[signal.Signals]]:
    """Within it Ctrl-C and SIGTERM are noted, once; the second one interrupts."""
    asked: list[signal.Signals] = []

    def stop(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(signal.Signals(number))

    before = {number: signal.signal(number, stop) for number in _CODES}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _line() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}: {task.fields[detail]}"), TimeElapsedColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def summary(totals: Totals) -> str:
    """How far a query is, in one line.

    >>> summary(Totals(rows=1234, rows_per_second=56.7))
    '1,234 rows, 57 rows/s, 0 late, state 0 rows (0 bytes)'
    """
    parts = [f"{totals.rows:,} rows", f"{totals.rows_per_second:,.0f} rows/s"]
    lag_us = totals.lag_us()
    if lag_us is not None:
        parts.append(f"event time {span(lag_us)} ago")
    parts.append(f"{totals.sum('late'):,} late")
    parts.append(f"state {totals.state_rows:,} rows ({size(totals.state_bytes)})")
    return ", ".join(parts)


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(10), size(1536)
    ('10 bytes', '1.5 KB')
    """
    return next((f"{count / unit:.1f} {name}" for name, unit in _UNITS if count >= unit), f"{count} bytes")


def span(length_us: int) -> str:
    """A length of time for people.

    >>> span(1_500_000), span(7_200_000_000), span(200_000_000_000_000)
    ('1.5 s', '2.0 h', '2,314.8 days')
    """
    for name, unit in (("days", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000)):
        if abs(length_us) >= (2 * unit if name != "h" else unit):
            return f"{length_us / unit:,.1f} {name}"
    return f"{length_us / 1e6:.1f} s"
