"""The stream rows that wait for the grace to pass, of one task.

Their times are kept in sorted runs that are joined when they are about as long as what came after them; rows leave from
the fronts of the runs, so a call costs what it takes out and puts in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from udtf.operators.as_of_columns import one_chunk
from udtf.operators.stream_columns import Rows

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_FEWEST_ROWS = 1 << 16  # below this the columns keep rows that have left


@dataclass
class _Run:
    """Waiting rows by (time, arrival); what is before `front` has left."""

    times: NDArray[np.int64]
    rows: NDArray[np.int64]
    front: int = 0

    def __len__(self) -> int:
        return len(self.times) - self.front

    def leave(self, bound: int) -> NDArray[np.int64]:
        end = int(np.searchsorted(self.times, bound, side="right"))
        leaving = self.rows[self.front : end]
        self.front = max(end, self.front)
        return leaving


class Waiting:
    """Rows that wait.

    Args:
        schema: of the rows; `__wait_time` (µs) is what they wait with, `__wait_bytes` what each of them counts (B5).
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = Rows(schema)
        self._runs: list[_Run] = []
        self._next_pack = _FEWEST_ROWS
        self.waiting_bytes = 0

    @property
    def count(self) -> int:
        """How many rows wait."""
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Memory of them."""
        return self._rows.nbytes + sum(run.times.nbytes + run.rows.nbytes for run in self._runs)

    def put(self, table: pa.Table) -> None:
        """Add rows in the order of arrival."""
        if not len(table):
            return
        first = self._rows.append(table)
        self.waiting_bytes += _bytes_of(table)
        times = one_chunk(table["__wait_time"]).to_numpy(zero_copy_only=False)
        order = np.argsort(times, kind="stable")
        self._runs.append(_Run(times[order], order + first))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            later = self._runs.pop()
            self._runs[-1] = _joined(self._runs[-1], later)

    def leave(self, bound: int) -> pa.Table:
        """Take out all rows with a time up to the bound; of equal times, the first to arrive comes first."""
        parts = [run.leave(bound) for run in self._runs]
        self._runs = [run for run in self._runs if len(run)]
        leaving = self._rows.table(np.concatenate([np.empty(0, np.int64), *parts]))
        self.waiting_bytes -= _bytes_of(leaving)
        if self._rows.used >= self._next_pack:
            self._pack()
        return leaving

    def table(self) -> pa.Table:
        """All rows, such that putting them again gives the same."""
        self._pack()
        return self._rows.table(np.arange(self._rows.used))

    def _pack(self) -> None:
        """Forget the rows that have left; what stays is one run, in its order."""
        everything = _Run(np.empty(0, np.int64), np.empty(0, np.int64))
        for run in self._runs:
            everything = _joined(everything, run)
        self._rows.keep(everything.rows)
        self._runs = [_Run(everything.times, np.arange(len(everything)))] if len(everything) else []
        self._next_pack = max(_FEWEST_ROWS, 2 * self._rows.used)


def _joined(earlier: _Run, later: _Run) -> _Run:
    times = np.concatenate([earlier.times[earlier.front :], later.times[later.front :]])
    rows = np.concatenate([earlier.rows[earlier.front :], later.rows[later.front :]])
    order = np.argsort(times, kind="stable")  # two sorted runs: merged, not sorted
    return _Run(times[order], rows[order])


def _bytes_of(table: pa.Table) -> int:
    return int(one_chunk(table["__wait_bytes"]).to_numpy().sum())
