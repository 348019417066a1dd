"""Deduplication of a live stream, one task, whole micro-batches at a time, compiled.

Ids are Spark's hashes of the keys; every row that meets an entry is proved to have its key, and where two keys share a
hash after all, the batch is outcomes again with ids by key. Source: KIP-655, semantics.md section 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf import rules
from udtf.columns.arrays import floats_of, hashable, ints_of, lateness_of, one_chunk, presence_of
from udtf.columns.batch import keys_of, uncaused
from udtf.columns.rows import fitted
from udtf.logic import Segment, StreamEmission
from udtf.operators.deduplicate import compiled
from udtf.operators.deduplicate import rules as kernel
from udtf.record import canonical_key, order_key
from udtf.rules import UNSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from udtf.operators.deduplicate.config import DeduplicateConfig
    from udtf.record import Key


# Keys after their hashes: whether two rows have the same key after all, and ids for keys whose hashes collide.


#: Rows without an identity: no sequence is the same as theirs.
NO_SEQUENCE: Final = -(2**63)
_STEP: Final = 0x1E3779B97F4A7C15
_WRAP: Final = 2**64


def time_column(rows: pa.Table) -> pa.Array:
    """The time that is compared: ON TIME, else the stream's own."""
    return one_chunk(rows["__time" if "__time" in rows.column_names else "__event_time"])


def ints(column: pa.ChunkedArray | pa.Array) -> NDArray[np.int64]:
    """A column of hashes, ids or times, anything at NULLs."""
    values = ints_of(one_chunk(column))
    assert values is not None, "they are numbers of 64 bits: the binder casts ON TIME to a timestamp"
    return values


def keyless(columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Rows with a NULL in BY; empty where there is none."""
    missing = np.empty(0, np.bool_)
    for column in columns:
        present = presence_of(column)
        if len(present):
            missing = ~present if len(missing) == 0 else missing | ~present
    return missing


def are_equal(columns: Iterable[pa.Array], one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    """Whether the keys of rows `one` and `other` are equal, row by row; none of them is NULL."""
    return all(_column_is_equal(column, one, other) for column in columns)


def _column_is_equal(column: pa.Array, one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_are_equal(column, one, other)
    if pa.types.is_nested(kind):
        values = column.to_pylist()
        return all(canonical_key((values[a],)) == canonical_key((values[b],)) for a, b in zip(one, other, strict=True))
    numbers: Any = floats_of(column).view(np.int64) if pa.types.is_floating(kind) else ints_of(column)
    if numbers is not None:
        return bool(np.array_equal(numbers[one], numbers[other]))
    same = pc.equal(column.take(pa.array(one)), column.take(pa.array(other)))
    return bool(pc.all(same, min_count=0).as_py())


def _bytes_are_equal(column: pa.Array, one: NDArray[np.int64], other: NDArray[np.int64]) -> bool:
    _, starts, data = column.buffers()
    offsets = np.frombuffer(starts, np.int32)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    equal = np.ones(len(one), np.bool_)
    compiled.equal_bytes(offsets, content, one, other, equal)
    return bool(equal.all())


def sequence_codes(column: pa.Array) -> tuple[NDArray[np.int64], bool]:
    """Identities of rows as numbers, `NO_SEQUENCE` at NULLs, and whether equal numbers mean equal in other columns."""
    ints = ints_of(column)
    if ints is not None:
        codes = ints
    elif pa.types.is_nested(column.type):
        known: dict[Key, int] = {}
        codes = np.array([known.setdefault(canonical_key((v,)), len(known)) for v in column.to_pylist()], np.int64)
    else:
        encoded = pc.dictionary_encode(hashable(column))
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    present = presence_of(column)
    return (np.where(present, codes, NO_SEQUENCE) if len(present) else codes), ints is not None


class KnownKeys:
    """Ids by the keys themselves, once two keys were seen to share a hash: slow, and exact.

    >>> known = KnownKeys([("a",)], [7])
    >>> known.ids([("b",), ("a",)], np.array([7, 7])).tolist()[1]
    7
    """

    def __init__(self, keys: Iterable[Key], ids: Iterable[int]) -> None:
        """Begin with the keys of the store."""
        self._ids = dict(zip(keys, ids, strict=True))
        self._taken = set(self._ids.values())

    def __len__(self) -> int:
        """How many keys have an id."""
        return len(self._ids)

    def ids(self, keys: Iterable[Key], hashes: NDArray[np.int64]) -> NDArray[np.int64]:
        """An id for each row's key; new keys get their hash, or the next number that is free."""
        return np.array([self._id(key, value) for key, value in zip(keys, hashes.tolist(), strict=True)], np.int64)

    def _id(self, key: Key, value: int) -> int:
        known = self._ids.get(key)
        if known is not None:
            return known
        while value in self._taken:
            value = (value + _STEP + _WRAP // 2) % _WRAP - _WRAP // 2
        self._taken.add(value)
        self._ids[key] = value
        return value


def python_keys(columns: Sequence[pa.Array]) -> list[Key]:
    """The keys as Python values."""
    return [canonical_key(key) for key in zip(*(column.to_pylist() for column in columns), strict=True)]


# What a micro-batch of a deduplication gives out: rows in the order of emission, refused rows, counters.


_NAMES: Final = pa.array(kernel.REASONS, pa.string())


class Output:
    """Makes the output of a batch that was outcomes."""

    def __init__(self, config: DeduplicateConfig, emit_order: int = 0) -> None:
        """Keep what the operator is."""
        self.config, self.emit_order = config, emit_order

    def of(
        self, rows: pa.Table, kept: pa.Table, outcomes: Outcomes, first: int
    ) -> tuple[pa.Table, pa.Table, dict[str, int]]:
        """Output, late rows and counters.

        Args:
            rows: the batch.
            kept: what entries keep of rows, the store's first: by reference.
            outcomes: what became of the rows.
            first: the reference of the batch's first row.
        """
        found = (
            self._complete(rows, kept, outcomes, first) if self.config.keeps_last else self._forwarded(rows, outcomes)
        )
        counts = np.bincount(outcomes.codes, minlength=kernel.FUTURE + 1)
        metrics = {
            "late": int(counts[kernel.LATE]),
            "null_time": int(counts[kernel.NULL_TIME]),
            "future": int(counts[kernel.FUTURE]),
            "duplicates": int(counts[kernel.DUPLICATE]),
        }
        return found, self._late(rows, outcomes), metrics

    def forwards(self, outcomes: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Which rows are given out at once."""
        found: NDArray[np.bool_] = outcomes == kernel.NULL_KEY
        if not self.config.keeps_last:
            found = (outcomes < kernel.DUPLICATE) | ((outcomes == kernel.LATE) & self.config.forwards_late)
        return found

    def closed(self, kept: pa.Table, refs: NDArray[np.int64], times: NDArray[np.int64]) -> pa.Table:
        """The last rows of groups that no row has completed, by entry time and key.

        Args:
            kept: what entries keep of rows, by reference.
            refs: of these rows.
            times: of their entries.
        """
        nothing = np.zeros(len(refs), np.int64)
        found = kept.take(pa.array(refs))
        order = self._order(found, nothing, nothing.astype(np.bool_), times)
        return found.select(list(self.config.columns)).take(pa.array(order))

    def _forwarded(self, rows: pa.Table, outcomes: Outcomes) -> pa.Table:
        places = np.flatnonzero(self.forwards(outcomes.codes))
        found = rows.select(list(self.config.columns)).take(pa.array(places))
        return self._ordered(found, rows, places, np.zeros(len(places), np.int64))

    def _complete(self, rows: pa.Table, kept: pa.Table, outcomes: Outcomes, first: int) -> pa.Table:
        """The last rows of groups, before the row that completed them; rows without a key at their own place."""
        own = np.flatnonzero(self.forwards(outcomes.codes))
        oldest = np.where(
            outcomes.stream_times < UNSET + self.config.interval_us,
            UNSET,
            outcomes.stream_times - self.config.interval_us,
        )
        causes = np.concatenate([np.searchsorted(oldest, outcomes.closed_times, side="right"), own])
        times = np.concatenate([outcomes.closed_times, np.zeros(len(own), np.int64)])
        refs = np.concatenate([outcomes.closed_refs, own + first])
        is_own = np.arange(len(causes)) >= len(outcomes.closed_refs)
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

    def _late(self, rows: pa.Table, outcomes: Outcomes) -> pa.Table:
        """The refused rows with the columns of semantics.md B7."""
        refused = outcomes.codes >= (kernel.NULL_TIME if self.config.forwards_late else kernel.LATE)
        places = np.flatnonzero(refused)
        late = rows.take(pa.array(places))
        now = outcomes.stream_times[places]
        unknown = now == UNSET
        stream_time = pa.array(now, pa.int64(), mask=unknown)
        time = time_column(late)
        lateness = pa.array(lateness_of(now, ints(time)), mask=unknown | time.is_null().to_numpy(zero_copy_only=False))
        late = late.append_column("_reason", _NAMES.take(pa.array(outcomes.codes[places])))
        late = late.append_column("_operator", pa.array([self.config.name] * len(places), pa.string()))
        late = late.append_column("_stream_time", stream_time.cast(pa.timestamp("us", "UTC")))
        return late.append_column("_lateness", lateness)


# The store of a deduplication: an open addressing table of entries, and what it says of rows that arrive.


_LEAST_PLACES: Final = 1024
_NOW, _IS_SET, _USED, _CLOSED = range(4)


@dataclass
class Arrivals:
    """Rows in the order of arrival, as numbers.

    Attributes:
        ids: of their keys.
        times: of the rows.
        absent: rows without a time; empty where all have one.
        keyless: rows with a NULL in BY; empty where there is none.
        sequences: identities of the rows; empty where none has one.
    """

    ids: NDArray[np.int64]
    times: NDArray[np.int64]
    absent: NDArray[np.bool_]
    keyless: NDArray[np.bool_]
    sequences: NDArray[np.int64]


@dataclass
class Outcomes:
    """What became of the rows.

    Attributes:
        codes: what became of each, a code of the rules.
        owners: reference of the live entry that a row met, or -1.
        stream_times: after each row; the least number before the first.
        closed_refs: with `keeps_last` the rows that groups give out, in no order; closed_times: their entry times.
    """

    codes: NDArray[np.int8]
    owners: NDArray[np.int64]
    stream_times: NDArray[np.int64]
    closed_refs: NDArray[np.int64]
    closed_times: NDArray[np.int64]


class Store:
    """Entries by the id of their key: a time, an identity, and the reference of a row that the owner keeps."""

    def __init__(self, interval_us: int, max_future_us: int | None, keeps_last: bool, has_sequence: bool) -> None:
        """Start without entries."""
        self._interval, self._keeps_last, self._has_sequence = interval_us, keeps_last, has_sequence
        self._max_future = -1 if max_future_us is None else max_future_us
        self._clock = np.zeros(4, np.int64)
        self._allocate(_LEAST_PLACES)

    @property
    def stream_time(self) -> int | None:
        """The greatest time so far."""
        return int(self._clock[_NOW]) if self._clock[_IS_SET] else None

    @property
    def oldest(self) -> int:
        """Entries below this time have left."""
        return int(rules.horizon(int(self._clock[_NOW]), self._interval)) if self._clock[_IS_SET] else -(2**63)

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return sum(array.nbytes for array in self._arrays())

    def decide(self, rows: Arrivals, first_ref: int) -> Outcomes:
        """Take rows; the entry of row r gets the reference `first_ref + r`."""
        count = len(rows.ids)
        found = Outcomes(np.empty(count, np.int8), *(np.empty(count, np.int64) for _ in range(4)))
        swept: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        row = self._run(0, rows, first_ref, found)
        while row < count:
            swept.append(self._make_room(0))
            row = self._run(row, rows, first_ref, found)
        swept.append(self.sweep())
        closed, self._clock[_CLOSED] = int(self._clock[_CLOSED]), 0
        swept.append((found.closed_refs[:closed], found.closed_times[:closed]))
        found.closed_refs = np.concatenate([refs for refs, _ in swept])
        found.closed_times = np.concatenate([times for _, times in swept])
        return found

    def _run(self, row: int, rows: Arrivals, first_ref: int, found: Outcomes) -> int:
        stop = compiled.deduplicate_rows(
            row, rows.ids, rows.times, rows.absent, rows.keyless, rows.sequences, self._interval, self._max_future,
            self._keeps_last, first_ref, self._clock, *self._arrays(), found.codes, found.owners,
            found.stream_times, found.closed_refs, found.closed_times,
        )  # fmt: skip
        return int(stop)

    def sweep(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Take out the groups that are complete: references and times. Other entries stay until room is needed."""
        if not self._keeps_last:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        closed = np.flatnonzero((self._refs >= 0) & (self._times < self.oldest))
        refs, times = self._refs[closed], self._times[closed]
        self._refs[closed] = kernel.GONE
        return refs, times

    def complete(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Move stream time as far as all groups need to be complete, and take them out: references and times."""
        times = self._times[self.live()]
        if len(times):
            self._clock[_NOW] = kernel.completing(times.max(), self._interval)
        return self.sweep()

    def live(self) -> NDArray[np.int64]:
        """Places of the entries that still count."""
        return np.flatnonzero((self._refs >= 0) & (self._times >= self.oldest))

    def since(self, first_ref: int) -> NDArray[np.int64]:
        """Places of the entries whose rows have this reference or a later one."""
        return np.flatnonzero(self._refs >= first_ref)

    def entries(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Ids, times and references."""
        return self._ids[places], self._times[places], self._refs[places]

    def move(self, places: NDArray[np.int64], refs: NDArray[np.int64]) -> None:
        """Give entries other references."""
        self._refs[places] = refs

    def forget(self) -> None:
        """Take out all entries that have left."""
        self._refs[(self._refs >= 0) & (self._times < self.oldest)] = kernel.GONE

    def identify(self, sequences: NDArray[np.int64]) -> None:
        """Give all entries other identities, by their references."""
        places = np.flatnonzero(self._refs >= 0)
        self._sequences[places] = sequences[self._refs[places]]

    def put(
        self,
        ids: NDArray[np.int64],
        times: NDArray[np.int64],
        sequences: NDArray[np.int64],
        refs: NDArray[np.int64],
        stream_time: int | None,
    ) -> None:
        """Put entries in the place of older ones of their ids, and move stream time."""
        if self._clock[_USED] + len(ids) > len(self._ids) // 2:
            self._make_room(len(ids))
        compiled.put_entries(ids, times, sequences, refs, self._clock, *self._arrays())
        if stream_time is not None:
            self._clock[_NOW], self._clock[_IS_SET] = stream_time, 1
        self.sweep()  # what a segment left behind was given out when it was written

    def saved(self) -> tuple[NDArray[np.int64], ...]:
        """A copy of everything, to `go_back` to."""
        return (self._clock.copy(), *(array.copy() for array in self._arrays()))

    def go_back(self, saved: tuple[NDArray[np.int64], ...]) -> None:
        """Be as when it was `saved`."""
        self._clock, self._ids, self._refs, self._times, self._sequences = saved

    def _arrays(self) -> tuple[NDArray[np.int64], ...]:
        return self._ids, self._refs, self._times, self._sequences

    def _allocate(self, places: int) -> None:
        self._ids, self._times = np.zeros(places, np.int64), np.zeros(places, np.int64)
        self._refs = np.full(places, kernel.EMPTY, np.int64)
        self._sequences = np.zeros(places if self._has_sequence else 0, np.int64)
        self._clock[_USED] = 0

    def _make_room(self, more: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Purge what has left (16.1), amortised, and grow where that is not enough; the groups that are complete."""
        closed = self.sweep()
        live = self.live()
        ids, times, refs = self.entries(live)
        sequences = self._sequences[live] if self._has_sequence else self._sequences
        self._allocate(max(_LEAST_PLACES, 1 << (4 * (len(live) + more)).bit_length()))
        compiled.put_entries(ids, times, sequences, refs, self._clock, *self._arrays())
        return closed


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
        outcomes = self._decide(rows, kept, first)
        rows_out, late, metrics = self._output.of(rows, kept, outcomes, first)
        fresh = self._keep(kept, first)
        has_changed = fresh is not None or self._store.stream_time != before
        delta = self._segment(fresh) if has_changed else None
        return StreamEmission(rows_out, (late,), {**metrics, **self._gauges()}, delta)

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Give out what KEEP LAST still holds: stream time moves as far as that needs.

        Args:
            inputs: the input without rows, for its types.
        """
        (rows,) = inputs
        refs, times = self._store.complete()
        output = self._output.closed(self._with_stored(rows.select(self._stored_columns())), refs, times)
        output = uncaused(output, rows, self._output.emit_order)
        metrics = {"idle_closed": len(refs), **self._gauges()}
        return StreamEmission(output, (), metrics, self._segment(None) if len(refs) else None)

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
        """Memory of the table and of the rows after it."""
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
        """What is kept, under the columns of what comes, and that."""
        if self._rows is None:
            return rows
        return pa.concat_tables([fitted(self._rows, rows.schema), rows], promote_options="default")

    # judging

    def _decide(self, rows: pa.Table, kept: pa.Table, first: int) -> Outcomes:
        """Judge the rows by hash, and prove that no two keys shared one."""
        arrivals = self._arrivals(rows, kept, first)
        keys = keys_of(kept, self.config.n_keys)
        if self._known is not None:
            arrivals.ids = self._known.ids(python_keys([key.slice(first) for key in keys]), arrivals.ids)
            return self._store.decide(arrivals, first)
        saved = self._store.saved()
        outcomes = self._store.decide(arrivals, first)
        met = np.flatnonzero(outcomes.owners >= 0)
        if are_equal(keys, met + first, outcomes.owners[met]):
            return outcomes
        self._store.go_back(saved)
        self._learn_keys()
        return self._decide(rows, kept, first)

    def _arrivals(self, rows: pa.Table, kept: pa.Table, first: int) -> Arrivals:
        times, sequences = time_column(rows), np.empty(0, np.int64)
        if self.config.has_sequence:
            codes, is_number = sequence_codes(one_chunk(kept["__seq"]))
            if not is_number and first:
                self._store.identify(codes)
            sequences = codes[first:]
        present = presence_of(times)
        missing = keyless([column.slice(first) for column in keys_of(kept, self.config.n_keys)])
        return Arrivals(ints(rows["__hash"]), ints(times), ~present, missing, sequences)

    def _learn_keys(self) -> None:
        """From now on ids are by key: two keys have shared a hash."""
        live = self._store.live()
        if self._rows is None:
            self._known = KnownKeys([], [])
            return
        ids, _, refs = self._store.entries(live)
        stored = self._rows.take(pa.array(refs))
        self._known = KnownKeys(python_keys(keys_of(stored, self.config.n_keys)), ids.tolist())

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
