"""The current rows of a live UPSERT table, of one task: memory grows with the keys that have a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.operators import table_lookup_loops
from udtf.operators.compiled import compiled
from udtf.operators.stream_columns import Rows
from udtf.operators.stream_keys import StreamKeys
from udtf.operators.stream_rows import hashes_of, keys_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udtf.operators.stream_rows import Decided

_FEWEST_ROWS = 1 << 16  # below this nothing is dropped between snapshots
_NOBODY = np.empty(0, np.int64)
_join_current = compiled(table_lookup_loops.join_current)


class CurrentRows:
    """The row of every key that has one.

    Args:
        schema: of table rows as segments hold them: `__k0 ..`, `__hash`, `__flags`, payload.
        n_keys: how many key columns there are.
    """

    def __init__(self, schema: pa.Schema, n_keys: int) -> None:
        """Start without rows."""
        self._names, self._n_keys = list(schema.names), n_keys
        self._key_types = [schema.field(f"__k{number}").type for number in range(n_keys)]
        self.payload = Rows(pa.schema([schema.field(name) for name in self._names[n_keys + 2 :]]))
        self._keys = StreamKeys(self._key_types)
        self._cells = np.full(0, -1, np.int64)  # by key: payload row times 2, plus 1 where the filter is true
        self._next_pack = _FEWEST_ROWS
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self._keys.nbytes + self.payload.nbytes + int(self._cells.nbytes)

    def join(
        self, table: pa.Table, left: pa.Table, decided: Decided, puts_before: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Put table rows and answer stream rows.

        Args:
            table: the accepted table rows, as segments hold them.
            left: all stream rows.
            decided: which of them are answered.
            puts_before: how many of the table rows came before each of those.

        Returns:
            the payload row of every answer, -1 where there is none.
        """
        wanted = decided.is_accepted & decided.has_key
        codes, cells = self._coming(table)
        asks = self._keys.find(keys_of(left, self._n_keys), hashes_of(left), wanted)[decided.accepted]
        rows = np.empty(len(asks), np.int64)
        self.count += int(_join_current(codes, cells, asks, puts_before, self._cells, rows))
        return rows

    def put(self, table: pa.Table) -> None:
        """Put rows that a segment holds."""
        self.count += int(_join_current(*self._coming(table), _NOBODY, _NOBODY, self._cells, _NOBODY))

    def _coming(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Make room for table rows; returns the codes of their keys and what their cells will be."""
        if self.payload.used >= self._next_pack:
            self._pack()
        codes = self._keys.place(keys_of(table, self._n_keys), hashes_of(table))
        if self._keys.size > len(self._cells):
            longer = np.full(max(self._keys.size, 2 * len(self._cells)), -1, np.int64)
            longer[: len(self._cells)] = self._cells
            self._cells = longer
        flags = table["__flags"].to_numpy().astype(np.int64)
        first = self.payload.append(table)
        return codes, np.where(flags & 2, -1, (np.arange(first, first + len(table)) << 1) + flags)

    def table(self) -> pa.Table:
        """The rows, in the shape of segments."""
        codes = self._pack()
        columns = [*self._keys.take(codes), pa.array((self._cells[codes] & 1).astype(np.int8))]
        return pa.table([*columns, *self.payload.take(self._cells[codes] >> 1)], names=self._names)

    def _pack(self) -> NDArray[np.int64]:
        """Forget rows that were replaced and keys without a row; returns the codes of all keys."""
        cells = self._cells[: self._keys.size]
        codes = np.flatnonzero(cells >= 0)
        *columns, hashes = self._keys.take(codes)
        self.payload.keep(cells[codes] >> 1)
        self._keys = StreamKeys(self._key_types)
        flags = cells[codes] & 1
        codes = self._keys.place(columns, hashes.to_numpy())
        self._cells = np.full(len(codes), -1, np.int64)
        self._cells[codes] = (np.arange(len(codes)) << 1) + flags
        self._next_pack = max(_FEWEST_ROWS, 2 * self.payload.used)
        return codes
