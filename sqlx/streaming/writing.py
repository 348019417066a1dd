"""Hands a lowered query to Spark: through Spark's own sink, or micro-batch by micro-batch where there are several."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlx.streaming.batches import BatchSink, BatchWriter, Output
from sqlx.streaming.folders import absolute
from sqlx.streaming.kafka_sink import NOTE, KafkaSink
from sqlx.streaming.sinks import FileSink, NothingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from sqlx.lower_stream import LiveQuery
    from sqlx.streaming.checkpoint import Checkpoint
    from sqlx.streaming.start import Starter


def begin(starter: Starter, live: LiveQuery, late: list[Output], checkpoint: Checkpoint | None) -> StreamingQuery:
    """Start the query.

    Args:
        starter: what is being started.
        live: its query.
        late: further tables; they make it write micro-batch by micro-batch.
        checkpoint: where it keeps how far it is; None is Spark's temporary folder.
    """
    if late or starter.preview is not None:
        frame: DataFrame = live.frame
        rows: Callable[[DataFrame], DataFrame] = _same
        if late and live.fat is not None and live.rows is not None:
            frame, rows = live.fat, live.rows
        outputs = [Output(rows, _batch_sink(starter)), *late]
        return _writer(starter, frame, checkpoint).foreachBatch(BatchWriter(outputs, starter.failures)).start()
    sink, options = starter.sink, starter.statement.options
    if sink.format == "kafka":
        return _records(starter, live, checkpoint)
    writer = _writer(starter, live.frame, checkpoint).format(sink.format).outputMode("append")
    writer = writer.options(**{key: value for key, value in options if key.lower() != "path"})
    if sink.kind != "plain":
        return writer.toTable(starter.name.text)
    return writer.start(absolute(starter.path) if starter.path else None)


def _records(starter: Starter, live: LiveQuery, checkpoint: Checkpoint | None) -> StreamingQuery:
    """Into a topic."""
    sink = KafkaSink(starter.statement, live)
    options = sink.options
    writer = _writer(starter, sink.records(), checkpoint).format("kafka").outputMode("append").options(**options)
    starter.notes.append(NOTE)
    return writer.start()


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


def _batch_sink(starter: Starter) -> BatchSink:
    if starter.preview is not None:
        return starter.preview
    if starter.sink.file_format is None:
        return NothingSink()
    location = absolute(starter.path) if starter.to_path else starter.table.location
    return FileSink(location, starter.sink.file_format, starter.statement.options)


def _same(batch: DataFrame) -> DataFrame:
    return batch
