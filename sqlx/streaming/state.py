"""What a streaming query keeps, as a relation: state('query') reads the last micro-batch that its checkpoint has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from catalog.spark import analysis_error
from sqlx.errors import BindError, RunError, did_you_mean
from sqlx.sql.definitions import StreamingTable
from sqlx.streaming.backend import changelog_path
from sqlx.streaming.checkpoint import Checkpoint, usual_checkpoint
from sqlx.streaming.identity import Identity
from sqlx.streaming.registry import queries_of
from sqlx.streaming.tables import folder_of, qualified
from udtf.engine import engine_of, is_remote
from udtf.spark.kept import ROWS, VERSIONS, kept_in_folder, reader_of
from udtf.stream.folder_log import tasks_in
from udtf.stream.log import Head

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from udtf.spark.kept import Stateful


#: From a query, its tasks and how its windows are aggregated, to the fingerprint and the operators that it has.
StatefulOf = Callable[[str, int, "str | None"], "tuple[str, Sequence[Stateful]]"]

#: What of a key is not valid any more when its next version begins.
_RELATION = f"""
SELECT operator, task, kept, key, value, valid_from, valid_to FROM (
  SELECT *, time AS valid_from,
    CASE WHEN kept = '{VERSIONS}' THEN lead(time) OVER (PARTITION BY operator, task, kept, key ORDER BY time, place) END
      AS valid_to
  FROM {{rows}}
) WHERE NOT gone
"""
_OURS = "transformWithStateInPandas"


def state_of(spark: SparkSession, name: str, text: str, span: tuple[int, int], stateful: StatefulOf) -> DataFrame:
    """What a running or a stopped query keeps, as of the last micro-batch that it has committed.

    Args:
        spark: the session; it has the definitions that the query reads.
        name: of the query, or the path of its checkpoint.
        text: the statement that asks.
        span: where in it.
        stateful: what the operators of a query are.

    Returns:
        `operator`, `task`, `kept` (which of its tables), `key` and `value` as JSON, `valid_from` and `valid_to`.

    Raises:
        TemporalSqlError: there is no such query, or its state is not one of these definitions.
    """
    asked = StreamingTable((name,), text, {"NAME": span}, "", 0)
    checkpoint = Checkpoint(spark, asked, _path(spark, name, asked))
    stored = checkpoint.stored()
    if stored is None or not checkpoint.has_results:
        raise _unknown(spark, asked)
    wanted = _stateful_of(stored, stateful, asked)
    frames = _in_store(spark, checkpoint, wanted, asked) + _in_folder(spark, checkpoint, wanted)
    rows = [frame for frame in frames if frame is not None]
    shown = reduce(lambda one, other: one.union(other), rows) if rows else spark.createDataFrame([], ROWS)
    return spark.sql(_RELATION.format(rows="{rows}"), rows=shown)


def _path(spark: SparkSession, name: str, asked: StreamingTable) -> str:
    """The checkpoint of a query by its name, or the one that is named itself."""
    queries = queries_of(spark)
    if "/" in name:
        outside = queries.outside(spark, name)
        if outside is not None:
            raise RunError("SERVE.REFUSED", asked.text, asked.span("NAME"), what=f"files in {outside}")
        return name
    table = qualified(spark, name)
    running = queries.find(table.shown)
    if running is not None and running.checkpoint:
        return running.checkpoint
    return usual_checkpoint(spark, table)


def _stateful_of(stored: Identity, stateful: StatefulOf, asked: StreamingTable) -> Sequence[Stateful]:
    """The operators of the query that the checkpoint belongs to, with the definitions of now.

    Raises:
        RunError: the query has others now.
    """
    for strategy in (None, "exact", "native"):
        fingerprint, found = stateful(stored.query, stored.tasks, strategy)
        if fingerprint == stored.fingerprint:
            return found
    raise RunError("STREAMING.STATE_OTHER", asked.text, asked.span("NAME"), name=stored.table)


def _in_store(
    spark: SparkSession, checkpoint: Checkpoint, wanted: Sequence[Stateful], asked: StreamingTable
) -> list[DataFrame | None]:
    """What is in Spark's state store, where anything is."""
    if not (is_remote(spark) or checkpoint.has_store):
        return []
    numbers = _operators(spark, checkpoint.path, asked)
    return [_rows(spark, checkpoint.path, number, wanted, asked) for number in numbers]


def _in_folder(spark: SparkSession, checkpoint: Checkpoint, wanted: Sequence[Stateful]) -> list[DataFrame | None]:
    """What is in changelogs beside the checkpoint, where any are."""
    folder = changelog_path(checkpoint)
    if folder is None or is_remote(spark):
        return []
    frames: list[DataFrame | None] = []
    for one in wanted:
        tasks = tasks_in(Path(folder, one.spec.operator))
        if tasks:
            frame = spark.createDataFrame([(task,) for task in tasks], "task INT")
            read = partial(kept_in_folder, one, folder, checkpoint.last_batch)
            frames.append(engine_of(spark).live_rows(frame, read, ROWS))
    return frames


def _operators(spark: SparkSession, path: str, asked: StreamingTable) -> list[int]:
    """The numbers under which Spark keeps the states of our operators."""
    try:
        listed = spark.read.format("state-metadata").load(path).collect()
    except PySparkException as error:
        raise RunError(
            "STREAMING.CHECKPOINT_BROKEN",
            asked.text,
            asked.span("NAME"),
            name=asked.name[0],
            reason=analysis_error(error),
        ) from error
    return sorted({int(row["operatorId"]) for row in listed if str(row["operatorName"]).startswith(_OURS)})


def _rows(
    spark: SparkSession, path: str, operator: int, stateful: Sequence[Stateful], asked: StreamingTable
) -> DataFrame | None:
    """The rows of one operator's tasks; None where none has had a row."""
    reader = spark.read.format("statestore").option("path", path).option("operatorId", operator)
    entries = reader.option("stateVarName", "changelog").load()
    entries = entries.selectExpr("key.slot AS slot", "user_map_key.number AS number", "user_map_value.data AS data")
    head = entries.where("number = 0").select("data").first()
    if head is None:
        return None
    fingerprint = Head.from_bytes(bytes(head[0]), f"operator {operator}").fingerprint
    found_operator = next(
        (found_operator for found_operator in stateful if found_operator.spec.belongs_to == fingerprint), None
    )
    if found_operator is None:
        raise RunError("STREAMING.STATE_OTHER", asked.text, asked.span("NAME"), name=asked.name[0])
    return entries.groupBy("slot").applyInArrow(reader_of(found_operator), ROWS)


def _unknown(spark: SparkSession, asked: StreamingTable) -> BindError:
    queries = queries_of(spark)
    folder = folder_of(spark, f"{spark.conf.get('spark.sql.warehouse.dir')}/_checkpoints")
    known = sorted({*(query.name for query in queries.all()), *folder.names()})
    suggestion = did_you_mean(asked.name[0], known)
    return BindError("STREAMING.NO_STATE", asked.text, asked.span("NAME"), name=asked.name[0], suggestion=suggestion)
