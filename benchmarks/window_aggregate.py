"""Windows with grace side by side, live and in batch: ours, Spark's own, DuckDB and Polars; answers are checked.

    python -m benchmarks.window_aggregate                    all of it
    python -m benchmarks.window_aggregate --quick            small data: whether it works, not what it costs
    python -m benchmarks.window_aggregate --part spill       one of stream, batch, spill

count, sum and max by key in tumbling, hopping and session windows (sliding ones in batch). Live, all ways run in one
process over the same files, one for each micro-batch, with rows up to 5 seconds out of order; what is final must have
the checksum of DuckDB's aggregation of all rows at once. What spilled windows cost is measured on the operator alone.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks import report, stream_report
from benchmarks import window_aggregate_spill as spill
from benchmarks.batch_results import HEADER, BatchResults
from benchmarks.measure import Measured, in_own_process
from benchmarks.spark_ways import session
from benchmarks.stream_data import Case, make
from benchmarks.stream_measure import PARQUET, Live, in_turns, measure_live
from benchmarks.stream_report import Results, write_json
from benchmarks.stream_ways import IN_STORE
from benchmarks.window_aggregate_peers import DUCKDB, PEERS, measure_peer, with_duckdb
from benchmarks.window_aggregate_ways import (
    HOPPING,
    KINDS,
    LIVE_KINDS,
    OURS,
    SESSION,
    SLIDING,
    SPARK,
    TUMBLING,
    BatchWays,
    Kind,
    StreamWays,
    closed_checksum,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE = Case("", 100_000, 500_000, 20, stream_share=1.0, disorder_us=5_000_000)
SPILL_LIMIT = 50_000
QUICK_DIVISOR, QUICK_SPILL_LIMIT = 250, 500
_CACHE = Path(".cache/benchmarks")


class Part(StrEnum):
    """What can be run alone."""

    STREAM = "stream"
    BATCH = "batch"
    SPILL = "spill"


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        case: the rows; its name is that of each kind of window.
        kinds: of windows.
        parts: which of them.
        rounds: how often the live ways run, in turns.
        warm, runs: of each way in batch, unmeasured and timed.
        spill_limit: windows in memory.
        data: where data is kept between runs.
    """

    case: Case
    data: Path
    kinds: tuple[Kind, ...] = KINDS
    parts: tuple[Part, ...] = tuple(Part)
    rounds: int = 2
    warm: int = 1
    runs: int = 3
    spill_limit: int = SPILL_LIMIT


@dataclass
class Found:
    """What was measured, part by part."""

    live: Results = field(default_factory=lambda: Results("Final results of live windows", (OURS, IN_STORE, SPARK)))
    batch: BatchResults = field(default_factory=lambda: BatchResults(DUCKDB))
    spilled: spill.Runs = field(default_factory=dict)


def run(plan: Plan, spark: Callable[[], SparkSession], console: Console) -> Found:
    """Run the parts of the plan; ``spark`` gives the session once it is needed: the spilling has none beside it."""
    found = Found()
    if Part.SPILL in plan.parts:
        found.spilled = spill.measure_spill(plan.spill_limit)
    with tempfile.TemporaryDirectory(prefix="window_aggregate_") as folder:
        if Part.STREAM in plan.parts:
            run_live(spark(), plan, Path(folder), found.live, console)
        if Part.BATCH in plan.parts:
            run_batch(spark(), plan, Path(folder), found.batch, console)
    return found


def run_live(spark: SparkSession, plan: Plan, folder: Path, results: Results, console: Console) -> None:
    """All live ways in turns, kind by kind."""
    rows = make(plan.case, plan.data).left
    summed = closed_checksum(rows)
    for kind in (kind for kind in plan.kinds if kind in LIVE_KINDS):
        in_own_process(with_duckdb, kind, rows, folder / "reference" / kind.name)
        right = summed(folder / "reference" / kind.name)
        results.cases[kind.name] = replace(plan.case, name=kind.name)

        def measured(way: str, kind: Kind = kind) -> Live:
            place = Path(tempfile.mkdtemp(dir=folder))  # Spark may write into the one before for a moment yet
            frame = StreamWays(spark, rows, place / "checkpoint/changelog").frame(way, kind)
            return measure_live(frame, place, PARQUET, is_checked=True, summed=summed)

        for way, live in in_turns((SPARK, OURS, IN_STORE), plan.rounds, measured).items():
            found = live if live.answer == right else Live(answer=live.answer, note="WRONG ANSWER")
            results.ways[kind.name, way] = found
            console.print(f"{kind.name}: {way}: {found.rate or 0:,.0f} rows/s {found.note}", soft_wrap=True)
            console.print(f"    {found.phases_ms}", soft_wrap=True)


def run_batch(spark: SparkSession, plan: Plan, folder: Path, results: BatchResults, console: Console) -> None:
    """All ways in batch, kind by kind; DuckDB first, which the others are compared with."""
    rows = make(plan.case, plan.data).left
    ways = BatchWays(spark, rows)
    for kind in plan.kinds:
        case = replace(plan.case, name=kind.name)
        for name in PEERS if kind is not SLIDING else (DUCKDB,):
            found = measure_peer(name, kind, rows, folder / "answer", min(plan.warm, 1), plan.runs)
            results.add(case, name, found, console)
        for way in (SPARK, OURS) if kind is not SLIDING else (OURS,):
            results.add(case, way, _measured(ways, way, kind, folder / "answer", plan), console)


def _measured(ways: BatchWays, way: str, kind: Kind, output: Path, plan: Plan) -> Measured:
    from pyspark.errors import AnalysisException

    try:
        return ways.measure(way, kind, output, plan.warm, plan.runs)
    except AnalysisException as error:  # what is not built yet has no time, and the other kinds still have theirs
        return Measured(note=f"refused: {error.getCondition()}")


def bars(found: Found) -> list[report.Bar]:
    """The bars that the project set itself, of the parts that ran."""
    live, batch, ratio = found.live, found.batch, report.ratio
    bars = []
    for kind, wanted in ((TUMBLING, 1.5), (HOPPING, 1.0), (SESSION, 1.0)):
        ours, sparks = (live.rate(kind.name, way) for way in (OURS, SPARK))
        bars += [ratio(f"live, {kind.name}: rows/s against {SPARK}", ours, sparks, wanted)] if ours or sparks else []
    for kind in (TUMBLING, HOPPING, SESSION):
        ours, sparks = (batch.median(kind.name, way) for way in (OURS, SPARK))
        bars += [ratio(f"batch, {kind.name}: time against {SPARK}", ours, sparks, -1.2)] if ours or sparks else []
    if SLIDING.name in batch.cases and TUMBLING.name in batch.cases:
        sliding, tumbling = batch.median(SLIDING.name, OURS), batch.median(TUMBLING.name, OURS)
        bars.append(ratio("batch: sliding windows against tumbling ones of their size", sliding, tumbling, -5.0))
    return bars + spill.bars(found.spilled)


def tables(found: Found) -> list[tuple[tuple[str, ...], Sequence[tuple[str, ...]]]]:
    """Header and lines of each part that ran."""
    made = [
        (stream_report.HEADER, list(stream_report.rows(found.live))),
        (HEADER, list(found.batch.rows())),
        (spill.HEADER, spill.cells(found.spilled)),
    ]
    return [(header, lines) for header, lines in made if lines]


def publish(found: Found) -> None:
    """Write the results file and the page."""
    batch = [{"case": case, "way": way, **one.as_json()} for (case, way), one in found.batch.ways.items()]
    judged = bars(found)
    content = {
        "machine": report.machine(),
        "live": stream_report.measured_json(found.live),
        "batch": batch,
        "spill": [one.as_json() for one in found.spilled.values()],
        "bars": [{**asdict(bar), "is_met": bar.is_met} for bar in judged],
    }
    write_json("window_aggregate", content)
    parts = [
        report.conditions(),
        report.as_markdown(("bar", "measured", "wanted", "met"), (bar.cells() for bar in judged)),
        *(report.as_markdown(header, lines) for header, lines in tables(found)),
    ]
    report.write_page("windows", "\n\n".join(parts))


def _plan(quick: bool, rows: int | None, batches: int | None, data: Path) -> Plan:
    case = CASE.scaled(QUICK_DIVISOR) if quick else CASE
    case = replace(case, batch_rows=rows or case.batch_rows, batches=batches or case.batches)
    if quick:
        return Plan(case, data / "quick", rounds=1, warm=0, runs=1, spill_limit=QUICK_SPILL_LIMIT)
    return Plan(case, data)


def main(
    quick: Annotated[bool, typer.Option(help="Small data, one round.")] = False,
    rounds: Annotated[int | None, typer.Option(help="How often the live ways run, in turns.", min=1)] = None,
    runs: Annotated[int | None, typer.Option(help="Timed runs of each way in batch.", min=1)] = None,
    rows: Annotated[int | None, typer.Option(help="Rows of a micro-batch; nothing is published.", min=1000)] = None,
    batches: Annotated[int | None, typer.Option(help="Micro-batches; nothing is published.", min=4)] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only these windows; nothing is published.")] = None,
    part: Annotated[list[Part] | None, typer.Option(help="Only this; nothing is published.")] = None,
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = _CACHE,
) -> None:
    """Measure, print tables; a full run also writes benchmarks/results/ and docs/benchmarks.md."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    plan = _plan(quick, rows, batches, data)
    kinds = tuple(kind for kind in KINDS if not case or any(kind.name.startswith(name) for name in case))
    if not kinds:
        message = f"none of {', '.join(kind.name for kind in KINDS)}"
        raise typer.BadParameter(message, param_hint="--case")
    plan = replace(plan, kinds=kinds, parts=tuple(part or Part), rounds=rounds or plan.rounds, runs=runs or plan.runs)
    spark = None

    def started() -> SparkSession:
        nonlocal spark
        spark = spark or session()
        return spark

    try:
        found = run(plan, started, console)
    finally:
        if spark is not None:
            spark.stop()
    for header, lines in tables(found):
        console.print(report.as_markdown(header, lines), soft_wrap=True)
    console.print(report.bars_table(bars(found)))
    if not (quick or rows or batches or case or part):
        publish(found)


if __name__ == "__main__":
    typer.run(main)
