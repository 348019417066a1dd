"""The order in which the updates of both sides of a join of tables count."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from udtf.columns.updates import rows_by_place
from udtf.stream.interleave import merge

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Coming(NamedTuple):
    """The updates of one side in a micro-batch, in their order.

    Attributes:
        first: of each the row of the input that it is known by.
        times: microseconds.
    """

    first: NDArray[np.int64]
    times: NDArray[np.int64]


def merged_updates(both: tuple[Coming, Coming], sides: NDArray[np.int8], *, by_sequence: bool) -> NDArray[np.int64]:
    """The order of the updates of both sides, those of the left first.

    By time it is that of the updates, not of the rows: a row that a table refuses lets no others wait, so that it makes
    no difference which operator keeps the table.

    Args:
        both: the updates.
        sides: which side each next row of the input is of.
        by_sequence: the rows are in the order of a sequence that both sides share; else they go by time.
    """
    if by_sequence:
        places = [np.flatnonzero(sides == side)[updates.first] for side, updates in enumerate(both)]
        return np.argsort(np.concatenate(places), kind="stable")
    left, right = (np.maximum.accumulate(updates.times) for updates in both)
    return rows_by_place(merge(left, right))
