"""Times of any type as numbers that order as they do, and the order of versions of equal time."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import floats_of, hashable, ints_of, presence_of
from udtf.errors import OperatorError
from udtf.record import ties_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DAY_US = 86_400_000_000
_MAX = 2**63 - 1


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
    return bool(np.all(high == low >> 63) and not np.any((low >= _MAX) | (low <= -_MAX)))


def _unscaled(column: pa.Array) -> NDArray[np.int64]:
    """Decimals as their digits; one that does not fit lies beyond all of the table's."""
    low, high = _words(column)
    return np.where(high == low >> 63, low, np.where(high < 0, -_MAX, _MAX))


def order_of_arrival(
    ties: Sequence[pa.Array], options: Sequence[tuple[str, str]], arrival: pa.Array | None
) -> NDArray[np.int64]:
    """The rows in the order in which the last wins among equal times (C3, B8); empty: as they are."""
    columns = [tie_ranks(column, option) for column, option in zip(ties, options, strict=True)]
    if arrival is not None:
        counted = ints_of(arrival)
        arrived = tie_ranks(arrival, ("asc", "first")) if counted is None else counted  # of results it is a struct
        if columns or np.any(arrived[1:] < arrived[:-1]):
            columns.append(arrived)
    if not columns:
        return np.empty(0, np.int64)
    return np.lexsort(columns[::-1]).astype(np.int64, copy=False)


def tie_ranks(column: pa.Array, option: tuple[str, str]) -> NDArray[np.int64]:
    """Numbers that order as `ties_key` does; equal values get equal ones."""
    try:
        ranks = pc.rank(hashable(column), tiebreaker="dense").to_numpy().astype(np.int64)
    except pa.ArrowNotImplementedError:  # nested
        return _dense_ranks([ties_key((value,), [option]) for value in column.to_pylist()])
    if option[0] == "desc":
        ranks = -ranks
    if column.null_count:
        ranks[~presence_of(column)] = len(column) + 1 if option[1] == "last" else -len(column) - 1
    numbers: NDArray[np.int64] = ranks
    return numbers


def _dense_ranks(keys: list[Any]) -> NDArray[np.int64]:
    """Equal keys get equal ranks."""
    ranks = np.empty(len(keys), np.int64)
    rank, before = -1, None
    for place in sorted(range(len(keys)), key=keys.__getitem__):
        if before is None or keys[before] < keys[place]:
            rank += 1
        ranks[place], before = rank, place
    return ranks
