"""A micro-batch of stream rows: which are answered, when, and in which order; which wait, which are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.operators import as_of_kernel as kernel
from udtf.operators import compiled_stream
from udtf.operators.as_of_columns import one_chunk
from udtf.operators.as_of_times import tie_ranks
from udtf.operators.stream_bytes import stored_bytes
from udtf.operators.stream_rows import hashes_of, is_present, keys_of, keys_present, micros_of, micros_or, refused

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udtf.operators.as_of_config import AsOfJoinConfig
    from udtf.operators.as_of_stream_waiting import Waiting
    from udtf.operators.stream_keys import StreamKeys

_UNKNOWN = -(2**63 - 1)  # KNOWN AS OF NULL: nothing was known
_OWN = ("__wait_time", "__wait_known", "__wait_bytes")


def waiting_schema(config: AsOfJoinConfig, left: pa.Schema) -> pa.Schema:
    """Of rows that wait, as segments hold them."""
    names = dict.fromkeys([f"__k{number}" for number in range(config.n_keys)] + ["__hash", *config.left_columns])
    return pa.schema([*(left.field(name) for name in names), *(pa.field(name, pa.int64()) for name in _OWN)])


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


class LeftBatch:
    """The stream rows of a micro-batch.

    Args:
        config: the join.
        table: the rows in the order of arrival.
        now: stream time before them.

    Attributes:
        now: stream time after them.
        fates: of all rows.
    """

    def __init__(self, config: AsOfJoinConfig, table: pa.Table, now: int) -> None:
        self._config, self._table = config, table
        time = one_chunk(table["__as_of"])
        self._times, self._has_time = micros_of(time), is_present(time)
        if "__event_time" in table.column_names:  # without one the row has no place in time (A)
            self._has_time = self._has_time & is_present(one_chunk(table["__event_time"]))
        self._keys = keys_of(table, config.n_keys)
        has_key = keys_present(self._keys)
        self.fates, self._clock = np.empty(len(table), np.int8), np.empty(len(table), np.int64)
        self.now = int(
            compiled_stream.decide_left(
                self._times, self._has_time, has_key, now, *config.left_limits, self.fates, self._clock
            )
        )

    def refused(self) -> pa.Table:
        """The late rows; a left join answers what has no time or no key (6.1, B2)."""
        fates = self.fates
        is_refused = fates == kernel.FUTURE
        if not self._config.is_left:
            is_refused |= (fates == kernel.NO_TIME) | (fates == kernel.NULL_KEY)
        times = pa.array(self._times, mask=~self._has_time)
        return refused(self._table, np.flatnonzero(is_refused), fates, times, self._clock, self._config.name)

    def ask(self, waiting: Waiting) -> Asked:
        """What is answered; the rows that wait beyond the micro-batch go to `staying`."""
        fates = self.fates
        at_once = (fates == kernel.ACCEPTED) | (fates == kernel.LATE)
        if self._config.is_left:
            at_once |= (fates == kernel.NO_TIME) | (fates == kernel.NULL_KEY)
        sources = np.flatnonzero(at_once)
        causes = sources
        self.staying = np.empty(0, np.int64)
        released = waiting.leave(kernel.UNSET)
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

    def codes(self, asked: Asked, keys: StreamKeys) -> NDArray[np.int64]:
        """The codes of the keys of the rows that are answered."""
        is_wanted = np.zeros(len(self._table), np.bool_)
        is_wanted[asked.sources[(asked.sources < len(is_wanted)) & (asked.reasons == kernel.MATCH)]] = True
        codes = keys.find(self._keys, hashes_of(self._table), is_wanted)
        if len(asked.released):
            columns, hashes = keys_of(asked.released, self._config.n_keys), hashes_of(asked.released)
            codes = np.concatenate([codes, keys.find(columns, hashes, np.ones(len(hashes), np.bool_))])
        return codes[asked.sources]

    def kept(self) -> pa.Table:
        """The rows that wait beyond the micro-batch."""
        rows, config = pa.array(self.staying), self._config
        schema = waiting_schema(config, self._table.schema)
        if not len(rows):
            return schema.empty_table()
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
        entering = np.flatnonzero(self.fates == kernel.WAITS)
        bound = kernel.due_until(self.now, wait) if len(entering) else kernel.UNSET  # only they release (7.6)
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
        compiled_stream.find_causes(times, entered, entering, self._clock, wait, causes)
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
        for number, column in enumerate(self._keys):
            whole = pa.concat_arrays([column, one_chunk(released[f"__k{number}"])]) if len(released) else column
            keys.append(tie_ranks(whole.take(rows), ("asc", "first")))
        sources = sources.copy()
        sources[places] = sources[places[np.lexsort([*keys[::-1], groups])]]
        return sources

    def _known(self) -> NDArray[np.int64]:
        return micros_or(one_chunk(self._table["__known"]), _UNKNOWN)

    def _settled(self, sources: NDArray[np.int64]) -> NDArray[np.int8]:
        reasons = np.full(len(sources), kernel.MATCH, np.int8)
        mine = sources < len(self.fates)
        fates = np.where(mine, self.fates[np.where(mine, sources, 0)], kernel.WAITS) if len(self.fates) else reasons
        reasons[fates == kernel.NO_TIME] = kernel.NULL_TIME
        reasons[fates == kernel.NULL_KEY] = kernel.NO_KEY
        return reasons


def _both(mine: NDArray[np.int64], released: pa.Table, name: str) -> NDArray[np.int64]:
    return np.concatenate([mine, one_chunk(released[name]).to_numpy()]) if len(released) else mine
