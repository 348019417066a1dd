"""Arrow columns of any type as numpy arrays of numbers.

Equality and order are Spark's: NaN equals NaN and is the greatest, -0.0 equals 0.0, strings order by UTF-8 bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


_DAY_US = 86_400_000_000
_LAST_DAY = (2**63 - 1) // _DAY_US
_LONG_DIGITS = 18  # a decimal of so many is a long


def one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in a type.

    Arrow does not cast a NULL struct to its own type where a field of it may not be NULL.
    """
    return column if column.type == kind else column.cast(kind)


def longs_in(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of longs that are never NULL."""
    values: NDArray[np.int64] = one_chunk(table[name]).to_numpy()
    return values


def ints_of(column: pa.Array) -> NDArray[np.int64] | None:
    """The values as int64 where the type is one in disguise (ints, date, timestamp, bool), anything at NULLs."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = (column if kind.unit == "us" else column.cast(pa.timestamp("us", kind.tz))).view(pa.int64())
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


def is_present(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column is not NULL."""
    present = presence_of(column)
    return present if len(present) else np.ones(len(column), np.bool_)


def floats_of(column: pa.Array) -> NDArray[np.float64]:
    """A float column with one NaN and one zero."""
    values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    floats: NDArray[np.float64] = values
    return floats


def hashable(column: pa.Array) -> pa.Array:
    """The column with equal values alike in every bit, which is how Arrow compares floats."""
    if not pa.types.is_floating(column.type):
        return column
    return pa.array(floats_of(column), mask=~column.is_valid().to_numpy(zero_copy_only=False))


def lateness_of(stream_times: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """How far rows are behind stream time (negative: ahead), microseconds; what does not fit is the farthest.

    >>> lateness_of(np.array([7, -3]), np.array([5, 2**63 - 1])).tolist()
    [2, -9223372036854775808]
    """
    late = stream_times - times
    wraps = ((stream_times ^ times) & (stream_times ^ late)) < 0
    return np.where(wraps, np.where(stream_times < 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max), late)


def micros_of(column: pa.Array) -> NDArray[np.int64]:
    """A time column in microseconds, anything at NULLs."""
    values = ints_of(column)
    assert values is not None, "times of a stream are timestamps or dates"
    return np.clip(values, -_LAST_DAY, _LAST_DAY) * _DAY_US if pa.types.is_date32(column.type) else values


def can_hash(kind: pa.DataType) -> bool:
    """Whether `udtf.columns.hashes` has Spark's hash of values of a type."""
    return pa.types.is_string(kind) or pa.types.is_binary(kind) or can_hash_by_columns(kind)


def can_hash_by_columns(kind: pa.DataType) -> bool:
    """Whether it needs no compiled loop for that."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    is_time = types.is_date32(kind) or (types.is_timestamp(kind) and kind.unit == "us")
    return bool(is_number or is_time) or bool(types.is_decimal128(kind) and kind.precision <= _LONG_DIGITS)
