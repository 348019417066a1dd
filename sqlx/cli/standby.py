"""``sqlx run --stream --standby``: a second driver that is ready to go on where the first one dies."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.statements import absolute, literal
from sqlx.cli.output import note
from sqlx.cli.scripts import Script, Statement, error_place, is_definition
from sqlx.failures import CommandError
from sqlx.spark.workers import warm
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming.following import FollowedStream, Following
from sqlx.streaming.lease import Lease
from sqlx.streaming.registry import queries_of
from udtf.engine.folders import LEASE, HadoopFolder
from udtf.spark.tasks import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stand_by(spark: SparkSession, scripts: Sequence[Script], checkpoint: str) -> tuple[Lease, list[Script]]:
    """Get ready to run the streams of scripts, and wait until no other process does.

    Definitions are carried out, queries are compiled, workers are started, and states are read as the other process
    writes them: what is left is to start.

    Args:
        spark: the session.
        scripts: definitions and streaming tables.
        checkpoint: the folder of ``--checkpoint``, or "".

    Returns:
        What this process holds from now on, and the streams that it is to start.

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
    followed = []
    for made in streams:
        _, operators = statements_of(spark).stateful(made.query, made.tasks or configured_tasks(spark), None)
        followed.append(FollowedStream(spark, made, made.checkpoint, operators))
    warm(spark)
    _rehearse(spark, streams[0].checkpoint)
    lease = Lease(spark, streams[0].checkpoint)
    with Following(followed, note):
        lease.wait(lambda holder: note(f"Standing by: {holder.shown} runs the streams of this script."))
    note("Active: this process runs the streams.")
    return lease, kept


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


def _rehearse(spark: SparkSession, checkpoint: str) -> None:
    """Run a stream of one row from its start to its end: a JVM takes seconds longer for its first one.

    Args:
        spark: the session.
        checkpoint: of the stream that is stood by for; the rehearsal is in the folder of its lease.
    """
    place = f"{absolute(checkpoint)}/{LEASE}/rehearsal_{uuid.uuid4().hex}"
    rows, name = f"{place}/rows", "__sqlx_rehearsal"
    try:
        spark.range(1).selectExpr("id", "timestamp_micros(0) AS ts").write.parquet(rows)
        spark.sql(
            f"CREATE TEMPORARY STREAM {name}_rows (id BIGINT, ts TIMESTAMP) USING parquet "
            f"OPTIONS (path {literal(rows)}) TIMESTAMP BY ts"
        )
        spark.sql(
            f"CREATE STREAMING TABLE {name} USING noop CHECKPOINT {literal(f'{place}/checkpoint')} "
            f"TRIGGER (AVAILABLE NOW) TASKS 2 AS SELECT id FROM {name}_rows DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)"
        )
        spark.sql(f"DROP STREAM {name}_rows")
        queries_of(spark).forget(name)
    finally:
        HadoopFolder(spark, place).delete()
