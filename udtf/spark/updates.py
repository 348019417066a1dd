"""Rows of updates, after plain SQL, as one row an update: in a worker, a partition at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from udtf.columns.updates import ReadUpdates
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

    for rows, read in _whole_updates(batches):
        sides = [_some(rows["__shown"], places, places < 0) for places in read.rows.T]
        carried = [_some(rows[name], read.first) for name in rows.column_names[1:]]
        yield pa.RecordBatch.from_arrays([*sides, *carried], names=[*SIDES, *rows.column_names[1:]])


def changes(shape: str, width: int, keys: Sequence[int], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The updates of a partition as the changes that a result shows (semantics.md A), in order.

    Args:
        shape: 'upsert': one change an update, or 'changelog': what really changed, with the row before.
        width: how many columns of the rows are the result's; what rows of updates carry along comes after them.
        keys: places of the columns that a deleted row keeps with 'upsert'.
        batches: the rows, as for `paired`.

    Yields:
        the columns of the result and `_change_type`.
    """
    import pyarrow as pa

    from udtf.columns.updates import CHANGE_TYPES, exact_changes, upserts

    kinds = pa.array(CHANGE_TYPES)
    for rows, read in _whole_updates(batches):
        columns = rows.columns[:width]
        source, kind, is_kept = upserts(read) if shape == "upsert" else exact_changes(read, columns)
        shown = [_some(column, source, None if n in keys else ~is_kept) for n, column in enumerate(columns)]
        names = [*rows.column_names[:width], "_change_type"]
        yield pa.RecordBatch.from_arrays([*shown, kinds.take(pa.array(kind))], names=names)


def changes_at_once(
    make_rows: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    columns: Sequence[tuple[str, str]],
    shape: str,
    width: int,
    keys: Sequence[int],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """`changes` of rows of updates where they are made: the query in between does nothing but name columns.

    Args:
        make_rows: makes rows of updates from the batches.
        columns: of what `changes` is given: the name, and which column of the rows it is.
        shape: see `changes`, as the next two.
        width: how many columns are the result's.
        keys: places of those that a deleted row keeps.
        batches: the input.
    """
    import pyarrow as pa

    names, sources = [name for name, _ in columns], [source for _, source in columns]
    named = (
        pa.RecordBatch.from_arrays([rows.column(source) for source in sources], names=names)
        for rows in make_rows(batches)
    )
    yield from changes(shape, width, keys, named)


def _whole_updates(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.Table, ReadUpdates]]:
    """Rows of which no update goes on in the next ones."""
    import pyarrow as pa

    from udtf.columns.updates import ReadUpdates

    held: pa.Table | None = None
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        rows = rows if held is None else pa.concat_tables([held, rows])
        read = ReadUpdates(rows)
        last = int(read.first[-1]) if len(read) else 0
        held = rows.slice(last)
        if last:
            yield rows.slice(0, last), read.without_last()
    if held is not None and len(held):
        yield held, ReadUpdates(held)


def _some(column: pa.ChunkedArray, places: NDArray[np.int64], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Some values of a column, NULL where there is none."""
    import pyarrow as pa

    from udtf.columns.arrays import one_chunk

    return one_chunk(column).take(pa.array(places, mask=missing))


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
    from udtf.spark.arrow_types import in_utc

    found = list(batches)
    if found:
        context = TaskContext.get()
        rows = LeftStep(config, schema, keys, kept).updates(in_utc(pa.Table.from_batches(found)))
        yield from in_utc(of_task(rows, context.partitionId() if context else 0)).to_batches()
