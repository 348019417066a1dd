"""The fat rows of live operators: what a task gets of a micro-batch, and what it answers, as few rows with blobs."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from udtf.spark.tasks import slots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from udtf.logic import StreamEmission
    from udtf.stream.blob_files import BlobFiles, BlobFolder
    from udtf.stream.blobs import Delivered
    from udtf.stream.spec import StreamSpec

#: The columns of rows on their way to a task, of its answers, and of answers that go straight to another operator.
PACKED: Final = "slot int, side int, partition int, number int, blob binary"
ANSWERED: Final = "task int, kind string, blob binary, counters array<bigint>"
HANDED_OVER: Final = f"{ANSWERED}, slot int, number int"
#: Side, source partition, number within it, blob.
Packed = tuple[int, int, int, Any]
#: Local properties that Spark sets for the tasks of a streaming query.
_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"


def inputs_of(packed: Sequence[Packed], schemas: Sequence[pa.Schema]) -> Delivered:
    """The rows of each input of a task, from its blobs in their order."""
    from udtf.stream.blobs import Delivered

    sides = range(len(schemas))
    return Delivered([[blob for found, _, _, blob in packed if found == side] for side in sides], schemas)


def digest_of(packed: Sequence[Packed]) -> bytes:
    """Of all rows of a task and their order: nobody forges it, so that a checksum of each blob will do."""
    return b" ".join(b"%d %d %08x" % (side, len(blob), zlib.crc32(blob)) for side, _, _, blob in packed)


def query_id() -> str:
    """Of the query that this worker runs a task of, as far as the engine says."""
    return _property(_QUERY_ID)


def batch_id() -> int:
    """The number of its micro-batch."""
    return int(_property(_BATCH_ID))


def blob_files(folder: BlobFolder | None) -> BlobFiles:
    """What this task sends of its blobs as files."""
    from udtf.stream.blob_files import BlobFiles

    return BlobFiles(folder, 0 if folder is None else batch_id())


def _property(name: str) -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context.getLocalProperty(name) if context else None) or ""


class Fat(NamedTuple):
    """A row of an answer; the metrics have no blob."""

    kind: str
    blob: pa.Buffer | None
    slot: int | None = None
    number: int | None = None


def answered(emission: StreamEmission, spec: StreamSpec) -> Iterator[list[Fat]]:
    """The fat rows of one task, each blob for itself, so that none is copied; the metrics go with the first."""
    held: list[Fat] = [Fat("metrics", None)]
    for row in _blobs(emission, spec):
        yield [*held, row]
        held = []
    if held:
        yield held


def _blobs(emission: StreamEmission, spec: StreamSpec) -> Iterator[Fat]:
    from udtf.stream.blobs import to_blobs

    if spec.hands_over is None:
        yield from (Fat("rows", blob) for blob in to_blobs(emission.rows))
    else:
        slot_of = slots(spec.hands_over.tasks)
        for number, (task, blob) in enumerate(spec.hands_over.packed(emission.rows)):
            yield Fat("rows", blob, slot_of[task], number)
    for side, late in enumerate(emission.late):
        yield from (Fat(f"late{side}", blob) for blob in to_blobs(late))


def counters_of(emission: StreamEmission, names: Sequence[str]) -> list[int | None]:
    """In the order of the names; only the event time can be unknown."""
    return [emission.metrics.get(name, None if name == "max_event_time" else 0) for name in names]
