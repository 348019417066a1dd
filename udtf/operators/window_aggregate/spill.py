"""Windows beyond a limit of memory: compressed pages in a file of this process, with WHEN FULL SPILL.

What lies here is in the changelog as well, so that losing it costs a rebuild only. A window comes back when its key has
a row; then it is as if it had never left. One that closes without goes from its page to the result, one page at a time;
a session stays on its page for as long as a row may make a longer one of it.
Source: KIP-328 (`spillToDiskWhenFull`), semantics.md A.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import one_chunk
from udtf.local_folder import first_folder
from udtf.operators.window_aggregate import loops
from udtf.operators.window_aggregate.loops import NOTHING_SPILLED, SpilledEnds
from udtf.rules import UNSET, horizon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate.config import WindowAggregateConfig
    from udtf.operators.window_aggregate.store import Store

_PAGE_ROWS: Final = 1 << 14
_PAGE_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="zstd")
_LEAST_FILE_BYTES: Final = 1 << 20
_BYTES: Final = "__bytes"
_ALL: Final = 2**63 - 1


class Packed:
    """Integers in as few bytes as their differences need.

    >>> packed = Packed(np.array([1_700_000_000_000_000, 1_700_000_000_000_200]))
    >>> packed.nbytes, packed.values().tolist()[1]
    (2, 1700000000000200)
    """

    def __init__(self, values: NDArray[np.int64]) -> None:
        """Keep at least one value."""
        self._least = values.min()
        above = values - self._least
        self._above = above.astype(np.min_scalar_type(above.max()) if above.min() >= 0 else np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of them."""
        return int(self._above.nbytes)

    def values(self) -> NDArray[np.int64]:
        """The integers."""
        values: NDArray[np.int64] = self._above.astype(np.int64) + self._least
        return values


@dataclass
class Page:
    """A run of windows by end.

    Attributes:
        start, size: where its bytes are in the file.
        hashes: of the keys of its windows, half of each: a window of another key that comes back does no harm.
        ends: of its windows, ascending.
        sizes: of its windows, bytes, as they count while they are open.
        is_here: which of them were not taken yet.
    """

    start: int
    size: int
    hashes: NDArray[np.int32]
    ends: Packed
    sizes: Packed
    is_here: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        """Memory of what is known of it."""
        return self.hashes.nbytes + self.ends.nbytes + self.sizes.nbytes + self.is_here.nbytes

    def closing(self, closed: int, close_bound: int) -> NDArray[np.bool_]:
        """Which of its windows are here and end from `closed` on and below `close_bound`."""
        return self._closing(self.ends.values(), closed, close_bound)

    def spilled_ends(self, closed: int, close_bound: int) -> SpilledEnds:
        """The same, counted by end."""
        ends = self.ends.values()
        wanted = self._closing(ends, closed, close_bound)
        return _by_end(ends[wanted], np.ones(np.count_nonzero(wanted), np.int64), self.sizes.values()[wanted])

    def _closing(self, ends: NDArray[np.int64], closed: int, close_bound: int) -> NDArray[np.bool_]:
        return self.is_here & (closed <= ends) & (ends < close_bound)


class Pages:
    """Windows in a file that nobody else sees and that is gone with this process.

    Attributes:
        closed: what ends below it has closed: the sessions that are kept.
    """

    def __init__(self, keeps_us: int = 0) -> None:
        """Start empty; the file is made with the first window.

        Args:
            keeps_us: how long sessions stay that have closed.
        """
        self.closed: int = UNSET
        self._keeps_us = keeps_us
        self._pages: list[Page] = []
        self._file: IO[bytes] | None = None
        self._file_bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory of what is known of the pages."""
        return sum(page.nbytes for page in self._pages)

    def __bool__(self) -> bool:
        """Whether there are windows."""
        return bool(self._pages)

    def put(self, windows: pa.Table) -> None:
        """Add windows as `Store.table` has them, and their bytes."""
        ordered = windows.take(pc.sort_indices(windows, sort_keys=[("__we", "ascending")]))
        for start in range(0, len(ordered), _PAGE_ROWS):
            self._write(ordered.slice(start, _PAGE_ROWS))

    def take(self, hashes: NDArray[np.int64]) -> list[pa.Table]:
        """Take out the windows of some keys (of all with their hashes)."""
        halves = np.unique(hashes.astype(np.int32))
        return list(self._take_each(lambda page: page.is_here & np.isin(page.hashes, halves)))

    def leave(self, close_bound: int) -> Iterator[pa.Table]:
        """Give out all that is open and ends below `close_bound`, page by page.

        A session stays for as long as it is kept. It must be read to its end.
        """
        closed, self.closed = self.closed, max(self.closed, close_bound)
        kept_from = horizon(close_bound, self._keeps_us)
        return self._take_each(
            lambda page: page.closing(closed, close_bound), lambda page: page.closing(UNSET, kept_from)
        )

    def spilled_ends(self, close_bound: int) -> SpilledEnds:
        """The windows that are open and end below `close_bound`, counted by end; they stay."""
        found = [NOTHING_SPILLED, *(page.spilled_ends(self.closed, close_bound) for page in self._pages)]
        return _by_end(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def all(self) -> Iterator[pa.Table]:
        """All windows; they stay."""
        for page in self._pages:
            yield self._read(page).filter(pa.array(page.is_here))

    def _take_each(
        self,
        wanted_of: Callable[[Page], NDArray[np.bool_]],
        gone_of: Callable[[Page], NDArray[np.bool_]] | None = None,
    ) -> Iterator[pa.Table]:
        """What is wanted of each page; that is then gone, if nothing else is."""
        is_changed = False
        for page in self._pages:
            wanted = wanted_of(page)
            gone = wanted if gone_of is None else gone_of(page)
            if wanted.any():
                yield self._read(page).filter(pa.array(wanted))
            if gone.any():
                page.is_here &= ~gone
                is_changed = True
        if is_changed:
            self._tidy()

    def _write(self, windows: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, windows.schema, options=_PAGE_OPTIONS) as writer:
            writer.write_table(windows)
        data = sink.getvalue()
        start = self._append(data)
        hashes, ends, sizes = (one_chunk(windows[name]).to_numpy() for name in ("__hash", "__we", _BYTES))
        is_here = np.ones(len(windows), np.bool_)
        page = Page(start, data.size, hashes.astype(np.int32), Packed(ends), Packed(sizes), is_here)
        self._pages.append(page)

    def _append(self, data: bytes | pa.Buffer) -> int:
        """Write to the end of the file, and say where that was."""
        if self._file is None:
            beside = first_folder(os.environ.get("SPARK_LOCAL_DIRS", ""))  # Spark says it to its workers
            self._file = tempfile.TemporaryFile(prefix="sqlx-windows-", dir=beside)  # noqa: SIM115  # as long as these pages
            weakref.finalize(self, self._file.close)
        start = self._file_bytes
        self._file.seek(start)
        self._file_bytes += self._file.write(data)
        return start

    def _read(self, page: Page) -> pa.Table:
        assert self._file is not None, "a page has been written"
        self._file.seek(page.start)
        with pa.ipc.open_stream(self._file.read(page.size)) as reader:
            return reader.read_all()

    def _tidy(self) -> None:
        """Write anew what is left of pages that have lost the most, and the file once most of it is of no use."""
        thin = [page for page in self._pages if 2 * np.count_nonzero(page.is_here) < len(page.is_here)]
        rest = [self._read(page).filter(pa.array(page.is_here)) for page in thin if page.is_here.any()]
        self._pages = [page for page in self._pages if 2 * np.count_nonzero(page.is_here) >= len(page.is_here)]
        if rest:
            self.put(pa.concat_tables(rest))
        if self._file_bytes > _LEAST_FILE_BYTES + 2 * sum(page.size for page in self._pages):
            self._copy()

    def _copy(self) -> None:
        """Another file, without what nobody reads any more; one page is in memory at a time."""
        before, self._file, self._file_bytes = self._file, None, 0
        for page in self._pages:
            assert before is not None, "a page has been written"
            before.seek(page.start)
            page.start = self._append(before.read(page.size))
        if before is not None:
            before.close()


class Spill:
    """Keeps a store within its limits.

    Args:
        config: of the aggregation.
        store: whose windows leave and come back; it counts them as open all the time.
    """

    def __init__(self, config: WindowAggregateConfig, store: Store) -> None:
        """Start with nothing spilled."""
        has_limit = config.max_rows is not None or config.max_bytes is not None
        self.is_on = config.is_final and config.when_full == "spill" and has_limit
        self._most_rows = 2**62 if config.max_rows is None else config.max_rows
        self._most_bytes = 2**62 if config.max_bytes is None else config.max_bytes
        self._store, self._pages = store, Pages(config.keeps_us)

    @property
    def nbytes(self) -> int:
        """Memory of what is known of spilled windows."""
        return self._pages.nbytes

    @property
    def last_end(self) -> int | None:
        """When the last of all that is spilled ends."""
        ends = self._pages.spilled_ends(_ALL).ends
        return int(ends[-1]) if len(ends) else None

    def bring(self, hashes: NDArray[np.int64]) -> None:
        """Bring back the windows of some keys."""
        if self._pages:
            for windows in self._pages.take(hashes):
                self._store.bring_back(windows)

    def spilled_ends(self, latest: int | None) -> SpilledEnds:
        """What a batch may close whose latest time is `latest`; the windows of its keys are back already."""
        store = self._store
        if not store.spilled_rows or latest is None:
            return NOTHING_SPILLED
        now = latest if store.stream_time is None else max(store.stream_time, latest)
        clock = {loops.NOW: now, loops.CLOSED_BEFORE: store.closed_before}
        return self._pages.spilled_ends(int(loops.close_bound(store.shape, clock)))

    def close(self) -> Iterator[pa.Table]:
        """Take out what stream time has passed, page by page; the fold has counted it as closed."""
        return self._pages.leave(self._store.close_bound)

    def give_back(self) -> None:
        """Give the machine what Arrow holds of pages that were read: it keeps it for the next time."""
        pa.default_memory_pool().release_unused()

    def forget(self, bound: int) -> Iterator[pa.Table]:
        """Take out what ends below a bound where nothing was folded: it is counted here."""
        spilled_ends = self._pages.spilled_ends(bound)
        self._store.drop_closed(int(spilled_ends.rows.sum()), int(spilled_ends.sizes.sum()))
        return self._pages.leave(bound)

    def evict(self, recent: NDArray[np.int64]) -> None:
        """Spill what is too much: first what no row of the last batch was for, the windows that close last first.

        Where something is too much, sessions that are only kept go as well.
        """
        store = self._store
        held = store.held_slots()
        is_open = store.state.slots[held, loops.LIFE] == loops.OPEN
        places = held[is_open]
        sizes = store.state.slots[places, loops.BYTES]
        if len(places) <= self._most_rows and int(sizes.sum()) <= self._most_bytes:
            return
        is_old = ~np.isin(places, recent)
        order = np.lexsort([store.state.slots[places, loops.END], is_old])
        fitting = int(np.searchsorted(np.cumsum(sizes[order]), self._most_bytes, side="right"))
        stay = min(self._most_rows, fitting)
        stay -= stay >> 2  # room for what comes next, so that not every batch spills
        leaving = np.concatenate([places[order[stay:]], held[~is_open]])
        self._pages.closed = max(self._pages.closed, store.closed_before)
        self._pages.put(store.table(leaving).append_column(_BYTES, pa.array(store.state.slots[leaving, loops.BYTES])))
        store.keep_only(places[order[:stay]])

    def tables(self) -> list[pa.Table]:
        """All that is spilled; it stays."""
        return [windows.drop_columns([_BYTES]) for windows in self._pages.all()]


def _by_end(ends: NDArray[np.int64], rows: NDArray[np.int64], sizes: NDArray[np.int64]) -> SpilledEnds:
    found, places = np.unique(ends, return_inverse=True)
    summed = np.zeros((2, len(found)), np.int64)
    np.add.at(summed[0], places, rows)
    np.add.at(summed[1], places, sizes)
    return SpilledEnds(found, *summed)
