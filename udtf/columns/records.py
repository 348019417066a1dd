"""What record-by-record logics of live streams share: their state as segments, their rows as Python's values.

Correct, and slower than what is compiled: a segment of the changelog holds all state, or what the logic was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import numpy as np
import pyarrow as pa

from udtf.columns.arrays import micros_of, one_chunk
from udtf.columns.batch import keys_of, ordered, table_of
from udtf.logic import Segment
from udtf.state.snapshot import seal, unseal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from udtf.logic import Logic, Snapshotable
    from udtf.record import Key, LateRow, Row, Update
    from udtf.time import Micros

WHOLE: Final = "state"
_INPUTS: Final = "inputs"
_STATE_PIECE: Final = 1 << 28  # one value of a column of bytes ends at 2 GB
_STAMP: Final = pa.timestamp("us", "UTC")


LogicT = TypeVar("LogicT", bound="Snapshotable")


class RecordBacked(Generic[LogicT]):
    """A stream logic whose state is that of a record-by-record logic.

    Args:
        logic: what answers.
    """

    def __init__(self, logic: LogicT) -> None:
        """Start without state."""
        self._logic = logic
        self._bytes = 0

    def snapshot(self) -> Segment:
        """All state."""
        state = self._logic.snapshot()
        self._bytes = len(state)
        return Segment({WHOLE: _in_pieces(WHOLE, state)}, {})

    def taken(self, inputs: Sequence[Any]) -> Segment:
        """What the logic was given: given once more, it leads from the same state to the same."""
        written = seal(_INPUTS, inputs)
        self._bytes += len(written)
        return Segment({_INPUTS: _in_pieces(_INPUTS, written)}, {})

    def apply(self, segment: Segment) -> None:
        """Continue from a segment."""
        ((name, table),) = segment.tables.items()
        state = b"".join(table[name].to_pylist())
        if name == _INPUTS:
            self._bytes += len(state)
            cast("Any", self._logic).on_batch(unseal(_INPUTS, state))
            return
        self._bytes = len(state)
        self._logic.restore(state)

    @property
    def stored_bytes(self) -> int:
        """About what the state takes: as many bytes as it was written in."""
        return self._bytes

    def _counted(self, before: Mapping[str, int]) -> dict[str, int]:
        """What was counted since `before`, and the bytes of the last snapshot."""
        return {**self._logic.metrics.since(before), "state_bytes": self._bytes}


def _in_pieces(name: str, written: bytes) -> pa.Table:
    pieces = [written[start : start + _STATE_PIECE] for start in range(0, len(written), _STATE_PIECE)]
    return pa.table({name: pa.array(pieces, pa.large_binary())})


def one_by_one(logic: Logic, rows: Sequence[Row]) -> tuple[list[int], list[Update], list[LateRow]]:
    """Give rows to a logic one at a time: per update the number of the row that caused it, the updates, late rows."""
    emissions = [logic.on_batch([row]) for row in rows]
    causes = [number for number, one in enumerate(emissions) for _ in one.updates]
    return causes, [u for one in emissions for u in one.updates], [row for one in emissions for row in one.late]


def update_flags(updates: Sequence[Update]) -> dict[str, pa.Array]:
    """Whether there was a row before each update, and whether there is one now."""
    return {
        "__was": pa.array([update.old is not None for update in updates], pa.bool_()),
        "__is": pa.array([update.new is not None for update in updates], pa.bool_()),
    }


def key_columns(table: pa.Table, keys: Sequence[Sequence[Any]], n_keys: int) -> dict[str, pa.Array]:
    """The first columns of keys, of the types that they have in the input."""
    return {f"__k{n}": pa.array([key[n] for key in keys], table[f"__k{n}"].type) for n in range(n_keys)}


def as_table(
    columns: dict[str, pa.Array], table: pa.Table, causes: Sequence[int], emit_order: int, rows: int
) -> pa.Table:
    """Output columns as a table, with the order columns of the rows that caused it where they are wanted."""
    if emit_order:
        order, names = ordered(table, np.array(causes, np.int64), emit_order)
        columns = columns | dict(zip(names, order, strict=True))
    return table_of(list(columns.values()), list(columns), rows)


def times_of(table: pa.Table, name: str = "__time") -> list[Micros | None]:
    """The times of rows in a column, microseconds."""
    time = one_chunk(table[name])
    times: list[Micros | None] = pa.array(
        micros_of(time), mask=time.is_null().to_numpy(zero_copy_only=False)
    ).to_pylist()
    return times


def keys_in(table: pa.Table, n_keys: int) -> list[Key]:
    """The keys of rows."""
    return tuples([key.to_pylist() for key in keys_of(table, n_keys)], len(table))


def values_in(table: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Some columns of rows, a row at a time."""
    return tuples([table[name].to_pylist() for name in names], len(table))


def tuples(columns: Sequence[list[Any]], rows: int) -> list[tuple[Any, ...]]:
    """Columns of values as rows."""
    return list(zip(*columns, strict=True)) if columns else [()] * rows


def late_table(table: pa.Table, late: Sequence[LateRow]) -> pa.Table:
    """The refused rows, see `late_rows`; a row's number is the last of its payload."""
    return late_rows(table, [row.row.payload[-1] for row in late], late)


def late_rows(table: pa.Table, numbers: Sequence[int], late: Sequence[LateRow]) -> pa.Table:
    """The refused rows, by their numbers in the input: the payload, and the columns of semantics.md B7."""
    names = [name for name in table.column_names if name.startswith(("_l", "_r"))]
    columns = {name: one_chunk(table[name]).take(pa.array(numbers, pa.int64())) for name in names}
    columns["_reason"] = pa.array([row.reason for row in late], pa.string())
    columns["_operator"] = pa.array([row.operator for row in late], pa.string())
    columns["_stream_time"] = pa.array([row.stream_time for row in late], pa.int64()).cast(_STAMP)
    columns["_lateness"] = pa.array([row.lateness for row in late], pa.int64())
    return pa.table(columns)
