"""The current rows of live tables, by key: what an update replaces, and what it meets on another side.

A cell is the number of a payload row, or says that there is none: `NOTHING` is known of the key, or it is `DELETED`,
which is known as long as the time of that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from udtf.columns.arrays import longs_in, one_chunk, truth_of
from udtf.columns.keys import GroupKeys
from udtf.columns.rows import FEWEST_ROWS, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NOTHING: Final = -1
DELETED: Final = -2


class CurrentRows:
    """The current rows of tables that have one key.

    Args:
        key_types: of the key columns.
        payloads: per table its payload columns.

    Attributes:
        rows: per table the payload rows that cells number, and such as were replaced.
        cells: per table and key.
        times: per table and key, microseconds; anything where nothing is known of the key.
    """

    def __init__(self, key_types: Sequence[pa.DataType], payloads: Sequence[pa.Schema]) -> None:
        """Know no key."""
        self._keys = GroupKeys(key_types)
        self.rows = [Rows(schema) for schema in payloads]
        self.cells = np.full((len(payloads), 0), NOTHING, np.int64)
        self.times = np.zeros((len(payloads), 0), np.int64)
        self._next_pack = self._next_keys = FEWEST_ROWS

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self._keys.nbytes + sum(rows.nbytes for rows in self.rows) + self.cells.nbytes + self.times.nbytes

    @property
    def count(self) -> int:
        """How many rows are current."""
        return int(np.count_nonzero(self.cells >= 0))

    def make_room(self, pinned: NDArray[np.bool_] | None = None) -> NDArray[np.int64] | None:
        """Forget what was replaced, where that is most of it; codes and cells from before mean nothing then.

        Args:
            pinned: by code, at least as many as there are: keys that something else knows, too.

        Returns:
            By code the new one, -1 of what was forgotten; None where nothing was.
        """
        if sum(rows.used for rows in self.rows) < self._next_pack and self._keys.size < self._next_keys:
            return None
        return self._pack(pinned)

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self._keys.size

    def place(self, columns: Sequence[pa.Array], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes of keys."""
        codes = self._keys.place(columns, hashes)
        known = self.cells.shape[1]
        if self._keys.size > known:
            more = max(self._keys.size, 2 * known) - known
            self.cells = np.pad(self.cells, ((0, 0), (0, more)), constant_values=NOTHING)
            self.times = np.pad(self.times, ((0, 0), (0, more)))
        return codes

    def put(self, side: int, table: pa.Table, deleted: int) -> None:
        """Put what `table` gave, of one table; `deleted` is the cell of a key that has no row."""
        names = table.column_names
        codes = self.place(
            [one_chunk(table[name]) for name in names if name.startswith("__k")], longs_in(table, "__hash")
        )
        first = self.rows[side].append(table)
        is_gone = truth_of(one_chunk(table["__gone"]))
        self.cells[side, codes] = np.where(is_gone, deleted, np.arange(first, first + len(table)))
        self.times[side, codes] = longs_in(table, "__time")

    def table(self, side: int, codes: NDArray[np.int64] | None = None) -> pa.Table:
        """What is known of keys (of all) in one table: key, `__hash`, `__time`, `__gone`, payload."""
        if codes is None:
            codes = np.flatnonzero(self.cells[side, : self._keys.size] != NOTHING)
        keys, hashes = self._keys.take(codes)
        cells = self.cells[side, codes]
        rows, is_row = self.rows[side], cells >= 0
        payload = rows.take(np.where(is_row, cells, 0), is_row)
        names = [*(f"__k{n}" for n in range(len(keys))), "__hash", "__time", "__gone", *rows.names]
        return pa.table([*keys, hashes, pa.array(self.times[side, codes]), pa.array(~is_row), *payload], names=names)

    def forget(self, side: int, codes: NDArray[np.int64]) -> None:
        """Know nothing more of some keys."""
        self.cells[side, codes] = NOTHING

    def deleted_before(self, side: int, time: int) -> NDArray[np.int64]:
        """The keys of which it is known that they were deleted before a time, microseconds."""
        size = self._keys.size
        return np.flatnonzero((self.cells[side, :size] == DELETED) & (self.times[side, :size] < time))

    def _pack(self, pinned: NDArray[np.bool_] | None) -> NDArray[np.int64]:
        size = self._keys.size
        is_kept = (self.cells[:, :size] != NOTHING).any(axis=0)
        codes = np.flatnonzero(is_kept if pinned is None else is_kept | pinned[:size])
        cells, times = self.cells[:, codes], self.times[:, codes]
        new = self._keys.keep(codes)
        self.cells, self.times = np.full_like(cells, NOTHING), np.zeros_like(times)
        for side, rows in enumerate(self.rows):
            is_row = cells[side] >= 0
            rows.keep(cells[side][is_row])
            cells[side][is_row] = np.arange(np.count_nonzero(is_row))
        self.cells[:, new], self.times[:, new] = cells, times
        self._next_pack = max(FEWEST_ROWS, 2 * sum(rows.used for rows in self.rows))
        self._next_keys = max(FEWEST_ROWS, 2 * self._keys.size)
        renamed = np.full(size, NOTHING, np.int64)
        renamed[codes] = new
        return renamed

    def keys(self, codes: NDArray[np.int64]) -> tuple[list[pa.Array], pa.Array]:
        """The key columns of some codes, and their hashes."""
        return self._keys.take(codes)
