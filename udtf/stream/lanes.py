"""Rows that come in lanes, each in an order of its own: Kafka's partitions, merged as Kafka Streams chooses among them.

Of the heads of all lanes the one with the smallest event time goes first; on a tie the lane of the smaller number. So a
row that is out of order in its lane stays behind the one that was written before it, and no lane waits for another.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: The fields of an order column that says lane and place in it.
LANE: Final = "lane"
AT: Final = "at"


def is_lanes(column: pa.ChunkedArray) -> bool:
    """Whether an order column says that rows come in lanes."""
    kind = column.type
    return pa.types.is_struct(kind) and [kind.field(n).name for n in range(kind.num_fields)] == [LANE, AT]


def lanes_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane and place of each row; 0 where there is none."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    fields = (pc.fill_null(pc.struct_field(values, name), 0) for name in (LANE, AT))
    lane, at = (field.to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for field in fields)
    return lane, at


def merged(lane: NDArray[np.int64], places: Sequence[NDArray[np.int64]], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order in which rows go.

    Args:
        lane: of each row.
        places: what orders the rows of a lane, the first first.
        times: the event time of each row; all that is before a row in its lane goes before it.

    >>> merged(np.array([0, 0, 1]), [np.array([1, 2, 1])], np.array([5, 1, 3])).tolist()
    [2, 0, 1]
    """
    order = np.lexsort([*places[::-1], lane])
    greatest = times[order].copy()
    ends = [*(np.flatnonzero(np.diff(lane[order])) + 1), len(order)]
    for start, end in pairwise([0, *ends]):
        np.maximum.accumulate(greatest[start:end], out=greatest[start:end])
    return order[np.argsort(greatest, kind="stable")]
