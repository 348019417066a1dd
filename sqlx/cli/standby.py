"""``sqlx run --stream --standby``: a second driver that is ready to go on where the first one dies."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from catalog.statements import absolute
from sqlx.cli.output import note
from sqlx.cli.scripts import Script, Statement, error_place, is_definition
from sqlx.failures import CommandError
from sqlx.spark.histories import (
    NO_HISTORIES,
    Histories,
    StandIn,
    from_slices,
    of_slices,
    place_of,
    rows_of_history,
)
from sqlx.spark.workers import warm
from sqlx.sql.definitions import StreamingTable, Trigger, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.following import FollowedStream, Following
from sqlx.streaming.lease import Lease
from sqlx.streaming.registry import queries_of
from sqlx.streaming.sources import sources_of
from sqlx.streaming.start import Lowered, Starter
from udtf.engine.folders import LEASE, HadoopFolder
from udtf.engine.java import Py4JJavaError
from udtf.spark.tasks import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from catalog.entries import Entry
    from sqlx.spark.stream import LiveQuery
    from udtf.stream.spec import ChangelogFolder

#: Micro-batches: Java compiles what it runs again and again.
_REHEARSED: Final = 4
_log = logging.getLogger("sqlx")


def stand_by(spark: SparkSession, scripts: Sequence[Script], checkpoint: str) -> Stood:
    """Get ready to run the streams of scripts, and wait until no other process does.

    Definitions are carried out, queries are compiled, workers are started, and states are read as the other process
    writes them: what is left is to start.

    Args:
        spark: the session.
        scripts: definitions and streaming tables.
        checkpoint: the folder of ``--checkpoint``, or "".

    Raises:
        CommandError: there is no stream with a checkpoint, one would begin anew, or a statement would write.
    """
    from sqlx.sessions.session import statements_of

    streams, kept = [], []
    for script in scripts:
        for statement in script.statements:
            made = parse_streaming(statement.text, tokenize(statement.text))
            with error_place(statement):
                if isinstance(made, StreamingTable):
                    streams.append(_checked(statement, made, checkpoint))
                    kept.append(Script((statement,)))
                    continue
                if not is_definition(statement.text):
                    msg = f"{statement.place}: a script that stands by holds definitions and streaming tables only."
                    raise CommandError(msg, "Every process that stands by would run it: move it to another script.")
                spark.sql(statement.text)
    if not streams:
        msg = "There is nothing to stand by for: no CREATE STREAMING TABLE."
        raise CommandError(msg)
    followed, prepared = [], {}
    for made in streams:
        _, operators = statements_of(spark).stateful(made.query, made.tasks or configured_tasks(spark), None)
        followed.append(FollowedStream(spark, made, made.checkpoint, operators))
        prepared[made.text] = _Prepared(partial(statements_of(spark).live, made))
    warm(spark)
    for made in streams:
        _rehearse(spark, made)
        prepared[made.text].of(Starter(spark, made, prepared[made.text]))
    lease = Lease(spark, streams[0].checkpoint)
    with Following(followed, note):
        lease.wait(lambda holder: note(f"Standing by: {holder.shown} runs the streams of this script."))
    note("Active: this process runs the streams.")
    return Stood(lease, kept, prepared)


@dataclass
class _Prepared:
    """Lowers a query, and gives what was lowered when it stood by where that is what is asked for.

    Args:
        lower: of the statement.
    """

    lower: Lowered
    _found: dict[tuple[int, ChangelogFolder | None], LiveQuery] = field(default_factory=dict)

    def of(self, starter: Starter) -> None:
        """Lower it as its start would."""
        asked = starter.tasks, starter.where_changelogs_are()
        self._found[asked] = self.lower(*asked, NO_HISTORIES)
        self._found[asked].frame  # noqa: B018  # analysed when it is asked for first

    def __call__(self, tasks: int, changelog: ChangelogFolder | None, histories: Histories) -> LiveQuery:
        """The query, lowered."""
        found = self._found.get((tasks, changelog)) if not histories else None
        return found or self.lower(tasks, changelog, histories)


@dataclass(frozen=True)
class Stood:
    """What a process has that stood by.

    Attributes:
        lease: what it holds from now on.
        scripts: the streams that it is to start.
        prepared: what lowers them, by the text of the statement.
    """

    lease: Lease
    scripts: list[Script]
    prepared: Mapping[str, Lowered]


def _checked(statement: Statement, made: StreamingTable, checkpoint: str) -> StreamingTable:
    """A stream that several processes may run one after the other."""
    if checkpoint and not made.checkpoint:
        made = replace(made, checkpoint=f"{checkpoint}/{made.name[-1]}")
    if made.replace:
        msg = f"{statement.place}: OR REPLACE would begin anew whenever a process takes over."
        raise CommandError(msg, "Leave OR REPLACE out.")
    if not made.checkpoint:
        msg = f"{statement.place}: a stream that is stood by for needs a CHECKPOINT that all processes see."
        raise CommandError(msg, "Write CHECKPOINT 'folder' in the statement, or --checkpoint DIR.")
    return made


def _rehearse(spark: SparkSession, made: StreamingTable) -> None:
    """Run a stream over one row from its start to its end: a JVM takes seconds longer for its first one.

    Args:
        spark: the session.
        made: the stream. The rehearsal is in the folder of its lease; a row of NULLs is in the place of its sources.
    """
    from sqlx.sessions.session import statements_of

    statements = statements_of(spark)
    sources = list(sources_of(statements.catalog, made.query))
    if any(source.entry is None for source in sources):
        return  # its rows would be those of today
    place, name = f"{absolute(made.checkpoint)}/{LEASE}/rehearsal_{uuid.uuid4().hex}", "__sqlx_rehearsal"
    try:
        instead = {
            place_of(statements.catalog, source.name): _row_of_nulls(spark, source.entry, f"{place}/{number}")
            for number, source in enumerate(sources)
            if source.is_first and source.entry is not None
        }
        once = replace(
            made,
            name=(name,),
            using="noop",
            options=(),
            properties=(),
            backfills=(),
            checkpoint=f"{place}/checkpoint",
            trigger=Trigger(available_now=True),
        )
        Starter(
            spark, once, lambda tasks, changelog, _: statements.live(once, tasks, changelog, histories=instead)
        ).start()
        queries_of(spark).forget(name)
    except (PySparkException, Py4JJavaError) as error:  # it was but a rehearsal
        _log.debug("the stream cannot be rehearsed: %s", error)
    finally:
        HadoopFolder(spark, place).delete()


def _row_of_nulls(spark: SparkSession, entry: Entry, path: str) -> StandIn:
    schema = of_slices(spark.sql(rows_of_history(entry, entry.relation, None)).schema)
    row = spark.createDataFrame([(None,) * len(schema)], schema).coalesce(1)
    for _ in range(_REHEARSED):
        row.write.mode("append").parquet(path)
    return from_slices(path, schema)
