"""Live AS OF joins side by side: ours, stateful operators of Spark's own, and the floor; answers are checked.

    python -m benchmarks.as_of_stream                  all of it: about a quarter of an hour on two cores
    python -m benchmarks.as_of_stream --quick          small data: whether it works, not what it costs
    python -m benchmarks.as_of_stream --soak 10        ten minutes at the highest steady rate: does anything grow?

All ways run in one process, one after the other, over the same files: one per side and micro-batch. Ours counts only
when its answer has the checksum of DuckDB's ASOF join over all rows at once; so does the one by key.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks import report, stream_report
from benchmarks.data import Inputs
from benchmarks.spark_ways import session
from benchmarks.stream_data import LARGE, MANY_KEYS, PER_KEY, SMALL, Case, make
from benchmarks.stream_measure import NOOP, PARQUET, Live, in_turns, measure_live
from benchmarks.stream_reference import reference
from benchmarks.stream_report import Results
from benchmarks.stream_restart import measure_restart
from benchmarks.stream_soak import BOUNDS, soak
from benchmarks.stream_ways import BY_KEY, FLOOR, IN_STORE, OURS, STATIC, YARDSTICK, StreamWays, write_latest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK_DIVISOR = 250
_CACHE = Path(".cache/benchmarks")
WAYS: dict[str, tuple[str, ...]] = {
    LARGE.name: (FLOOR, YARDSTICK, OURS, IN_STORE, STATIC),
    MANY_KEYS.name: (FLOOR, YARDSTICK, OURS, IN_STORE),
    SMALL.name: (FLOOR, YARDSTICK, OURS, IN_STORE, STATIC),
    PER_KEY.name: (BY_KEY,),
}
CHECKED = (OURS, IN_STORE, BY_KEY)


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        cases: on which data.
        rounds: how often all ways of a case run, in turns.
        data: where data is kept between runs.
        sink: of all ways.
        warm: what runs before, unmeasured.
        restarts: whether restarts are measured, which needs new Spark contexts.
    """

    cases: tuple[Case, ...]
    rounds: int
    data: Path
    sink: str = PARQUET
    warm: Case | None = None
    restarts: tuple[Case, ...] = ()


@dataclass(frozen=True)
class Runner:
    """All ways over one case."""

    spark: SparkSession
    case: Case
    inputs: Inputs
    folder: Path
    sink: str

    def run(self, rounds: int, done: Callable[[str, Live], None]) -> None:
        """All ways of the case."""
        answer = reference(self.inputs, self.folder / "reference") if self.sink == PARQUET else None
        for way, found in in_turns(WAYS[self.case.name], rounds, self.measure).items():
            done(way, self.checked(way, found, answer))

    def measure(self, way: str) -> Live:
        """One run of a way."""
        latest = write_latest(self.inputs, self.folder) if way == STATIC else None
        place = Path(tempfile.mkdtemp(dir=self.folder))  # Spark may write into a former one after it was removed
        kept = place / "checkpoint/changelog" if way == OURS else None
        frame = StreamWays(self.spark, self.inputs, latest, kept).frame(way)
        is_checked = way in CHECKED and self.sink == PARQUET
        return measure_live(frame, place, self.sink, is_checked)

    def checked(self, way: str, found: Live, answer: str | None) -> Live:
        """It loses its time when its answer is not DuckDB's."""
        if way in CHECKED and answer is not None and found.answer != answer:
            return Live(answer=found.answer, note="WRONG ANSWER")
        return found


def run(
    spark: SparkSession, plan: Plan, console: Console, after_case: Callable[[Results], None] = lambda _: None
) -> tuple[Results, SparkSession]:
    """Run all cases; what is there so far is shown to ``after_case`` each time."""
    results = Results(sink=plan.sink, checked=CHECKED)
    with tempfile.TemporaryDirectory(prefix="as_of_stream_") as folder:
        place = Path(folder)
        if plan.warm is not None:
            Runner(spark, plan.warm, make(plan.warm, plan.data), place, plan.sink).run(1, lambda *_: None)
        for case in plan.cases:
            results.cases[case.name] = case
            runner = Runner(spark, case, make(case, plan.data), place, plan.sink)
            runner.run(plan.rounds, _keep(results, case, console))
            after_case(results)
        for case in plan.restarts:
            found, spark = measure_restart(spark, case, plan.data, Path(tempfile.mkdtemp(dir=place)), _again)
            results.restarts.append(found)
            console.print(f"restart: {found}")
            after_case(results)
    return results, spark


def _keep(results: Results, case: Case, console: Console) -> Callable[[str, Live], None]:
    def keep(way: str, found: Live) -> None:
        results.ways[case.name, way] = found
        seconds = " ".join(f"{value:.2f}" for value in found.seconds)
        console.print(f"{case.name}: {way}: {found.rate or 0:,.0f} rows/s; {seconds} {found.note}", soft_wrap=True)
        console.print(f"    {found.phases_ms}", soft_wrap=True)

    return keep


def _again(spark: SparkSession) -> SparkSession:
    """Another context: its workers and state stores are new, the Java that runs it is warm."""
    spark.stop()
    return session()


def bars(results: Results) -> list[report.Bar]:
    """The bars that the project set itself."""
    rate, seconds, ratio = results.rate, results.median, report.ratio
    large, small = LARGE.name, SMALL.name
    peaks = [found.peak_bytes for (_, way), found in results.ways.items() if way == OURS]
    by_key = rate(PER_KEY.name, BY_KEY)
    return [
        ratio(f"{large}: rows/s against {YARDSTICK}", rate(large, OURS), rate(large, YARDSTICK), 1.5),
        ratio(f"{large}: rows/s against {FLOOR}", rate(large, OURS), rate(large, FLOOR), 0.75),
        ratio(f"{large}: rows/s against {IN_STORE}", rate(large, OURS), rate(large, IN_STORE), 1.0),
        ratio("rows/s against the join by key, there on fewer rows", rate(large, OURS), by_key, 100),
        ratio(f"{small}: time against {YARDSTICK}", seconds(small, OURS), seconds(small, YARDSTICK), -1.0),
        ratio("time with 2 M keys against 100 k", seconds(MANY_KEYS.name, OURS), seconds(large, OURS), -1.2),
        report.Bar("peak memory of all processes, ours", max(peaks, default=0) / 1e9, -8.0, "GB"),
    ]


def publish(results: Results) -> None:
    """Write the results file and the page."""
    stream_report.publish(results, bars(results))


def _plan(quick: bool, rounds: int, data: Path, sink: str, batches: int | None, case: list[str] | None) -> Plan:
    cases = tuple(c for c in (SMALL, LARGE, MANY_KEYS, PER_KEY) if not case or c.name in case)
    if quick:
        cases = tuple(one.scaled(QUICK_DIVISOR if one is not PER_KEY else 5) for one in cases)
    if batches is not None:
        cases = tuple(replace(one, batches=min(one.batches, batches)) for one in cases)
    restarts = tuple(one for one in cases if one.name in (LARGE.name, MANY_KEYS.name))
    if quick:
        return Plan(cases, 1, data / "quick", sink, None, restarts[:1])
    return Plan(cases, rounds, data, sink, LARGE.scaled(20), restarts)


def main(
    quick: Annotated[bool, typer.Option(help="Small data, one round.")] = False,
    rounds: Annotated[int, typer.Option(help="How often all ways run, in turns.", min=1)] = 2,
    batches: Annotated[int | None, typer.Option(help="At most so many micro-batches; nothing is published.")] = None,
    sink: Annotated[str, typer.Option(help=f"{PARQUET}, or {NOOP}: not checked, not published.")] = PARQUET,
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = _CACHE,
    case: Annotated[list[str] | None, typer.Option(help="Only these cases; nothing is published.")] = None,
    soak_minutes: Annotated[float | None, typer.Option("--soak", help="Only this: run so long, plot memory.")] = None,
) -> None:
    """Measure, print tables; a full run also writes benchmarks/results/ and docs/benchmarks.md."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    is_full = not (quick or case or batches) and sink == PARQUET
    spark = session(BOUNDS if soak_minutes is not None else None)
    try:
        if soak_minutes is not None:
            soak(spark, soak_minutes, LARGE.scaled(QUICK_DIVISOR) if quick else LARGE, console, published=not quick)
            return
        plan = _plan(quick, rounds, data, sink, batches, case)
        results, spark = run(spark, plan, console, publish if is_full else lambda _: None)
    finally:
        spark.stop()
    console.print(stream_report.table(results))
    console.print(report.bars_table(bars(results)))


if __name__ == "__main__":
    typer.run(main)
