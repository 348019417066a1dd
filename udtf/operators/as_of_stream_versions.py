"""The versions of a live table: keys, times and payload rows of one task, in memory that grows with what is needed.

A put is amortised constant time. What has expired, was replaced or moved is dropped when the payload rows have doubled,
so no call costs more than a batch but for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.operators import compiled_stream
from udtf.operators.as_of_columns import one_chunk
from udtf.operators.as_of_kernel import UNSET
from udtf.operators.as_of_stream_pool import CELL, KNOWN, LENGTH, RANK, ROOM, TIME
from udtf.operators.as_of_times import tie_ranks
from udtf.operators.stream_columns import Rows, grown
from udtf.operators.stream_keys import StreamKeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.as_of_config import AsOfJoinConfig

_FEWEST_ROWS = 1 << 16  # below this nothing is dropped between snapshots


class StreamVersions:
    """All versions of a task.

    Args:
        config: the join.
        schema: of the versions as segments hold them: `__k0 ..`, `__hash`, `__time` (µs), `__known` (µs, where the join
            has it), `__flags` (as `flags_of`), `__tie0 ..`, and the payload.
    """

    def __init__(self, config: AsOfJoinConfig, schema: pa.Schema) -> None:
        self._config = config
        self._names = list(schema.names)
        self._key_names = [f"__k{number}" for number in range(config.n_keys)]
        self._ties = [name for name in self._names if name.startswith("__tie")]
        self._options = (*config.ties, ("asc", "first"))[: len(self._ties)]
        head = {*self._key_names, "__hash", "__time", "__known", "__flags"}
        self.keys = StreamKeys([schema.field(name).type for name in self._key_names])
        self.payload = Rows(pa.schema([field for field in schema if field.name not in head]))
        self.meta = np.zeros((0, 4), np.int64)
        self._width = 4 if self._ties else 3 if config.has_known else 2
        self.pool = np.zeros((0, self._width), np.int64)
        self._used = 0
        self._longest = 0
        self.count = 0  # versions that are held
        self._next_pack = _FEWEST_ROWS

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self.keys.nbytes + self.payload.nbytes + int(self.meta.nbytes + self.pool.nbytes)

    def coming(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Make room for versions that are about to be put.

        Returns:
            by key, then by arrival: the codes of their keys, the rows of `pool` that they will be, and which row of the
            table each of them is.
        """
        columns = [one_chunk(table[name]) for name in self._key_names]
        codes = self.keys.place(columns, _numbers(table, "__hash"))
        self.meta = _zero_grown(self.meta, self.keys.size)
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
            self._next_pack = max(_FEWEST_ROWS, 2 * self.payload.used)

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
        return pa.table([columns[name] for name in self._names], names=self._names)

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


def _zero_grown(meta: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    if size <= len(meta):
        return meta
    longer = np.zeros((max(size, 2 * len(meta)), 4), np.int64)
    longer[: len(meta)] = meta
    return longer


def _numbers(table: pa.Table, name: str) -> NDArray[Any]:
    numbers: NDArray[Any] = one_chunk(table[name]).to_numpy(zero_copy_only=False)
    return numbers
