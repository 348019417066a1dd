"""What the micro-batches of a live query cost: their time by Spark's own progress, memory and processor by Linux."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Clock, PeakMemory, checksum
from benchmarks.stream_ways import counters

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The first micro-batches start workers and compile, or fill the state: they do not count.
LEFT_OUT = 2
PARQUET, NOOP = "parquet", "noop"


@dataclass(frozen=True)
class Live:
    """What one way cost on one case.

    Attributes:
        seconds: of each micro-batch that counts, from the trigger to the commit.
        rows: that each of them read, of both sides.
        phases_ms: median of each of its phases, as Spark names them.
        cpu_seconds: processor time of all processes in the whole run.
        others_share: the most of the machine that other programs took in a run, 0 to 1.
        peak_bytes: most memory of all processes together at any time of the run.
        state_rows: what the operator remembers in the end, by its own count.
        state_bytes: the same in bytes: of our state as it is in memory; of Spark's, what RocksDB holds in memory.
        states: both after each micro-batch that counts.
        checkpoint_bytes: added to the checkpoint by each micro-batch that counts.
        answer: checksum of all rows; None where they were not kept.
        note: why there is no time, or what is special about it.
    """

    seconds: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()
    phases_ms: dict[str, float] | None = None
    cpu_seconds: float = 0.0
    others_share: float = 0.0
    peak_bytes: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    states: tuple[tuple[int, int], ...] = ()
    checkpoint_bytes: float = 0.0
    answer: str | None = None
    note: str = ""

    @property
    def median(self) -> float | None:
        """Median seconds of a micro-batch."""
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def rate(self) -> float | None:
        """Rows per second of the median micro-batch."""
        if not self.seconds:
            return None
        return statistics.median(rows / seconds for rows, seconds in zip(self.rows, self.seconds, strict=True))

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return {**asdict(self), "median_s": self.median, "rows_per_s": self.rate}


def measure_live(
    frame: DataFrame, folder: Path, sink: str, is_checked: bool, summed: Callable[[Path], str] = checksum
) -> Live:
    """Run a query over all files that are there, from a new checkpoint, and measure its micro-batches.

    Args:
        frame: the streaming result.
        folder: for its checkpoint and answer; it is removed.
        sink: PARQUET or NOOP.
        is_checked: whether the answer in PARQUET is summed up, with which all others are compared.
        summed: the checksum of an answer.
    """
    memory = PeakMemory()
    try:
        with memory, Clock() as clock:
            progress = run_available(frame, folder, sink)
        counted = progress[LEFT_OUT:]
        return Live(
            tuple(seconds_of(one) for one in counted),
            tuple(int(one.numInputRows) for one in counted),
            phases(counted),
            clock.cpu_seconds,
            clock.others_share,
            memory.peak_bytes,
            *state_of(progress[-1]),
            tuple(state_of(one) for one in counted),
            checkpoint_bytes(folder / "checkpoint", counted),
            summed(folder / "answer") if is_checked else None,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_available(frame: DataFrame, folder: Path, sink: str | Callable[[DataFrame, int], None]) -> list[Any]:
    """Run a query over what is there; the progress of the micro-batches that had rows.

    Args:
        frame: the streaming result.
        folder: for its checkpoint and answer.
        sink: PARQUET, NOOP, or what each micro-batch is given to.
    """
    writer = frame.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    if isinstance(sink, str):
        query = writer.format(sink).start(str(folder / "answer") if sink == PARQUET else None)
    else:
        query = writer.foreachBatch(sink).start()
    try:
        query.awaitTermination()
        return [one for one in query.recentProgress if one.numInputRows]
    finally:
        query.stop()


def seconds_of(progress: Any) -> float:
    """How long a micro-batch took."""
    return int(progress.durationMs["triggerExecution"]) / 1000


def phases(progress: Sequence[Any]) -> dict[str, float]:
    """Median of each phase over some micro-batches."""
    names = sorted({name for one in progress for name in one.durationMs})
    return {name: statistics.median(int(one.durationMs.get(name, 0)) for one in progress) for name in names}


def state_of(progress: Any) -> tuple[int, int]:
    """Rows and bytes of the state after a micro-batch: as our operator counts them, else as Spark's do."""
    ours = counters(progress)
    if ours:
        return ours["state_rows"], ours["state_bytes"]
    operators = progress.stateOperators
    return sum(int(one.numRowsTotal) for one in operators), sum(int(one.memoryUsedBytes) for one in operators)


def checkpoint_bytes(checkpoint: Path, progress: Sequence[Any]) -> float:
    """What each of some last micro-batches left in the checkpoint; Spark keeps the files of a hundred of them."""
    if not progress:
        return 0.0
    since = datetime.fromisoformat(progress[0].timestamp).timestamp()
    found = (path.stat() for path in checkpoint.rglob("*") if path.is_file())
    return sum(file.st_size for file in found if file.st_mtime >= since) / len(progress)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files of a folder, while others add and remove some."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def in_turns(ways: Sequence[str], rounds: int, measured: Callable[[str], Live]) -> dict[str, Live]:
    """Measure the ways in turns, so that what else the machine does falls on all of them."""
    found: dict[str, list[Live]] = {}
    for _ in range(rounds):
        for way in ways:
            found.setdefault(way, []).append(measured(way))
    return {way: together(runs) for way, runs in found.items()}


def together(runs: Iterable[Live]) -> Live:
    """Several runs of the same query as one."""
    found = list(runs)
    answers = {one.answer for one in found}
    if len(answers) != 1:
        message = f"{len(answers)} different answers"
        raise RuntimeError(message)
    return replace(
        found[-1],
        seconds=tuple(second for one in found for second in one.seconds),
        rows=tuple(rows for one in found for rows in one.rows),
        cpu_seconds=statistics.median(one.cpu_seconds for one in found),
        others_share=max(one.others_share for one in found),
        peak_bytes=max(one.peak_bytes for one in found),
    )
