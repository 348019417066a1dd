"""What record-by-record logics of live streams share: their state as segments, their rows as Python's values.

Correct, and slower than what is compiled: every segment of the changelog holds all state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from udtf.logic import Segment
from udtf.operators.stream_rows import keys_of, micros_of
from udtf.operators.window_aggregate_stream_columns import one_array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udtf.record import Key, LateRow
    from udtf.time import Micros

STATE: Final = "state"
_STATE_PIECE: Final = 1 << 28  # one value of a column of bytes ends at 2 GB
_STAMP: Final = pa.timestamp("us", "UTC")


def segment_of(state: bytes) -> Segment:
    """All state as one segment."""
    pieces = [state[start : start + _STATE_PIECE] for start in range(0, len(state), _STATE_PIECE)]
    return Segment({STATE: pa.table({STATE: pa.array(pieces, pa.large_binary())})}, {})


def state_of(segment: Segment) -> bytes:
    """The state that a segment holds."""
    return b"".join(segment.tables[STATE][STATE].to_pylist())


def times_of(table: pa.Table) -> list[Micros | None]:
    """The event times of rows, microseconds."""
    time = one_array(table["__time"])
    times: list[Micros | None] = pa.array(
        micros_of(time), mask=time.is_null().to_numpy(zero_copy_only=False)
    ).to_pylist()
    return times


def keys_in(table: pa.Table, n_keys: int) -> list[Key]:
    """The keys of rows."""
    return tuples([key.to_pylist() for key in keys_of(table, n_keys)], len(table))


def tuples(columns: Sequence[list[Any]], rows: int) -> list[tuple[Any, ...]]:
    """Columns of values as rows."""
    return list(zip(*columns, strict=True)) if columns else [()] * rows


def late_table(table: pa.Table, late: Sequence[LateRow]) -> pa.Table:
    """The refused rows: the payload, and the columns of semantics.md B7; a row's number is the last of its payload."""
    names = [name for name in table.column_names if name.startswith("_l")]
    numbers = pa.array([row.row.payload[-1] for row in late], pa.int64())
    columns = {name: one_array(table[name]).take(numbers) for name in names}
    columns["_reason"] = pa.array([row.reason for row in late], pa.string())
    columns["_operator"] = pa.array([row.operator for row in late], pa.string())
    columns["_stream_time"] = pa.array([row.stream_time for row in late], pa.int64()).cast(_STAMP)
    columns["_lateness"] = pa.array([row.lateness for row in late], pa.int64())
    return pa.table(columns)
