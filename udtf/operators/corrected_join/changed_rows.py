"""An AS OF join with corrections of rows that are corrected themselves: `CorrectedJoinLogic`, record by record.

Source: see the logic; docs/design/20261123_corrections.md.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from udtf.columns.records import RecordBacked, keys_in, late_rows, times_of, values_in
from udtf.columns.updates import ReadUpdates, as_rows, key_columns, orders_of_both, payload_columns
from udtf.logic import StreamEmission
from udtf.operators.corrected_join.logic import CorrectedJoinLogic, LeftChange
from udtf.record import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from udtf.operators.as_of_join.config import AsOfJoinConfig
    from udtf.record import LateRow, Update


class ChangedRowsJoin(RecordBacked[CorrectedJoinLogic]):
    """The join of one task.

    The left input has `__k0 ..`, `__as_of`, the payload `_l0 ..` and what rows of updates carry along; the right one
    `__k0 ..`, `__time`, `__tie0 ..`, `__arrival`?, `__deleted`?, `__pass`?, `_r0 ..` and `__o0 ..`. The output has rows
    of updates, see `udtf.columns.updates`.

    Args:
        config: the join.
        schema: of the output.
        kept: how many order columns, which both inputs share, the output keeps.
    """

    def __init__(self, config: AsOfJoinConfig, schema: pa.Schema, kept: int) -> None:
        """Start without state."""
        super().__init__(CorrectedJoinLogic(config))
        self.config, self._schema, self._kept = config, schema, kept

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = dict(self._logic.metrics)
        left, right = inputs
        places = [np.flatnonzero(sides == side).tolist() for side in (0, 1)]
        given: list[tuple[int, int, Row | LeftChange]] = [
            *zip(places[1], range(len(left), len(left) + len(right)), self._rights(right), strict=True),
            *((places[0][first], first, change) for first, change in self._changes(left)),
        ]
        given.sort(key=lambda found: found[0])
        causes: list[int] = []
        updates: list[Update] = []
        late: list[tuple[int, LateRow]] = []
        for _, cause, row in given:
            emission = self._logic.on_batch([row])
            causes += repeat(cause, len(emission.updates))
            updates += emission.updates
            late += zip(repeat(cause), emission.late)
        rows = as_rows(
            [self._shown(update) for update in updates], self._schema, orders_of_both(inputs, causes, self._kept)
        )
        delta = self.taken([row for _, _, row in given]) if given else None
        counted = {**self._counted(before), "emitted": len(updates), "state_rows": self._logic.rows}
        of_left = [(cause, row) for cause, row in late if cause < len(left)]
        of_right = [(cause - len(left), row) for cause, row in late if cause >= len(left)]
        refused = tuple(
            late_rows(table, [number for number, _ in found], [row for _, row in found])
            for table, found in ((left, of_left), (right, of_right))
        )
        return StreamEmission(rows, refused, counted, delta)

    def _lefts(self, table: pa.Table) -> list[Row]:
        keys, payload = keys_in(table, self.config.n_keys), values_in(table, self.config.left_columns)
        as_of, happened = times_of(table, "__as_of"), times_of(table, "__event_time")
        return [
            Row("L", key, None if event_time is None else time, values, event_time=event_time)
            for key, time, event_time, values in zip(keys, as_of, happened, payload, strict=True)
        ]

    def _changes(self, table: pa.Table) -> list[tuple[int, LeftChange]]:
        rows, read = self._lefts(table), ReadUpdates(table)
        keys = values_in(table, key_columns(table.column_names))
        found = []
        for first, (old, new, _) in zip(read.first.tolist(), read.rows.tolist(), strict=True):
            before, now = (None if place < 0 else rows[place] for place in (old, new))
            found.append((first, LeftChange(keys[first], before, now)))
        return found

    def _rights(self, table: pa.Table) -> list[Row]:
        names = table.column_names
        keys, payload = keys_in(table, self.config.n_keys), values_in(table, self.config.right_columns)
        ties = values_in(table, [name for name in names if name.startswith("__tie") or name == "__arrival"])
        flags: list[Any] = [
            table[name].to_pylist() if name in names else repeat(default, len(table))
            for name, default in (("__deleted", False), ("__pass", True))
        ]
        found = zip(keys, times_of(table), payload, ties, *flags, strict=True)
        return [
            Row(
                "R",
                key,
                time,
                values,
                event_time=time,
                ties=broken,
                is_tombstone=deleted is True,
                passes=passes is True,
            )
            for key, time, values, broken, deleted, passes in found
        ]

    def _shown(self, update: Update) -> Update:
        return update._replace(gone=(None,) * len(payload_columns(self._schema.names)))
