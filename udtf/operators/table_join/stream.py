"""A join of two live tables, whole micro-batches at a time: `TableJoinLogic`, update by update.

Source: semantics.md 8, 9; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.columns.records import RecordBacked, tuples
from udtf.columns.updates import ReadUpdates, as_rows, orders_of, times_in
from udtf.logic import StreamEmission
from udtf.operators.table_join.logic import SideUpdate, TableJoinConfig, TableJoinLogic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.record import Side, Update


class TableJoinStream(RecordBacked[TableJoinLogic]):
    """The join of one task, by primary key.

    Both inputs have `__k0 ..`, by which they meet, the payload (`_l0 ..`, `_r0 ..`) and what rows of updates carry
    along, see `udtf.columns.updates`; so has the output.

    Args:
        config: the join.
        schema: of the output.
        keys: where columns of the output are its key: their place, and which column of the key they are.
        kept: how many order columns, which both inputs share, the output keeps.
    """

    def __init__(
        self, config: TableJoinConfig, schema: pa.Schema, keys: tuple[tuple[int, int], ...], kept: int
    ) -> None:
        """Start without state."""
        super().__init__(TableJoinLogic(config))
        self.config, self._schema, self._keys, self._kept = config, schema, keys, kept
        self._width = len(config.left_columns) + len(config.right_columns)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = dict(self._logic.metrics)
        lefts, rights = self._updates(inputs[0], "L", sides == 0), self._updates(inputs[1], "R", sides == 1)
        found = sorted([*lefts, *rights], key=lambda placed: placed[0])
        causes, updates = [], []
        for number, (_, update) in enumerate(found):
            answered = self._logic.on_batch([update]).updates
            causes += [number] * len(answered)
            updates += answered
        orders = self._orders(inputs, sides, [place for place, _ in found], causes)
        rows = as_rows([self._shown(update) for update in updates], self._schema, orders)
        delta = self.snapshot() if len(found) else None
        return StreamEmission(rows, (), self._counted(before), delta)

    def _updates(self, table: pa.Table, side: Side, is_here: NDArray[np.bool_]) -> list[tuple[int, SideUpdate]]:
        """The updates of one side, each with its place among the rows of both."""
        read, places = ReadUpdates(table), np.flatnonzero(is_here)
        names = self.config.left_columns if side == "L" else self.config.right_columns
        meets = tuples([table[f"__k{n}"].to_pylist() for n in range(self.config.n_keys)], len(table))
        payload = tuples([table[name].to_pylist() for name in names], len(table))
        times = times_in(table).tolist()
        return [
            (int(places[first]), SideUpdate(side, times[first], meets[first], _row(payload, new)))
            for first, new in zip(read.first.tolist(), read.rows[:, 1].tolist(), strict=True)
        ]

    def _orders(
        self, inputs: Sequence[pa.Table], sides: NDArray[np.int8], places: list[int], causes: list[int]
    ) -> list[pa.Array]:
        """What is kept of the order of the rows that caused each update."""
        if not self._kept:
            return []
        both = [orders_of(table, range(len(table)), self._kept) for table in inputs]
        within = np.zeros(len(sides), np.int64)
        within[sides == 0] = np.arange(len(inputs[0]))
        within[sides == 1] = np.arange(len(inputs[0]), len(sides))
        rows = within[np.array(places, np.int64)[causes]] if causes else np.empty(0, np.int64)
        return [pa.concat_arrays(columns).take(pa.array(rows)) for columns in zip(*both, strict=True)]

    def _shown(self, update: Update) -> Update:
        gone: list[Any] = [None] * self._width
        for place, number in self._keys:
            gone[place] = update.key[number]
        return update._replace(gone=tuple(gone))


def _row(payload: Sequence[tuple[Any, ...]], place: int) -> tuple[Any, ...] | None:
    return None if place < 0 else payload[place]
