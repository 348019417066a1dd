"""Aggregation of a live stream, one task, whole micro-batches at a time, compiled; answers as `WindowAggregateLogic`.

What is compiled is said by `window_aggregate_stream_plan.is_compiled`; for the rest there is
`window_aggregate_stream_rows`. Source: KIP-328, semantics.md 11 to 14, 17, A and B; design.md section 5.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from udtf.logic import Segment, StreamEmission
from udtf.operators import window_aggregate_stream_slots as slots
from udtf.operators.stream_rows import hashes_of, is_present, micros_of
from udtf.operators.window_aggregate_stream_batch import NOTHING_AWAY
from udtf.operators.window_aggregate_stream_cold import Spill
from udtf.operators.window_aggregate_stream_columns import one_array
from udtf.operators.window_aggregate_stream_output import Output
from udtf.operators.window_aggregate_stream_store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate_config import WindowAggregateConfig
    from udtf.operators.window_aggregate_stream_batch import Found

_WINDOWS: Final = "windows"
#: Greatest so far, in the clock and in segments.
_MAXIMA: Final = {
    "suppression_buffer_count_max": slots.MOST_OPEN,
    "suppression_buffer_size_max": slots.MOST_BYTES,
    "record_lateness_max": slots.MOST_LATENESS,
}
_WAITED: Final = {
    "suppression_buffer_puts": slots.PUTS,
    "suppression_buffer_count_total": slots.TOTAL_OPEN,
    "suppression_buffer_size_total": slots.TOTAL_BYTES,
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
        self.config = config
        self._output = Output(config, emit_order)
        self._store = Store(config)
        self._spill = Spill(config, self._store)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing.

        Raises:
            OperatorError: `OPERATOR.BUFFER_FULL` and `OPERATOR.ARITHMETIC_OVERFLOW`; this object must not be used then,
                its state is that of the changelog still (B6).
        """
        rows, store = inputs[0], self._store
        before = self._numbers()
        column = one_array(rows["__time"])
        times, present = micros_of(column), is_present(column)
        away = NOTHING_AWAY
        if self._spill.is_on:
            self._spill.bring(hashes_of(rows))
            away = self._spill.away(int(times[present].max()) if present.any() else None)
        found = store.fold(rows, times, ~present if column.null_count else np.empty(0, np.bool_), away)
        output = self._output.of(rows, found, store, self._spill.close() if len(away.ends) else ())
        if len(away.ends):
            self._spill.give_back()
        late = self._output.late(rows, found, pa.array(times, mask=~present))
        changed = store.changed()
        has_changed = len(changed) > 0 or before != self._numbers()
        delta = self._segment(changed) if has_changed else None
        metrics = self._counted(found, output)
        store.release()
        if self._spill.is_on:
            self._spill.evict(changed)
        return StreamEmission(output, (late,), {**metrics, **self._gauges()}, delta)

    def close_idle(self, rows: pa.Table | None = None) -> StreamEmission:
        """Give out everything that is open, since nothing came for a while: stream time moves as far as that needs.

        No row causes this: the output has no order columns, and there is no table of late rows.

        Args:
            rows: an input without rows, for its types; this logic knows them.
        """
        store, before = self._store, self._numbers()
        spilled: Iterable[pa.Table] = ()
        if self.config.is_final:
            store.close_all(self._spill.last_end)
            spilled = self._spill.forget()
        output = Output(self.config).finals(pa.table({}), store, spilled)
        delta = self._segment(store.changed()) if before != self._numbers() else None
        store.release()
        return StreamEmission(output, (), {"emitted": len(output), "idle_closed": len(output), **self._gauges()}, delta)

    def snapshot(self) -> Segment:
        """The open windows, stream time and maxima."""
        segment = self._segment(self._store.open_slots())
        if not self._store.spilled_rows:
            return segment
        tables = [*segment.tables.values(), *self._spill.tables()]
        return Segment({_WINDOWS: pa.concat_tables(tables)}, segment.numbers)

    def apply(self, segment: Segment) -> None:
        """Continue from a snapshot, then from the deltas that followed."""
        store, numbers = self._store, segment.numbers
        windows = segment.tables.get(_WINDOWS)
        now = numbers["stream_time"]
        self._spill.bring(np.empty(0, np.int64) if windows is None else hashes_of(windows))
        if windows is not None and len(windows):
            store.put(windows)
        if now is not None:
            store.clock[slots.NOW], store.clock[slots.IS_SET] = now, 1
        for name, place in _MAXIMA.items():
            store.clock[place] = numbers.get(name) or 0
        # What a segment left behind was given out when it was written.
        store.close()
        deque(self._spill.forget(), maxlen=0)
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
        return {"stream_time": self._store.stream_time, **maxima}

    def _segment(self, places: NDArray[np.int64]) -> Segment:
        return Segment({_WINDOWS: self._store.table(places)} if len(places) else {}, self._numbers())

    def _counted(self, found: Found, output: pa.Table) -> dict[str, int]:
        """What this batch counted (17, KIP-328)."""
        fates, clock = np.bincount(found.fates, minlength=slots.LATE + 1), self._store.clock
        late = int(fates[slots.LATE])
        waited = {name: int(clock[place]) for name, place in _WAITED.items()} if self.config.is_final else {}
        return {
            **waited,
            "records": len(found.fates),
            "late": late,
            "late_record_drop": late,
            "expired_window_record_drop": int(clock[slots.EXPIRED]),
            "null_time": int(fates[slots.NULL_TIME]),
            "future": int(fates[slots.FUTURE]),
            "emitted": len(output),
            "record_lateness_total": int(clock[slots.LATENESS]),
        }

    def _gauges(self) -> dict[str, int]:
        clock, is_final = self._store.clock, self.config.is_final
        numbers = self._numbers()
        open_rows, open_bytes = int(clock[slots.COUNT_OPEN]), int(clock[slots.BYTES_OPEN])
        maxima = {name: int(numbers[name] or 0) for name in _MAXIMA if is_final or name == "record_lateness_max"}
        if self.config.max_rows is not None and self.config.when_full == "spill":
            maxima["spilled_rows"] = max(0, open_rows - self.config.max_rows)
        return {
            "buffered_rows": open_rows if is_final else 0,
            "buffered_bytes": open_bytes if is_final else 0,
            "state_rows": open_rows,
            "state_bytes": self.stored_bytes,
            **maxima,
        }
