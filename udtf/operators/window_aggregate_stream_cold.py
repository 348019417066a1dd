"""Windows beyond a limit of memory: compressed pages in a file of this process, with WHEN FULL SPILL.

What lies here is in the changelog as well, so that losing it costs a rebuild only. A window comes back when its key has
a row, or when it closes; then it is as if it had never left. Source: KIP-328 (`spillToDiskWhenFull`), semantics.md A.
"""

from __future__ import annotations

import tempfile
import weakref
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.operators import window_aggregate_stream_batch as batches
from udtf.operators import window_aggregate_stream_slots as slots
from udtf.operators.window_aggregate_stream_columns import one_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from udtf.operators.window_aggregate_config import WindowAggregateConfig
    from udtf.operators.window_aggregate_stream_store import Store

_PAGE_ROWS: Final = 1 << 14
_PAGE_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="zstd")
_LEAST_FILE_BYTES: Final = 1 << 20
_LEAST: Final = -(2**63)


@dataclass
class Page:
    """A run of windows by end.

    Attributes:
        start, size: where its bytes are in the file.
        hashes: of the keys of its windows.
        ends: of its windows, ascending.
        is_here: which of them were not taken yet.
    """

    start: int
    size: int
    hashes: NDArray[np.int64]
    ends: NDArray[np.int64]
    is_here: NDArray[np.bool_]


class Pages:
    """Windows in a file that nobody else sees and that is gone with this process."""

    def __init__(self) -> None:
        """Start empty; the file is made with the first window."""
        self._pages: list[Page] = []
        self._file: IO[bytes] | None = None
        self._file_bytes = 0

    @property
    def nbytes(self) -> int:
        """Memory of what is known of the pages."""
        return sum(page.hashes.nbytes + page.ends.nbytes + page.is_here.nbytes for page in self._pages)

    def put(self, windows: pa.Table) -> None:
        """Add windows as `Store.table` has them."""
        ordered = windows.take(pc.sort_indices(windows, sort_keys=[("__we", "ascending")]))
        for start in range(0, len(ordered), _PAGE_ROWS):
            self._write(ordered.slice(start, _PAGE_ROWS))

    def take(self, hashes: NDArray[np.int64], shut: int) -> list[pa.Table]:
        """Take out the windows of some keys (of all with their hashes), and all that end below `shut`."""
        found = []
        for page in self._pages:
            wanted = page.is_here & ((page.ends < shut) | np.isin(page.hashes, hashes))
            if wanted.any():
                found.append(self._read(page).filter(pa.array(wanted)))
                page.is_here &= ~wanted
        if found:
            self._tidy()
        return found

    def all(self) -> Iterator[pa.Table]:
        """All windows; they stay."""
        for page in self._pages:
            yield self._read(page).filter(pa.array(page.is_here))

    def _write(self, windows: pa.Table) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="sqlx-windows-")  # noqa: SIM115  # as long as these pages
            weakref.finalize(self, self._file.close)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, windows.schema, options=_PAGE_OPTIONS) as writer:
            writer.write_table(windows)
        data = sink.getvalue()
        self._file.seek(self._file_bytes)
        self._file.write(data)
        hashes, ends = (one_array(windows[name]).to_numpy().copy() for name in ("__hash", "__we"))
        self._pages.append(Page(self._file_bytes, data.size, hashes, ends, np.ones(len(windows), np.bool_)))
        self._file_bytes += data.size

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
            kept = list(self.all())
            if self._file is not None:
                self._file.close()
            self._pages, self._file, self._file_bytes = [], None, 0
            for windows in kept:
                self.put(windows)


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
        self._store, self._pages = store, Pages()

    @property
    def nbytes(self) -> int:
        """Memory of what is known of spilled windows."""
        return self._pages.nbytes

    def bring(self, hashes: NDArray[np.int64], latest: int | None) -> None:
        """Bring back the windows of the keys of a batch, and those that times up to `latest` may close."""
        store = self._store
        if not store.spilled_rows:
            return
        now = max((time for time in (store.stream_time, latest) if time is not None), default=_LEAST)
        shut = batches.shut(store.shape, {slots.NOW: now})
        for windows in self._pages.take(np.unique(hashes), int(shut)):
            store.bring_back(windows)

    def evict(self, recent: NDArray[np.int64]) -> None:
        """Spill what is too much: first what no row of the last batch was for, the windows that close last first."""
        store = self._store
        places = store.open_slots()
        sizes = store.state.slots[places, slots.BYTES]
        if len(places) <= self._most_rows and int(sizes.sum()) <= self._most_bytes:
            return
        is_old = ~np.isin(places, recent)
        order = np.lexsort([store.state.slots[places, slots.END], is_old])
        fitting = int(np.searchsorted(np.cumsum(sizes[order]), self._most_bytes, side="right"))
        stay = min(self._most_rows, fitting)
        stay -= stay >> 2  # room for what comes next, so that not every batch spills
        leaving = places[order[stay:]]
        self._pages.put(store.table(leaving))
        store.keep_only(places[order[:stay]])

    def tables(self) -> list[pa.Table]:
        """All that is spilled; it stays."""
        return list(self._pages.all())
