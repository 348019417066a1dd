"""The second host of live operators: rows repartitioned by task, and changelogs in a folder beside the checkpoint.

Spark sees no state here: which segments count follows from the number of the micro-batch that it says (`folder_log`).
What it costs less is what Spark spends on a state store, in each partition of each micro-batch.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udtf.spark.fat_rows import answered, batch_id, blob_files, counters_of, digest_of, inputs_of, query_id
from udtf.spark.tasks import slots
from udtf.spark.workers import begin_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from udtf.logic import StreamEmission
    from udtf.spark.fat_rows import Fat
    from udtf.stream.blob_files import BlobFiles
    from udtf.stream.held_blobs import HeldBlobs
    from udtf.stream.spec import StreamSpec


def run_partition(
    spec: StreamSpec, schemas: Sequence[StructType], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A micro-batch of all tasks of one partition, in a worker.

    Args:
        spec: the operator; it says where the changelogs are.
        schemas: of its inputs.
        batches: fat rows, see `fat_rows.PACKED`.

    Raises:
        StateError: what the changelogs hold is of another query, lacks something, or cannot be written.
    """
    from udtf.columns.updates import of_task
    from udtf.spark.arrow_types import arrow_schema
    from udtf.stream.folder_log import OperatorFolder
    from udtf.stream.held_blobs import HeldBlobs
    from udtf.stream.siblings import of_this_executor
    from udtf.stream.task import TaskRunner

    begin_task()
    assert spec.changelog is not None, "the other host has the state store"
    place = f"operator {spec.operator}"
    folder = OperatorFolder(Path(spec.changelog.path, spec.operator), batch_id(), place)
    folder.check()
    runner = TaskRunner(spec, query_id(), siblings=of_this_executor())
    known = [arrow_schema(schema) for schema in schemas]
    with HeldBlobs() as held, blob_files(spec.changelog.blobs) as files:
        _hold(held, spec.tasks, batches)
        for task in held.tasks:
            packed = held.of(task)
            log = folder.of(task)
            emission = runner.run(task, log, inputs_of(packed, known), digest_of(packed))
            log.finish(_note(emission))
            if spec.gives_updates:
                emission = replace(emission, rows=of_task(emission.rows, task))  # what is kept of it stays
            for rows in answered(emission, spec):
                yield _batch(task, rows, emission, spec, files)
    folder.ran(_number(), spec.changelog.partitions)


def follow_tasks(
    specs: Sequence[StreamSpec], query: str, folder: str, batch: int, places: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Bring the states of a query that another driver runs into the memory of this worker, as of a micro-batch.

    Each worker goes on with the tasks that it has; those that no worker has are shared out.

    Args:
        specs: the operators of the query.
        query: its id.
        folder: of its changelogs.
        batch: the last micro-batch that was committed, or a later one.
        places: how many workers are asked.
        batches: which of them this is.

    Returns:
        The tasks that were read.
    """
    import pyarrow as pa

    from udtf.errors import StateError
    from udtf.stream.folder_log import OperatorFolder, tasks_in
    from udtf.stream.siblings import of_this_executor
    from udtf.stream.task import TaskRunner

    begin_task()
    followed = []
    for place in (place for rows in batches for place in rows.column(0).to_pylist()):
        for spec in specs:
            operator = OperatorFolder(Path(folder, spec.operator), batch + 1, f"operator {spec.operator}")
            runner = TaskRunner(spec, query, siblings=of_this_executor())
            for task in tasks_in(operator.folder):
                try:
                    log = operator.of(task, is_followed=False)
                    followed += [task] if runner.follow(task, log, is_wanted=task % places == place) else []
                except (StateError, FileNotFoundError):
                    continue  # it goes on while it is read, or it is broken, which a run says
    yield pa.RecordBatch.from_pydict({"task": pa.array(followed, pa.int32())})


def _hold(held: HeldBlobs, tasks: int, batches: Iterable[pa.RecordBatch]) -> None:
    from udtf.stream.blobs import bytes_at

    task_of = {slot: task for task, slot in enumerate(slots(tasks))}
    for batch in batches:
        *columns, blobs = batch.columns
        for row, (slot, side, partition, number) in enumerate(zip(*(one.to_pylist() for one in columns), strict=True)):
            held.add(task_of[slot], (side, partition, number), bytes_at(blobs, row))


def _number() -> int:
    """What tells this partition from the others of its stage, at each try."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context else 0


def _note(emission: StreamEmission) -> dict[str, Any]:
    """What DESCRIBE tells of a task."""
    from socket import gethostname

    metrics = emission.metrics
    came_by = next((name.removeprefix("restored_") for name in metrics if name.startswith("restored_")), "")
    return {
        "worker": f"{gethostname()}:{os.getpid()}",
        "rows": metrics.get("state_rows", 0),
        "bytes": metrics.get("state_bytes", 0),
        "restored": "sibling" if metrics.get("from_sibling") else came_by,
        "restore_us": metrics.get("restore_us", 0),
    }


def _batch(
    task: int, rows: Sequence[Fat], emission: StreamEmission, spec: StreamSpec, files: BlobFiles
) -> pa.RecordBatch:
    import pyarrow as pa

    from udtf.stream.blobs import column_of

    counted = counters_of(emission, spec.counters)
    columns = {
        "task": pa.array([task] * len(rows), pa.int32()),
        "kind": pa.array([row.kind for row in rows], pa.string()),
        "blob": column_of(files.sent(rows[-1].blob), before=len(rows) - 1),
        "counters": pa.array([counted if row.kind == "metrics" else None for row in rows], pa.list_(pa.int64())),
    }
    if spec.hands_over is not None:
        columns["slot"] = pa.array([row.slot for row in rows], pa.int32())
        columns["number"] = pa.array([row.number for row in rows], pa.int32())
    return pa.RecordBatch.from_pydict(columns)
