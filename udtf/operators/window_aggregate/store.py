"""The slots of one task: room for them, rows folded into them, and what of them travels in a changelog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from udtf.columns.arrays import one_chunk
from udtf.columns.batch import hashes_of, keys_of
from udtf.columns.keys import GroupKeys
from udtf.columns.rows import grown
from udtf.errors import OperatorError
from udtf.operators.window_aggregate import compiled, loops
from udtf.operators.window_aggregate.columns import Aggregates
from udtf.operators.window_aggregate.config import shape_of
from udtf.operators.window_aggregate.loops import Batch, Found, SpilledEnds, State
from udtf.rules import UNSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udtf.operators.window_aggregate.config import WindowAggregateConfig

_FEWEST_SLOTS: Final = 1 << 10
_SPARE_KEYS: Final = 1 << 12
_BOUND_BYTES: Final = 16

_BY_SLOT: Final = ("slots", "ints", "floats", "leaving", "touched", "free")


class Store:
    """All open windows of a task, and its stream time."""

    def __init__(self, config: WindowAggregateConfig) -> None:
        """Start without windows."""
        self.config, self.shape = config, shape_of(config)
        self.aggregates = Aggregates(config.aggregates)
        self.keys: GroupKeys | None = None  # types are known with the first rows
        self.clock = np.zeros(loops.CLOCK_SIZE, np.int64)
        self.clock[loops.ALIGNED], self.clock[loops.CLOSED_BEFORE] = config.window.offset_us, UNSET
        self._closes = config.window.kind != "none"
        self.state = self._empty(_FEWEST_SLOTS)

    @property
    def stream_time(self) -> int | None:
        """The greatest time so far."""
        return int(self.clock[loops.NOW]) if self.clock[loops.IS_SET] else None

    @property
    def close_bound(self) -> int:
        """Windows whose end is below this are closed."""
        is_set = self.clock[loops.IS_SET] and self._closes
        return int(loops.close_bound(self.shape, self.clock.tolist())) if is_set else UNSET

    @property
    def closed_before(self) -> int:
        """Windows whose end is below this were closed by rows; the grace period of now may have closed more."""
        return int(self.clock[loops.CLOSED_BEFORE])

    @property
    def nbytes(self) -> int:
        """Memory of the windows and their keys."""
        arrays = sum(int(array.nbytes) for array in self.state)
        return arrays + (0 if self.keys is None else self.keys.nbytes)

    @property
    def spilled_rows(self) -> int:
        """How many windows are open, but not here."""
        return int(self.clock[loops.SPILLED])

    @property
    def kept_rows(self) -> int:
        """How many closed sessions are here that may become part of longer ones."""
        return int(self.clock[loops.KEPT_HERE])

    @property
    def _here(self) -> int:
        """How many windows are open and here."""
        return int(self.clock[loops.COUNT_OPEN]) - self.spilled_rows

    # rows

    def fold(
        self, rows: pa.Table, times: NDArray[np.int64], absent: NDArray[np.bool_], spilled_ends: SpilledEnds
    ) -> Found:
        """Take rows in the order of arrival.

        Raises:
            OperatorError: a sum does not fit, or a buffer is full; what is here is of no use then.
        """
        self.clock[list(loops.OF_A_BATCH)] = 0
        batch = Batch(self._codes(rows), times, absent, *self.aggregates.arguments(rows), spilled_ends)
        found = self._nothing_found(len(rows))
        row = 0
        while True:
            row = compiled.fold_rows(row, batch, self.state, found, self.shape, self.aggregates.folds, self.clock)
            if self.clock[loops.STOP] != loops.ROOM:
                break
            found = self._with_room(found)
        self._check()
        return found

    def settle(self, found: Found) -> None:
        """What rows have closed stays closed, whichever grace period comes next."""
        if not np.isin(found.outcomes, (loops.NULL_TIME, loops.FUTURE)).all():
            self.clock[loops.CLOSED_BEFORE] = self.close_bound

    def release(self) -> None:
        """The batch is over: what has left may be used again."""
        state, clock = self.state, self.clock
        state.slots[state.touched[: clock[loops.TOUCHED]], loops.MARK] = 0
        gone, rows = state.leaving[: clock[loops.LEAVING]].T
        if self.shape.keeps:  # a session that has closed is in the heap once more
            gone = np.unique(gone[(rows < 0) | (state.slots[gone, loops.LIFE] == loops.CLOSED)])
        state.slots[gone, loops.LIFE] = loops.FREE
        state.free[clock[loops.SPARE] : clock[loops.SPARE] + len(gone)] = gone
        clock[loops.SPARE] += len(gone)
        clock[loops.TOUCHED] = clock[loops.LEAVING] = 0
        self._forget_keys()

    def close_all(self, last_spilled: int | None) -> None:
        """Move stream time to where everything is closed, and close it."""
        clock, shape = self.clock, self.shape
        here = self.state.slots[self.held_slots(), loops.END]
        ends = here if last_spilled is None else np.append(here, last_spilled)
        if len(ends):
            clock[loops.NOW] = max(int(clock[loops.NOW]), int(ends.max()) + shape.wait + shape.inclusive)
            self.close(self.close_bound)
            clock[loops.CLOSED_BEFORE] = self.close_bound

    def close(self, bound: int) -> None:
        """Close what ends below a bound."""
        compiled.close_until(bound, self.shape.keeps, 0, self.state, self.clock)

    def closed(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The slots that this batch has closed, and the rows that did it."""
        leaving = self.state.leaving[: self.clock[loops.LEAVING]]
        by_row = leaving[:, 1] >= 0
        leaving = leaving if by_row.all() else leaving[by_row]
        return leaving[:, 0], leaving[:, 1]

    def changed(self) -> NDArray[np.int64]:
        """The slots that this batch has changed and that are still held."""
        touched = self.state.touched[: self.clock[loops.TOUCHED]]
        found: NDArray[np.int64] = touched[loops.is_held(self.state.slots[touched, loops.LIFE])]
        return found

    def held_slots(self) -> NDArray[np.int64]:
        """All that are open, and the closed sessions that are kept."""
        found = np.empty(int(self.clock[loops.USED]), np.int64)
        return found[: compiled.held_slots(self.state, self.clock, found)]

    # segments

    def table(self, places: NDArray[np.int64]) -> pa.Table:
        """Some slots as they travel: key, hash, bounds, time, the numbers of their states."""
        if self.keys is None:
            return pa.table({})
        state = self.state
        columns, hashes = self.keys.take(state.slots[places, loops.CODE])
        found = {f"__k{number}": column for number, column in enumerate(columns)} | {"__hash": hashes}
        for name, column in (("__ws", loops.START), ("__we", loops.END), ("__time", loops.TIME)):
            found[name] = state.slots[places, column]
        found |= {f"i{number}": state.ints[places, number] for number in range(self.aggregates.ints)}
        found |= {f"f{number}": state.floats[places, number] for number in range(self.aggregates.floats)}
        return pa.table(found)

    def put(self, rows: pa.Table) -> None:
        """Put slots that have travelled, each instead of what it has grown from."""
        codes = self._codes(rows)
        windows = np.stack([one_chunk(rows[name]).to_numpy() for name in ("__ws", "__we", "__time")], axis=1)
        self._make_room(len(codes))
        states, folds = self.aggregates.states(rows), self.aggregates.folds
        compiled.put_slots(codes, windows, *states, self.state, folds, self.clock, self._closes)

    def bring_back(self, rows: pa.Table) -> None:
        """Put slots that were spilled: they were open all the time, or have closed and are kept."""
        clock, bound = self.clock, self.closed_before
        rows_open, bytes_open = int(clock[loops.COUNT_OPEN]), int(clock[loops.BYTES_OPEN])
        self.put(rows)
        clock[loops.SPILLED] -= np.count_nonzero(one_chunk(rows["__we"]).to_numpy() >= bound)
        if self.shape.keeps:
            self.close(bound)
            self.release()
        clock[loops.COUNT_OPEN], clock[loops.BYTES_OPEN] = rows_open, bytes_open

    def drop_closed(self, rows: int, sizes: int) -> None:
        """Spilled windows are closed, so many of so many bytes."""
        self.clock[[loops.SPILLED, loops.COUNT_OPEN, loops.BYTES_OPEN]] -= (rows, rows, sizes)

    def keep_only(self, places: NDArray[np.int64]) -> None:
        """Let go of all slots but these; the others are spilled."""
        clock, kept = self.clock, self.table(places)
        rows_open, bytes_open = int(clock[loops.COUNT_OPEN]), int(clock[loops.BYTES_OPEN])
        clock[[loops.USED, loops.SPARE, loops.HEAP, loops.PLACES, loops.KEPT_HERE]] = 0
        assert self.keys is not None, "there are slots"
        self.keys = GroupKeys(self.keys.types)
        self.state = self._empty(max(_FEWEST_SLOTS, len(places)))
        self.put(kept)
        clock[loops.SPILLED] = rows_open - len(places)
        clock[loops.COUNT_OPEN], clock[loops.BYTES_OPEN] = rows_open, bytes_open

    # room

    def _codes(self, rows: pa.Table) -> NDArray[np.int64]:
        columns = keys_of(rows, self.config.n_keys)
        if self.keys is None:
            self.keys = GroupKeys([column.type for column in columns])
        before = self.keys.size
        codes = self.keys.place(columns, hashes_of(rows))
        if self.keys.size > before:
            self._learn(before)
        return codes

    def _learn(self, before: int) -> None:
        """Room for what is kept by code, from a code on."""
        assert self.keys is not None, "it has placed keys"
        more, state = self.keys.size - before, self.state
        heads = state.heads
        if self.shape.kind == loops.SESSION:
            heads = grown(heads, before, more)
            heads[before : before + more] = -1
        key_bytes = grown(state.key_bytes, before, more)
        bounds = _BOUND_BYTES if self._closes else 0
        key_bytes[before : before + more] = self.keys.bytes_of(np.arange(before, before + more)) + bounds
        self.state = state._replace(heads=heads, key_bytes=key_bytes)

    def _empty(self, room: int) -> State:
        return State(
            slots=np.zeros((room, 8), np.int64),
            ints=np.empty((room, self.aggregates.ints), np.int64),
            floats=np.empty((room, self.aggregates.floats), np.float64),
            heap=np.empty((room if self._closes else 1, 2), np.int64),
            table=self._free_table(room),
            heads=np.empty(0, np.int64),
            leaving=np.empty((2 * room if self.shape.keeps else room, 2), np.int64),
            touched=np.empty(room, np.int64),
            free=np.empty(room, np.int64),
            key_bytes=np.empty(0, np.int64),
        )

    def _free_table(self, windows: int) -> NDArray[np.int64]:
        """At least twice as many places as windows; sessions have no table."""
        places = 0 if self.shape.kind == loops.SESSION else 1 << max(10, (2 * windows - 1).bit_length())
        return np.full(places, -1, np.int64)

    def _make_room(self, more: int) -> None:
        """Room for so many windows more."""
        clock, state = self.clock, self.state
        used, room = int(clock[loops.USED]), len(state.slots)
        wanted = used - int(clock[loops.SPARE]) + more
        if wanted > room:
            room = max(wanted, 2 * room)
            rooms = dict.fromkeys(_BY_SLOT, room)
            rooms |= {"heap": room} if self._closes else {}
            rooms |= {"leaving": 2 * room} if self.shape.keeps else {}
            arrays = {name: getattr(state, name) for name in rooms}
            self.state = state._replace(**{n: grown(a, len(a), rooms[n] - len(a)) for n, a in arrays.items()})
        places = len(state.table)
        if places and clock[loops.PLACES] + more > places >> 1:
            self.state = self.state._replace(table=self._free_table(2 * (self._here + more)))
            self._place_again()

    def _place_again(self) -> None:
        """Fill an empty table, or empty lists, from the slots."""
        self.clock[loops.PLACES] = 0
        compiled.place_all(self.state, self.clock)

    def _nothing_found(self, rows: int) -> Found:
        room = 0 if self.config.is_final else rows * min(self.shape.most_updates, 4) + self.shape.most_updates
        ints, floats = (room, self.aggregates.ints), (room, self.aggregates.floats)
        return Found(
            np.zeros(rows, np.int8),
            np.empty(rows, np.int64),
            np.empty((room, 7), np.int64),
            np.zeros(ints, np.int64),
            np.zeros(floats, np.float64),
            np.zeros(ints, np.int64),
            np.zeros(floats, np.float64),
        )

    def _with_room(self, found: Found) -> Found:
        """Room for the windows and updates of another row."""
        self._make_room(max(self.shape.most_windows, _FEWEST_SLOTS))
        used = int(self.clock[loops.UPDATES])
        if self.config.is_final or used + self.shape.most_updates <= len(found.updates):
            return found
        return Found(*found[:2], *(grown(array, used, self.shape.most_updates) for array in found[2:]))

    def _forget_keys(self) -> None:
        """Let go of keys without windows, once they are the most."""
        if self.keys is None or self.keys.size <= _SPARE_KEYS + 2 * (self._here + self.kept_rows):
            return
        places, state = self.held_slots(), self.state
        live, entries = np.unique(state.slots[places, loops.CODE], return_inverse=True)
        codes = self.keys.keep(live)
        state.slots[places, loops.CODE] = codes[entries]
        heads = np.full(len(live) if self.shape.kind == loops.SESSION else 0, -1, np.int64)
        key_bytes = np.empty(len(live), np.int64)
        key_bytes[codes] = state.key_bytes[live]
        self.state = state._replace(heads=heads, table=np.full(len(state.table), -1, np.int64), key_bytes=key_bytes)
        self._place_again()

    def _check(self) -> None:
        """Say why the loop ended early."""
        stop, config = int(self.clock[loops.STOP]), self.config
        if stop == loops.OVERFLOWN:
            raise OperatorError.arithmetic_overflow("sum", "bigint")
        if stop == loops.FULL_ROWS:
            raise OperatorError.buffer_full(config.name, "rows", config.max_rows, int(self.clock[loops.COUNT_OPEN]))
        if stop == loops.FULL_BYTES:
            raise OperatorError.buffer_full(config.name, "bytes", config.max_bytes, int(self.clock[loops.BYTES_OPEN]))
