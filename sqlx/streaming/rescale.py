"""ALTER STREAMING QUERY q SET PARTITIONS n: its tasks are spread over another number of partitions, whole.

The query is stopped between two micro-batches, Spark moves the state of every task to the partition that it is of now
(offline repartition: a micro-batch without rows), and the query goes on. No answer changes: an operator knows tasks
only, and which partition a task is in plays no part.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from catalog.spark import analysis_error
from sqlx.errors import BindError, RunError, UnsupportedError
from sqlx.sql.definitions import QueryCommand, StreamingTable
from sqlx.streaming.backend import CHANGELOG
from sqlx.streaming.checkpoint import Checkpoint, usual_checkpoint
from sqlx.streaming.failures import plain
from sqlx.streaming.identity import Identity
from sqlx.streaming.registry import queries_of
from sqlx.streaming.tables import qualified
from udtf.engine import engine_of, is_remote
from udtf.engine.folders import HadoopFolder
from udtf.engine.java import Py4JJavaError
from udtf.spark.tasks import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Moved:
    """What was done.

    Attributes:
        name: the query.
        before: its partitions until now.
        after: its partitions from now on.
        pause_ms: how long it did not run, or how long the move took of one that did not run.
    """

    name: str
    before: int
    after: int
    pause_ms: int


def rescale(spark: SparkSession, statement: QueryCommand, path: str = "") -> Moved:
    """Move the state of a query.

    Args:
        spark: the session.
        statement: ALTER STREAMING QUERY.
        path: its checkpoint, where it is not that of the query that the statement names.

    Raises:
        TemporalSqlError: there is no such query, or its state cannot be moved. A query that ran runs on in that case.
    """
    _check_engine(spark, statement)
    queries, name = queries_of(spark), qualified(spark, statement.name)
    running = None if path else queries.find(name.shown)
    if running is not None and not running.query.isActive:
        path, running = running.checkpoint, None
    path = path or (running.checkpoint if running is not None else usual_checkpoint(spark, name))
    checkpoint = Checkpoint(
        spark, StreamingTable(statement.name, statement.text, {"NAME": statement.span}, "", 0), path
    )
    stored = checkpoint.stored()
    before = None if stored is None else stored.partitions or _partitions(spark, checkpoint)
    if stored is None or before is None:
        raise BindError("STREAMING.NO_STATE", statement.text, statement.span, name=name.shown, suggestion="")
    _check_count(statement, stored)
    if stored.state != CHANGELOG or checkpoint.has_store:
        _check_moves(spark, statement)
    if before == statement.partitions and (stored.state == CHANGELOG or not _is_unfinished(spark, checkpoint)):
        return Moved(stored.table, before, before, 0)
    began = time.monotonic()
    if running is None:
        _move(spark, statement, checkpoint, stored)
    else:
        queries.check_may_end(spark, running)
        running.stop()
        try:
            _move(spark, statement, checkpoint, stored)
        finally:
            running.start_again()
    return Moved(stored.table, before, statement.partitions, int((time.monotonic() - began) * 1000))


def _check_engine(spark: SparkSession, statement: QueryCommand) -> None:
    whole = (0, len(statement.text.rstrip().rstrip(";")))
    if is_remote(spark):
        what = "ALTER STREAMING QUERY: the protocol has no word for it"
        raise UnsupportedError("UNSUPPORTED.CONNECT", statement.text, whole, what=what)


def _check_moves(spark: SparkSession, statement: QueryCommand) -> None:
    """What Spark keeps itself, Spark has to move."""
    whole = (0, len(statement.text.rstrip().rstrip(";")))
    if not engine_of(spark).moves_state:
        raise UnsupportedError("UNSUPPORTED.RESCALE", statement.text, whole, version=spark.version)


def _check_count(statement: QueryCommand, stored: Identity) -> None:
    if statement.partitions > stored.tasks:
        found = {"name": stored.table, "tasks": stored.tasks, "found": statement.partitions}
        raise BindError("STREAMING.PARTITIONS", statement.text, statement.partitions_span, **found)


def _move(spark: SparkSession, statement: QueryCommand, checkpoint: Checkpoint, stored: Identity) -> None:
    if stored.state == CHANGELOG:  # a task's changelog is read by whoever has the task
        checkpoint.write(replace(stored, partitions=statement.partitions))
        if not checkpoint.has_store:
            return
    try:
        engine_of(spark).repartition(checkpoint.path, statement.partitions)
    except (PySparkException, Py4JJavaError) as error:
        java = getattr(error, "java_exception", None)
        reason = plain(str(java.getMessage())) if java is not None else analysis_error(error)
        raise RunError("STREAMING.RESCALE", statement.text, statement.span, name=stored.table, reason=reason) from error


def _partitions(spark: SparkSession, checkpoint: Checkpoint) -> int | None:
    """Over how many partitions a query is spread, as its last finished micro-batch says; None where there was none."""
    last = checkpoint.last_batch
    text = HadoopFolder(spark, f"{checkpoint.path}/offsets").read(str(last)) if last >= 0 else None
    lines = (text or "").splitlines()
    return int(json.loads(lines[1])["conf"][PARTITIONS]) if len(lines) > 1 else None


def _is_unfinished(spark: SparkSession, checkpoint: Checkpoint) -> bool:
    """Whether a micro-batch was begun, perhaps one that moves the state, and not finished."""
    return str(checkpoint.last_batch + 1) in HadoopFolder(spark, f"{checkpoint.path}/offsets").names()
