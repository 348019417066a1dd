"""Columns that are copies of others travel once: the logic sees them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from udtf.logic import IdleLogic, Segment, StreamEmission


class WithCopies:
    """A stream logic of one input, of which some columns are made of others.

    Args:
        logic: what answers.
        copies: the columns that did not travel, and the one that each is.
    """

    def __init__(self, logic: IdleLogic, copies: Mapping[str, str]) -> None:
        self._logic, self._copies = logic, copies

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch."""
        return self._logic.on_batch([self._whole(inputs[0])], sides)

    def close_idle(self, rows: pa.Table) -> StreamEmission:
        """Give out what is open; `rows` is an input without rows, for its types."""
        return self._logic.close_idle(self._whole(rows))

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

    def _whole(self, rows: pa.Table) -> pa.Table:
        for name, source in self._copies.items():
            rows = rows.append_column(name, rows[source])
        return rows
