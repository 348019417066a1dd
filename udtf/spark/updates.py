"""Rows of updates, after plain SQL, as one row an update: in a worker, a partition at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from udtf.operators.table_join.logic import TableJoinConfig

#: What an update shows in each of its rows; NULL where it has none.
SIDES: Final = ("__old", "__new", "__only")


def paired(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The updates of a partition, in order.

    Args:
        batches: rows with the struct `__shown` first, then what rows of updates carry along; the rows of an update are
            side by side, but may be in two batches.

    Yields:
        for each update the structs of `SIDES` in place of `__shown`, then what its first row carries along.
    """
    import pyarrow as pa

    held: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        rows = rows if held is None else pa.concat_tables([held, rows])
        done, held = _cut(rows)
        yield from _pair(done)
    if held is not None:
        yield from _pair(held)


def _cut(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """What is complete, and the rows of the last update, of which more may come."""
    from udtf.columns.updates import ReadUpdates

    read = ReadUpdates(rows)
    last = int(read.first[-1]) if len(read) else 0
    return rows.slice(0, last), rows.slice(last)


def _pair(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from udtf.columns.arrays import one_chunk
    from udtf.columns.updates import ReadUpdates

    if not len(rows):
        return
    read = ReadUpdates(rows)
    shown = one_chunk(rows["__shown"])
    sides = [shown.take(pa.array(places, mask=places < 0)) for places in read.rows.T]
    carried = [one_chunk(rows[name]).take(pa.array(read.first)) for name in rows.column_names[1:]]
    yield pa.RecordBatch.from_arrays([*sides, *carried], names=[*SIDES, *rows.column_names[1:]])


def left_updates(
    config: TableJoinConfig,
    schema: pa.Schema,
    keys: tuple[tuple[int, int], ...],
    kept: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The second step of a join by foreign key, see `udtf.operators.table_join.foreign_key_stream.LeftStep`.

    Args:
        config: of the join.
        schema: of its result.
        keys: where columns of the result are its key.
        kept: how many order columns the result keeps.
        batches: the rows of the first step of all left keys of this partition.

    Yields:
        rows of updates.
    """
    import pyarrow as pa
    from pyspark import TaskContext

    from udtf.columns.updates import of_task
    from udtf.operators.table_join.foreign_key_stream import LeftStep
    from udtf.spark.batch import in_utc

    found = list(batches)
    if found:
        context = TaskContext.get()
        rows = LeftStep(config, schema, keys, kept).updates(in_utc(pa.Table.from_batches(found)))
        yield from in_utc(of_task(rows, context.partitionId() if context else 0)).to_batches()
