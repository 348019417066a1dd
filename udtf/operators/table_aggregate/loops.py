"""The loop of groups of a table over a micro-batch; compiled where it runs, plain in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Places in what is remembered of a group: how many rows it has, its greatest time, and whether it is shown.
ROWS, TIME, SHOWN = 0, 1, 2


def copy_group(
    totals: NDArray[np.int64], counted: NDArray[np.int64], group: int, target: NDArray[np.int64], place: int
) -> None:
    """Write what the aggregates of a group are."""
    for aggregate in range(len(totals)):
        target[aggregate, 0, place] = totals[aggregate, group]
        target[aggregate, 1, place] = counted[aggregate, group]


def count_row(  # a compiled loop takes arrays, not objects
    values: NDArray[np.int64],
    counts: NDArray[np.bool_],
    row: int,
    sign: int,
    totals: NDArray[np.int64],
    counted: NDArray[np.int64],
    group: int,
) -> int:
    """Put a row into its group, or take it out; the aggregate whose total does not fit, -1 is none."""
    for aggregate in range(len(totals)):
        if counts[aggregate, row]:
            old, change = totals[aggregate, group], sign * values[aggregate, row]
            total = old + change
            if ((total ^ old) & (total ^ change)) < 0:
                return aggregate
            totals[aggregate, group] = total
            counted[aggregate, group] += sign
    return -1


def regroup(  # a compiled loop takes arrays, not objects
    updates: NDArray[np.int64],
    codes: NDArray[np.int64],
    times: NDArray[np.int64],
    values: NDArray[np.int64],
    counts: NDArray[np.bool_],
    has_keys: bool,
    facts: NDArray[np.int64],
    totals: NDArray[np.int64],
    counted: NDArray[np.int64],
    changed: NDArray[np.int64],
    before: NDArray[np.int64],
    after: NDArray[np.int64],
) -> int:
    """Take rows out of their groups and put others in, and say what each group was and is (semantics.md 10.2, 10.5).

    Args:
        updates: per update its row before, its row now, less than 0 where there is none, and its first row.
        codes: per row that of its group.
        times: per row, microseconds.
        values: by aggregate and row what it adds.
        counts: by aggregate and row: it counts.
        has_keys: a group without rows is no row of the result, B11.
        facts: by place and group.
        totals: by aggregate and group.
        counted: by aggregate and group: of how many rows the total is.
        changed: written per update of the result: the group, the update's first row, the time, whether it was shown,
            and whether it is.
        before: written by aggregate, then total and count, and update of the result.
        after: the same.

    Returns:
        how many updates of the result there are; -1 - n where a total of aggregate n does not fit.
    """
    sent = 0
    for update in range(len(updates)):
        old, new = updates[update, 0], updates[update, 1]
        is_one = old >= 0 and new >= 0 and codes[old] == codes[new]
        for end in range(2):
            row, sign = updates[update, end], 2 * end - 1
            if row < 0:
                continue
            group = codes[row]
            if not (is_one and end == 1):
                changed[0, sent], changed[1, sent], changed[3, sent] = group, updates[update, 2], facts[SHOWN, group]
                copy_group(totals, counted, group, before, sent)
            facts[ROWS, group] += sign
            facts[TIME, group] = max(facts[TIME, group], times[row])
            wrong = count_row(values, counts, row, sign, totals, counted, group)
            if wrong >= 0:
                return -1 - wrong
            if not (is_one and end == 0):
                facts[SHOWN, group] = facts[ROWS, group] > 0 or not has_keys
                changed[2, sent], changed[4, sent] = facts[TIME, group], facts[SHOWN, group]
                copy_group(totals, counted, group, after, sent)
                sent += 1
    return sent
