"""Keys of one or several columns of any type as codes: learnt from the table once, applied to any number of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators import compiled
from udtf.operators.as_of_columns import hashable, ints_of, presence_of
from udtf.record import canonical_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
            compiled.dense_codes(values, self._lowest, self._table, codes)
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
