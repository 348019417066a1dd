"""The cases of the benchmarks of live joins, and their data: one Parquet file per side and micro-batch, in event time.

Both sides are one history, cut by time: no row of a micro-batch is earlier than a row of the one before it, and no two
rows share a time. So a live join that merges its inputs by event time gives the answer of the bounded join. Cases with
one side only may be out of order: their rows are read by operators that have a grace period.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import Inputs, some_keys

#: Event time from the first to the last row of a micro-batch.
BATCH_SPAN_US = 600_000_000
_START_US = 1_700_000_000_000_000
_FIRST_FILE_TIME_S = 1_700_000_000
# Small enough that Spark reads one file with as many tasks as there are cores.
_ROWS_PER_GROUP = 32_768


@dataclass(frozen=True)
class Case:
    """One pair of live inputs.

    Attributes:
        name: as in the tables.
        keys: how many different keys.
        batch_rows: rows of a micro-batch, of both sides together.
        batches: how many such micro-batches.
        preload: versions in a micro-batch before all others, one for each key in turn: keys in state from the start.
        spread: of the keys, as in `data.Case`.
        stream_share: how many of the rows belong to the stream; the others are versions.
        disorder_us: rows are at most so much older than the ones before them.
    """

    name: str
    keys: int
    batch_rows: int
    batches: int
    preload: int = 0
    spread: str = "uniform"
    stream_share: float = 0.8
    disorder_us: int = 0

    @property
    def rows(self) -> int:
        """Rows of all micro-batches without the first versions."""
        return self.batch_rows * self.batches

    @property
    def files(self) -> int:
        """Micro-batches, the one of the first versions included."""
        return self.batches + (1 if self.preload else 0)

    def scaled(self, divisor: int) -> Case:
        """The same case, smaller; as many micro-batches, at most six."""
        rows, keys = max(1_000, self.batch_rows // divisor), max(100, self.keys // divisor)
        preload = keys if self.preload else 0
        return replace(self, keys=keys, batch_rows=rows, batches=min(self.batches, 6), preload=preload)


LARGE = Case("500 k rows, 100 k keys", 100_000, 500_000, 20, preload=100_000)
MANY_KEYS = Case("500 k rows, 2 M keys", 2_000_000, 500_000, 20, preload=2_000_000)
SMALL = Case("10 k rows, 100 k keys", 100_000, 10_000, 10, preload=100_000)
# As many rows of a key in a micro-batch as in the large case.
PER_KEY = Case("5 k rows, 1 k keys", 1_000, 5_000, 4)


def make(case: Case, folder: Path) -> Inputs:
    """Write the data of a case, unless it is there already; the same numbers on every machine."""
    kind = "" if case.stream_share < 1 else f"{case.spread}_{case.disorder_us}_"
    home = folder / f"live_{kind}{case.keys}_{case.batch_rows}_{case.batches}_{case.preload}"
    inputs = Inputs(home / "left", home / "right")
    done = home / "done"
    if not done.exists():
        for number, (left, right) in enumerate(pieces(case, np.random.default_rng(7))):
            write(inputs, number, left, right)
        done.touch()
    return inputs


def pieces(case: Case, random: np.random.Generator, endless: bool = False) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Stream rows and versions, micro-batch by micro-batch."""
    if case.preload:
        keys = random.permutation(case.preload) % case.keys
        times = _START_US - case.preload + np.arange(case.preload)
        yield _piece(keys[:0], times[:0], 0, random), _versions(keys, times, random)
    number = 0
    while endless or number < case.batches:
        keys = some_keys(case.keys, case.spread, case.batch_rows, random)
        times = _START_US + number * BATCH_SPAN_US + times_within(case.batch_rows, random)
        is_stream = random.random(case.batch_rows) < case.stream_share
        if case.disorder_us:
            times -= random.integers(0, case.disorder_us, case.batch_rows)
        left = _piece(keys[is_stream], times[is_stream], number * case.batch_rows, random)
        yield left, _versions(keys[~is_stream], times[~is_stream], random)
        number += 1


def times_within(rows: int, random: np.random.Generator) -> np.ndarray:
    """Different times in ascending order."""
    step_us = BATCH_SPAN_US // rows
    times: np.ndarray = np.arange(rows) * step_us + random.integers(0, step_us, rows)
    return times


def _piece(keys: np.ndarray, times: np.ndarray, first_id: int, random: np.random.Generator) -> pa.Table:
    ids = first_id + np.arange(len(keys))
    return pa.table({"k": keys, "ts": _timestamps(times), "id": ids, "qty": random.random(len(keys))})


def _versions(keys: np.ndarray, times: np.ndarray, random: np.random.Generator) -> pa.Table:
    return pa.table({"k": keys, "ts": _timestamps(times), "rate": random.random(len(keys))})


def _timestamps(times: np.ndarray) -> pa.Array:
    return pa.array(times.astype(np.int64)).cast(pa.timestamp("us", "UTC"))


def write(inputs: Inputs, number: int, left: pa.Table, right: pa.Table) -> None:
    """Write the files of a micro-batch; Spark takes files in the order of their modification times."""
    for folder, table in ((inputs.left, left), (inputs.right, right)):
        folder.mkdir(parents=True, exist_ok=True)
        hidden, path = folder / f".{number:06d}.parquet", folder / f"{number:06d}.parquet"
        pq.write_table(table, hidden, row_group_size=_ROWS_PER_GROUP)
        os.utime(hidden, (_FIRST_FILE_TIME_S + number, _FIRST_FILE_TIME_S + number))
        hidden.rename(path)


def offer(source: Inputs, target: Inputs, start: int, stop: int) -> None:
    """Give the files of some micro-batches to a folder that a query reads."""
    for before, after in ((source.left, target.left), (source.right, target.right)):
        after.mkdir(parents=True, exist_ok=True)
        for path in sorted(before.glob("*.parquet"))[start:stop]:
            after.joinpath(path.name).hardlink_to(path)
