"""What a restart costs: a query goes on from its checkpoint with workers that know nothing of its state."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.data import Inputs
from benchmarks.stream_data import Case, make, offer
from benchmarks.stream_measure import LEFT_OUT, PARQUET, run_available, seconds_of
from benchmarks.stream_ways import OURS, StreamWays, counters

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: Micro-batches before the restart, and after it.
BEFORE, BEHIND = 6, 4
HEADER = (
    "case",
    "state",
    "normal s",
    "before: first s",
    "after: first s",
    "after: second s",
    "restored s",
    "s per GB",
)


@dataclass(frozen=True)
class Restart:
    """One restart.

    Attributes:
        case: name of the case.
        state_rows: versions in state when it stopped.
        state_bytes: their bytes.
        normal_s: median of the micro-batches before it that count.
        before_s: all micro-batches before it; the first one started the workers as well, without a state.
        behind_s: the micro-batches after it.
        restored_s: what all tasks together took to rebuild their state, of two cores.
        from_snapshot: tasks that rebuilt it.
    """

    case: str
    state_rows: int
    state_bytes: int
    normal_s: float
    before_s: tuple[float, ...]
    behind_s: tuple[float, ...]
    restored_s: float
    from_snapshot: int

    @property
    def seconds_per_gb(self) -> float:
        """Rebuilding a GB of state, on one core."""
        return self.restored_s / (self.state_bytes / 1e9) if self.state_bytes else 0.0

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return {**asdict(self), "seconds_per_gb": self.seconds_per_gb}

    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        return (
            self.case,
            f"{self.state_rows:,} versions, {self.state_bytes / 1e6:.1f} MB",
            f"{self.normal_s:.2f}",
            f"{self.before_s[0]:.2f}",
            f"{self.behind_s[0]:.2f}",
            f"{self.behind_s[1]:.2f}",
            f"{self.restored_s:.2f}",
            f"{self.seconds_per_gb:.1f}",
        )


def measure_restart(
    spark: SparkSession, case: Case, data: Path, folder: Path, again: Callable[[SparkSession], SparkSession]
) -> tuple[Restart, SparkSession]:
    """Run a query, lose all workers and state stores, and go on.

    Args:
        spark: the session.
        case: on which data.
        data: where it is kept.
        folder: for inputs, checkpoint and answer; it is removed.
        again: ends a session and begins another one, with new workers.
    """
    source, inputs = make(case, data), Inputs(folder / "left", folder / "right")
    first, kept = min(BEFORE, case.files - BEHIND), folder / "checkpoint/changelog"
    try:
        offer(source, inputs, 0, first)
        before = run_available(StreamWays(spark, inputs, None, kept).frame(OURS), folder, PARQUET)
        spark = again(spark)
        offer(source, inputs, first, first + BEHIND)
        behind = run_available(StreamWays(spark, inputs, None, kept).frame(OURS), folder, PARQUET)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    counted, restored = counters(before[-1]), counters(behind[0])
    seconds = [seconds_of(one) for one in before]
    found = Restart(
        case.name,
        counted["state_rows"],
        counted["state_bytes"],
        statistics.median(seconds[LEFT_OUT:]),
        tuple(seconds),
        tuple(seconds_of(one) for one in behind),
        restored["restore_us"] / 1e6,
        restored["restored_snapshot"],
    )
    return found, spark
