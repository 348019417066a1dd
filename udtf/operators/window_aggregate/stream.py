"""Aggregation of a live stream, one task, whole micro-batches at a time, compiled; answers as `WindowAggregateLogic`.

What is compiled is said by `window_aggregate_stream_plan.is_compiled`; for the rest there is
`row_by_row.py`. Source: KIP-328, semantics.md 11 to 14, 17, A and B; docs/design/20261121_windows.md.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import is_present, micros_of, one_chunk
from udtf.columns.batch import hashes_of, ordered, refused, table_of, uncaused
from udtf.logic import Segment, StreamEmission
from udtf.operators.window_aggregate import loops
from udtf.operators.window_aggregate.loops import NOTHING_SPILLED
from udtf.operators.window_aggregate.spill import Spill
from udtf.operators.window_aggregate.store import Store
from udtf.rules import UNSET
from udtf.stream.interleave import order_codes
from udtf.time import StreamTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate.config import WindowAggregateConfig
    from udtf.operators.window_aggregate.loops import Found


# What a micro-batch of an aggregation gives out: finals or updates in the order of emission, and refused rows.


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
        close_bounds = loops.close_bounds(store.shape, found, store.closed_before) if spilled else loops.NOTHING
        return self.finals(rows, store, spilled, lambda ends: np.searchsorted(close_bounds, ends, side="right"))

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
            ends = one_chunk(windows["__we"]).to_numpy()
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
            cause = one_chunk(taken.pop(_CAUSE)).to_numpy()
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
        return _order([*(one_chunk(found[name]).to_numpy() for name in bounds), *keys])

    def late(self, rows: pa.Table, found: Found, times: pa.Array) -> pa.Table:
        """The refused rows: the payload, and the columns of semantics.md B7."""
        places = np.flatnonzero(found.outcomes != loops.ACCEPTED)
        names = [name for name in rows.column_names if name.startswith("_l")]
        # NB: a table without columns would not know how many rows it has.
        table = rows.select(names or ["__time"])
        late = refused(table, places, found.outcomes, times, found.stream_times, self.config.name)
        return late.select([*names, *late.column_names[-_LATE_COLUMNS:]])

    def _updates(self, rows: pa.Table, found: Found, store: Store) -> pa.Table:
        """Every update, with the aggregates before and after it."""
        count = int(store.clock[loops.UPDATES])
        updates = found.updates[:count]
        was, is_there = updates[:, loops.WAS] != 0, updates[:, loops.IS] != 0
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
        keys = self._keys(store, updates[:, loops.OF_CODE])
        bounds = updates[:, loops.FROM], updates[:, loops.UNTIL], updates[:, loops.AT]
        table = self._table(rows, updates[:, loops.ROW], keys, bounds, columns)
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
    names = updates[:, [loops.ROW, loops.OF_CODE, loops.FROM, loops.UNTIL]]
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
    column = one_chunk(columns.pop(name))
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


_WINDOWS: Final = "windows"
#: Greatest so far, in the clock and in segments.
_MAXIMA: Final = {
    "suppression_buffer_count_max": loops.MOST_OPEN,
    "suppression_buffer_size_max": loops.MOST_BYTES,
    "record_lateness_max": loops.MOST_LATENESS,
}
_WAITED: Final = {
    "suppression_buffer_puts": loops.PUTS,
    "suppression_buffer_count_total": loops.TOTAL_OPEN,
    "suppression_buffer_size_total": loops.TOTAL_BYTES,
}


class WindowAggregateStream:
    """`WindowAggregateLogic` over columns: the same answers for the same rows.

    The input has columns `__k0 ..`, `__hash`, `__time`, per aggregate `__a<n>_0 ..` and `__a<n>_f`, `__o0 ..`, and
    `_l0 ..`, which only go to the late rows. The output has `__k0 ..`, `__ws`, `__we` (µs; not without windows),
    `__a0 ..` and `__time` (µs); with emit='changes' after `__a0 ..` whether there was an old row and is a new one,
    `__was` and `__is`, and the old aggregates `__b0 ..`.

    Args:
        config: the aggregation.
        emit_order: how many order columns `__o0 ..` the output ends in, see `StreamEmission`; 0 is none.
    """

    def __init__(self, config: WindowAggregateConfig, emit_order: int = 0) -> None:
        """Start without state."""
        self.config, self._emit_order = config, emit_order
        self._output = Output(config, emit_order)
        self._store = Store(config)
        self._spill = Spill(config, self._store)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL`, `OPERATOR.ARITHMETIC_OVERFLOW` and `OPERATOR.WINDOW_OVERFLOW`; this
                object must not be used then, its state is that of the changelog still (B6).
        """
        rows, store = inputs[0], self._store
        before = self._numbers()
        column = one_chunk(rows["__time"])
        times, present = micros_of(column), is_present(column)
        spilled_ends = NOTHING_SPILLED
        if self._spill.is_on:
            self._spill.bring(hashes_of(rows))
            spilled_ends = self._spill.spilled_ends(int(times[present].max()) if present.any() else None)
        self._check_times(times[present])
        found = store.fold(rows, times, ~present if column.null_count else np.empty(0, np.bool_), spilled_ends)
        output = self._output.of(rows, found, store, self._spill.close() if len(spilled_ends.ends) else ())
        if len(spilled_ends.ends):
            self._spill.give_back()
        late = self._output.late(rows, found, pa.array(times, mask=~present))
        store.settle(found)
        changed = store.changed()
        has_changed = len(changed) > 0 or before != self._numbers()
        delta = self._segment(changed) if has_changed else None
        metrics = self._counted(found, output)
        store.release()
        if self._spill.is_on:
            self._spill.evict(changed)
        return StreamEmission(output, (late,), {**metrics, **self._gauges()}, delta)

    def _check_times(self, times: NDArray[np.int64]) -> None:
        """Compiled arithmetic wraps: times at the ends of all times do not get there, unless they are refused at sight.

        Raises:
            OperatorError: `OPERATOR.WINDOW_OVERFLOW`.
        """
        window = self.config.window
        if not len(times) or window.fits(int(times.min()), int(times.max())):
            return
        stream_time = StreamTime(self._store.stream_time)
        for time in times.tolist():
            if not stream_time.is_future(time, self.config.max_future_us):
                window.check_time(time)
                stream_time.observe(time)

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Give out everything that is open, since nothing came for a while: stream time moves as far as that needs.

        Args:
            inputs: one without rows, for its types.
        """
        store, before = self._store, self._numbers()
        spilled: Iterable[pa.Table] = ()
        if self.config.is_final:
            store.close_all(self._spill.last_end)
            spilled = self._spill.forget(store.close_bound)
        output = Output(self.config).finals(pa.table({}), store, spilled)
        output = uncaused(output, inputs[0], self._emit_order if store.keys is not None else 0)
        delta = self._segment(store.changed()) if before != self._numbers() else None
        store.release()
        return StreamEmission(output, (), {"emitted": len(output), "idle_closed": len(output), **self._gauges()}, delta)

    def snapshot(self) -> Segment:
        """The open windows, stream time and maxima."""
        segment, spilled = self._segment(self._store.held_slots()), self._spill.tables()
        if not spilled:
            return segment
        return Segment({_WINDOWS: pa.concat_tables([*segment.tables.values(), *spilled])}, segment.numbers)

    def apply(self, segment: Segment) -> None:
        """Continue from a snapshot, then from the deltas that followed."""
        store, numbers = self._store, segment.numbers
        windows = segment.tables.get(_WINDOWS)
        now = numbers["stream_time"]
        self._spill.bring(np.empty(0, np.int64) if windows is None else hashes_of(windows))
        if windows is not None and len(windows):
            store.put(windows)
        if now is not None:
            store.clock[loops.NOW], store.clock[loops.IS_SET] = now, 1
        for name, place in _MAXIMA.items():
            store.clock[place] = numbers.get(name) or 0
        # What a segment left behind was given out when it was written, by the grace period of then.
        closed = numbers["closed"]
        bound = UNSET if closed is None else closed
        store.clock[loops.CLOSED_BEFORE] = bound
        store.close(bound)
        deque(self._spill.forget(bound), maxlen=0)
        store.release()
        if self._spill.is_on:
            self._spill.evict(np.empty(0, np.int64))

    @property
    def stored_bytes(self) -> int:
        """Memory of the windows and their keys."""
        return self._store.nbytes + self._spill.nbytes

    def _numbers(self) -> dict[str, int | None]:
        clock = self._store.clock
        maxima = {name: int(clock[place]) for name, place in _MAXIMA.items()}
        bound = self._store.closed_before
        return {"stream_time": self._store.stream_time, "closed": None if bound == UNSET else bound, **maxima}

    def _segment(self, places: NDArray[np.int64]) -> Segment:
        return Segment({_WINDOWS: self._store.table(places)} if len(places) else {}, self._numbers())

    def _counted(self, found: Found, output: pa.Table) -> dict[str, int]:
        """What this batch counted (17, KIP-328)."""
        outcomes, clock = np.bincount(found.outcomes, minlength=loops.LATE + 1), self._store.clock
        late = int(outcomes[loops.LATE])
        waited = {name: int(clock[place]) for name, place in _WAITED.items()} if self.config.is_final else {}
        return {
            **waited,
            "records": len(found.outcomes),
            "late": late,
            "late_record_drop": late,
            "expired_window_record_drop": int(clock[loops.EXPIRED]),
            "null_time": int(outcomes[loops.NULL_TIME]),
            "future": int(outcomes[loops.FUTURE]),
            "emitted": len(output),
            "record_lateness_total": int(clock[loops.LATENESS]),
        }

    def _gauges(self) -> dict[str, int]:
        clock, is_final = self._store.clock, self.config.is_final
        numbers = self._numbers()
        open_rows, open_bytes = int(clock[loops.COUNT_OPEN]), int(clock[loops.BYTES_OPEN])
        maxima = {name: int(numbers[name] or 0) for name in _MAXIMA if is_final or name == "record_lateness_max"}
        if self.config.max_rows is not None and self.config.when_full == "spill":
            maxima["spilled_rows"] = max(0, open_rows - self.config.max_rows)
        return {
            "buffered_rows": open_rows if is_final else 0,
            "buffered_bytes": open_bytes if is_final else 0,
            "state_rows": open_rows + self._store.kept_rows,
            "state_bytes": self.stored_bytes,
            **maxima,
        }
