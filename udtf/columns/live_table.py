"""The rows of a definition as they enter an operator that keeps the table: what is refused, and what the rest says.

Source: semantics.md 2.1, 4, 5, B9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.columns.arrays import one_chunk, truth_of
from udtf.columns.batch import Decided, hashes_of, keys_of
from udtf.columns.current import DELETED, NOTHING, CurrentRows
from udtf.table import TableConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Put:
    """The rows of a micro-batch that a table takes: in its state, where nothing shows them yet.

    Attributes:
        rows: their places in the micro-batch.
        table: the rows.
        codes: of their keys.
        cells: what their keys show from then on, see `udtf.columns.current`.
        times: microseconds.
        late: the rows that it refuses.
        now: its stream time after them.
    """

    rows: NDArray[np.int64]
    table: pa.Table
    codes: NDArray[np.int64]
    cells: NDArray[np.int64]
    times: NDArray[np.int64]
    late: pa.Table
    now: int | None


def put_rows(current: CurrentRows, side: int, config: TableConfig, table: pa.Table, now: int | None) -> Put:
    """Take the rows of a micro-batch that the table does not refuse (semantics.md 2.1, 4.1, B9).

    Args:
        current: the state.
        side: which of its tables.
        config: the table.
        table: the rows, in the order of arrival.
        now: its stream time before them.
    """
    decided = Decided(table, "__time", config.n_keys, now, config.max_future_us, retention_us=config.retention_us)
    rows = decided.accepted
    put = table.take(pa.array(rows)) if len(rows) < len(table) else table
    codes = current.place(keys_of(put, config.n_keys), hashes_of(put))
    cells = current.rows[side].append(put) + np.arange(len(put))
    if "__deleted" in put.column_names:
        cells = np.where(truth_of(one_chunk(put["__deleted"])), cell_of_deleted(config), cells)
    return Put(rows, put, codes, cells, decided.times[rows], decided.refused(config.name), decided.now)


def cell_of_deleted(config: TableConfig) -> int:
    """What a key shows after a tombstone: of a versioned table its time counts (5.3)."""
    return DELETED if config.is_versioned else NOTHING


def forget_tombstones(current: CurrentRows, side: int, config: TableConfig, now: int | None) -> None:
    """A tombstone says that what is older comes out of order; what would be is refused some time later."""
    if config.is_versioned and now is not None and config.retention_us is not None:
        current.forget(side, current.deleted_before(side, now - config.retention_us))
