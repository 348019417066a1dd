"""What a micro-batch of a deduplication gives out: rows in the order of emission, refused rows, counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators import deduplicate_kernel as kernel
from udtf.operators.deduplicate_keys import ints, time_column
from udtf.record import order_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udtf.operators.deduplicate import DeduplicateConfig
    from udtf.operators.deduplicate_store import Judged

_NAMES: Final = pa.array(kernel.REASONS, pa.string())
_LEAST: Final = -(2**63)


class Output:
    """Makes the output of a batch that was judged."""

    def __init__(self, config: DeduplicateConfig, emit_order: int = 0) -> None:
        """Keep what the operator is."""
        self.config, self.emit_order = config, emit_order

    def of(
        self, rows: pa.Table, kept: pa.Table, judged: Judged, first: int
    ) -> tuple[pa.Table, pa.Table, dict[str, int]]:
        """Output, late rows and counters.

        Args:
            rows: the batch.
            kept: what entries keep of rows, the store's first: by reference.
            judged: what became of the rows.
            first: the reference of the batch's first row.
        """
        found = self._complete(rows, kept, judged, first) if self.config.keeps_last else self._forwarded(rows, judged)
        counts = np.bincount(judged.verdicts, minlength=kernel.FUTURE + 1)
        metrics = {
            "late": int(counts[kernel.LATE]),
            "null_time": int(counts[kernel.NULL_TIME]),
            "future": int(counts[kernel.FUTURE]),
            "duplicates": int(counts[kernel.DUPLICATE]),
        }
        return found, self._late(rows, judged), metrics

    def forwards(self, verdicts: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Which rows are given out at once."""
        found: NDArray[np.bool_] = verdicts == kernel.NULL_KEY
        if not self.config.keeps_last:
            found = (verdicts < kernel.DUPLICATE) | ((verdicts == kernel.LATE) & self.config.forwards_late)
        return found

    def _forwarded(self, rows: pa.Table, judged: Judged) -> pa.Table:
        places = np.flatnonzero(self.forwards(judged.verdicts))
        found = rows.select(list(self.config.columns)).take(pa.array(places))
        return self._ordered(found, rows, places, np.zeros(len(places), np.int64))

    def _complete(self, rows: pa.Table, kept: pa.Table, judged: Judged, first: int) -> pa.Table:
        """The last rows of groups, before the row that completed them; rows without a key at their own place."""
        own = np.flatnonzero(self.forwards(judged.verdicts))
        oldest = np.where(
            judged.stream_times < _LEAST + self.config.interval_us,
            _LEAST,
            judged.stream_times - self.config.interval_us,
        )
        causes = np.concatenate([np.searchsorted(oldest, judged.closed_times, side="right"), own])
        times = np.concatenate([judged.closed_times, np.zeros(len(own), np.int64)])
        refs = np.concatenate([judged.closed_refs, own + first])
        is_own = np.arange(len(causes)) >= len(judged.closed_refs)
        order = self._order(kept.take(pa.array(refs)), causes, is_own, times)
        causes = causes[order]
        numbers = np.arange(len(causes)) - np.searchsorted(causes, causes, side="left")
        found = kept.select(list(self.config.columns)).take(pa.array(refs[order]))
        return self._ordered(found, rows, causes, numbers)

    def _order(
        self, found: pa.Table, causes: NDArray[np.int64], is_own: NDArray[np.bool_], times: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """By cause, entry time and key, each in Spark's order (semantics.md B13)."""
        keys = [f"__k{number}" for number in range(self.config.n_keys)]
        if any(pa.types.is_nested(found[key].type) for key in keys):
            values = zip(*(found[key].to_pylist() for key in keys), strict=True)
            ranks = [(*row, order_key(key)) for *row, key in zip(causes, is_own, times, values, strict=True)]
            return np.array(sorted(range(len(ranks)), key=ranks.__getitem__), np.int64)
        columns = {"cause": pa.array(causes), "own": pa.array(is_own.astype(np.int8)), "time": pa.array(times)}
        table = pa.table({**columns, **{key: found[key] for key in keys}})
        sort_keys = [(name, "ascending") for name in table.column_names]
        order: NDArray[np.int64] = pc.sort_indices(table, sort_keys=sort_keys).to_numpy().astype(np.int64)
        return order

    def _ordered(
        self, found: pa.Table, rows: pa.Table, causes: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> pa.Table:
        """The output with the order columns of its causes, where they are wanted."""
        for number in range(self.emit_order):
            found = found.append_column(f"__o{number}", rows[f"__o{number}"].take(pa.array(causes)))
        if self.emit_order:
            found = found.append_column(f"__o{self.emit_order}", pa.array(numbers.astype(np.int64)))
        return found

    def _late(self, rows: pa.Table, judged: Judged) -> pa.Table:
        """The refused rows with the columns of semantics.md B7."""
        refused = judged.verdicts >= (kernel.NULL_TIME if self.config.forwards_late else kernel.LATE)
        places = np.flatnonzero(refused)
        late = rows.take(pa.array(places))
        now = judged.stream_times[places]
        unknown = now == _LEAST
        stream_time = pa.array(now, pa.int64(), mask=unknown)
        time = time_column(late)
        lateness = pa.array(now - ints(time), mask=unknown | time.is_null().to_numpy(zero_copy_only=False))
        late = late.append_column("_reason", _NAMES.take(pa.array(judged.verdicts[places])))
        late = late.append_column("_operator", pa.array([self.config.name] * len(places), pa.string()))
        late = late.append_column("_stream_time", stream_time.cast(pa.timestamp("us", "UTC")))
        return late.append_column("_lateness", lateness)
