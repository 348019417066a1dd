"""Sliding windows of the bounded rows of one task: sorted by key and time, folded window by window.

Every row counts, nothing is late (semantics.md A, "Batch"); rows without a time have no window. Windows come key by
key, within a key by their end; in pieces, since there may be twice as many of them as rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from udtf.columns import compiled as column_loops
from udtf.columns.arrays import micros_of, one_chunk
from udtf.columns.batch import hashes_of, keys_of
from udtf.columns.keys import GroupKeys
from udtf.errors import OperatorError
from udtf.operators.window_aggregate import batch_loops as tables
from udtf.operators.window_aggregate import compiled as loops
from udtf.operators.window_aggregate.columns import Aggregates
from udtf.operators.window_aggregate.loops import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate.config import WindowAggregateConfig

_PIECE_ROWS: Final = 1 << 16
#: With this many members a window folding each of them costs as much as finding them in the front and the back.
_NARROW: Final = 32
_NONE: Final = np.empty(0, np.int64)


def sliding_table(config: WindowAggregateConfig, rows: pa.Table) -> Iterator[pa.Table]:
    """The windows of a task's rows, with their aggregates, all of which are compiled.

    Args:
        config: the aggregation; of its windows the size, no more.
        rows: columns `__k0 ..`, `__hash` (of the keys), `__time`, and `__a<n>_<m>`, `__a<n>_f` of each aggregate.

    Yields:
        columns `__k0 ..`, `__we` (the end, of the type of `__time`), `__a0 ..`.

    Raises:
        OperatorError: `OPERATOR.ARITHMETIC_OVERFLOW`, a sum that is shown does not fit its type.
    """
    ordered = _Ordered(config, rows)
    aggregates = Aggregates(config.aggregates, has_wide_sums=True)
    ints, floats, counted = (part[:, ordered.order] for part in aggregates.arguments(ordered.rows))
    batch = Batch(_NONE, ordered.times, _NONE, ints, floats, counted)
    is_narrow, stack = _ways(ordered, aggregates)
    cursor = np.zeros(tables.CURSOR_SIZE, np.int64)
    found = _PIECE_ROWS
    while found == _PIECE_ROWS:
        codes, ends = np.empty(_PIECE_ROWS, np.int64), np.empty(_PIECE_ROWS, np.int64)
        states = tables.Stack(
            np.empty((_PIECE_ROWS, aggregates.ints), np.int64), np.empty((_PIECE_ROWS, aggregates.floats), np.float64)
        )
        found = loops.fold_windows(
            batch, ordered.starts, ordered.size, aggregates.folds, is_narrow, cursor, stack, codes, ends, *states
        )
        if found:
            values = aggregates.values(states.ints[:found], states.floats[:found])
            named = {f"__a{number}": value for number, value in enumerate(values)}
            yield pa.table({**ordered.shown(codes[:found], ends[:found]), **named})


def sliding_members(config: WindowAggregateConfig, rows: pa.Table) -> Iterator[pa.Table]:
    """The windows of a task's rows, one row for each member, for the engine to aggregate; within a window in order.

    Args:
        config: the aggregation; of its windows the size, no more.
        rows: as those of `sliding_table`, with the arguments of any type.

    Yields:
        columns `__k0 ..`, `__we`, and the arguments of the member.
    """
    ordered = _Ordered(config, rows)
    names = [name for name in rows.column_names if name.startswith("__a")]
    arguments = ordered.rows.select(names).combine_chunks()
    cursor = np.zeros(tables.CURSOR_SIZE, np.int64)
    found = _PIECE_ROWS
    while found == _PIECE_ROWS:
        ends, members = np.empty(_PIECE_ROWS, np.int64), np.empty(_PIECE_ROWS, np.int64)
        found = loops.list_members(ordered.times, ordered.starts, ordered.size, cursor, ends, members)
        if found:
            places = ordered.order[members[:found]]
            shown = ordered.shown(ordered.codes[places], ends[:found])
            yield pa.table({**shown, **{name: arguments[name].take(pa.array(places)) for name in names}})


class _Ordered:
    """Rows with a time in the order of key, time, and as they stand.

    Attributes:
        rows: the rows as they came.
        codes: of their keys.
        order: their places in order.
        times: in order, µs.
        starts: where keys begin in it.
        size: of the windows, µs.
    """

    def __init__(self, config: WindowAggregateConfig, rows: pa.Table) -> None:
        """Sort them."""
        has_time = one_chunk(rows["__time"]).is_valid()
        self.rows = rows if not rows["__time"].null_count else rows.filter(has_time)
        self.size, self._time_type = config.window.size_us, rows["__time"].type
        keys = keys_of(self.rows, config.n_keys)
        self._keys = GroupKeys([key.type for key in keys])
        self.codes = self._keys.place(keys, hashes_of(self.rows))
        times = micros_of(one_chunk(self.rows["__time"]))
        if len(times) and not config.window.fits(int(times.min()), int(times.max())):
            raise OperatorError.window_overflow(self.size)
        self.starts, self.order = np.zeros(self._keys.size + 1, np.int64), np.empty(len(self.rows), np.int64)
        column_loops.count_codes(self.codes, self.starts)
        column_loops.place_by_code(self.codes, _NONE, self.starts, self.order)
        column_loops.sort_each_key(times, self.starts, self.order)
        self.times = times[self.order]

    def shown(self, codes: NDArray[np.int64], ends: NDArray[np.int64]) -> dict[str, Any]:
        """The columns that say which window it is."""
        keys = self._keys.take(codes)[0]
        end = pa.array(ends).view(pa.timestamp("us", self._time_type.tz))
        return {**{f"__k{number}": key for number, key in enumerate(keys)}, "__we": end}


def _ways(ordered: _Ordered, aggregates: Aggregates) -> tuple[NDArray[np.bool_], tables.Stack]:
    """For which keys each window is folded on its own, and room for the windows of the others.

    NB: by the key's own rows alone, so that sums of floats do not depend on how keys are placed on tasks.
    """
    measures = np.zeros((len(ordered.starts) - 1, 3), np.int64)
    loops.measure_windows(ordered.times, ordered.starts, ordered.size, measures)
    is_narrow = measures[:, tables.MEMBERS] <= _NARROW * measures[:, tables.WINDOWS]
    widest = int(measures[~is_narrow, tables.WIDEST].max(initial=0))
    ints, floats = np.zeros((widest + 2, aggregates.ints), np.int64), np.zeros((widest + 2, aggregates.floats))
    return is_narrow, tables.Stack(ints, floats)
