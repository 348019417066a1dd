"""Updates of a live stream's groups as rows that plain SQL can be run over; see `udtf.columns.updates`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from udtf.columns.arrays import as_type, one_chunk
from udtf.columns.updates import OLD, UpdateRows, key_columns, payload_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udtf.logic import Segment, StreamEmission, StreamLogic


class GroupUpdates:
    """An aggregation of a stream whose results change, with rows of updates as its output.

    Args:
        logic: the aggregation: `WindowAggregateStream` or `RecordStream`, with emit='changes'; where an order is kept,
            with the order columns in its output.
        schema: of the output.
        kept: how many order columns of the input the output keeps.
        bounds: those of `__ws` and `__we` that end the key of an update.
    """

    def __init__(self, logic: StreamLogic, schema: pa.Schema, kept: int, bounds: tuple[str, ...]) -> None:
        """Take an aggregation without state."""
        self._logic, self._schema, self._kept = logic, schema, kept
        count = len(key_columns(schema.names)) - len(bounds)
        self._keys = (*(f"__k{number}" for number in range(count)), *bounds)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch.

        Raises:
            OperatorError: as the aggregation.
        """
        emission = self._logic.on_batch(inputs, sides)
        return replace(emission, rows=self._rows(emission.rows))

    def snapshot(self) -> Segment:
        """The state of the aggregation."""
        return self._logic.snapshot()

    def apply(self, segment: Segment) -> None:
        """Continue from a snapshot, then from the deltas that followed."""
        self._logic.apply(segment)

    @property
    def stored_bytes(self) -> int:
        """Memory of the aggregation."""
        return self._logic.stored_bytes

    def _rows(self, found: pa.Table) -> pa.Table:
        """The rows before and now of updates that stand side by side."""
        was, is_now = (one_chunk(found[name]).to_numpy(zero_copy_only=False) for name in ("__was", "__is"))
        rows = UpdateRows(was, is_now, shows_gone=False)
        columns = {name: self._column(found, name, rows) for name in payload_columns(self._schema.names)}
        keys = [as_type(one_chunk(found[name]), self._schema.field(name).type) for name in self._keys]
        orders = [one_chunk(found[f"__o{number}"]) for number in range(self._kept)]
        columns |= rows.hidden(one_chunk(found["__time"]).to_numpy(), orders, keys)
        return pa.table([columns[name] for name in self._schema.names], schema=self._schema)

    def _column(self, found: pa.Table, name: str, rows: UpdateRows) -> pa.Array:
        """A column of the rows: of what an aggregate was before there is another one."""
        values = one_chunk(found[name])
        if not name.startswith("__a"):
            return as_type(values.take(pa.array(rows.update)), self._schema.field(name).type)
        both = pa.concat_arrays([values, one_chunk(found[name.replace("__a", "__b", 1)])])
        return both.take(pa.array(rows.update + len(values) * (rows.kind == OLD)))
