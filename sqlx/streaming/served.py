"""What a server of Spark Connect is given to write micro-batch by micro-batch."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from sqlx.streaming.lakehouse import TableSink
from sqlx.streaming.upsert import MergeUpsert
from udtf.engine.shipping import carried_function
from udtf.spark.served_batches import BatchTable, ServedWriter, named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from sqlx.streaming.sinks import Output


def served_writer(frame: DataFrame, outputs: Sequence[Output], checkpoint: str) -> Callable[[DataFrame, int], None]:
    """What the server calls for each micro-batch.

    Args:
        frame: the live frame whose micro-batches it gets.
        outputs: what goes where, to tables that keep the numbers of micro-batches.
        checkpoint: the folder of the query's checkpoint.
    """
    view = f"sqlx_batch_{uuid.uuid4().hex}"
    nothing = frame.sparkSession.createDataFrame([], frame.schema)
    with named(nothing, view):
        batch = frame.sparkSession.table(view)
        tables = [_on_server(output, batch) for output in outputs]
    return carried_function(ServedWriter(tables, view, checkpoint))


def _on_server(output: Output, batch: DataFrame) -> BatchTable:
    assert isinstance(output.sink, TableSink | MergeUpsert), "others are refused before"
    return output.sink.on_server(output.rows(batch))
