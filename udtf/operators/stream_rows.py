"""Micro-batches of live streams: numbers of a column, what was refused, where output rows come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.operators.as_of_columns import ints_of, one_chunk, presence_of
from udtf.operators.as_of_kernel import FATES, UNSET

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DAY_US = 86_400_000_000
_LAST_DAY = (2**63 - 1) // _DAY_US
_FATE_NAMES = pa.array(FATES, pa.string())


def micros_of(column: pa.Array) -> NDArray[np.int64]:
    """A time column in microseconds, anything at NULLs."""
    values = ints_of(column)
    assert values is not None, "times of a stream are timestamps or dates"
    return np.clip(values, -_LAST_DAY, _LAST_DAY) * _DAY_US if pa.types.is_date32(column.type) else values


def micros_or(column: pa.Array, instead: int) -> NDArray[np.int64]:
    """A time column in microseconds, with something instead of NULL."""
    values, present = micros_of(column), presence_of(column)
    return np.where(present, values, instead) if len(present) else values


def is_present(column: pa.Array) -> NDArray[np.bool_]:
    """Where a column is not NULL."""
    present = presence_of(column)
    return present if len(present) else np.ones(len(column), np.bool_)


def keys_present(columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Where no key column is NULL."""
    present = is_present(columns[0])
    for column in columns[1:]:
        if column.null_count:
            present = present & presence_of(column)
    return present


def refused(
    table: pa.Table, rows: NDArray[np.int64], fates: NDArray[np.int8], times: pa.Array, clock: Any, name: str
) -> pa.Table:
    """The refused rows with the four columns of semantics.md B7.

    Args:
        table: the input.
        rows: which of its rows are refused.
        fates: of all rows.
        times: of all rows in microseconds; NULL where they have none.
        clock: stream time when each row came.
        name: of the operator.
    """
    clock, times = clock[rows], times.take(pa.array(rows))
    unset = clock == UNSET
    unknown = unset | ~is_present(times)
    lateness = np.where(unknown, 0, clock - times.fill_null(0).to_numpy(zero_copy_only=False))
    late = table.take(pa.array(rows))
    late = late.append_column("_reason", _FATE_NAMES.take(pa.array(fates[rows])))
    late = late.append_column("_operator", pa.array([name], pa.string()).take(pa.array(np.zeros(len(rows), np.int64))))
    late = late.append_column("_stream_time", pa.array(clock, mask=unset).cast(pa.timestamp("us", "UTC")))
    return late.append_column("_lateness", pa.array(lateness, mask=unknown))


def taken(column: pa.Array, more: pa.Array | None, rows: NDArray[np.int64]) -> pa.Array:
    """Some rows of a column that may go on in another one; all of them cost nothing."""
    whole = column if more is None or len(more) == 0 else pa.concat_arrays([column, more])
    if len(rows) == len(whole) and np.array_equal(rows, np.arange(len(rows))):
        return whole
    return whole.take(pa.array(rows))


def ordered(left: pa.Table, causes: NDArray[np.int64], count: int) -> tuple[list[Any], list[str]]:
    """The order columns of each output row: those of the stream row that caused it, and its number within the cause."""
    names = [f"__o{number}" for number in range(count)]
    columns = [taken(one_chunk(left[name]), None, causes) for name in names]
    places = np.arange(len(causes))
    is_first = np.ones(len(causes), np.bool_)
    is_first[1:] = causes[1:] != causes[:-1]
    firsts = np.maximum.accumulate(np.where(is_first, places, 0)) if len(causes) else places
    return [*columns, pa.array(places - firsts)], [*names, f"__o{count}"]


def table_of(columns: Sequence[Any], names: Sequence[str], rows: int) -> pa.Table:
    """A table that keeps its number of rows without columns too."""
    if names:
        return pa.table(list(columns), names=list(names))
    return pa.Table.from_struct_array(pa.array([{}] * rows, pa.struct([])))
