"""The store of a deduplication: an open addressing table of entries, and what it says of rows that arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from udtf.operators import deduplicate_compiled as compiled
from udtf.operators import deduplicate_kernel as kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
class Judged:
    """What became of the rows.

    Attributes:
        verdicts: codes of the kernel.
        owners: reference of the live entry that a row met, or -1.
        stream_times: after each row; the least number before the first.
        closed_refs: with `keeps_last` the rows that groups give out, in no order; closed_times: their entry times.
    """

    verdicts: NDArray[np.int8]
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
        return int(kernel.horizon(int(self._clock[_NOW]), self._interval)) if self._clock[_IS_SET] else -(2**63)

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        return sum(array.nbytes for array in self._arrays())

    def judge(self, rows: Arrivals, first_ref: int) -> Judged:
        """Take rows; the entry of row r gets the reference `first_ref + r`."""
        count = len(rows.ids)
        found = Judged(np.empty(count, np.int8), *(np.empty(count, np.int64) for _ in range(4)))
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

    def _run(self, row: int, rows: Arrivals, first_ref: int, found: Judged) -> int:
        stop = compiled.deduplicate_rows(
            row, rows.ids, rows.times, rows.absent, rows.keyless, rows.sequences, self._interval, self._max_future,
            self._keeps_last, first_ref, self._clock, *self._arrays(), found.verdicts, found.owners,
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
