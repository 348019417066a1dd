"""Keys behind their hashes: whether two rows have the same key after all, and ids for keys whose hashes collide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators import deduplicate_compiled as compiled
from udtf.operators.as_of_columns import floats_of, hashable, ints_of, one_chunk, presence_of
from udtf.record import canonical_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from udtf.record import Key

#: Rows without an identity: no sequence is the same as theirs.
NO_SEQUENCE: Final = -(2**63)
_STEP: Final = 0x1E3779B97F4A7C15
_WRAP: Final = 2**64


def key_columns(rows: pa.Table, n_keys: int) -> list[pa.Array]:
    """The BY columns."""
    return [one_chunk(rows[f"__k{number}"]) for number in range(n_keys)]


def time_column(rows: pa.Table) -> pa.Array:
    """The time that is compared: ON TIME, else the stream's own."""
    return one_chunk(rows["__time" if "__time" in rows.column_names else "__event_time"])


def ints(column: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
    """A column of hashes, ids or times, anything at NULLs."""
    values = ints_of(one_chunk(column))
    assert values is not None, "they are numbers of 64 bits: the binder casts ON TIME to a timestamp"
    return values


def keyless(columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Rows with a NULL in BY; empty where there is none."""
    missing = np.empty(0, np.bool_)
    for column in columns:
        present = presence_of(column)
        if len(present):
            missing = ~present if len(missing) == 0 else missing | ~present
    return missing


def are_equal(columns: Iterable[pa.Array], one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether the keys of rows `one` and `other` are equal, row by row; none of them is NULL."""
    return all(_column_is_equal(column, one, other) for column in columns)


def _column_is_equal(column: pa.Array, one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_are_equal(column, one, other)
    if pa.types.is_nested(kind):
        values = column.to_pylist()
        return all(canonical_key((values[a],)) == canonical_key((values[b],)) for a, b in zip(one, other, strict=True))
    numbers: Any = floats_of(column).view(np.int64) if pa.types.is_floating(kind) else ints_of(column)
    if numbers is not None:
        return bool(np.array_equal(numbers[one], numbers[other]))
    same = pc.equal(column.take(pa.array(one)), column.take(pa.array(other)))
    return bool(pc.all(same, min_count=0).as_py())


def _bytes_are_equal(column: pa.Array, one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    _, starts, data = column.buffers()
    offsets = np.frombuffer(starts, np.int32)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    equal = np.ones(len(one), np.bool_)
    compiled.equal_bytes(offsets, content, one, other, equal)
    return bool(equal.all())


def sequence_codes(column: pa.Array) -> tuple[NDArray[np.int64], bool]:
    """Identities of rows as numbers, `NO_SEQUENCE` at NULLs, and whether equal numbers mean equal in other columns."""
    ints = ints_of(column)
    if ints is not None:
        codes = ints
    elif pa.types.is_nested(column.type):
        known: dict[Key, int] = {}
        codes = np.array([known.setdefault(canonical_key((v,)), len(known)) for v in column.to_pylist()], np.int64)
    else:
        encoded = pc.dictionary_encode(hashable(column))
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    present = presence_of(column)
    return (np.where(present, codes, NO_SEQUENCE) if len(present) else codes), ints is not None


class KnownKeys:
    """Ids by the keys themselves, once two keys were seen to share a hash: slow, and exact.

    >>> known = KnownKeys([("a",)], [7])
    >>> known.ids([("b",), ("a",)], np.array([7, 7])).tolist()[1]
    7
    """

    def __init__(self, keys: Iterable[Key], ids: Iterable[int]) -> None:
        """Begin with the keys of the store."""
        self._ids = dict(zip(keys, ids, strict=True))
        self._taken = set(self._ids.values())

    def __len__(self) -> int:
        """How many keys have an id."""
        return len(self._ids)

    def ids(self, keys: Iterable[Key], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """An id for each row's key; new keys get their hash, or the next number that is free."""
        return np.array([self._id(key, value) for key, value in zip(keys, hashes.tolist(), strict=True)], np.int64)

    def _id(self, key: Key, value: int) -> int:
        known = self._ids.get(key)
        if known is not None:
            return known
        while value in self._taken:
            value = (value + _STEP + _WRAP // 2) % _WRAP - _WRAP // 2
        self._taken.add(value)
        self._ids[key] = value
        return value


def python_keys(columns: Sequence[pa.Array]) -> list[Key]:
    """The keys as Python values."""
    return [canonical_key(key) for key in zip(*(column.to_pylist() for column in columns), strict=True)]
