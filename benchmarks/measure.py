"""Wall time, the memory of a whole process tree, and the check that answers are equal."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

_POLL_S = 0.4
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Measured:
    """What one way of joining cost on one case.

    Attributes:
        seconds: wall time of each timed run.
        peak_bytes: most memory of the process and all its children together at any time in these runs; a page that
            several of them share counts once.
        answer: the checksum of the answer, which all runs share; None without an answer.
        note: why there is no time, or what is special about it.
    """

    seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    answer: str | None = None
    note: str = ""

    @property
    def median(self) -> float | None:
        """Median of the timed runs."""
        return statistics.median(self.seconds) if self.seconds else None

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return {**asdict(self), "median_s": self.median}


def measure(way: Callable[[Path], None], output: Path, warm: int, runs: int) -> Measured:
    """Run a way that writes its answer to a folder: first ``warm`` times unmeasured, then ``runs`` times.

    Args:
        way: writes Parquet into the folder that it is given; the folder does not exist yet.
        output: that folder.
        warm: runs before the clock counts.
        runs: timed runs.

    Raises:
        RuntimeError: two runs gave different answers.
    """
    seconds: list[float] = []
    answers: set[str] = set()
    for number in range(warm + runs):
        shutil.rmtree(output, ignore_errors=True)
        if number == warm:
            memory = PeakMemory()
        start = time.perf_counter()
        if number < warm:
            way(output)
            continue
        with memory:
            way(output)
        seconds.append(time.perf_counter() - start)
        answers.add(checksum(output))
    shutil.rmtree(output, ignore_errors=True)
    if len(answers) != 1:
        message = f"{len(answers)} different answers"
        raise RuntimeError(message)
    return Measured(tuple(seconds), memory.peak_bytes, answers.pop())


def checksum(folder: Path) -> str:
    """Rows, matches and a sum of row hashes: equal for equal bags of rows, in whatever order they were written."""
    import duckdb

    row = "hash(k, epoch_us(ts), id, qty, rate)::HUGEINT"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        found = connection.execute(f"SELECT count(*), count(rate), sum({row}) FROM '{folder}/*.parquet'").fetchone()
    return ":".join(str(value) for value in found or ())


class PeakMemory:
    """Polls the resident memory of this process and all its descendants while it is entered."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._stop = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> PeakMemory:
        self._stop.clear()
        self._thread = Thread(target=self._poll, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _poll(self) -> None:
        while True:
            tree = processes(os.getpid())
            if sum(tree.values()) > self.peak_bytes:  # sharing is dear to find out, and only makes it less
                self.peak_bytes = max(self.peak_bytes, sum(proportional_bytes(*process) for process in tree.items()))
            if self._stop.wait(_POLL_S):
                return


def processes(root: int) -> dict[int, int]:
    """A process and its descendants with the resident bytes of each, from /proc; empty where there is none."""
    parents: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = path.joinpath("stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
        except OSError:
            continue  # it has ended
        parents.setdefault(int(fields[1]), []).append(int(path.name))
        resident[int(path.name)] = int(fields[21]) * _PAGE_BYTES
    tree: dict[int, int] = {}
    waiting = [root]
    while waiting:
        process = waiting.pop()
        tree[process] = resident.get(process, 0)
        waiting += parents.get(process, [])
    return tree


def proportional_bytes(process: int, resident_bytes: int) -> int:
    """Resident bytes of a process, a page that several share divided among them; all where Linux will not say."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:
        return 0  # it has ended
    except OSError:
        return resident_bytes
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), resident_bytes)
