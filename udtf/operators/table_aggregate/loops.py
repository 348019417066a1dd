"""The loops of groups of a table over a micro-batch; compiled where they run, plain in tests.

A move takes a row out of its group, or puts one in. What an aggregate of the group was is asked before the first move
of an update of the result, what it is after the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from udtf.operators.table_aggregate.exact_loops import add_bits, add_long, quotient, rounded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Places in what is remembered of a group: how many rows it has, its greatest time, and whether it is shown.
ROWS, TIME, SHOWN = 0, 1, 2
#: Places in a move: the group, the row, 1 or -1, whether it is the first and the last one of an update of the result.
GROUP, ROW, SIGN, BEGINS, ENDS = 0, 1, 2, 3, 4
#: Where a total of doubles counts what is not finite.
NANS, INFINITIES, NEGATIVE_INFINITIES = 0, 1, 2


def move(  # a compiled loop takes arrays, not objects
    updates: NDArray[np.int64],
    codes: NDArray[np.int64],
    times: NDArray[np.int64],
    has_keys: bool,
    facts: NDArray[np.int64],
    moves: NDArray[np.int64],
    changed: NDArray[np.int64],
) -> tuple[int, int]:
    """Take rows out of their groups and put others in, and say which groups changed (semantics.md 10.2, 10.5).

    Args:
        updates: per update its row before, its row now, less than 0 where there is none, and its first row.
        codes: per row that of its group.
        times: per row, microseconds.
        has_keys: a group without rows is no row of the result, B11.
        facts: by place and group.
        moves: written by place and move.
        changed: written per update of the result: the group, the update's first row, the time, whether it was shown,
            and whether it is.

    Returns:
        how many moves, and how many updates of the result there are.
    """
    moved = sent = 0
    for update in range(len(updates)):
        old, new = updates[update, 0], updates[update, 1]
        is_one = old >= 0 and new >= 0 and codes[old] == codes[new]
        for end in range(2):
            row, sign = updates[update, end], 2 * end - 1
            if row < 0:
                continue
            group, begins, ends = codes[row], not (is_one and end == 1), not (is_one and end == 0)
            if begins:
                changed[0, sent], changed[1, sent], changed[3, sent] = group, updates[update, 2], facts[SHOWN, group]
            facts[ROWS, group] += sign
            facts[TIME, group] = max(facts[TIME, group], times[row])
            moves[GROUP, moved], moves[ROW, moved], moves[SIGN, moved] = group, row, sign
            moves[BEGINS, moved], moves[ENDS, moved] = begins, ends
            moved += 1
            if ends:
                facts[SHOWN, group] = facts[ROWS, group] > 0 or not has_keys
                changed[2, sent], changed[4, sent] = facts[TIME, group], facts[SHOWN, group]
                sent += 1
    return moved, sent


def count(moves: NDArray[np.int64], counted: NDArray[np.int64], found: NDArray[np.int64]) -> None:
    """Count rows per group.

    Args:
        moves: by place and move; the sign is 0 of a row that does not count.
        counted: by group.
        found: written before and after, by update of the result.
    """
    sent = 0
    for number in range(moves.shape[1]):
        group = moves[GROUP, number]
        if moves[BEGINS, number]:
            found[0, sent] = counted[group]
        counted[group] += moves[SIGN, number]
        if moves[ENDS, number]:
            found[1, sent] = counted[group]
            sent += 1


def add_whole(
    moves: NDArray[np.int64], values: NDArray[np.int64], totals: NDArray[np.int64], found: NDArray[np.int64]
) -> bool:
    """Sum up whole numbers per group.

    Args:
        moves: by place and move; the sign is 0 of a row that does not count.
        values: per row.
        totals: by group.
        found: written before and after, by update of the result.

    Returns:
        whether all totals fit.
    """
    sent = 0
    for number in range(moves.shape[1]):
        group = moves[GROUP, number]
        if moves[BEGINS, number]:
            found[0, sent] = totals[group]
        old, change = totals[group], moves[SIGN, number] * values[moves[ROW, number]]
        total = old + change
        if ((total ^ old) & (total ^ change)) < 0:
            return False
        totals[group] = total
        if moves[ENDS, number]:
            found[1, sent] = total
            sent += 1
    return True


def add_doubles(  # a compiled loop takes arrays, not objects
    moves: NDArray[np.int64],
    bits: NDArray[np.int64],
    low: int,
    limbs: NDArray[np.int64],
    others: NDArray[np.int64],
    counted: NDArray[np.int64],
    is_average: bool,
    scratch: NDArray[np.int64],
    found: NDArray[np.float64],
) -> None:
    """Sum up doubles per group, exactly, and round once.

    Args:
        moves: by place and move; the sign is 0 of a row that does not count.
        bits: per row, those of its double.
        low: which limb of a double's range is the first of `limbs`.
        limbs: by group and place, see `exact_loops`.
        others: by group how many rows are no finite number, see `NANS`.
        counted: by found place and update of the result how many rows there are, see `count`.
        is_average: divide by that.
        scratch: room for `rounded`.
        found: written before and after, by update of the result.
    """
    sent = 0
    for number in range(moves.shape[1]):
        group, sign = moves[GROUP, number], moves[SIGN, number]
        if moves[BEGINS, number]:
            divisor = max(1, counted[0, sent]) if is_average else 1
            found[0, sent] = double_of(limbs[group], others[group], low, divisor, scratch)
        if sign != 0:
            one = bits[moves[ROW, number]]
            if ((one >> 52) & 0x7FF) != 0x7FF:
                add_bits(one, sign, low, limbs[group])
            elif (one & 0xFFFFFFFFFFFFF) != 0:
                others[group, NANS] += sign
            else:
                others[group, INFINITIES if one > 0 else NEGATIVE_INFINITIES] += sign
        if moves[ENDS, number]:
            divisor = max(1, counted[1, sent]) if is_average else 1
            found[1, sent] = double_of(limbs[group], others[group], low, divisor, scratch)
            sent += 1


def double_of(
    limbs: NDArray[np.int64], others: NDArray[np.int64], low: int, divisor: int, scratch: NDArray[np.int64]
) -> float:
    """What a total of doubles is."""
    if others[NANS] > 0 or (others[INFINITIES] > 0 and others[NEGATIVE_INFINITIES] > 0):
        return float("nan")
    if others[INFINITIES] > 0:
        return float("inf")
    if others[NEGATIVE_INFINITIES] > 0:
        return -float("inf")
    return rounded(limbs, low, divisor, scratch)


def add_decimals(  # a compiled loop takes arrays, not objects
    moves: NDArray[np.int64],
    values: NDArray[np.int64],
    limbs: NDArray[np.int64],
    counted: NDArray[np.int64],
    factor: int,
    scratch: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """Sum up decimals per group.

    Args:
        moves: by place and move; the sign is 0 of a row that does not count.
        values: per row, in units of its scale.
        limbs: by group and place, see `exact_loops`.
        counted: by found place and update of the result how many rows there are, see `count`.
        factor: of an average how many units of its scale are one of the values'; 0 of a sum.
        scratch: room for `quotient`.
        found: written before and after, by update of the result: the low and the high half of 128 bits.
    """
    sent = 0
    for number in range(moves.shape[1]):
        group, sign = moves[GROUP, number], moves[SIGN, number]
        if moves[BEGINS, number]:
            divisor = max(1, counted[0, sent]) if factor else 1
            found[0, 0, sent], found[0, 1, sent] = quotient(limbs[group], max(1, factor), divisor, scratch)
        if sign != 0:
            add_long(values[moves[ROW, number]], sign, limbs[group])
        if moves[ENDS, number]:
            divisor = max(1, counted[1, sent]) if factor else 1
            found[1, 0, sent], found[1, 1, sent] = quotient(limbs[group], max(1, factor), divisor, scratch)
            sent += 1


# Values and how many rows have each; those of a group in a skew heap, of which each value is a node.


def first_and_last(moves: NDArray[np.int64], codes: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
    """Let only the first row count that comes to a value, and the last one that goes.

    Args:
        moves: by place and move; the sign is written.
        codes: per row that of its value in its group.
        rows: by value how many rows have it.
    """
    for number in range(moves.shape[1]):
        sign = moves[SIGN, number]
        if sign != 0:
            value = codes[moves[ROW, number]]
            rows[value] += sign
            if rows[value] != (1 if sign > 0 else 0):
                moves[SIGN, number] = 0


def extreme(  # a compiled loop takes arrays, not objects
    moves: NDArray[np.int64],
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    nodes: NDArray[np.int64],
    roots: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    """The least value of each group, as rows come and go.

    Args:
        moves: by place and move; the sign is 0 of a row that does not count.
        codes: per row that of its value in its group.
        order: by value what it is compared by.
        rows: by value how many rows have it.
        nodes: by value its left and its right child in the heap, -1 is none; whether it is in the heap.
        roots: by group that of its heap, -1 is none.
        found: written before and after, by update of the result: the code of the value, -1 is none.
    """
    sent = 0
    for number in range(moves.shape[1]):
        group, sign = moves[GROUP, number], moves[SIGN, number]
        if moves[BEGINS, number]:
            found[0, sent] = least(order, rows, nodes, roots, group)
        if sign != 0:
            value = codes[moves[ROW, number]]
            rows[value] += sign
            if rows[value] > 0:
                push(order, nodes, roots, group, value)
        if moves[ENDS, number]:
            found[1, sent] = least(order, rows, nodes, roots, group)
            sent += 1


def push_all(
    groups: NDArray[np.int64],
    codes: NDArray[np.int64],
    order: NDArray[np.int64],
    rows: NDArray[np.int64],
    nodes: NDArray[np.int64],
    roots: NDArray[np.int64],
) -> None:
    """Put values into the heaps of their groups; see `extreme`."""
    for number in range(len(codes)):
        if rows[codes[number]] > 0:
            push(order, nodes, roots, groups[number], codes[number])


def push(order: NDArray[np.int64], nodes: NDArray[np.int64], roots: NDArray[np.int64], group: int, value: int) -> None:
    """Put a value into the heap of its group, unless it is there."""
    if not nodes[value, 2]:
        nodes[value, 0] = nodes[value, 1] = -1
        nodes[value, 2] = 1
        roots[group] = meld(order, nodes, roots[group], value)


def least(
    order: NDArray[np.int64], rows: NDArray[np.int64], nodes: NDArray[np.int64], roots: NDArray[np.int64], group: int
) -> int:
    """The least value of a group that a row has; such as no row has go."""
    root = roots[group]
    while root >= 0 and rows[root] == 0:
        nodes[root, 2] = 0
        root = meld(order, nodes, nodes[root, 0], nodes[root, 1])
    roots[group] = root
    return int(root)


def meld(order: NDArray[np.int64], nodes: NDArray[np.int64], one: int, other: int) -> int:
    """Two skew heaps as one: D. Sleator, R. Tarjan, Self-adjusting heaps, 1986."""
    if one < 0:
        return other
    if other < 0:
        return one
    if order[other] < order[one]:
        one, other = other, one
    root = one
    while True:
        right = nodes[one, 1]
        nodes[one, 1] = nodes[one, 0]
        if right < 0:
            nodes[one, 0] = other
            return root
        if order[other] < order[right]:
            right, other = other, right
        nodes[one, 0] = right
        one = right
