"""Bytes of rows as the buffer of the record-by-record logic counts them (semantics.md B5), a column at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators.as_of_columns import presence_of
from udtf.state.buffer import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

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
