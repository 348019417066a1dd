"""Spark's `xxhash64` of key columns, without Spark: rows that go from one operator to the next need no engine between.

Source: Spark's `XxHash64` expression (seed 42); xxHash specification, "XXH64 algorithm".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import can_hash, floats_of, ints_of, is_present, one_chunk
from udtf.columns.hash_loops import P1, P2, P3, P4, P5
from udtf.columns.order import longs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_SEED: Final = np.uint64(42)


def spark_hashes(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """The hash of each key; the hash of a column is the seed of the next, and NULL leaves it as it is.

    Args:
        columns: of types that can be hashed; at least one.

    >>> spark_hashes([pa.array(["Spark", None]), pa.array([2, 2], pa.int32())]).tolist()
    [-3909679912936729532, 8420071140774656230]
    """
    states = np.full(len(columns[0]), _SEED, np.uint64)
    for column in columns:
        present = is_present(column)
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            from udtf.columns.text_hashes import hash_texts  # numba costs a second to import, and numbers need none

            data, ends = _bytes_of(column)
            hash_texts(data, ends, present, states)
        else:
            states = np.where(present, _hashed(column, states), states)
    return states.view(np.int64)


def hashes_of_keys(keys: Sequence[pa.Array], rows: int) -> NDArray[np.int64]:
    """The same of rows that may have no key: they have what Spark gives for no column, its seed."""
    return spark_hashes(keys) if keys else np.full(rows, _SEED, np.uint64).view(np.int64)


def _bytes_of(column: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    _, ends, data = column.buffers()
    if len(column) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    places = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    return np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), places


def _hashed(column: pa.Array, seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of a column of fixed width: Spark takes what fits into four bytes as such."""
    kind = column.type
    if pa.types.is_floating(kind):
        values = floats_of(column)
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN; -0.0 becomes 0.0
        is_wide = kind.bit_width == 64
        bits = values.view(np.int64) if is_wide else values.astype(np.float32).view(np.int32).astype(np.int64)
        return _hash_long(bits, seeds) if is_wide else _hash_int(bits, seeds)
    if pa.types.is_decimal128(kind):
        return _hash_long(longs_of(column), seeds)
    if pa.types.is_boolean(kind):
        return _hash_int(pc.fill_null(column, False).cast(pa.int8()).to_numpy().astype(np.int64), seeds)
    ints = ints_of(column)
    assert ints is not None, f"a key of type {kind}"
    return (_hash_long if kind.bit_width == 64 else _hash_int)(ints.astype(np.int64), seeds)


def _hash_int(values: NDArray[np.int64], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = values.view(np.uint64) & np.uint64(0xFFFFFFFF)
    return _mixed(_rotated((seeds + P5 + np.uint64(4)) ^ (words * P1), 23) * P2 + P3)


def _hash_long(values: NDArray[np.int64], seeds: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = _rotated(np.ascontiguousarray(values).view(np.uint64) * P2, 31) * P1
    return _mixed(_rotated((seeds + P5 + np.uint64(8)) ^ words, 27) * P1 + P4)


def _mixed(states: NDArray[np.uint64]) -> NDArray[np.uint64]:
    states = (states ^ (states >> np.uint64(33))) * P2
    states = (states ^ (states >> np.uint64(29))) * P3
    return states ^ (states >> np.uint64(32))


def _rotated(values: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def hashes_or_none(columns: Sequence[Any]) -> NDArray[np.int64]:
    """The hash of each key; of types that cannot be hashed, one and the same: they are told apart by comparing."""
    whole = [one_chunk(column) for column in columns]
    if whole and all(can_hash(column.type) for column in whole):
        return spark_hashes(whole)
    return np.zeros(len(whole[0]) if whole else 0, np.int64)
