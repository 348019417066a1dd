"""Wall time, the memory of a whole process tree, and the check that answers are equal."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

_T = TypeVar("_T")
_POLL_S = 0.4
# What processes share is dear to find out, 50 ms for a Java of 4 GB that is still meanwhile: only of a new peak.
_WORTH_A_LOOK = 1.01
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Measured:
    """What one way of joining cost on one case.

    Attributes:
        seconds: wall time of each timed run.
        peak_bytes: most memory of the process and all its children together at any time in these runs; a page that
            several of them share counts once.
        cpu_seconds: median of the processor time of the whole tree in a run; other programs hardly change it.
        others_share: the most of the machine that other programs took in a run, 0 to 1.
        answer: the checksum of the answer, which all runs share; None without an answer.
        note: why there is no time, or what is special about it.
    """

    seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    cpu_seconds: float = 0.0
    others_share: float = 0.0
    answer: str | None = None
    note: str = ""

    @property
    def median(self) -> float | None:
        """Median of the timed runs."""
        return statistics.median(self.seconds) if self.seconds else None

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return {**asdict(self), "median_s": self.median}


def measure(
    way: Callable[[Path], None],
    output: Path,
    warm: int,
    runs: int,
    summed: Callable[[Path], str] | None = None,
) -> Measured:
    """Run a way that writes its answer to a folder: first ``warm`` times unmeasured, then ``runs`` times.

    Args:
        way: writes Parquet into the folder that it is given; the folder does not exist yet.
        output: that folder.
        warm: runs before the clock counts.
        runs: timed runs.
        summed: the checksum of an answer; None is that of a join.

    Raises:
        RuntimeError: two runs gave different answers.
    """
    clocks: list[Clock] = []
    answers: set[str] = set()
    memory = PeakMemory()
    for number in range(warm + runs):
        shutil.rmtree(output, ignore_errors=True)
        if number < warm:
            way(output)
            continue
        with memory, Clock() as clock:
            way(output)
        clocks.append(clock)
        answers.add((summed or checksum)(output))
    shutil.rmtree(output, ignore_errors=True)
    if len(answers) != 1:
        message = f"{len(answers)} different answers"
        raise RuntimeError(message)
    return Measured(
        tuple(clock.seconds for clock in clocks),
        memory.peak_bytes,
        statistics.median(clock.cpu_seconds for clock in clocks),
        max(clock.others_share for clock in clocks),
        answers.pop(),
    )


def checksum(folder: Path, row: str = "k, epoch_us(ts), id, qty, rate", where: str = "true") -> str:
    """Rows, values of the last column, and a sum of row hashes: equal for equal bags of rows, in whatever order.

    Args:
        folder: of Parquet files.
        row: the columns that are compared, as DuckDB's SQL.
        where: the rows that are compared.
    """
    import duckdb

    counts = f"count(*), count({row.rpartition(', ')[2]}), sum(hash({row})::HUGEINT)"
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        found = connection.execute(f"SELECT {counts} FROM '{folder}/*.parquet' WHERE {where}").fetchone()
    return ":".join(str(value) for value in found or ())


def in_own_process(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call a function of a module in a process that is made for it and ends with it: its memory is not ours."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


class Clock:
    """Wall time and processor time of what happens while it is entered, and what the rest of the machine did."""

    def __enter__(self) -> Clock:
        self._start = time.perf_counter()
        self._cpu, self._busy = cpu_by_process(os.getpid()), machine_cpu_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._start
        used = cpu_by_process(os.getpid())
        self.cpu_seconds = sum(seconds - self._cpu.get(process, 0.0) for process, seconds in used.items())
        others = machine_cpu_seconds() - self._busy - self.cpu_seconds
        self.others_share = max(0.0, others) / (self.seconds * (os.cpu_count() or 1))


def cpu_by_process(root: int) -> dict[int, float]:
    """Processor time of a process and its descendants, one by one: a worker that ends takes nothing from the others."""
    found: dict[int, float] = {}
    for process in processes(root):
        with suppress(OSError):  # it has ended
            user, system = stat_fields(Path(f"/proc/{process}"))[11:13]
            found[process] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return found


def machine_cpu_seconds() -> float:
    """Processor time that all programs have used since the machine was started."""
    user, nice, system, _idle, _io, irq, softirq = Path("/proc/stat").read_text(encoding="ascii").split()[1:8]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def stat_fields(process: Path) -> list[str]:
    """The fields of /proc/<id>/stat after the name, which may hold anything."""
    return process.joinpath("stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()


class PeakMemory:
    """Polls the resident memory of this process and all its descendants while it is entered."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._resident = 0
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
            resident = sum(tree.values())
            if resident > self._resident * _WORTH_A_LOOK:
                self._resident = resident
                self.peak_bytes = max(self.peak_bytes, sum(proportional_bytes(*process) for process in tree.items()))
            if self._stop.wait(_POLL_S):
                return


def processes(root: int) -> dict[int, int]:
    """A process and its descendants with the resident bytes of each, from /proc; empty where there is none."""
    parents: dict[int, list[int]] = {}
    resident: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            fields = stat_fields(path)
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
