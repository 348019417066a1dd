"""The order in which rows count: each input in its order of arrival, and inputs against each other.

With a common sequence the inputs are one: the smaller `__o0` first. Else inside a micro-batch as Kafka Streams chooses
among its partitions: of both heads the one with the smaller event time first, and a head without a time at once. In
both the table goes first on a tie.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import floats_of, ints_of, one_chunk
from udtf.columns.names import is_order
from udtf.record import ties_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


# Rows that come in lanes, each in an order of its own: Kafka's partitions, merged as Kafka Streams chooses among them.
#
# Of the heads of all lanes the one with the smallest event time goes first; on a tie the lane of the smaller number. So
# a row that is out of order in its lane stays after the one that was written before it, and no lane waits for another.


#: The fields of an order column that says lane and place in it.
LANE: Final = "lane"
AT: Final = "at"


def is_lanes(column: pa.ChunkedArray) -> bool:
    """Whether an order column says that rows come in lanes."""
    kind = column.type
    return pa.types.is_struct(kind) and [kind.field(n).name for n in range(kind.num_fields)] == [LANE, AT]


def lanes_of(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane and place of each row; those that have none are a lane of their own, before the others."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    fields = (pc.fill_null(pc.struct_field(values, name), -1) for name in (LANE, AT))
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


#: What a NULL time counts as: it goes at once.
NO_TIME: Final = -(2**63)
_DAY_US: Final = 86_400_000_000


def interleave(
    inputs: Sequence[pa.Table],
    order_columns: Sequence[int],
    common_sequence: bool,
    times: Sequence[str],
    *,
    keeps_order: bool = True,
) -> tuple[list[pa.Table], NDArray[np.int8]]:
    """Sort each of one or two inputs by its order columns, and say which one each next row comes from.

    Args:
        inputs: the rows as delivered.
        order_columns: per input how many `__o0 ..` it has; equal ones stay as delivered.
        common_sequence: `__o0` orders the inputs against each other.
        times: per input the column of its event time.
        keeps_order: whether the order columns are asked for any more; else they end here.
    """
    arranged = [_sorted(table, count, time) for table, count, time in zip(inputs, order_columns, times, strict=False)]
    sides = _sides(arranged, common_sequence, times)
    kept = _decoded if keeps_order else _without_order
    return [kept(table) for table in arranged], sides


def _sides(arranged: Sequence[pa.Table], common_sequence: bool, times: Sequence[str]) -> NDArray[np.int8]:
    if len(arranged) == 1:
        return np.zeros(arranged[0].num_rows, np.int8)
    left, right = arranged
    if common_sequence:
        ranks = order_codes(pa.chunked_array([*_plain(left["__o0"]).chunks, *_plain(right["__o0"]).chunks]))
        return merge(ranks[: left.num_rows], ranks[left.num_rows :])
    # A head waits for all that is before it: by its time it goes when the greatest so far goes.
    return merge(_greatest_so_far(left[times[0]]), _greatest_so_far(right[times[1]]))


def merge(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int8]:
    """The sides in order of two ascending keys; the right one first on a tie.

    >>> merge(np.array([1, 3]), np.array([3, 4])).tolist()
    [0, 1, 0, 1]
    """
    sides = np.ones(len(left) + len(right), np.int8)
    sides[np.arange(len(left)) + np.searchsorted(right, left, side="right")] = 0
    return sides


def in_order(table: pa.Table, order_columns: int, time: str = "") -> pa.Table:
    """The rows by `__o0 ..`, ascending, NULL first, equal ones as they are; encoded columns decoded.

    Where `__o0` says that they come in lanes, the lanes are merged by `time`, the column of their event time.
    """
    return _decoded(_sorted(table, order_columns, time))


def _sorted(table: pa.Table, order_columns: int, time: str) -> pa.Table:
    if table.num_rows and order_columns and is_lanes(table["__o0"]):
        return table.combine_chunks().take(_of_lanes(table, order_columns, time))
    keys = [order_codes(table[f"__o{number}"]) for number in range(order_columns if table.num_rows else 0)]
    if keys and not _is_sorted(keys):
        return table.combine_chunks().take(np.lexsort(keys[::-1]))
    return table


def _decoded(table: pa.Table) -> pa.Table:
    return pa.table([_plain(column) for column in table.columns], names=table.schema.names)


def _without_order(table: pa.Table) -> pa.Table:
    return table.select([name for name in table.column_names if not is_order(name)])


def _of_lanes(table: pa.Table, order_columns: int, time: str) -> NDArray[np.int64]:
    lane, at = lanes_of(table["__o0"])
    others = [order_codes(table[f"__o{number}"]) for number in range(1, order_columns)]
    times = times_us(table[time]) if time in table.column_names else np.zeros(len(lane), np.int64)
    return merged(lane, [at, *others], times)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_sorted(keys: Sequence[NDArray[np.int64]]) -> bool:
    undecided = np.ones(len(keys[0]) - 1, np.bool_)
    for key in keys:
        if np.any(undecided & (key[1:] < key[:-1])):
            return False
        undecided &= key[1:] == key[:-1]
    return True


def order_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Numbers that order as the values of a column do in Spark, NULL first; equal for equal values."""
    values = one_chunk(column)
    if pa.types.is_nested(values.type):
        return _codes_of_nested(values)
    if pa.types.is_floating(values.type):
        bits = floats_of(values).view(np.int64)
        codes = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    elif (ints := ints_of(values)) is None:
        return _codes_of_values(values)
    else:
        codes = ints
    return codes if values.null_count == 0 else _nulls_first(codes, values)


def _nulls_first(codes: NDArray[np.int64], values: pa.Array) -> NDArray[np.int64]:
    present = values.is_valid().to_numpy(zero_copy_only=False)
    ranks = np.zeros(len(codes), np.int64)
    ranks[present] = np.unique(codes[present], return_inverse=True)[1] + 1
    return ranks


def _codes_of_values(values: pa.Array) -> NDArray[np.int64]:
    """Codes of strings, binary, decimals: the distinct values are sorted, not the rows."""
    encoded = values if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
    if len(encoded.dictionary) == 1 and not encoded.null_count:  # the rows of one file
        return np.ones(len(encoded), np.int64)
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.zeros(len(order) + 1, np.int64)
    ranks[order] = np.arange(1, len(order) + 1)
    codes: NDArray[np.int64] = pc.fill_null(encoded.indices.cast(pa.int64()), len(order)).to_numpy(zero_copy_only=False)
    return ranks[codes]


def _codes_of_nested(values: pa.Array) -> NDArray[np.int64]:
    keys = [ties_key((value,), [("asc", "first")]) for value in values.to_pylist()]
    codes = np.zeros(len(keys), np.int64)
    code = 0
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for before, place in pairwise(order):
        code += keys[before] < keys[place]
        codes[place] = code
    return codes


def _greatest_so_far(times: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.maximum.accumulate(times_us(times)) if len(times) else np.empty(0, np.int64)


def times_us(times: pa.ChunkedArray) -> NDArray[np.int64]:
    """Event times in µs (other numbers as they are); NULL is before all."""
    values = one_chunk(times)
    found = ints_of(values)
    assert found is not None, f"an event time of type {values.type}"
    found = found * _DAY_US if pa.types.is_date32(values.type) else found
    if values.null_count == 0:
        return found
    return np.where(values.is_valid().to_numpy(zero_copy_only=False), found, np.int64(NO_TIME))
