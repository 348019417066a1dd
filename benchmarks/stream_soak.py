"""A live join at its highest steady rate for minutes: memory and checkpoint may not grow once the history is full."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import report
from benchmarks.data import Inputs
from benchmarks.measure import processes, proportional_bytes
from benchmarks.plot import Panel, svg
from benchmarks.stream_data import BATCH_SPAN_US, Case, pieces, write
from benchmarks.stream_measure import NOOP, folder_bytes
from benchmarks.stream_report import write_json
from benchmarks.stream_ways import OURS, RETENTION_US, StreamWays, counters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

SECTION = "as of stream soak"
PLOT = report.PAGE.parent / "img/as_of_stream_soak.svg"
_SAMPLE_S = 3
# Twice a minute Java collects all garbage: what is left says whether anything grows, what it has taken does not.
_SAMPLES_PER_COLLECTION = 10
_LOOK_S = 0.05
#: Files that wait for the query, of which it reads one of each side at a time: it never waits for them.
_AHEAD = 10
#: Input files that the query has read stay so long, in micro-batches.
_KEPT_FILES = 20
#: What Spark remembers of the past is bounded; it is bounded more narrowly here, so that ten minutes fill it.
BOUNDS = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.sql.streaming.minBatchesToRetain": "20",
}
_MOST_GROWTH = 1.1


@dataclass
class Samples:
    """What was seen every few seconds; bytes. ``heap`` is what Java's last full collection left over."""

    minutes: list[float] = field(default_factory=list)
    driver: list[float] = field(default_factory=list)
    heap: list[float] = field(default_factory=list)
    workers: list[float] = field(default_factory=list)
    state: list[float] = field(default_factory=list)
    checkpoint: list[float] = field(default_factory=list)
    rows: list[float] = field(default_factory=list)
    batches: list[float] = field(default_factory=list)

    def growth(self, name: str) -> float | None:
        """The mean of the last third against that of the second: by then the history and Spark's logs are full."""
        values = getattr(self, name)
        third = len(values) // 3
        if not third or not (before := statistics.fmean(values[third : 2 * third])):
            return None
        return statistics.fmean(values[-third:]) / before


def soak(spark: SparkSession, minutes: float, case: Case, console: Console, published: bool) -> Samples:
    """Run it in a session with ``BOUNDS``, print what grew; with ``published`` write plot, numbers, and the page."""
    with tempfile.TemporaryDirectory(prefix="as_of_soak_") as folder:
        samples = _run(spark, minutes, case, Path(folder), console)
    found = bars(samples)
    console.print(report.bars_table(found))
    if published:
        PLOT.write_text(plot(samples), encoding="utf-8")
        write_json("as_of_stream_soak", {"machine": report.machine(), "samples": vars(samples)})
        report.write_page(SECTION, text(samples, case, found))
    return samples


def bars(samples: Samples) -> list[report.Bar]:
    """What may not grow."""
    names = {"heap": "Java's objects in use", "workers": "memory of the Python workers"}
    names |= {"state": "bytes of state", "checkpoint": "bytes of the checkpoint"}
    return [
        report.Bar(f"{shown}: last third against the second", samples.growth(name), -_MOST_GROWTH)
        for name, shown in names.items()
    ]


def plot(samples: Samples) -> str:
    """The samples as SVG."""
    mega = {name: [value / 1e6 for value in getattr(samples, name)] for name in vars(samples) if name != "minutes"}
    panels = [
        Panel(
            "memory, MB",
            {"driver and Java": mega["driver"], "Java's objects in use": mega["heap"], "workers": mega["workers"]},
        ),
        Panel("state in memory, MB", {"": mega["state"]}),
        Panel("checkpoint, MB", {"": mega["checkpoint"]}),
        Panel("rows read, millions", {"": mega["rows"]}),
    ]
    return svg("A live AS OF join at its highest steady rate", samples.minutes, panels)


def text(samples: Samples, case: Case, found: list[report.Bar]) -> str:
    """For the page."""
    half = len(samples.minutes) // 2
    rate = (samples.rows[-1] - samples.rows[half]) / max(samples.minutes[-1] - samples.minutes[half], 1e-9) / 60
    line = (
        f"{samples.minutes[-1]:.0f} minutes, {samples.rows[-1] / 1e6:,.0f} million rows in {samples.batches[-1]:.0f} "
        f"micro-batches of {case.batch_rows:,} over {case.keys:,} keys, {rate:,.0f} rows/s in the second half; the "
        f"history retention is full after {RETENTION_US // BATCH_SPAN_US} micro-batches, Spark's own logs and files "
        f"after some minutes. Driver and Java had taken {max(samples.driver) / 1e9:.1f} GB at most (a heap of 4 GB is "
        f"allowed), the workers {max(samples.workers) / 1e9:.1f} GB."
    )
    table = report.as_markdown(("bar", "measured", "wanted", "met"), (bar.cells() for bar in found))
    return "\n\n".join([report.conditions(), line, table, "![soak](img/as_of_stream_soak.svg)"])


def _run(spark: SparkSession, minutes: float, case: Case, folder: Path, console: Console) -> Samples:
    inputs, stop, done = Inputs(folder / "left", folder / "right"), Event(), _Done()
    rows = pieces(case, np.random.default_rng(7), endless=True)
    for number in range(_AHEAD):  # both sides always have a file: their micro-batches stay those of the data
        write(inputs, number, *next(rows))
    ways = StreamWays(spark, inputs, kept=folder / "checkpoint/changelog")
    writer = ways.frame(OURS).writeStream.format(NOOP)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    generator = Thread(target=_generate, args=(rows, inputs, done, stop), daemon=True)
    generator.start()
    samples, started = Samples(), time.monotonic()
    try:
        while query.isActive and time.monotonic() - started < minutes * 60:
            query.awaitTermination(_SAMPLE_S)
            done.take(query)
            collects = len(samples.heap) % _SAMPLES_PER_COLLECTION == 0
            heap = _heap_bytes(spark) if collects else samples.heap[-1]
            _sample(samples, (time.monotonic() - started) / 60, done, folder / "checkpoint", heap)
            console.print(f"{samples.minutes[-1]:.2f} minutes, {done.batches} micro-batches, {done.rows:,} rows")
    finally:
        stop.set()
        generator.join()
        query.stop()
    return samples


class _Done:
    """How far the query is, for the thread that writes files."""

    def __init__(self) -> None:
        self.batches = self.rows = self.state_bytes = 0

    def take(self, query: Any) -> None:
        """What Spark has reported since."""
        new = [one for one in query.recentProgress if one.numInputRows and one.batchId >= self.batches]
        for one in new:
            self.rows += int(one.numInputRows)
            self.batches = int(one.batchId) + 1
            self.state_bytes = counters(one).get("state_bytes", 0)


def _generate(rows: Any, inputs: Inputs, done: _Done, stop: Event) -> None:
    """Keep a few files ahead of the query, and remove those that it has read long ago."""
    for number, (left, right) in enumerate(rows, _AHEAD):
        while number > done.batches + _AHEAD:
            if stop.wait(_LOOK_S):
                return
        write(inputs, number, left, right)
        for folder in (inputs.left, inputs.right):
            with suppress(FileNotFoundError):
                folder.joinpath(f"{number - _AHEAD - _KEPT_FILES:06d}.parquet").unlink()
        if stop.is_set():
            return


def _heap_bytes(spark: SparkSession) -> int:
    """What Java's objects take after a full collection; Linux only knows what Java has taken."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    java = jvm.java.lang.Runtime.getRuntime()
    return int(java.totalMemory() - java.freeMemory())


def _sample(samples: Samples, minute: float, done: _Done, checkpoint: Path, heap: float) -> None:
    workers = driver = 0
    for process, resident in processes(os.getpid()).items():
        used = proportional_bytes(process, resident)
        if process != os.getpid() and _is_python(process):
            workers += used
        else:
            driver += used
    found = (minute, driver, heap, workers, done.state_bytes, folder_bytes(checkpoint), done.rows, done.batches)
    for name, value in zip(vars(samples), found, strict=True):
        getattr(samples, name).append(value)


def _is_python(process: int) -> bool:
    """Whether it is one of Spark's Python workers, or what starts them."""
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip() != "java"
    except OSError:
        return False
