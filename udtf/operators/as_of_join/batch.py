"""The bounded AS OF join of Arrow tables: the versions are prepared once, then any number of left batches is answered.

keys → codes, times → int64, versions sorted by (code, time, ties, arrival) with a counting sort, one binary search per
left row in compiled code that holds no GIL, payload by Arrow's `take`. Source: semantics.md A ("Batch"), C1 to C7.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.columns import compiled as column_loops
from udtf.columns.arrays import ints_of, one_chunk, presence_of, truth_of
from udtf.columns.keys import Keys
from udtf.columns.times import Times, order_of_arrival
from udtf.operators.as_of_join import compiled
from udtf.operators.as_of_join import rules as kernel
from udtf.operators.as_of_join.config import DIRECTIONS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udtf.operators.as_of_join.config import AsOfJoinConfig

_NEVER = 2**63 - 1
_TAKE_ROWS = 1 << 18  # payload is gathered piece by piece: strings of one piece stay far below Arrow's 2 GB
_REASON_NAMES = pa.array(kernel.REASONS, pa.string())


def join_tables(config: AsOfJoinConfig, left: pa.Table, right: pa.Table) -> pa.Table:
    """See `udtf.operators.as_of_join.join_tables`."""
    return Versions(config, right).join(left)


class Versions:
    """The right side of a bounded join, sorted and indexed; answers left tables batch by batch."""

    def __init__(self, config: AsOfJoinConfig, right: pa.Table) -> None:
        """Index a table in the shape of the right side.

        Raises:
            OperatorError: `OPERATOR.NO_DISTANCE`, NEAREST or TOLERANCE over a type without one.
        """
        self._config = config
        time = one_chunk(right["__time"])
        needs_distance = config.direction == "nearest" or config.tolerance_us is not None
        self._clock = Times(time, needs_distance)
        self._keys = Keys([one_chunk(right[f"__k{number}"]) for number in range(config.n_keys)])
        order, spots = self._clock.of(time)
        rows, self._starts = _sorted_rows(self._own_codes(time), self._keys.size, order, _arrivals(config, right))
        self._times = order[rows]
        self._spots = self._times if spots is order else spots[rows]
        self._tree = _tree(_sequences(right)[rows]) if config.has_known else np.empty(0, np.int64)
        self._tombstones = _flags(right, "__deleted", rows)
        self._passes = _flags(right, "__pass", rows)
        payload = right.select(list(config.right_columns))
        is_sorted = len(rows) == len(right) and bool(np.all(rows[1:] > rows[:-1]))
        self._payload = (payload if is_sorted else payload.take(pa.array(rows))).combine_chunks()

    def join(self, left: pa.Table) -> pa.Table:
        """The output for left rows, in their order."""
        places, reasons, matches = self._look_up(left)
        payload = left.select(list(self._config.left_columns))
        if not self._config.is_left and matches < len(places):
            found = places >= 0
            payload, places, reasons = payload.filter(pa.array(found)), places[found], reasons[found]
        columns = [*payload.columns, *self._gather(places, has_gaps=matches < len(places) and self._config.is_left)]
        names = [*self._config.left_columns, *self._config.right_columns]
        if self._config.with_reason:
            columns.append(_REASON_NAMES.take(pa.array(reasons)))
            names.append("__reason")
        return _table(columns, names, len(places))

    def _own_codes(self, time: pa.Array) -> NDArray[np.int64]:
        """Codes of the versions; one without a time or a key is never stored (A, 4.1)."""
        codes = self._keys.take_own()
        present = presence_of(time)
        if len(present):
            codes[~present] = -1
        return codes

    def _look_up(self, left: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int8], int]:
        config = self._config
        as_of = one_chunk(left["__as_of"])
        codes = self._keys.of([one_chunk(left[f"__k{number}"]) for number in range(config.n_keys)])
        order, spots = self._clock.of(as_of)
        places, reasons = np.empty(len(codes), np.int64), np.empty(len(codes), np.int8)
        matches = compiled.join_rows(
            codes,
            order,
            presence_of(as_of),
            spots,
            _known(left) if config.has_known else np.empty(0, np.int64),
            self._starts,
            self._times,
            self._spots,
            self._tree,
            self._tombstones,
            self._passes,
            DIRECTIONS[config.direction],
            config.exclusive,
            self._clock.tolerance(config.tolerance_us),
            places,
            reasons,
        )
        return places, reasons, int(matches)

    def _gather(self, places: NDArray[np.int64], has_gaps: bool) -> list[Any]:
        """The right payload of every row, NULL where there is no match."""
        if not self._config.right_columns:
            return []
        indices = pa.array(places, mask=places < 0) if has_gaps else pa.array(places)
        pieces = [self._payload.take(indices.slice(at, _TAKE_ROWS)) for at in range(0, len(indices), _TAKE_ROWS)]
        gathered: list[Any] = (pa.concat_tables(pieces) if pieces else self._payload.slice(0, 0)).columns
        return gathered


def sort_versions(config: AsOfJoinConfig, right: pa.Table) -> tuple[AsOfJoinConfig, pa.Table]:
    """The versions in order, without those that can never match, and the configuration that reads them so.

    Who indexes the sorted table need not move its payload, so that workers can share one mapped file.
    """
    keys = Keys([one_chunk(right[f"__k{number}"]) for number in range(config.n_keys)])
    time = one_chunk(right["__time"])
    codes = keys.take_own()
    codes[~time.is_valid().to_numpy(zero_copy_only=False)] = -1
    order, _ = Times(time, needs_distance=False).of(time)
    rows, _ = _sorted_rows(codes, keys.size, order, _arrivals(config, right))
    done = [name for name in right.column_names if name == "__arrival" or name.startswith("__tie")]
    return replace(config, ties=()), right.drop_columns(done).take(pa.array(rows)).combine_chunks()


def _sorted_rows(
    codes: NDArray[np.int64], size: int, order: NDArray[np.int64], arrivals: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows by (code, time, ties, arrival), and where each code begins (one entry more than codes)."""
    starts = np.zeros(size + 1, np.int64)
    column_loops.count_codes(codes, starts)
    rows = np.empty(starts[-1], np.int64)
    column_loops.place_by_code(codes, arrivals, starts, rows)
    column_loops.sort_each_key(order, starts, rows)
    return rows, starts


def _arrivals(config: AsOfJoinConfig, right: pa.Table) -> NDArray[np.int64]:
    ties = [one_chunk(right[f"__tie{number}"]) for number in range(len(config.ties))]
    arrival = one_chunk(right["__arrival"]) if "__arrival" in right.column_names else None
    return order_of_arrival(ties, config.ties, arrival)


def _flags(right: pa.Table, name: str, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """A boolean column by sorted rows, empty where the table has none."""
    if name not in right.column_names:
        return np.empty(0, np.bool_)
    return truth_of(one_chunk(right[name]))[rows]


def _sequences(right: pa.Table) -> NDArray[np.int64]:
    """SEQUENCE BY in microseconds; a NULL one is never known."""
    column = one_chunk(right["__seq"])
    values = ints_of(column)
    assert values is not None, "SEQUENCE BY is a timestamp under KNOWN AS OF (C4)"
    return _or_else(values, column, _NEVER)


def _known(left: pa.Table) -> NDArray[np.int64]:
    """KNOWN AS OF in microseconds; at a NULL nothing is known."""
    column = one_chunk(left["__known"])
    values = ints_of(column)
    assert values is not None, "KNOWN AS OF is a timestamp (C4)"
    return _or_else(values, column, -_NEVER)


def _or_else(values: NDArray[np.int64], column: pa.Array, instead: int) -> NDArray[np.int64]:
    present = presence_of(column)
    return np.where(present, values, instead) if len(present) else values


def _tree(sequences: NDArray[np.int64]) -> NDArray[np.int64]:
    """Segment tree of minima over the sorted versions, see `kernel.last_known`."""
    size = 1 << max(len(sequences) - 1, 1).bit_length()
    tree = np.full(2 * size, _NEVER, np.int64)
    tree[size : size + len(sequences)] = sequences
    while size > 1:
        half = size >> 1
        tree[half:size] = np.minimum(tree[size : 2 * size : 2], tree[size + 1 : 2 * size : 2])
        size = half
    return tree


def _table(columns: list[Any], names: list[str], rows: int) -> pa.Table:
    if names:
        return pa.table(columns, names=names)
    # NB: Arrow keeps the number of rows of a table without columns only when made from a struct.
    return pa.Table.from_struct_array(pa.array([{}] * rows, pa.struct([])))
