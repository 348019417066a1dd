"""The AS OF join of live streams, whole micro-batches at a time: the answers are those of `AsOfJoinLogic`.

A micro-batch goes three steps: every row's outcome; what is answered in which order (`Asked`); one compiled
loop over versions and answers in the order of arrival (`join_stream` in `loops.py`).

Source: semantics.md 2, 4, 6, 7, A, B, C; docs/design/20261121_streaming_state.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf import rules
from udtf.columns.arrays import one_chunk
from udtf.columns.batch import (
    Outcomes,
    count_refused,
    flags_of,
    hashes_of,
    keys_of,
    micros_or,
    ordered,
    puts_before,
    table_of,
    taken,
    uncaused,
)
from udtf.columns.keys import StreamKeys
from udtf.columns.rows import FEWEST_ROWS, Rows, check_types, grown, stored_bytes
from udtf.columns.times import tie_ranks
from udtf.errors import OperatorError
from udtf.logic import Segment, StreamEmission
from udtf.metrics import Metrics
from udtf.operators.as_of_join import compiled as compiled_stream
from udtf.operators.as_of_join import rules as kernel
from udtf.operators.as_of_join.config import DIRECTIONS
from udtf.operators.as_of_join.loops import CELL, KNOWN, LENGTH, RANK, ROOM, TIME
from udtf.rules import UNSET, limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.as_of_join.config import AsOfJoinConfig


# A micro-batch of stream rows: which are answered, when, and in which order; which wait, which are refused.


_UNKNOWN = -(2**63 - 1)  # KNOWN AS OF NULL: nothing was known
_NEVER = 2**63 - 1
#: The number of a segment after which nothing waits any more.
_ALL_LEFT = "all_left"
_OWN = ("__wait_time", "__wait_known", "__wait_bytes")


@lru_cache(maxsize=64)
def waiting_schema(config: AsOfJoinConfig, left: pa.Schema) -> pa.Schema:
    """Of rows that wait, as segments hold them."""
    names = dict.fromkeys([f"__k{number}" for number in range(config.n_keys)] + ["__hash", *config.left_columns])
    return pa.schema([*(left.field(name) for name in names), *(pa.field(name, pa.int64()) for name in _OWN)])


@lru_cache(maxsize=64)
def _nothing_waits(schema: pa.Schema) -> pa.Table:
    """Made once: a join without a grace period asks for it in every micro-batch of every task."""
    return schema.empty_table()


@dataclass
class Asked:
    """The rows that are answered in a micro-batch, in the order of emission.

    Attributes:
        sources: which row it is: one of the micro-batch, or after those one of `released`.
        causes: the row of the micro-batch at whose arrival it is answered.
        times: AS OF.
        known: KNOWN AS OF.
        reasons: NULL_TIME or NO_KEY where the answer is settled, else MATCH.
        released: the rows that have waited since an earlier micro-batch.
    """

    sources: NDArray[np.int64]
    causes: NDArray[np.int64]
    times: NDArray[np.int64]
    known: NDArray[np.int64]
    reasons: NDArray[np.int8]
    released: pa.Table


def left_outcomes(config: AsOfJoinConfig, table: pa.Table) -> Outcomes:
    """The stream rows of a micro-batch, not decided: without an event time a row has no place in time (A)."""
    return Outcomes(table, [name for name in ("__as_of", "__event_time") if name in table.column_names], config.n_keys)


class LeftBatch:
    """The stream rows of a micro-batch.

    Args:
        config: the join.
        table: the rows in the order of arrival.
        now: stream time before them.

    Attributes:
        now: stream time after them.
        outcomes: of all rows.
    """

    def __init__(self, config: AsOfJoinConfig, table: pa.Table, now: int) -> None:
        self._config, self._table = config, table
        self._rows = left_outcomes(config, table)
        self._times, self.outcomes = self._rows.times, self._rows.outcomes
        self.now = self._rows.decide_left(now, config.left_limits)

    def refused(self) -> pa.Table:
        """The late rows; a left join answers what has no time or no key (6.1, B2)."""
        outcomes = self.outcomes
        is_refused = outcomes == rules.FUTURE
        if not self._config.is_left:
            is_refused |= (outcomes == rules.NO_TIME) | (outcomes == rules.NULL_KEY)
        return self._rows.refused(np.flatnonzero(is_refused), self._config.name)

    def ask(self, waiting: Waiting) -> Asked:
        """What is answered; the rows that wait beyond the micro-batch go to `staying`."""
        outcomes = self.outcomes
        at_once = (outcomes == rules.ACCEPTED) | (outcomes == rules.LATE)
        if self._config.is_left:
            at_once |= (outcomes == rules.NO_TIME) | (outcomes == rules.NULL_KEY)
        sources = np.flatnonzero(at_once)
        causes = sources
        self.staying = np.empty(0, np.int64)
        released = waiting.leave(rules.UNSET)
        if self._config.wait_us is not None:
            released, leaving, released_by = self._release(waiting)
            sources, causes = np.concatenate([sources, leaving]), np.concatenate([causes, released_by])
            order = np.argsort(causes, kind="stable")  # two sorted runs: merged
            sources, causes = sources[order], causes[order]
        return Asked(
            sources,
            causes,
            _both(self._times, released, "__wait_time")[sources],
            _both(self._known(), released, "__wait_known")[sources] if self._config.has_known else sources,
            self._settled(sources),
            released,
        )

    def ask_all(self, waiting: Waiting) -> Asked:
        """All that waits, in the order of time, then by key, then of arrival; no row is the cause."""
        released = waiting.leave(_NEVER)
        causes = np.zeros(len(released), np.int64)
        times = one_chunk(released["__wait_time"]).to_numpy()
        order = np.argsort(times, kind="stable")
        sources = self._by_key(order, causes, times[order], released)
        known = one_chunk(released["__wait_known"]).to_numpy()
        return Asked(sources, causes, times[sources], known[sources], self._settled(sources), released)

    def codes(self, asked: Asked, keys: StreamKeys) -> NDArray[np.int64]:
        """The codes of the keys of the rows that are answered."""
        is_wanted = np.zeros(len(self._table), np.bool_)
        is_wanted[asked.sources[(asked.sources < len(is_wanted)) & (asked.reasons == kernel.MATCH)]] = True
        codes = keys.find(self._rows.keys, hashes_of(self._table), is_wanted)
        if len(asked.released):
            columns, hashes = keys_of(asked.released, self._config.n_keys), hashes_of(asked.released)
            codes = np.concatenate([codes, keys.find(columns, hashes, np.ones(len(hashes), np.bool_))])
        return codes[asked.sources]

    def kept(self) -> pa.Table:
        """The rows that wait beyond the micro-batch."""
        rows, config = pa.array(self.staying), self._config
        schema = waiting_schema(config, self._table.schema)
        if not len(rows):
            return _nothing_waits(schema)
        names = schema.names[: -len(_OWN)]
        columns = [one_chunk(self._table[name]).take(rows) for name in names]
        counted = [one_chunk(self._table[name]).take(rows) for name in config.left_columns]
        keys = columns[: config.n_keys]
        known = self._known() if config.has_known else self._times
        columns += [pa.array(self._times[self.staying]), pa.array(known[self.staying])]
        columns.append(pa.array(stored_bytes([*keys, *counted], len(rows))))
        return pa.table(columns, names=[*names, *_OWN])

    def _release(self, waiting: Waiting) -> tuple[pa.Table, NDArray[np.int64], NDArray[np.int64]]:
        """Rows that waited before, the rows that leave in order, and the row that releases each of them."""
        wait = self._config.left_limits[1]
        entering = np.flatnonzero(self.outcomes == rules.WAITS)
        bound = rules.due_until(self.now, wait) if len(entering) else rules.UNSET  # only they release (7.6)
        is_due = self._times[entering] <= bound
        self.staying = entering[~is_due]
        released = waiting.leave(bound)
        new = entering[is_due]
        sources = np.concatenate([np.arange(len(released)) + len(self._table), new])
        entered = np.concatenate([np.full(len(released), -1), new])
        times = _both(self._times, released, "__wait_time")[sources]
        order = np.argsort(times, kind="stable")  # what waited before has arrived before
        sources, entered, times = sources[order], entered[order], times[order]
        causes = np.empty(len(sources), np.int64)
        compiled_stream.find_causes(times, entered, entering, self._rows.clock, wait, causes)
        order = np.argsort(causes, kind="stable")
        sources, causes, times = sources[order], causes[order], times[order]
        return released, self._by_key(sources, causes, times, released), causes

    def _by_key(
        self, sources: NDArray[np.int64], causes: NDArray[np.int64], times: NDArray[np.int64], released: pa.Table
    ) -> NDArray[np.int64]:
        """Rows of one cause and one time by key, then by arrival (7.4)."""
        is_same = (causes[1:] == causes[:-1]) & (times[1:] == times[:-1])
        if not is_same.any():
            return sources
        places = np.flatnonzero(np.append(is_same, False) | np.append(False, is_same))
        groups = np.cumsum(np.append(True, ~is_same))[places]
        rows, keys = pa.array(sources[places]), []
        for number, column in enumerate(self._rows.keys):
            whole = pa.concat_arrays([column, one_chunk(released[f"__k{number}"])]) if len(released) else column
            keys.append(tie_ranks(whole.take(rows), ("asc", "first")))
        sources = sources.copy()
        sources[places] = sources[places[np.lexsort([*keys[::-1], groups])]]
        return sources

    def _known(self) -> NDArray[np.int64]:
        return micros_or(one_chunk(self._table["__known"]), _UNKNOWN)

    def _settled(self, sources: NDArray[np.int64]) -> NDArray[np.int8]:
        reasons = np.full(len(sources), kernel.MATCH, np.int8)
        mine = sources < len(self.outcomes)
        outcomes = (
            np.where(mine, self.outcomes[np.where(mine, sources, 0)], rules.WAITS) if len(self.outcomes) else reasons
        )
        reasons[outcomes == rules.NO_TIME] = kernel.NULL_TIME
        reasons[outcomes == rules.NULL_KEY] = kernel.NO_KEY
        return reasons


def _both(mine: NDArray[np.int64], released: pa.Table, name: str) -> NDArray[np.int64]:
    return np.concatenate([mine, one_chunk(released[name]).to_numpy()]) if len(released) else mine


# A micro-batch of table rows: which are accepted, and the shape in which versions are kept.


@lru_cache(maxsize=64)
def versions_schema(config: AsOfJoinConfig, right: pa.Schema) -> pa.Schema:
    """Of versions as segments hold them, see `StreamVersions`."""
    fields = [pa.field(f"__k{number}", right.field(f"__k{number}").type) for number in range(config.n_keys)]
    fields += [pa.field("__hash", pa.int64()), pa.field("__time", pa.int64())]
    fields += [pa.field("__known", pa.int64())] if config.has_known else []
    fields += [pa.field("__flags", pa.int8())]
    fields += [pa.field(f"__tie{n}", right.field(name).type) for n, name in enumerate(_ties(right.names))]
    return pa.schema(fields + [right.field(name) for name in config.right_columns])


def _ties(names: list[str]) -> list[str]:
    """The columns that order versions of equal time; arrival, where the table brings it, is the last one (B8)."""
    return [name for name in names if name.startswith("__tie")] + [name for name in names if name == "__arrival"]


class RightBatch:
    """The table rows of a micro-batch.

    Args:
        config: the join.
        table: the rows in the order of arrival.
        now: the store's stream time before them.

    Attributes:
        now: the store's stream time after them.
        accepted: the versions among them, as they are kept.
        is_accepted: by row.
        clock: the store's stream time after each of the accepted.
    """

    def __init__(self, config: AsOfJoinConfig, table: pa.Table, now: int) -> None:
        self._config, self._table = config, table
        self._found = Outcomes(table, ["__time"], config.n_keys)
        self.now = self._found.decide_right(now, config.right_limits)
        self.is_accepted = self._found.outcomes == rules.ACCEPTED
        self._rows = np.flatnonzero(self.is_accepted)
        self.accepted = self._kept()
        self.clock = self._found.clock[self._rows]

    def refused(self) -> pa.Table:
        """The rows that are no versions, as late rows."""
        return self._found.refused(np.flatnonzero(~self.is_accepted), self._config.name)

    def _kept(self) -> pa.Table:
        config, table = self._config, self._table
        schema = versions_schema(config, table.schema)
        names = [f"__k{number}" for number in range(config.n_keys)]
        columns = {name: table[name] for name in (*names, "__hash", *config.right_columns)}
        columns["__time"] = pa.array(self._found.times)
        if config.has_known:  # a version that nobody knows when it became known never takes part (C4)
            columns["__known"] = pa.array(micros_or(one_chunk(table["__seq"]), _NEVER))
        columns["__flags"] = pa.array(flags_of(table))
        columns |= {f"__tie{n}": table[name] for n, name in enumerate(_ties(table.column_names))}
        kept = pa.table([columns[name] for name in schema.names], schema=schema)
        return kept if len(self._rows) == len(kept) else kept.take(pa.array(self._rows))


# The versions of a live table: keys, times and payload rows of one task, in memory that grows with what is needed.
#
# A put is amortised constant time. What has expired, was replaced or moved is dropped when the payload rows have
# doubled, so no call costs more than a batch but for that.


class StreamVersions:
    """All versions of a task.

    Args:
        config: the join.
        schema: of the versions as segments hold them: `__k0 ..`, `__hash`, `__time` (µs), `__known` (µs, where the join
            has it), `__flags` (as `flags_of`), `__tie0 ..`, and the payload.
    """

    def __init__(self, config: AsOfJoinConfig, schema: pa.Schema) -> None:
        self._config, self._schema = config, schema
        self._key_names = [f"__k{number}" for number in range(config.n_keys)]
        self._ties = [name for name in schema.names if name.startswith("__tie")]
        self._options = (*config.ties, ("asc", "first"))[: len(self._ties)]
        self.keys = StreamKeys([schema.field(name).type for name in self._key_names])
        self.payload = Rows(self._payload_of(schema))
        self.meta = np.zeros((0, 4), np.int64)
        self._width = 4 if self._ties else 3 if config.has_known else 2
        self.pool = np.zeros((0, self._width), np.int64)
        self._used = 0
        self._longest = 0
        self.count = 0  # versions that are held
        self._next_pack = FEWEST_ROWS

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self.keys.nbytes + self.payload.nbytes + int(self.meta.nbytes + self.pool.nbytes)

    def fit(self, schema: pa.Schema) -> None:
        """Go on with versions of another payload: NULL in those that are there, where they have not a column.

        Raises:
            StateError: `STATE.OTHER_TYPE`: a column has another type.
        """
        if schema == self._schema:
            return
        check_types(self._schema, schema)
        self.payload.fit(self._payload_of(schema))
        self._schema = schema

    def _payload_of(self, schema: pa.Schema) -> pa.Schema:
        head = {*self._key_names, "__hash", "__time", "__known", "__flags"}
        return pa.schema([field for field in schema if field.name not in head])

    def coming(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Make room for versions that are about to be put.

        Returns:
            by key, then by arrival: the codes of their keys, the rows of `pool` that they will be, and which row of the
            table each of them is.
        """
        columns = [one_chunk(table[name]) for name in self._key_names]
        codes = self.keys.place(columns, _numbers(table, "__hash"))
        self.meta = zero_grown(self.meta, self.keys.size)
        order = by_code(codes)
        codes = codes[order]
        more = compiled_stream.make_coming(codes, self.meta)
        self.pool = grown(self.pool, self._used, more)
        self._used = compiled_stream.make_room(codes, self.meta, self.pool, self._used)
        first = self.payload.append(table)
        coming = np.zeros((len(codes), self._width), np.int64)
        coming[:, TIME] = _numbers(table, "__time")[order]
        coming[:, CELL] = ((order + first) << 2) + _numbers(table, "__flags")[order]
        if self._config.has_known:
            coming[:, KNOWN] = _numbers(table, "__known")[order]
            self._longest = max(self._longest, int(self.meta[codes, ROOM].max(initial=0)))
        if self._ties:
            self._rank(codes, coming)
        return codes, coming, order

    def put(self, table: pa.Table) -> None:
        """Put versions that a segment holds; they were accepted once and are again."""
        codes, coming, _ = self.coming(table)
        self.count += compiled_stream.put_versions(codes, coming, self.meta, self.pool, self._config.has_known)

    def scratch(self) -> NDArray[np.int64]:
        """Room for the versions of any one key, for KNOWN AS OF."""
        return np.empty((2, self._longest), np.int64)

    def tidy(self, now: int) -> None:
        """Drop what is not needed, when that is due."""
        if self.payload.used >= self._next_pack:
            self.pack(now)
            self._next_pack = max(FEWEST_ROWS, 2 * self.payload.used)

    def pack(self, now: int) -> None:
        """Drop what has expired, was replaced, or moved.

        Args:
            now: the store's stream time.
        """
        retention = self._config.retention_us
        expires = retention is not None and now != UNSET
        horizon = max(now - (retention or 0), UNSET + 1) if expires else 0
        packed, rows = np.empty((self.count, self._width), np.int64), np.empty(self.count, np.int64)
        size = self.keys.size
        self._used = compiled_stream.pack(self.meta, size, self.pool, horizon, expires, packed, rows)
        self.pool, self.count = packed[: self._used], self._used
        self.payload.keep(rows[: self._used])

    def table(self) -> pa.Table:
        """All versions, in an order in which putting them again gives the same; after `pack`."""
        count = self._used
        codes = np.repeat(np.arange(self.keys.size), self.meta[: self.keys.size, LENGTH])
        versions = self.pool[:count]
        columns = dict(zip([*self._key_names, "__hash"], self.keys.take(codes), strict=True))
        columns["__time"] = pa.array(versions[:, TIME].copy())
        if self._config.has_known:
            columns["__known"] = pa.array(versions[:, KNOWN].copy())
        columns["__flags"] = pa.array((versions[:, CELL] & 3).astype(np.int8))
        columns |= dict(zip(self.payload.names, self.payload.take(np.arange(count)), strict=True))
        names = self._schema.names
        return pa.table([columns[name] for name in names], names=names)

    def _rank(self, codes: NDArray[np.int64], coming: NDArray[np.int64]) -> None:
        """Rank those that may share key and time by TIES BY, stored ones anew: ranks only count among them (C3)."""
        places = np.empty(len(codes), np.int64)
        count = compiled_stream.places_of_equal_time(codes, coming, self.meta, self.pool, places)
        if count > len(places):
            places = np.empty(count, np.int64)
            compiled_stream.places_of_equal_time(codes, coming, self.meta, self.pool, places)
        places = np.unique(places[:count])
        rows = np.concatenate([self.pool[places, CELL], coming[:, CELL]]) >> 2
        ranks = _ranks(self.payload.take(rows, names=self._ties), self._options)
        self.pool[places, RANK] = ranks[: len(places)]
        coming[:, RANK] = ranks[len(places) :]


def by_code(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows by code (-1 first), then as they come."""
    packed = ((codes + 1) << 32) | np.arange(len(codes))
    packed.sort()  # much faster than an argsort
    rows: NDArray[np.int64] = packed & 0xFFFFFFFF
    return rows


def _ranks(columns: Sequence[pa.Array], options: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """Equal rows get equal numbers, later ones of the order greater ones."""
    parts = [tie_ranks(column, option) for column, option in zip(columns, options, strict=True)]
    if len(parts) == 1:
        return parts[0]
    order = np.lexsort(parts[::-1])
    is_new = np.zeros(len(order), np.bool_)
    for part in parts:
        is_new[1:] |= part[order][1:] != part[order][:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(is_new)
    return ranks


def zero_grown(meta: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The facts of keys with room for those of more, which have nothing yet."""
    if size <= len(meta):
        return meta
    longer = np.zeros((max(size, 2 * len(meta)), 4), np.int64)
    longer[: len(meta)] = meta
    return longer


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    numbers: NDArray[Any] = one_chunk(table[name]).to_numpy(zero_copy_only=False)
    return numbers


# The stream rows that wait for the grace to pass, of one task.
#
# Their times are kept in sorted runs that are joined when they are about as long as what came after them; rows leave
# from the fronts of the runs, so a call costs what it takes out and puts in.


@dataclass
class _Run:
    """Waiting rows by (time, arrival); what is before `front` has left."""

    times: NDArray[np.int64]
    rows: NDArray[np.int64]
    front: int = 0

    def __len__(self) -> int:
        return len(self.times) - self.front

    def leave(self, bound: int) -> NDArray[np.int64]:
        end = int(np.searchsorted(self.times, bound, side="right"))
        leaving = self.rows[self.front : end]
        self.front = max(end, self.front)
        return leaving


class Waiting:
    """Rows that wait.

    Args:
        schema: of the rows; `__wait_time` (µs) is what they wait with, `__wait_bytes` what each of them counts (B5).
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._rows = Rows(schema)
        self._runs: list[_Run] = []
        self._next_pack = FEWEST_ROWS
        self.waiting_bytes = 0

    @property
    def count(self) -> int:
        """How many rows wait."""
        return sum(len(run) for run in self._runs)

    @property
    def nbytes(self) -> int:
        """Memory of them."""
        return self._rows.nbytes + sum(run.times.nbytes + run.rows.nbytes for run in self._runs)

    def fit(self, schema: pa.Schema) -> None:
        """Go on with rows of another payload, see `StreamVersions.fit`.

        Raises:
            StateError: `STATE.OTHER_TYPE`: a column has another type.
        """
        self._rows.fit(schema)

    def put(self, table: pa.Table) -> None:
        """Add rows in the order of arrival."""
        if not len(table):
            return
        first = self._rows.append(table)
        self.waiting_bytes += _bytes_of(table)
        times = one_chunk(table["__wait_time"]).to_numpy(zero_copy_only=False)
        order = np.argsort(times, kind="stable")
        self._runs.append(_Run(times[order], order + first))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            later = self._runs.pop()
            self._runs[-1] = _joined(self._runs[-1], later)

    def leave(self, bound: int) -> pa.Table:
        """Take out all rows with a time up to the bound; of equal times, the first to arrive comes first."""
        parts = [run.leave(bound) for run in self._runs]
        self._runs = [run for run in self._runs if len(run)]
        leaving = self._rows.table(np.concatenate([np.empty(0, np.int64), *parts]))
        self.waiting_bytes -= _bytes_of(leaving)
        if self._rows.used >= self._next_pack:
            self._pack()
        return leaving

    def table(self) -> pa.Table:
        """All rows, such that putting them again gives the same."""
        self._pack()
        return self._rows.table(np.arange(self._rows.used))

    def _pack(self) -> None:
        """Forget the rows that have left; what stays is one run, in its order."""
        everything = _Run(np.empty(0, np.int64), np.empty(0, np.int64))
        for run in self._runs:
            everything = _joined(everything, run)
        self._rows.keep(everything.rows)
        self._runs = [_Run(everything.times, np.arange(len(everything)))] if len(everything) else []
        self._next_pack = max(FEWEST_ROWS, 2 * self._rows.used)


def _joined(earlier: _Run, later: _Run) -> _Run:
    times = np.concatenate([earlier.times[earlier.front :], later.times[later.front :]])
    rows = np.concatenate([earlier.rows[earlier.front :], later.rows[later.front :]])
    order = np.argsort(times, kind="stable")  # two sorted runs: merged, not sorted
    return _Run(times[order], rows[order])


def _bytes_of(table: pa.Table) -> int:
    return int(one_chunk(table["__wait_bytes"]).to_numpy().sum())


REASON_NAMES = pa.array(kernel.REASONS, pa.string())
NO_TREE = np.empty(0, np.int64)


def count_answers(metrics: Metrics, reasons: NDArray[Any]) -> None:
    """Count rows that were answered, by the reasons of the answers."""
    for reason, count in enumerate(np.bincount(reasons, minlength=len(kernel.REASONS)).tolist()):
        metrics.add("matched" if reason == kernel.MATCH else f"unmatched_{kernel.REASONS[reason]}", count)
    metrics.add("unmatched", len(reasons) - metrics["matched"])


class AsOfJoinStream:
    """The AS OF join of one task.

    Args:
        config: the join.
        emit_order: how many order columns the left input has, when they are to be in the output; 0 leaves them out.

    Raises:
        OperatorError: `OPERATOR.NEEDS_GRACE`, FORWARD or NEAREST without both tolerance and grace (C6).
    """

    def __init__(self, config: AsOfJoinConfig, emit_order: int = 0) -> None:
        """Start without state."""
        if config.direction != "backward" and (config.grace_us is None or config.tolerance_us is None):
            raise OperatorError.needs_grace(config.direction)
        self.config = config
        self._emit_order = emit_order
        self._versions: StreamVersions | None = None  # types are known with the first rows
        self._waiting: Waiting | None = None
        self._left_time: int = rules.UNSET
        self._right_time: int = rules.UNSET

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = self._numbers()
        versions = self._known_versions(versions_schema(self.config, inputs[1].schema))
        waiting = self._known_waiting(waiting_schema(self.config, inputs[0].schema))
        versions.tidy(self._right_time)
        right = RightBatch(self.config, inputs[1], self._right_time)
        left = LeftBatch(self.config, inputs[0], self._left_time)
        asked = left.ask(waiting)
        places = self._answer(versions, left, right, asked, puts_before(sides, right.is_accepted)[asked.causes])
        kept = left.kept()
        waiting.put(kept)
        self._left_time, self._right_time = left.now, right.now
        delta = Segment({"versions": right.accepted, "waiting": kept}, self._numbers())
        is_changed = len(right.accepted) > 0 or len(kept) > 0 or before != delta.numbers
        late = (left.refused(), right.refused())
        metrics = self._metrics(left, right, asked, late)
        rows = self._rows(inputs[0], asked, places, self._emit_order)
        return StreamEmission(rows, late, metrics, delta if is_changed else None)

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Answer all that waits, since nothing came for a while; stream time stays.

        Args:
            inputs: both inputs without rows, for their types.
        """
        left_table, right_table = inputs
        versions = self._known_versions(versions_schema(self.config, right_table.schema))
        waiting = self._known_waiting(waiting_schema(self.config, left_table.schema))
        right = RightBatch(self.config, right_table, self._right_time)
        left = LeftBatch(self.config, left_table, self._left_time)
        asked = left.ask_all(waiting)
        places = self._answer(versions, left, right, asked, np.zeros(len(asked.sources), np.int64))
        rows = uncaused(self._rows(left_table, asked, places, emit_order=0), left_table, self._emit_order)
        metrics = {**self._metrics(left, right, asked, ()), "idle_closed": len(asked.sources)}
        delta = Segment({}, {**self._numbers(), _ALL_LEFT: 1}) if len(asked.sources) else None
        return StreamEmission(rows, (), metrics, delta)

    def snapshot(self) -> Segment:
        """Versions without what has expired, what waits, and both stream times."""
        tables = {}
        if self._versions is not None:
            self._versions.pack(self._right_time)
            tables["versions"] = self._versions.table()
        if self._waiting is not None:
            tables["waiting"] = self._waiting.table()
        return Segment(tables, self._numbers())

    def apply(self, segment: Segment) -> None:
        """Put the versions, add what waits, take out what the stream has passed."""
        left, right = segment.numbers["left_time"], segment.numbers["right_time"]
        self._left_time = rules.UNSET if left is None else left
        self._right_time = rules.UNSET if right is None else right
        if segment.numbers.get(_ALL_LEFT) and self._waiting is not None:
            self._waiting.leave(_NEVER)
        if (table := segment.tables.get("versions")) is not None:
            versions = self._known_versions(table.schema)
            versions.tidy(self._right_time)
            versions.put(table)
        if (table := segment.tables.get("waiting")) is not None:
            waiting = self._known_waiting(table.schema)
            waiting.put(table)
            if self.config.wait_us is not None and left is not None:
                waiting.leave(rules.due_until(left, self.config.left_limits[1]))

    @property
    def stored_bytes(self) -> int:
        """Memory of versions and waiting rows."""
        parts = (self._versions, self._waiting)
        return sum(part.nbytes for part in parts if part is not None)

    def _known_versions(self, schema: pa.Schema) -> StreamVersions:
        if self._versions is None:
            self._versions = StreamVersions(self.config, schema)
        self._versions.fit(schema)
        return self._versions

    def _known_waiting(self, schema: pa.Schema) -> Waiting:
        if self._waiting is None:
            self._waiting = Waiting(schema)
        self._waiting.fit(schema)
        return self._waiting

    def _numbers(self) -> dict[str, int | None]:
        times = {"left_time": self._left_time, "right_time": self._right_time}
        return {name: None if time == rules.UNSET else time for name, time in times.items()}

    def _answer(
        self,
        versions: StreamVersions,
        left: LeftBatch,
        right: RightBatch,
        asked: Asked,
        puts_before: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Put and look up; returns the payload row of every answer, -1 where there is none."""
        config, rows = self.config, np.full(len(asked.sources), -1)
        codes, coming, arrivals = versions.coming(right.accepted)
        ask_codes = left.codes(asked, versions.keys)
        nows = np.concatenate([[self._right_time], right.clock])[puts_before]
        order = by_code(ask_codes)
        reasons = asked.reasons[order]
        versions.count += compiled_stream.join_stream(
            codes,
            coming,
            arrivals,
            ask_codes[order],
            asked.times[order],
            asked.known[order],
            puts_before[order],
            nows[order],
            reasons,
            versions.meta,
            versions.pool,
            versions.scratch(),
            NO_TREE,
            limit(config.retention_us),
            limit(config.tolerance_us),
            DIRECTIONS[config.direction],
            config.exclusive,
            config.has_known,
            rows,
        )
        places = np.empty_like(rows)
        places[order] = rows
        asked.reasons[order] = reasons
        return places

    def _rows(self, left: pa.Table, asked: Asked, places: NDArray[np.int64], emit_order: int) -> pa.Table:
        """The output, in the order of emission, with so many order columns of the causes."""
        config, sources, causes, reasons = self.config, asked.sources, asked.causes, asked.reasons
        present = places >= 0
        if not config.is_left:
            sources, causes, reasons, places = sources[present], causes[present], reasons[present], places[present]
        names = [*config.left_columns, *config.right_columns]
        released = asked.released
        columns: list[Any] = [
            taken(left[name], released[name] if len(released) else None, sources) for name in config.left_columns
        ]
        assert self._versions is not None, "on_batch has made it"
        is_full = not config.is_left or bool(present.all())
        columns += self._versions.payload.take(places, None if is_full else present, config.right_columns)
        if config.with_reason:
            columns.append(REASON_NAMES.take(pa.array(reasons)))
            names.append("__reason")
        if emit_order:
            order, order_names = ordered(left, causes, emit_order)
            columns, names = [*columns, *order], [*names, *order_names]
        return table_of(columns, names, len(sources))

    def _metrics(self, left: LeftBatch, right: RightBatch, asked: Asked, late: tuple[pa.Table, ...]) -> dict[str, int]:
        """What this batch counted; gauges as they are now."""
        metrics = Metrics()
        count_refused(metrics, late)
        metrics.add("late", int(np.count_nonzero(left.outcomes == rules.LATE)))
        count_answers(metrics, asked.reasons)
        assert self._versions is not None, "on_batch has made it"
        assert self._waiting is not None, "on_batch has made it"
        metrics.set("buffered_rows", self._waiting.count)
        metrics.set("buffered_bytes", self._waiting.waiting_bytes)
        metrics.set("state_rows", self._versions.count + self._waiting.count)
        metrics.set("state_bytes", self.stored_bytes)
        if self._left_time != rules.UNSET:
            metrics.set("max_event_time", self._left_time)
        return dict(metrics)
