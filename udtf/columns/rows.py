"""Rows of state that grow and are gathered from at random: appending and gathering cost what a batch costs.

A column of fixed width is one numpy array that doubles; any other is a list of Arrow chunks that are joined when they
have become about as long as what came after them, so that there are never many.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import one_chunk, presence_of
from udtf.errors import StateError
from udtf.state.buffer import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


#: How plans begin the names of columns that are only handed on.
_PAYLOAD = re.compile(r"^_[lr]_")

FEWEST_ROWS = 1 << 16  # below this nothing is dropped between snapshots

# Bytes of rows as the buffer of the record-by-record logic counts them (semantics.md B5), a column at a time.


_OF_TIME = 8  # every buffered row has one


def stored_bytes(columns: Iterable[pa.Array], rows: int) -> NDArray[np.int64]:
    """What each row of some columns takes: `udtf.state.buffer.stored_bytes` of key and payload.

    >>> stored_bytes([pa.array(["EUR", None]), pa.array([1, None])], 2).tolist()
    [19, 8]
    """
    total = np.full(rows, _OF_TIME, np.int64)
    for column in columns:
        total += _bytes(column)
    return total


def _bytes(column: pa.Array) -> NDArray[np.int64]:
    kind, types = column.type, pa.types
    if types.is_nested(kind):
        return np.array([bytes_of(value) for value in column.to_pylist()], np.int64)
    if types.is_null(kind):
        return np.zeros(len(column), np.int64)
    if any(test(kind) for test in (types.is_string, types.is_binary, types.is_large_string, types.is_large_binary)):
        lengths: NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        return lengths
    width = 1 if types.is_boolean(kind) else 16 if types.is_decimal(kind) else 8
    widths = np.full(len(column), width, np.int64)
    if column.null_count:
        widths[~presence_of(column)] = 0
    return widths


_WIDTHS = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_CHUNK_BYTES = 1 << 30  # chunks are not joined beyond this: Arrow's strings end at 2 GB


class Column(Protocol):
    """One column of the rows."""

    def append(self, column: pa.Array) -> None: ...
    def take(self, rows: NDArray[np.int64], present: NDArray[np.bool_] | None) -> pa.Array: ...
    def differs(self, column: pa.Array, rows: NDArray[np.int64]) -> NDArray[np.bool_]: ...
    @property
    def nbytes(self) -> int: ...


def grown(array: NDArray[Any], used: int, more: int) -> NDArray[Any]:
    """The array, or a longer copy of what is used of it, with room for more."""
    if used + more <= len(array):
        return array
    longer = np.empty((max(used + more, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[:used] = array[:used]
    return longer


class FixedColumn:
    """Values of one width as numbers of their bits."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._bits = data_type.bit_width
        shape = (0, 2) if self._bits == 128 else (0,)
        self._values: NDArray[Any] = np.empty(shape, np.int8 if self._bits == 1 else _WIDTHS.get(self._bits, np.int64))
        self._present: NDArray[np.bool_] | None = None
        self._used = 0

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + (0 if self._present is None else self._present.nbytes)

    def append(self, column: pa.Array) -> None:
        used, more = self._used, len(column)
        self._values = grown(self._values, used, more)
        self._values[used : used + more] = self._raw(column)
        if column.null_count and self._present is None:
            self._present = np.ones(len(self._values), np.bool_)
        if self._present is not None:
            self._present = grown(self._present, used, len(self._values) - used)
            self._present[used : used + more] = True if not column.null_count else presence_of(column)
        self._used = used + more

    def take(self, rows: NDArray[np.int64], present: NDArray[np.bool_] | None) -> pa.Array:
        if self._used == 0:
            return pa.nulls(len(rows), self._type)
        values = self._values[rows]
        if self._present is not None:
            present = self._present[rows] if present is None else present & self._present[rows]
        if self._bits == 1:
            values = np.packbits(values.view(np.bool_), bitorder="little")
        validity = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
        return pa.Array.from_buffers(self._type, len(rows), [validity, pa.py_buffer(values)])

    def differs(self, column: pa.Array, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where a column without NULLs is not what the rows have."""
        unequal: NDArray[np.bool_] = self._raw(column) != self._values[rows]
        return np.any(unequal, axis=1) if self._bits == 128 else unequal

    def _raw(self, column: pa.Array) -> NDArray[Any]:
        if self._bits == 1:
            bools: NDArray[Any] = pc.fill_null(column, False).to_numpy(zero_copy_only=False).view(np.int8)
            return bools
        data, start, length = column.buffers()[1], column.offset, len(column)
        if length == 0:
            return self._values[:0]
        if self._bits == 128:
            return np.frombuffer(data, np.int64)[2 * start : 2 * (start + length)].reshape(length, 2)
        return np.frombuffer(data, self._values.dtype)[start : start + length]


class VaryingColumn:
    """Values of any other type, in Arrow's chunks."""

    def __init__(self, data_type: pa.DataType) -> None:
        self._type = data_type
        self._chunks: list[pa.Array] = []

    @property
    def nbytes(self) -> int:
        return sum(chunk.nbytes for chunk in self._chunks)

    def append(self, column: pa.Array) -> None:
        chunks = self._chunks
        chunks.append(column)
        while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]):
            if chunks[-2].nbytes + chunks[-1].nbytes > _CHUNK_BYTES:
                return
            last = chunks.pop()
            chunks[-1] = pa.concat_arrays([chunks[-1], last])

    def take(self, rows: NDArray[np.int64], present: NDArray[np.bool_] | None) -> pa.Array:
        if not self._chunks:
            return pa.nulls(len(rows), self._type)
        mask = None if present is None else ~present
        if len(self._chunks) == 1:
            return self._chunks[0].take(pa.array(rows, mask=mask))
        starts = np.cumsum([0, *(len(chunk) for chunk in self._chunks)])
        chunk_of = np.searchsorted(starts, rows, side="right") - 1
        places = np.zeros(len(rows), np.int64)
        pieces, taken = [self._chunks[0].slice(0, 0)], 0
        for number, chunk in enumerate(self._chunks):
            here = np.flatnonzero(chunk_of == number)
            if not len(here):
                continue
            pieces.append(chunk.take(pa.array(rows[here] - starts[number])))
            places[here] = np.arange(taken, taken + len(here))
            taken += len(here)
        return pa.concat_arrays(pieces).take(pa.array(places, mask=mask))

    def differs(self, column: pa.Array, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where a column without NULLs is not what the rows have."""
        unequal: NDArray[np.bool_] = pc.not_equal(column, self.take(rows, None)).to_numpy(zero_copy_only=False)
        return unequal


def column_of(data_type: pa.DataType) -> Column:
    """An empty column."""
    types = pa.types
    is_plain = types.is_integer(data_type) or types.is_floating(data_type) or types.is_temporal(data_type)
    if types.is_boolean(data_type) or types.is_decimal128(data_type) or (is_plain and data_type.bit_width <= 64):
        return FixedColumn(data_type)
    return VaryingColumn(data_type)


def check_types(found: pa.Schema, wanted: pa.Schema) -> None:
    """What is kept goes on only under its own types; the zone of a timestamp changes nothing.

    Raises:
        StateError: `STATE.OTHER_TYPE`.
    """
    known = dict(zip(found.names, found.types, strict=True))
    for name, data_type in zip(wanted.names, wanted.types, strict=True):
        before = known.get(name, data_type)
        if before.id != data_type.id or (pa.types.is_decimal(data_type) and before != data_type):
            raise StateError.other_type(_PAYLOAD.sub("", name), before, data_type)


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows under other columns: NULL in those that they have not, and without those that are not asked for.

    >>> fitted(pa.table({"a": [1], "b": [2]}), pa.schema({"c": pa.string(), "a": pa.int64()})).to_pylist()
    [{'c': None, 'a': 1}]

    Raises:
        StateError: `STATE.OTHER_TYPE`, see `check_types`.
    """
    if table.schema == schema:
        return table
    check_types(table.schema, schema)
    known = set(table.column_names)
    columns = [table[f.name] if f.name in known else pa.nulls(len(table), f.type) for f in schema]
    return pa.table(columns, names=schema.names)


class Rows:
    """Rows of state, numbered from 0 in the order in which they came."""

    def __init__(self, schema: pa.Schema) -> None:
        """Without rows; of the schema only names and types matter."""
        self.names: list[str] = list(schema.names)
        self._schema = schema
        self._columns = [column_of(field.type) for field in schema]
        self.used = 0

    @property
    def nbytes(self) -> int:
        """Memory of the columns."""
        return sum(column.nbytes for column in self._columns)

    def fit(self, schema: pa.Schema) -> None:
        """Go on with other columns, see `fitted`.

        Raises:
            StateError: `STATE.OTHER_TYPE`, see `check_types`.
        """
        if schema == self._schema:
            return
        check_types(self._schema, schema)
        known = dict(zip(self.names, self._columns, strict=True))
        for field in schema:
            if field.name not in known:
                known[field.name] = column_of(field.type)
                known[field.name].append(pa.nulls(self.used, field.type))
        self.names, self._schema = list(schema.names), schema
        self._columns = [known[name] for name in self.names]

    def append(self, table: pa.Table) -> int:
        """Add rows; returns the number of the first one."""
        for name, column in zip(self.names, self._columns, strict=True):
            column.append(one_chunk(table[name]))
        self.used += len(table)
        return self.used - len(table)

    def take(
        self, rows: NDArray[np.int64], present: NDArray[np.bool_] | None = None, names: Sequence[str] | None = None
    ) -> list[pa.Array]:
        """The columns (all, or the named ones) of some rows; NULL where `present` is false."""
        wanted = self.names if names is None else names
        return [self._columns[self.names.index(name)].take(rows, present) for name in wanted]

    def table(self, rows: NDArray[np.int64]) -> pa.Table:
        """Some rows as a table."""
        return pa.table(self.take(rows), names=self.names) if self.names else pa.table({})

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Forget all rows but these, which are numbered anew in the order given."""
        kept = self.take(rows)
        self._columns = [column_of(field.type) for field in self._schema]
        for column, values in zip(self._columns, kept, strict=True):
            column.append(values)
        self.used = len(rows)

    def differs(self, columns: Sequence[pa.Array], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where columns without NULLs are not those of the rows."""
        unequal = np.zeros(len(rows), np.bool_)
        for mine, column in zip(self._columns, columns, strict=True):
            unequal |= mine.differs(column, rows)
        return unequal
