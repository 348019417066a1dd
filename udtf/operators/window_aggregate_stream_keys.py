"""Grouping keys of a live aggregation as codes: NULL is a value like any other (semantics.md B10)."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators.stream_bytes import stored_bytes
from udtf.operators.stream_keys import StreamKeys
from udtf.operators.stream_rows import is_present

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


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
