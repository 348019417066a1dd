"""kill -9 of the driver and of Python workers at random moments: no row is lost, none is written twice.

A query reads one file of each input a micro-batch. A driver that dies between Spark's log of a source and that of the
micro-batch makes the next one read two files of that source, so one input may get ahead of the other by as many files
as drivers died. Each order looks up a time whose rates came more files earlier than that: its answer does not depend on
how the two inputs interleave, and can be said beforehand.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.harness.hdfs import Hdfs
from tests.harness.killing import WAITED, Driver, finished, kill, listed_files
from tests.harness.slow import needs_javac
from tests.spark.kill_driver import ANSWER

_WORKERS_A_LIFE = 4
_SEED = 20261121
_ORDERS, _KEYS, _RATES = 60, 7, 3
_HOUR_US = 3_600_000_000
_BEGIN_US = 1_767_225_600_000_000  # 2026
_AHEAD, _BEHIND = 6, 8


class Inputs:
    """Writes the files, and knows the answers.

    Args:
        folder: where they are.
        behind: by how many files an order looks back: one input may get ahead of the other by fewer.
    """

    def __init__(self, folder: Path, behind: int) -> None:
        self.folder, self.files, self.behind = folder, 0, behind
        self.answers: list[tuple[int, int | None]] = []
        self.random = random.Random(_SEED)
        for name in ("orders", "rates"):
            (folder / name).mkdir()

    def add(self) -> None:
        """One file of each input: rates of this hour, orders that ask for an hour long before."""
        number = self.files
        keys, steps = range(_KEYS), range(_RATES)
        rates = [(k, self._time(number, step, _RATES), self._rate(number, k, step)) for k in keys for step in steps]
        self._write("rates", rates, ("k", "at", "rate"))
        orders = []
        for n in range(_ORDERS):
            k, step = self.random.randrange(_KEYS + 1), self.random.randrange(_RATES)  # the last key has no rates
            orders.append((number * _ORDERS + n, k, self._time(number - self.behind, step, _RATES) + 1))
            known = number >= self.behind and k < _KEYS
            self.answers.append((orders[-1][0], self._rate(number - self.behind, k, step) if known else None))
        self._write("orders", orders, ("id", "k", "ts"))
        self.files += 1

    def _rate(self, number: int, key: int, step: int) -> int:
        return (number * _RATES + step) * 100 + key

    def _time(self, number: int, step: int, steps: int) -> int:
        return _BEGIN_US + number * _HOUR_US + step * (_HOUR_US // steps)

    def _write(self, name: str, rows: list[tuple[int, ...]], columns: tuple[str, ...]) -> None:
        times = pa.timestamp("us", tz="UTC")
        types = [times if column in ("at", "ts") else pa.int64() for column in columns]
        arrays = [pa.array(values, kind) for values, kind in zip(zip(*rows, strict=True), types, strict=True)]
        draft = self.folder / f".{name}.parquet"
        pq.write_table(pa.table(arrays, names=list(columns)), draft)
        arrived = _BEGIN_US // 1_000_000 + self.files * 60  # the order of files is that of their times
        os.utime(draft, (arrived, arrived))
        draft.rename(self.folder / name / f"part-{self.files:05}.parquet")


def written(folder: Path) -> list[tuple[int, int | None]]:
    """The rows of the files that the sink's log names; what the last life has read where they are on no disk."""
    rows: list[tuple[int, int | None]] = []
    answer = folder / ANSWER
    for path in [str(answer)] if answer.exists() else sorted(listed_files(folder / "warehouse/joined")):
        table = pq.read_table(path, partitioning=None)
        rows += zip(table["id"].to_pylist(), table["rate"].to_pylist(), strict=True)
    return sorted(rows)


def live_and_die(driver: Driver, inputs: Inputs, chance: random.Random, kills: list[str], workers: int) -> None:
    """Kill so many workers of a driver while it works, then the driver itself."""
    folder, at, dead = inputs.folder, finished(inputs.folder) + 1, set[int]()
    for _ in range(workers):
        while finished(folder) < at or not set(driver.workers()) - dead:
            assert driver.is_alive, driver.log
            feed(inputs)
            WAITED.wait(0.02)
        WAITED.wait(chance.uniform(0, 0.8))
        victim = chance.choice(sorted(set(driver.workers()) - dead) or [0])
        at = finished(folder) + chance.randrange(2)  # the next one dies in this micro-batch, or a later one
        if victim and kill(victim):
            dead.add(victim)
            kills.append("worker")
    WAITED.wait(chance.uniform(0, 1.5))
    driver.kill()
    kills.append("driver")


def feed(inputs: Inputs) -> None:
    while inputs.files < finished(inputs.folder) + min(_AHEAD, inputs.behind):
        inputs.add()


@pytest.fixture(scope="module", autouse=True)
def _clean_session() -> None:
    """In the place of the one that cleans the tests' shared session: the processes here have their own."""


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[str]:
    """The URL of an HDFS."""
    (tmp_path / "hdfs").mkdir()
    found = Hdfs(tmp_path / "hdfs")
    yield found.url
    found.stop()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes below one in /proc")
@pytest.mark.parametrize(
    ("most", "place"),
    [
        pytest.param(2, (), id="2"),
        pytest.param(20, (), marks=pytest.mark.full, id="20"),
        pytest.param(20, ("store",), marks=pytest.mark.full, id="20 with the state in Spark's store"),
        pytest.param(20, ("slow",), marks=[pytest.mark.full, needs_javac], id="20 where renames copy"),
        pytest.param(20, ("hdfs",), marks=pytest.mark.full, id="20 on HDFS"),
    ],
)
def test_no_kill_loses_or_doubles_a_row(
    request: pytest.FixtureRequest, tmp_path: Path, most: int, place: tuple[str, ...]
) -> None:
    place = tuple(f"hdfs={request.getfixturevalue(word)}" if word == "hdfs" else word for word in place)
    chance, kills = random.Random(_SEED), list[str]()
    inputs = Inputs(tmp_path, min(_BEHIND, most + 1))
    feed(inputs)
    while len(kills) < most:
        driver = Driver(tmp_path, *place)
        try:
            live_and_die(driver, inputs, chance, kills, min(most - 1, _WORKERS_A_LIFE))
        finally:
            driver.kill()
    while inputs.files < 2 * inputs.behind:
        inputs.add()
    last = Driver(tmp_path, "now", *place)
    try:
        assert last.process.wait(timeout=300) == 0, last.log
    finally:
        last.kill()
    assert kills.count("driver") >= most // 5
    assert kills.count("worker") >= 3 * most // 5
    assert written(tmp_path) == sorted(inputs.answers)
