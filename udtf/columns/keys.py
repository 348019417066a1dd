"""Keys of a live stream as codes: found by their hash, then compared with the key that the code stands for.

Equality is Spark's: NaN equals NaN, -0.0 equals 0.0. Two keys of one hash are told apart one by one, as are keys that
Arrow cannot compare (structs, arrays).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns import compiled as column_loops
from udtf.columns.arrays import hashable, ints_of, is_present, presence_of
from udtf.columns.rows import Rows, stored_bytes
from udtf.record import canonical_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Keys of one or several columns of any type as codes: learnt from the table once, applied to any number of batches.


_DENSE_ROOM = 1 << 20  # a table of codes this large is always worth it: 8 MB


class _Codes(Protocol):
    """Codes of one column: 0 .. size - 1 for values that the table has, -1 for others and NULL."""

    size: int

    def of(self, column: Any) -> NDArray[np.int64]: ...


class _IntCodes:
    """Codes of int64 values: by a table where they are dense, else by hashing."""

    def __init__(self, values: NDArray[np.int64], present: NDArray[np.bool_]) -> None:
        known = np.unique(values[present] if len(present) else values)
        self.size = len(known)
        self._lowest = int(known[0]) if self.size else 0
        room = int(known[-1]) - self._lowest + 1 if self.size else 0
        self._is_dense = room <= max(_DENSE_ROOM, 4 * len(values))
        if self._is_dense:
            self._table = np.full(room, -1, np.int64)
            self._table[known - self._lowest] = np.arange(self.size)
        else:
            self._known = pa.array(known)

    def of_ints(self, values: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
        if self._is_dense:
            codes = np.empty(len(values), np.int64)
            column_loops.dense_codes(values, self._lowest, self._table, codes)
        else:
            codes = _found(pa.array(values), self._known)
        if len(present):
            codes[~present] = -1
        return codes

    def of(self, column: pa.Array) -> NDArray[np.int64]:
        ints = ints_of(column)
        assert ints is not None, "both sides have one type"
        return self.of_ints(ints, presence_of(column))


class _HashedCodes:
    """Codes of values that Arrow can hash: strings, binary, decimals, floats."""

    def __init__(self, column: pa.Array) -> None:
        self._known = pc.unique(hashable(column)).drop_null()
        self.size = len(self._known)

    def of(self, column: pa.Array) -> NDArray[np.int64]:
        return _found(hashable(column), self._known)


class _ObjectCodes:
    """Codes of nested values, which Arrow cannot hash: one by one."""

    def __init__(self, column: pa.Array) -> None:
        self._known: dict[Any, int] = {}
        for value in column.to_pylist():
            if value is not None:
                self._known.setdefault(canonical_key((value,)), len(self._known))
        self.size = len(self._known)

    def of(self, column: pa.Array) -> NDArray[np.int64]:
        known, values = self._known, column.to_pylist()
        return np.array([known.get(canonical_key((value,)), -1) for value in values], np.int64)


def _found(column: pa.Array, known: pa.Array) -> NDArray[np.int64]:
    places = pc.fill_null(pc.index_in(column, value_set=known, skip_nulls=True), -1)
    codes: NDArray[np.int64] = places.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _codes_for(column: pa.Array) -> _Codes:
    ints = ints_of(column)
    if ints is not None:
        return _IntCodes(ints, presence_of(column))
    if pa.types.is_nested(column.type):
        return _ObjectCodes(column)
    return _HashedCodes(column)


class Keys:
    """Codes of keys of one or several columns of any type, as the table has them.

    >>> keys = Keys([pa.array(["a", "b", None]), pa.array([1, 2, 3])])
    >>> keys.of([pa.array(["b", "a", "a", None]), pa.array([2, 2, 1, 3])]).tolist()
    [1, -1, 0, -1]
    """

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        """Learn the table's keys."""
        self._parts = [_codes_for(column) for column in columns]
        self._mixes: list[_IntCodes] = []
        self._codes = self._parts[0].of(columns[0])
        for part, column in zip(self._parts[1:], columns[1:], strict=True):
            mixed = _mix(self._codes, part, column)
            self._mixes.append(_IntCodes(mixed, mixed >= 0))
            self._codes = self._mixes[-1].of_ints(mixed, mixed >= 0)

    @property
    def size(self) -> int:
        """How many different keys the table has."""
        return (self._mixes or self._parts)[-1].size

    def take_own(self) -> NDArray[np.int64]:
        """The codes of the table's own rows; they are forgotten then."""
        codes, self._codes = self._codes, np.empty(0, np.int64)
        return codes

    def of(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """The codes of other rows; -1 where the key is unknown or any part of it NULL."""
        codes = self._parts[0].of(columns[0])
        for part, mix, column in zip(self._parts[1:], self._mixes, columns[1:], strict=True):
            mixed = _mix(codes, part, column)
            codes = mix.of_ints(mixed, mixed >= 0)
        return codes


def _mix(codes: NDArray[np.int64], part: _Codes, column: pa.Array) -> NDArray[np.int64]:
    """Two codes as one number; codes are below the number of rows, so that this cannot overflow."""
    other = part.of(column)
    return np.where((codes >= 0) & (other >= 0), codes * max(part.size, 1) + other, -1)


_FEWEST_SLOTS = 1 << 10


class StreamKeys:
    """Codes 0 .. size - 1 of the keys that were ever placed.

    Args:
        types: of the key columns.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        """Know no key."""
        fields = [pa.field(f"__k{number}", kind) for number, kind in enumerate(types)]
        self._columns = Rows(pa.schema(fields))
        self._is_nested = any(pa.types.is_nested(kind) or pa.types.is_null(kind) for kind in types)
        self._slots = _free_slots(_FEWEST_SLOTS)
        self._others: dict[Any, int] = {}  # keys whose hash another key had first, or that Arrow cannot compare
        self._hashes = Rows(pa.schema([pa.field("__hash", pa.int64())]))

    @property
    def size(self) -> int:
        """How many keys there are."""
        return self._columns.used

    @property
    def nbytes(self) -> int:
        """Memory of the keys."""
        return self._columns.nbytes + self._hashes.nbytes + int(self._slots.nbytes) + 200 * len(self._others)

    def take(self, codes: NDArray[np.int64]) -> list[pa.Array]:
        """The key columns and the hash of some codes."""
        return [*self._columns.take(codes), *self._hashes.take(codes)]

    def find(
        self, columns: Sequence[pa.Array], hashes: NDArray[np.int64], wanted: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The codes of the wanted rows (no key of which may be NULL), -1 for keys never placed."""
        codes = np.full(len(hashes), -1, np.int64)
        if self.size == 0:
            return codes
        if self._is_nested:
            for row in np.flatnonzero(wanted).tolist():
                codes[row] = self._others.get(_key_at(columns, row), -1)
            return codes
        column_loops.find_codes(hashes, wanted, self._slots, codes)
        found = np.flatnonzero(codes >= 0)
        for row in self._mistaken(columns, codes, found):
            codes[row] = self._others.get(_key_at(columns, row), -1)
        return codes

    def place(self, columns: Sequence[pa.Array], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes of rows without NULL keys; unknown keys get new ones."""
        codes = np.empty(len(hashes), np.int64)
        if self._is_nested:
            return self._place_others(columns, hashes, codes, range(len(hashes)))
        self._make_room(len(hashes))
        firsts = np.empty(len(hashes), np.int64)
        before = self.size
        size = column_loops.place_codes(hashes, self._slots, before, codes, firsts)
        self._learn(columns, hashes, firsts[: size - before])
        mistaken = self._mistaken(columns, codes, np.arange(len(codes)))
        return self._place_others(columns, hashes, codes, mistaken)

    def _mistaken(self, columns: Sequence[pa.Array], codes: NDArray[np.int64], rows: NDArray[np.int64]) -> list[int]:
        """The rows whose key is not the one that its code stands for."""
        if len(rows) < len(codes):
            columns, codes = [column.take(pa.array(rows)) for column in columns], codes[rows]
        differs = self._columns.differs([_canonical(column) for column in columns], codes)
        mistaken: list[int] = rows[differs].tolist()
        return mistaken

    def _place_others(
        self, columns: Sequence[pa.Array], hashes: NDArray[np.int64], codes: NDArray[np.int64], rows: Any
    ) -> NDArray[np.int64]:
        new: list[int] = []
        for row in rows:
            key = _key_at(columns, row)
            if key not in self._others:
                self._others[key] = self.size + len(new)
                new.append(row)
            codes[row] = self._others[key]
        self._learn(columns, hashes, np.array(new, np.int64))
        return codes

    def _learn(self, columns: Sequence[pa.Array], hashes: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if len(rows):
            taken = [_canonical(column.take(pa.array(rows))) for column in columns]
            self._columns.append(pa.table(taken, names=self._columns.names))
            self._hashes.append(pa.table([pa.array(hashes[rows])], names=["__hash"]))

    def _make_room(self, more: int) -> None:
        """So many slots that at least half stay free."""
        wanted = 2 * (self.size + more)
        if wanted > len(self._slots):
            slots = _free_slots(1 << (wanted - 1).bit_length())
            column_loops.move_slots(self._slots, slots)
            self._slots = slots


def _free_slots(count: int) -> NDArray[np.int64]:
    return np.full((count, 2), -1, np.int64)


def _canonical(column: pa.Array) -> pa.Array:
    """Equal keys have equal bits; the type stays."""
    return hashable(column).cast(column.type) if pa.types.is_floating(column.type) else column


def _key_at(columns: Sequence[pa.Array], row: int) -> Any:
    return canonical_key(tuple(column[row].as_py() for column in columns))


# Grouping keys of a live aggregation as codes: NULL is a value like any other (semantics.md B10).


class GroupKeys:
    """Codes 0 .. size - 1 of the keys that were placed since the last time some were forgotten.

    `StreamKeys` knows no NULL: it is given some other value, and beside the key a number that says where the NULLs are.

    Args:
        types: of the key columns.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        """Know no key."""
        self.types = list(types)
        self._is_nested = any(pa.types.is_nested(kind) or pa.types.is_null(kind) for kind in types)
        self._keys = self._none()

    @property
    def size(self) -> int:
        """How many keys there are."""
        return self._keys.size

    @property
    def nbytes(self) -> int:
        """Memory of the keys."""
        return self._keys.nbytes

    def place(self, columns: Sequence[pa.Array], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes of rows; unknown keys get new ones."""
        return self._keys.place(self._without_nulls(columns, len(hashes)), hashes)

    def take(self, codes: NDArray[np.int64]) -> tuple[list[pa.Array], pa.Array]:
        """The key columns and the hashes of some codes."""
        *columns, missing, hashes = self._keys.take(codes)
        places = missing.to_numpy(zero_copy_only=False)
        if places.any():
            columns = [_with_nulls(column, (places >> number) & 1) for number, column in enumerate(columns)]
        return columns, hashes

    def bytes_of(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes of some keys, and 8 for the time (semantics.md B5)."""
        return stored_bytes(self.take(codes)[0], len(codes))

    def keep(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Forget all keys but these; returns their new codes."""
        columns, hashes = self.take(codes)
        self._keys = self._none()
        return self.place(columns, hashes.to_numpy())

    def _none(self) -> StreamKeys:
        return StreamKeys([*self.types, pa.int64()])

    def _without_nulls(self, columns: Sequence[pa.Array], rows: int) -> list[pa.Array]:
        missing = np.zeros(rows, np.int64)
        if self._is_nested:  # these are compared as Python's values, of which None is one
            return [*columns, pa.array(missing)]
        filled = []
        for number, column in enumerate(columns):
            if column.null_count:
                missing |= (~is_present(column)).astype(np.int64) << number
                column = pc.fill_null(column, _something(column.type))
            filled.append(column)
        return [*filled, pa.array(missing)]


def _with_nulls(column: pa.Array, missing: NDArray[np.int64]) -> pa.Array:
    return column.take(pa.array(np.arange(len(column)), mask=missing != 0))


def _something(kind: pa.DataType) -> pa.Scalar:
    """A value of the type, whichever."""
    types = pa.types
    value: Any = 0
    if types.is_boolean(kind):
        value = False
    elif types.is_decimal(kind):
        value = Decimal(0)
    elif types.is_string(kind) or types.is_large_string(kind):
        value = ""
    elif types.is_binary(kind) or types.is_large_binary(kind):
        value = b""
    return pa.scalar(value, kind)
