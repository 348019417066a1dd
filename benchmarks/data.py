"""The cases of the AS OF benchmark, and their data as Parquet: rows in order of time, as an event log has them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_START_US = 1_700_000_000_000_000
_DAYS_US = 30 * 86_400 * 1_000_000
_ZIPF_EXPONENT = 1.1
_HOT_KEY = 42
_ROWS_PER_GROUP = 500_000


@dataclass(frozen=True)
class Case:
    """One pair of inputs.

    Attributes:
        name: as in the tables.
        keys: how many different keys.
        spread: "uniform", "zipf" (exponent 1.1) or "hot" (one key holds half of both sides).
        rows: rows of the left side.
        versions: rows of the right side.
        in_full: whether every way runs on it, or only ours, the window and the floor.
    """

    name: str
    keys: int
    spread: str
    rows: int = 10_000_000
    versions: int = 2_000_000
    in_full: bool = False

    def scaled(self, divisor: int) -> Case:
        """The same case, smaller."""
        rows, versions = max(1_000, self.rows // divisor), max(500, self.versions // divisor)
        return replace(self, rows=rows, versions=versions, keys=max(100, self.keys // divisor))


CASES = (
    Case("uniform", 10_000, "uniform", in_full=True),
    Case("zipf", 10_000, "zipf"),
    Case("hot key", 10_000, "hot"),
    Case("small right", 10_000, "uniform", versions=20_000),
    Case("100k keys", 100_000, "uniform"),
)


@dataclass(frozen=True)
class Inputs:
    """The folders of a case's two sides."""

    left: Path
    right: Path


def make(case: Case, folder: Path) -> Inputs:
    """Write the data of a case, unless it is there already; the same numbers on every machine."""
    home = folder / f"{case.spread}_{case.keys}_{case.rows}_{case.versions}"
    inputs = Inputs(home / "left", home / "right")
    done = home / "done"
    if not done.exists():
        random = np.random.default_rng(7)
        _write(inputs.left, _left(case, random), files=8)
        _write(inputs.right, _right(case, random), files=4)
        done.touch()
    return inputs


def _left(case: Case, random: np.random.Generator) -> pa.Table:
    times = np.sort(random.integers(0, _DAYS_US, case.rows))
    columns = {"k": some_keys(case.keys, case.spread, case.rows, random), "ts": _timestamps(times)}
    return pa.table({**columns, "id": np.arange(case.rows), "qty": random.random(case.rows)})


def _right(case: Case, random: np.random.Generator) -> pa.Table:
    # No two versions share a time: which of two equal ones wins is not defined in all engines.
    times = np.sort(random.integers(0, _DAYS_US, case.versions)) + np.arange(case.versions)
    columns = {"k": some_keys(case.keys, case.spread, case.versions, random), "ts": _timestamps(times)}
    return pa.table({**columns, "rate": random.random(case.versions)})


def _timestamps(times: np.ndarray) -> pa.Array:
    return pa.array(_START_US + times).cast(pa.timestamp("us", "UTC"))


def some_keys(keys_in_all: int, spread: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Keys of so many rows; how they are spread is `Case.spread`."""
    if spread == "zipf":
        weights = 1 / np.arange(1, keys_in_all + 1) ** _ZIPF_EXPONENT
        return random.choice(keys_in_all, count, p=weights / weights.sum()).astype(np.int64)
    keys = random.integers(0, keys_in_all, count)
    if spread == "hot":
        keys[random.random(count) < 0.5] = _HOT_KEY
    return keys


def _write(folder: Path, table: pa.Table, files: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    bounds = np.linspace(0, table.num_rows, files + 1).astype(int)
    for number, (start, stop) in enumerate(pairwise(bounds)):
        piece = table.slice(start, stop - start)
        pq.write_table(piece, folder / f"{number}.parquet", row_group_size=_ROWS_PER_GROUP)
