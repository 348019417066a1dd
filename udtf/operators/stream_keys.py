"""Keys of a live stream as codes: found by their hash, then compared with the key that the code stands for.

Equality is Spark's: NaN equals NaN, -0.0 equals 0.0. Two keys of one hash are told apart one by one, as are keys that
Arrow cannot compare (structs, arrays).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.operators import compiled_stream
from udtf.operators.as_of_columns import hashable
from udtf.operators.stream_columns import Rows
from udtf.record import canonical_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
        compiled_stream.find_codes(hashes, wanted, self._slots, codes)
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
        size = compiled_stream.place_codes(hashes, self._slots, before, codes, firsts)
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
            compiled_stream.move_slots(self._slots, slots)
            self._slots = slots


def _free_slots(count: int) -> NDArray[np.int64]:
    return np.full((count, 2), -1, np.int64)


def _canonical(column: pa.Array) -> pa.Array:
    """Equal keys have equal bits; the type stays."""
    return hashable(column).cast(column.type) if pa.types.is_floating(column.type) else column


def _key_at(columns: Sequence[pa.Array], row: int) -> Any:
    return canonical_key(tuple(column[row].as_py() for column in columns))
