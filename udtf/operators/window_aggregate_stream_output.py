"""What a micro-batch of an aggregation gives out: finals or updates in the order of emission, and refused rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators import window_aggregate_stream_batch as batches
from udtf.operators import window_aggregate_stream_slots as slots
from udtf.operators.stream_rows import ordered, refused, table_of
from udtf.operators.window_aggregate_stream_columns import one_array
from udtf.stream.interleave import order_codes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate_config import WindowAggregateConfig
    from udtf.operators.window_aggregate_stream_batch import Found
    from udtf.operators.window_aggregate_stream_store import Store

_CAUSE: Final = "__cause"
_LATE_COLUMNS: Final = 4
_CHUNK_ROWS: Final = 1 << 14
_TOO_WIDE: Final = 2**63


class Output:
    """Makes the output of a batch that was folded.

    Args:
        config: the aggregation.
        emit_order: how many order columns the input has, when they are to be in the output; 0 leaves them out.
    """

    def __init__(self, config: WindowAggregateConfig, emit_order: int = 0) -> None:
        """Keep what the operator is."""
        self.config, self._emit_order = config, emit_order
        self._has_windows = config.window.kind != "none"
        self._gap_us = config.window.size_us if config.window.kind == "session" else 0

    def of(self, rows: pa.Table, found: Found, store: Store, spilled: Iterable[pa.Table] = ()) -> pa.Table:
        """The output rows; `spilled` are windows as `Store.table` has them, that closed without coming back."""
        if not self.config.is_final:
            return self._updates(rows, found, store)
        shuts = batches.shuts(store.shape, found.stream_times) if spilled else batches.NOTHING
        return self.finals(rows, store, spilled, lambda ends: np.searchsorted(shuts, ends, side="right"))

    def finals(
        self,
        rows: pa.Table,
        store: Store,
        spilled: Iterable[pa.Table] = (),
        causes_of: Callable[[NDArray[np.int64]], NDArray[np.int64]] = np.zeros_like,
    ) -> pa.Table:
        """The windows that were closed, by end, start and key (B13).

        Args:
            rows: that closed them.
            store: it says which it has closed.
            spilled: others, as `Store.table` has them.
            causes_of: which rows closed spilled windows, by their ends.
        """
        if store.keys is None:
            return pa.table({})  # nothing was ever open
        places, causes = store.closed()
        pieces = [self._piece(store, store.table(places), causes)]
        for windows in spilled:
            ends = one_array(windows["__we"]).to_numpy()
            pieces.append(self._piece(store, windows, causes_of(ends)))
        found = pa.concat_tables(pieces)
        del pieces
        order = pa.array(self._final_order(found))
        columns, taken = dict(zip(found.column_names, found.columns, strict=True)), {}
        del found
        for name in list(columns):
            taken[name] = _in_order(columns, name, order)
        if self._gap_us:
            taken["__we"] = pc.add(taken["__we"], self._gap_us)
        if self._emit_order:
            cause = one_array(taken.pop(_CAUSE)).to_numpy()
            ranks, names = ordered(rows, cause, self._emit_order)
            taken |= dict(zip(names, ranks, strict=True))
        return pa.table(taken)

    def _piece(self, store: Store, windows: pa.Table, causes: NDArray[np.int64]) -> pa.Table:
        """Windows that have travelled, with the values of their aggregates and the rows that closed them."""
        values = store.aggregates.values(*store.aggregates.states(windows))
        names = [f"__k{number}" for number in range(self.config.n_keys)] + ["__ws", "__we"]
        columns = {name: windows[name] for name in names} | {f"__a{n}": value for n, value in enumerate(values)}
        columns["__time"] = windows["__time"]
        if self._emit_order:
            columns[_CAUSE] = pa.array(causes, pa.int32())
        return pa.table(columns)

    def _final_order(self, found: pa.Table) -> NDArray[np.int64]:
        """By end, start and key; time windows of one end have one start."""
        bounds = ("__we", "__ws") if self._gap_us else ("__we",)
        keys = [order_codes(found[f"__k{number}"]) for number in range(self.config.n_keys)] if len(found) else []
        return _order([*(one_array(found[name]).to_numpy() for name in bounds), *keys])

    def late(self, rows: pa.Table, found: Found, times: pa.Array) -> pa.Table:
        """The refused rows: the payload, and the columns of semantics.md B7."""
        places = np.flatnonzero(found.fates != slots.ACCEPTED)
        names = [name for name in rows.column_names if name.startswith("_l")]
        # NB: a table without columns would not know how many rows it has.
        table = rows.select(names or ["__time"])
        late = refused(table, places, found.fates, times, found.stream_times, self.config.name)
        return late.select([*names, *late.column_names[-_LATE_COLUMNS:]])

    def _updates(self, rows: pa.Table, found: Found, store: Store) -> pa.Table:
        """Every update, with the aggregates before and after it."""
        count = int(store.clock[slots.UPDATES])
        updates = found.updates[:count]
        was, is_there = updates[:, batches.WAS] != 0, updates[:, batches.IS] != 0
        new = store.aggregates.values(found.new_ints[:count], found.new_floats[:count], is_there)
        old_ints, old_floats = found.old_ints[:count], found.old_floats[:count]
        kept = np.ones(count, np.bool_)
        if self.config.nets_updates:
            deleted, made = _made_again(updates, was, is_there)
            old_ints[made], old_floats[made], was[made], kept[deleted] = (
                old_ints[deleted],
                old_floats[deleted],
                True,
                False,
            )
        old = store.aggregates.values(old_ints, old_floats, was)
        columns: dict[str, Any] = {f"__a{number}": value for number, value in enumerate(new)}
        columns |= {"__was": pa.array(was), "__is": pa.array(is_there)}
        columns |= {f"__b{number}": value for number, value in enumerate(old)}
        keys = self._keys(store, updates[:, batches.OF_CODE])
        bounds = updates[:, batches.FROM], updates[:, batches.UNTIL], updates[:, batches.AT]
        table = self._table(rows, updates[:, batches.ROW], keys, bounds, columns)
        return table if kept.all() else table.filter(pa.array(kept))

    def _keys(self, store: Store, codes: NDArray[np.int64]) -> list[pa.Array]:
        return [] if store.keys is None else store.keys.take(codes)[0]

    def _table(
        self,
        rows: pa.Table,
        causes: NDArray[np.int64],
        keys: list[pa.Array],
        bounds: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        values: dict[str, Any],
    ) -> pa.Table:
        """Key, bounds, values, time, and the order columns where they are wanted."""
        start, end, time = bounds
        columns: dict[str, Any] = {f"__k{number}": key for number, key in enumerate(keys)}
        if self._has_windows:
            columns |= {"__ws": pa.array(start), "__we": pa.array(end + self._gap_us)}
        columns |= {**values, "__time": pa.array(time)}
        if self._emit_order:
            order, names = ordered(rows, causes, self._emit_order)
            columns |= dict(zip(names, order, strict=True))
        return table_of(list(columns.values()), list(columns), len(causes))


def _made_again(
    updates: NDArray[np.int64], was: NDArray[np.bool_], is_there: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places of deletions, and of the updates by which the same row makes the same session again."""
    deleted, made = np.flatnonzero(was & ~is_there), np.flatnonzero(~was & is_there)
    names = updates[:, [batches.ROW, batches.OF_CODE, batches.FROM, batches.UNTIL]]
    place = {tuple(name): at for name, at in zip(names[made].tolist(), made.tolist(), strict=True)}
    pairs = [
        (at, place[tuple(name)])
        for name, at in zip(names[deleted].tolist(), deleted.tolist(), strict=True)
        if tuple(name) in place
    ]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _in_order(columns: dict[str, pa.ChunkedArray], name: str, order: pa.Array) -> pa.ChunkedArray:
    """Take out a column, in another order: of many chunks in as many, so that their memory serves for the new ones."""
    size = len(order) if columns[name].num_chunks == 1 else _CHUNK_ROWS
    column = one_array(columns.pop(name))
    return pa.chunked_array([column.take(order.slice(at, size)) for at in range(0, max(len(order), 1), max(size, 1))])


def _order(columns: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sorts by the first column, then by the next; as one number where they fit, which is much faster."""
    if len(columns[0]) == 0:
        return np.empty(0, np.int64)
    lowest = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lowest, strict=True)]
    if math.prod(spans) >= _TOO_WIDE:
        return np.lexsort(columns[::-1])
    code = np.zeros(len(columns[0]), np.int64)
    for column, low, span in zip(columns, lowest, spans, strict=True):
        code *= span  # in place: there may be many
        code += column
        code -= low
    return np.argsort(code)
