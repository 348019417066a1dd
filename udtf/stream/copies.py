"""Columns that are copies of others travel once: the logic sees them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from udtf.logic import IdleLogic, Segment, StreamEmission, StreamLogic


class WithCopies:
    """A stream logic of inputs in which some columns are made of others.

    Args:
        logic: what answers.
        layouts: per input its columns in their order, and the column that each travels as.
    """

    def __init__(self, logic: StreamLogic, layouts: Sequence[Mapping[str, str]]) -> None:
        self._logic, self._layouts = logic, layouts

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch."""
        whole = [_whole(rows, layout) for rows, layout in zip(inputs, self._layouts, strict=True)]
        return self._logic.on_batch(whole, sides)

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Give out what is open, of a logic that can; `inputs` are inputs without rows, for their types."""
        whole = (_whole(rows, layout) for rows, layout in zip(inputs, self._layouts, strict=True))
        return cast("IdleLogic", self._logic).close_idle(*whole)

    def snapshot(self) -> Segment:
        """All state."""
        return self._logic.snapshot()

    def apply(self, segment: Segment) -> None:
        """Continue from a segment."""
        self._logic.apply(segment)

    @property
    def stored_bytes(self) -> int:
        """Memory that the state takes."""
        return self._logic.stored_bytes


def _whole(rows: pa.Table, layout: Mapping[str, str]) -> pa.Table:
    """The rows with all columns of the layout, then those that are not in it."""
    names = [*layout, *(name for name in rows.column_names if name not in layout)]
    return rows.select([layout.get(name, name) for name in names]).rename_columns(names)
