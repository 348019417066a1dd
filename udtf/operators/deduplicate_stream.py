"""Deduplication of a live stream, one task, whole micro-batches at a time, compiled.

Ids are Spark's hashes of the keys; every row that meets an entry is proved to have its key, and where two keys share a
hash after all, the batch is judged again with ids by key. Source: KIP-655, semantics.md section 16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.logic import Segment, StreamEmission
from udtf.operators.as_of_columns import one_chunk, presence_of
from udtf.operators.deduplicate_keys import (
    KnownKeys,
    are_equal,
    ints,
    key_columns,
    keyless,
    python_keys,
    sequence_codes,
    time_column,
)
from udtf.operators.deduplicate_output import Output
from udtf.operators.deduplicate_store import Arrivals, Judged, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.deduplicate import DeduplicateConfig

_ID, _ENTRY_TIME, _ENTRIES = "__id", "__entry_time", "entries"
_SPARE_ROWS = 4096


class DeduplicateStream:
    """`DeduplicateLogic` over columns: the same answers for the same rows.

    Args:
        config: the deduplication.
        emit_order: how many order columns `__o0 ..` the output ends in, see `StreamEmission`; 0 is none.
    """

    def __init__(self, config: DeduplicateConfig, emit_order: int = 0) -> None:
        self.config = config
        self._output = Output(config, emit_order)
        self._store = Store(config.interval_us, config.max_future_us, config.keeps_last, config.has_sequence)
        self._rows: pa.Table | None = None  # of the entries, by their references
        self._known: KnownKeys | None = None

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8] | None = None) -> StreamEmission:
        """Take one micro-batch; there is one input, so that `sides` says nothing."""
        rows = inputs[0]
        before, first = self._store.stream_time, self._count
        kept = self._with_stored(rows.select(self._stored_columns()))
        judged = self._judge(rows, kept, first)
        rows_out, late, metrics = self._output.of(rows, kept, judged, first)
        fresh = self._keep(kept, first)
        has_changed = fresh is not None or self._store.stream_time != before
        delta = self._segment(fresh) if has_changed else None
        return StreamEmission(rows_out, (late,), {**metrics, **self._gauges()}, delta)

    def snapshot(self) -> Segment:
        """The entries that still count, and stream time."""
        return self._segment(None if self._rows is None else self._entry_rows(self._store.live(), self._rows))

    def apply(self, segment: Segment) -> None:
        """Continue from a snapshot, then from the deltas that followed."""
        entries, first = segment.tables.get(_ENTRIES), self._count
        none = np.empty(0, np.int64)
        ids, times, sequences, refs = none, none, none, none
        if entries is not None and len(entries):
            ids, times = (ints(entries[name]) for name in (_ID, _ENTRY_TIME))
            refs = np.arange(first, first + len(entries))
            self._rows = self._with_stored(entries.drop_columns([_ID, _ENTRY_TIME]))
            sequences = np.zeros(len(ids) if self.config.has_sequence else 0, np.int64)
        self._store.put(ids, times, sequences, refs, segment.numbers["stream_time"])
        if self.config.has_sequence and self._rows is not None:
            self._store.identify(sequence_codes(one_chunk(self._rows["__seq"]))[0])
        if segment.numbers.get("collided"):
            self._learn_keys()
        self._compact()

    @property
    def stored_bytes(self) -> int:
        """Memory of the table and of the rows behind it."""
        return self._store.nbytes + (self._rows.nbytes if self._rows is not None else 0)

    @property
    def _count(self) -> int:
        return 0 if self._rows is None else len(self._rows)

    def _stored_columns(self) -> list[str]:
        """What an entry keeps of its row: the key and what identifies it, or all that it will give out."""
        names = [f"__k{number}" for number in range(self.config.n_keys)]
        names += ["__seq"] if self.config.has_sequence else []
        names += [name for name in self.config.columns if self.config.keeps_last and name not in names]
        return names

    def _with_stored(self, rows: pa.Table) -> pa.Table:
        return rows if self._rows is None else pa.concat_tables([self._rows, rows])

    # judging

    def _judge(self, rows: pa.Table, kept: pa.Table, first: int) -> Judged:
        """Judge the rows by hash, and prove that no two keys shared one."""
        arrivals = self._arrivals(rows, kept, first)
        keys = key_columns(kept, self.config.n_keys)
        if self._known is not None:
            arrivals.ids = self._known.ids(python_keys([key.slice(first) for key in keys]), arrivals.ids)
            return self._store.judge(arrivals, first)
        saved = self._store.saved()
        judged = self._store.judge(arrivals, first)
        met = np.flatnonzero(judged.owners >= 0)
        if are_equal(keys, met + first, judged.owners[met]):
            return judged
        self._store.go_back(saved)
        self._learn_keys()
        return self._judge(rows, kept, first)

    def _arrivals(self, rows: pa.Table, kept: pa.Table, first: int) -> Arrivals:
        times, sequences = time_column(rows), np.empty(0, np.int64)
        if self.config.has_sequence:
            codes, is_number = sequence_codes(one_chunk(kept["__seq"]))
            if not is_number and first:
                self._store.identify(codes)
            sequences = codes[first:]
        present = presence_of(times)
        missing = keyless([column.slice(first) for column in key_columns(kept, self.config.n_keys)])
        return Arrivals(ints(rows["__hash"]), ints(times), ~present, missing, sequences)

    def _learn_keys(self) -> None:
        """From now on ids are by key: two keys have shared a hash."""
        live = self._store.live()
        if self._rows is None:
            self._known = KnownKeys([], [])
            return
        ids, _, refs = self._store.entries(live)
        stored = self._rows.take(pa.array(refs))
        self._known = KnownKeys(python_keys(key_columns(stored, self.config.n_keys)), ids.tolist())

    # state

    def _keep(self, kept: pa.Table, first: int) -> pa.Table | None:
        """Keep the rows of new entries; they are the delta."""
        places = self._store.since(first)
        if not len(places):
            return None
        fresh = self._entry_rows(places, kept)
        self._rows = self._with_stored(fresh.drop_columns([_ID, _ENTRY_TIME]))
        self._store.move(places, np.arange(first, first + len(places)))
        self._compact()
        return fresh

    def _entry_rows(self, places: NDArray[np.int64], rows: pa.Table) -> pa.Table:
        """Entries as they travel in a segment."""
        ids, times, refs = self._store.entries(places)
        entries = rows.take(pa.array(refs))
        return entries.append_column(_ID, pa.array(ids)).append_column(_ENTRY_TIME, pa.array(times))

    def _segment(self, entries: pa.Table | None) -> Segment:
        numbers = {"stream_time": self._store.stream_time, "collided": int(self._known is not None)}
        return Segment({} if entries is None else {_ENTRIES: entries}, numbers)

    def _compact(self) -> None:
        """Let go of rows that no entry refers to, once they are the most."""
        if self._known is not None and len(self._known) > _SPARE_ROWS + 2 * self._count:
            self._learn_keys()
        live = self._store.live() if self._count > _SPARE_ROWS else np.empty(0, np.int64)
        if self._rows is None or self._count <= _SPARE_ROWS + 2 * len(live):
            return
        refs = self._store.entries(live)[2]
        self._store.forget()
        self._rows = self._rows.take(pa.array(refs)).combine_chunks()
        self._store.move(live, np.arange(len(live)))

    def _gauges(self) -> dict[str, int]:
        entries = len(self._store.live())
        waiting = entries if self.config.keeps_last else 0
        return {
            "buffered_rows": waiting,
            "buffered_bytes": self._rows.nbytes if waiting and self._rows is not None else 0,
            "state_rows": entries,
            "state_bytes": self.stored_bytes,
        }
