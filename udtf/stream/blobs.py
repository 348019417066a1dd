"""Rows of one source partition as one Arrow blob per task, and tables as blobs: what travels in their place.

An engine that moves rows one by one pays per row; a few fat rows cost nothing. What packing itself costs:
docs/design/20261130_packing.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import as_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

HASH: Final = "__hash"
#: Rows are packed so many at a time, and not more than so many bytes.
_CHUNK_ROWS: Final = 1 << 16
_CHUNK_BYTES: Final = 128 << 20
#: An emission is cut into blobs of about so many bytes.
MOST_BLOB_BYTES: Final = 64 << 20
#: Order columns of strings are file paths and the like: a few values for very many rows.
_WORTH_ENCODING: Final = 8


def task_of(hashes: NDArray[np.int64], tasks: int) -> NDArray[np.int64]:
    """The task of each key's hash, Spark's `pmod`."""
    return np.mod(hashes, np.int64(tasks))


def pack(
    batches: Iterable[pa.RecordBatch], tasks: int, made: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
) -> Iterator[tuple[int, pa.Buffer]]:
    """One blob per task and chunk, each with its task; within a task in the order of arrival.

    Args:
        batches: the rows.
        tasks: how many there are.
        made: what a chunk becomes, with the hash of its keys; None is as it is.
    """
    for held in gathered(batches, _CHUNK_ROWS, _CHUNK_BYTES):
        chunk = _one_batch(held)
        yield from _pack_chunk(chunk if made is None else made(chunk), tasks)


def gathered(batches: Iterable[pa.RecordBatch], enough_rows: int, enough_bytes: int) -> Iterator[list[pa.RecordBatch]]:
    """Runs of batches, each as soon as it has enough rows or bytes; the last one may have less, and none has no row."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= enough_rows or size >= enough_bytes:
            yield held
            held, rows, size = [], 0, 0
    if rows:
        yield held


def _one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """All of them, with their textual order columns as codes, where that is smaller."""
    schema = batches[0].schema
    parts = zip(*(batch.columns for batch in batches), strict=True)
    columns = [
        _in_order(of_one) if _is_order(field) else _joined(of_one) for field, of_one in zip(schema, parts, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _is_order(field: pa.Field) -> bool:
    return bool(field.name.startswith("__o") and pa.types.is_string(field.type))


def _in_order(parts: Sequence[pa.Array]) -> pa.Array:
    """Paths of files: most often a batch has rows of one file, which is seen without a look at each of them."""
    values = [_only_value(part) for part in parts]
    if None in values:
        return _encoded(_joined(parts))
    codes = pc.dictionary_encode(pa.array(values, pa.string()))
    numbers = np.repeat(codes.indices.to_numpy(), [len(part) for part in parts])
    return pa.DictionaryArray.from_arrays(numbers, codes.dictionary)


def _only_value(column: pa.Array) -> str | None:
    """The text that is in all rows; None where there may be another."""
    if column.null_count or not len(column):
        return None
    _, places, data = column.buffers()
    ends = np.frombuffer(places, np.int32)[column.offset : column.offset + len(column) + 1]
    start, size = int(ends[0]), int(ends[1] - ends[0])
    if np.any(np.diff(ends) != size):
        return None
    without_one = int(ends[-1]) - start - size
    if size and not data.slice(start, without_one).equals(data.slice(start + size, without_one)):
        return None
    return str(column[0].as_py())


def _pack_chunk(chunk: pa.RecordBatch, tasks: int) -> Iterator[tuple[int, pa.Buffer]]:
    task = task_of(chunk[HASH].to_numpy(zero_copy_only=False), tasks).astype(np.int16 if tasks < 1 << 15 else np.int64)
    order = np.argsort(task, kind="stable")  # 16 bits are sorted by radix, in linear time
    ends = np.cumsum(np.bincount(task, minlength=tasks))
    placed = chunk.take(pa.array(order))
    start = 0
    for number, end in enumerate(ends.tolist()):
        if end > start:
            yield number, to_blob([placed.slice(start, end - start)])
        start = end


def _encoded(column: pa.Array) -> pa.Array:
    sample = column.slice(0, 1024)
    if len(pc.unique(sample)) * _WORTH_ENCODING > len(sample):
        return column
    return pc.dictionary_encode(column)


def to_blob(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Arrow IPC; not compressed, since engines compress what they move."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def from_blob(blob: bytes | pa.Buffer) -> pa.Table:
    """The rows of a blob."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


def column_of(blob: pa.Buffer | None, before: int = 0) -> pa.BinaryArray:
    """A blob as the last value of a column, where it is: made of Python's bytes it would be copied twice.

    Args:
        blob: its bytes; None is NULL.
        before: how many values before it are NULL.

    >>> column_of(pa.py_buffer(b"rows"), before=1).to_pylist()
    [None, b'rows']
    """
    if blob is None:
        return pa.nulls(before + 1, pa.binary())
    ends = pa.py_buffer(np.array([*[0] * (before + 1), blob.size], np.int32))
    is_there = pa.array([*[False] * before, True]).buffers()[1] if before else None
    return pa.Array.from_buffers(pa.binary(), before + 1, [is_there, ends, blob], null_count=before)


def bytes_at(blobs: pa.BinaryArray | pa.LargeBinaryArray, row: int) -> pa.Buffer:
    """The bytes of one of them where they are; as a scalar they would be copied."""
    _, ends, data = blobs.buffers()
    width = np.int64 if pa.types.is_large_binary(blobs.type) else np.int32  # as Spark's settings have it
    start, end = np.frombuffer(ends, width)[blobs.offset + row : blobs.offset + row + 2].tolist()
    return data.slice(start, end - start)


def to_blobs(table: pa.Table, most_bytes: int = MOST_BLOB_BYTES) -> Iterator[pa.Buffer]:
    """A table as blobs of at most about `most_bytes`; none for an empty one."""
    pieces = max(1, -(-table.nbytes // most_bytes))
    rows = -(-table.num_rows // pieces)
    for start in range(0, table.num_rows, max(rows, 1)):
        yield to_blob(table.slice(start, rows).to_batches())


class Delivered(Sequence[pa.Table]):
    """The inputs of a task as they were delivered: tables once somebody asks for one.

    Args:
        blobs: per input, in the order of its rows.
        schemas: per input its columns.
    """

    def __init__(self, blobs: Sequence[Sequence[bytes | pa.Buffer]], schemas: Sequence[pa.Schema]) -> None:
        """Unpack nothing yet."""
        self.blobs, self.schemas = blobs, schemas

    @cached_property
    def _tables(self) -> list[pa.Table]:
        return [unpack(blobs, schema) for blobs, schema in zip(self.blobs, self.schemas, strict=True)]

    def __len__(self) -> int:
        """How many inputs there are."""
        return len(self.schemas)

    def __getitem__(self, place: Any) -> Any:
        """The rows of an input."""
        return self._tables[place]


def unpack(blobs: Iterable[bytes | pa.Buffer], schema: pa.Schema) -> pa.Table:
    """The rows of all blobs, in order, in the columns and types of `schema`; what was encoded may stay so."""
    tables = [from_blob(blob) for blob in blobs]
    if not tables:
        return schema.empty_table()
    encoded = {field.name for table in tables for field in table.schema if pa.types.is_dictionary(field.type)}
    return pa.concat_tables([_as(table, schema, encoded) for table in tables]).unify_dictionaries()


def _as(table: pa.Table, schema: pa.Schema, encoded: set[str]) -> pa.Table:
    columns = []
    for field in schema:
        column = table[field.name]
        if field.name not in encoded:
            columns.append(as_type(column, field.type))
        else:
            columns.append(column if pa.types.is_dictionary(column.type) else column.dictionary_encode())
    return pa.table(columns, names=schema.names)
