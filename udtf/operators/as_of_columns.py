"""Columns of any type as numbers that the kernels can compare: keys as codes, times as order-preserving numbers.

Everything is learnt from the table's side once (`Keys`, `Times`) and then applied to any number of left batches.
Equality and order are Spark's: NaN equals NaN and is the greatest, -0.0 equals 0.0, strings order by UTF-8 bytes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.errors import OperatorError
from udtf.operators import compiled
from udtf.record import canonical_key, ties_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DAY_US = 86_400_000_000
_MAX = 2**63 - 1
_DENSE_ROOM = 1 << 20  # a table of codes this large is always worth it: 8 MB


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def ints_of(column: pa.Array) -> NDArray[np.int64] | None:
    """The values as int64 where the type is one in disguise (ints, date, timestamp, bool), anything at NULLs."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not pa.types.is_integer(kind) or kind == pa.uint64():
        return None
    if column.null_count:
        column = pc.fill_null(column, 0)
    values: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def truth_of(column: pa.Array) -> NDArray[np.bool_]:
    """A boolean column where NULL is false."""
    values: NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return values


def presence_of(column: pa.Array) -> NDArray[np.bool_]:
    """True where not NULL; empty when nothing is NULL."""
    if column.null_count == 0:
        return np.empty(0, np.bool_)
    values: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return values


def floats_of(column: pa.Array) -> NDArray[np.float64]:
    """A float column with one NaN and one zero."""
    values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    floats: NDArray[np.float64] = values
    return floats


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
        self._known = pc.unique(_hashable(column)).drop_null()
        self.size = len(self._known)

    def of(self, column: pa.Array) -> NDArray[np.int64]:
        return _found(_hashable(column), self._known)


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


def _hashable(column: pa.Array) -> pa.Array:
    if not pa.types.is_floating(column.type):
        return column
    return pa.array(floats_of(column), mask=~column.is_valid().to_numpy(zero_copy_only=False))


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


class Times:
    """Times of any type as numbers: `order` to compare, `spots` to subtract (only NEAREST and TOLERANCE ask).

    Timestamps, dates, ints and decimals up to 64 bits are int64 and both at once; floats are ordered by their bits and
    subtracted as they are; all else (strings, binary, wide decimals) is ranked among the table's values.
    """

    def __init__(self, column: pa.Array, needs_distance: bool) -> None:
        """Learn the table's times.

        Raises:
            OperatorError: `OPERATOR.NO_DISTANCE`.
        """
        self._type = column.type
        self._ranked: list[Any] | None = None
        is_number = ints_of(column.slice(0, 0)) is not None or pa.types.is_floating(self._type)
        if is_number or (pa.types.is_decimal128(self._type) and _fits(column)):
            return
        if needs_distance:
            raise OperatorError.no_distance(self._type)
        self._ranked = sorted(pc.unique(column).drop_null().to_pylist())

    def of(self, column: pa.Array) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Order and spots of a column of the same type; anything at NULLs."""
        if pa.types.is_floating(self._type):
            floats = floats_of(column)
            bits = floats.view(np.int64)
            return np.where(bits < 0, bits ^ np.int64(_MAX), bits), floats
        if self._ranked is not None:
            order = self._ranks(column, self._ranked)
        else:
            ints = ints_of(column)
            order = _unscaled(column) if ints is None else ints
        return order, order

    def tolerance(self, tolerance_us: int | None) -> int:
        """The tolerance in the unit of `spots`; -1 is none. Dates lie whole days apart."""
        if tolerance_us is None:
            return -1
        return tolerance_us // _DAY_US if pa.types.is_date32(self._type) else tolerance_us

    @staticmethod
    def _ranks(column: pa.Array, ranked: list[Any]) -> NDArray[np.int64]:
        """2 i + 1 for the table's i-th value, 2 i for what lies between it and the one before."""
        encoded = pc.dictionary_encode(column)
        ranks = np.empty(len(encoded.dictionary) + 1, np.int64)
        for code, value in enumerate(encoded.dictionary.to_pylist()):
            place = bisect_left(ranked, value)
            ranks[code] = 2 * place + (place < len(ranked) and ranked[place] == value)
        codes: NDArray[np.int64] = pc.fill_null(encoded.indices, len(ranks) - 1).to_numpy(zero_copy_only=False)
        return ranks[codes]


def _words(column: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The low and high words of a decimal128 column, 0 at NULLs."""
    if len(column) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = words[0::2].copy(), words[1::2].copy()
    if column.null_count:
        absent = ~column.is_valid().to_numpy(zero_copy_only=False)
        low[absent] = high[absent] = 0
    return low, high


def _fits(column: pa.Array) -> bool:
    """All decimals fit into 64 bits, with room for what lies beyond them."""
    low, high = _words(column)
    return bool(np.all(high == low >> 63) and not np.any(np.abs(low) >= _MAX))


def _unscaled(column: pa.Array) -> NDArray[np.int64]:
    """Decimals as their digits; one that does not fit lies beyond all of the table's."""
    low, high = _words(column)
    return np.where(high == low >> 63, low, np.where(high < 0, -_MAX, _MAX))


def order_of_arrival(
    ties: Sequence[pa.Array], options: Sequence[tuple[str, str]], arrival: pa.Array | None
) -> NDArray[np.int64]:
    """The rows in the order in which the last wins among equal times (C3, B8); empty: as they are."""
    columns = [_tie_ranks(column, option) for column, option in zip(ties, options, strict=True)]
    if arrival is not None:
        arrived = ints_of(arrival)
        assert arrived is not None, "__arrival is an int64"
        if columns or np.any(arrived[1:] < arrived[:-1]):
            columns.append(arrived)
    if not columns:
        return np.empty(0, np.int64)
    return np.lexsort(columns[::-1]).astype(np.int64, copy=False)


def _tie_ranks(column: pa.Array, option: tuple[str, str]) -> NDArray[np.int64]:
    encoded = pc.dictionary_encode(_hashable(column)) if not pa.types.is_nested(column.type) else None
    if encoded is None:
        return _dense_ranks([ties_key((value,), [option]) for value in column.to_pylist()])
    values = [*encoded.dictionary.to_pylist(), None]
    ranks = _dense_ranks([ties_key((value,), [option]) for value in values])
    codes: NDArray[np.int64] = pc.fill_null(encoded.indices, len(values) - 1).to_numpy(zero_copy_only=False)
    return ranks[codes]


def _dense_ranks(keys: list[Any]) -> NDArray[np.int64]:
    """Equal keys get equal ranks."""
    ranks = np.empty(len(keys), np.int64)
    rank, before = -1, None
    for place in sorted(range(len(keys)), key=keys.__getitem__):
        if before is None or keys[before] < keys[place]:
            rank += 1
        ranks[place], before = rank, place
    return ranks
