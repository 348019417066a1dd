"""The loop of a table's updates over a micro-batch; compiled where it runs, plain in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def change(  # a compiled loop takes arrays, not objects
    codes: NDArray[np.int64],
    times: NDArray[np.int64],
    coming: NDArray[np.int64],
    is_versioned: bool,
    is_latest_only: bool,
    cells: NDArray[np.int64],
    key_times: NDArray[np.int64],
    replaced: NDArray[np.int64],
    is_sent: NDArray[np.bool_],
) -> int:
    """Put rows in the order of arrival, and say of each what it replaces (semantics.md 4, 5, 8.2, 10.1).

    Args:
        codes: per row that of its key.
        times: per row, microseconds.
        coming: per row its cell: the number of a payload row, less than 0 of a tombstone.
        is_versioned: what is older than the current row replaces nothing.
        is_latest_only: and is no update.
        cells: by key, see `udtf.columns.current`.
        key_times: by key, microseconds.
        replaced: written per row: the payload row before, less than 0 where there was none.
        is_sent: written per row: it is an update.

    Returns:
        how many rows were older than the current one of their key.
    """
    late = 0
    for row in range(len(codes)):
        code = codes[row]
        cell = cells[code]
        replaced[row] = cell
        is_sent[row] = True
        if is_versioned and cell != -1 and times[row] < key_times[code]:
            late += 1
            is_sent[row] = not is_latest_only
            continue
        cells[code] = coming[row]
        key_times[code] = times[row]
    return late
