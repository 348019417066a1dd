"""Columns that are a long in disguise, as longs that compare as Spark compares the values.

Doubles compare by their bits, so that one NaN is the greatest value, and -0.0 is next to 0.0, before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import ints_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALL_BUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


def longs_of(column: pa.Array) -> NDArray[np.int64]:
    """Decimals of at most 18 digits in units of their scale, anything at NULLs."""
    halves = np.frombuffer(column.buffers()[1], np.int64)
    return halves[2 * column.offset : 2 * (column.offset + len(column)) : 2]


def order_of(column: pa.Array) -> NDArray[np.int64]:
    """What values are compared by, anything at NULLs.

    >>> order_of(pa.array([1.5, -0.0, 0.0, float("nan")])).argsort().tolist()
    [1, 2, 0, 3]
    """
    if pa.types.is_decimal(column.type):
        return longs_of(column)
    if pa.types.is_floating(column.type):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        ordered: NDArray[np.int64] = bits ^ ((bits >> 63) & _ALL_BUT_SIGN)
        return ordered
    ints = ints_of(column)
    assert ints is not None, f"a value of type {column.type}"
    return ints


def of_longs(order: NDArray[np.int64], kind: pa.DataType, is_null: NDArray[np.bool_]) -> pa.Array:
    """The values that `order_of` gave.

    >>> of_longs(order_of(pa.array([1.5, -2.0])), pa.float64(), np.array([False, False])).to_pylist()
    [1.5, -2.0]
    """
    if pa.types.is_decimal(kind):
        halves = np.stack([order, order >> 63], axis=1)
        return pa.Array.from_buffers(kind, len(order), [pa.array(~is_null).buffers()[1], pa.py_buffer(halves)])
    if pa.types.is_floating(kind):
        values = (order ^ ((order >> 63) & _ALL_BUT_SIGN)).view(np.float64)
        return pa.array(values, mask=is_null, from_pandas=False).cast(kind)
    whole = pa.array(np.where(is_null, 0, order), mask=is_null)
    return whole.cast(pa.int32()).cast(kind) if pa.types.is_date32(kind) else whole.cast(kind)
