"""AS OF joins side by side: ours, what people write today, other engines, and the floor; answers are checked.

    python -m benchmarks.as_of_join            all of it: about twenty minutes on two cores
    python -m benchmarks.as_of_join --quick    small data, one run each: whether it works, not what it costs

The ways on Spark run in one process, one after the other; DuckDB and Polars in processes of their own. A way counts
only when its answer has the checksum of DuckDB's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks import report
from benchmarks.data import CASES, Case, Inputs, make
from benchmarks.measure import Measured
from benchmarks.peers import PEERS, measure_peer
from benchmarks.spark_ways import FLOOR, MAPPED, NATIVE, SHUFFLED, WINDOW, SparkWays, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DUCKDB, POLARS = PEERS
QUICK_DIVISOR = 500
_CACHE = Path(".cache/benchmarks")
_NATIVE_CUT_OFF_S = 30.0
_NATIVE_SMALLER = 10


@dataclass
class Results:
    """What was measured, by case and way.

    Attributes:
        cases: the cases as they were run.
        ways: per case name: the measurement of each way.
        chosen: per case name: the one of our two ways that a session takes by itself.
    """

    cases: list[Case] = field(default_factory=list)
    ways: dict[str, dict[str, Measured]] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)

    def median(self, case: str, way: str) -> float | None:
        """Median seconds, or None where there are none."""
        found = self.ways.get(case, {}).get(way)
        return found.median if found else None

    def add(self, case: Case, way: str, found: Measured, console: Console) -> None:
        """Keep a measurement; it loses its time when the answer is not DuckDB's.

        The floor is not a join: it has an answer of its own.
        """
        ways = self.ways.setdefault(case.name, {})
        if found.answer is not None and way not in (DUCKDB, FLOOR) and found.answer != ways[DUCKDB].answer:
            found = Measured(answer=found.answer, note="WRONG ANSWER")
        ways[way] = found
        seconds = " ".join(f"{value:.2f}" for value in found.seconds)
        peak = f"{found.peak_bytes / 1e9:.2f} GB"
        console.print(f"{case.name}: {way}: {seconds + ' s, ' + peak if found.seconds else ''} {found.note}")


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        cases: on which data.
        runs: timed runs of each way.
        warm: runs of each way on the first case that do not count.
        data: where data is kept between runs.
        native_cut_off_s: when to give Spark's own ASOF JOIN up.
    """

    cases: tuple[Case, ...]
    runs: int
    warm: int
    data: Path
    native_cut_off_s: float


def run(
    spark: SparkSession, plan: Plan, console: Console, after_case: Callable[[Results], None] = lambda _: None
) -> Results:
    """Run all cases; what is there so far is shown to ``after_case`` each time."""
    results = Results()
    with tempfile.TemporaryDirectory(prefix="as_of_join_") as folder:
        for number, case in enumerate(plan.cases):
            results.cases.append(case)
            runner = Runner(spark, plan, case, make(case, plan.data), Path(folder) / "answer", results, console)
            runner.run(plan.warm if number == 0 else 0)
            after_case(results)
    return results


@dataclass(frozen=True)
class Runner:
    """One case."""

    spark: SparkSession
    plan: Plan
    case: Case
    inputs: Inputs
    output: Path
    results: Results
    console: Console

    def run(self, warm: int) -> None:
        """Every way: DuckDB first, whose answer all others must give."""
        for name in (DUCKDB, POLARS) if self.case.in_full else (DUCKDB,):
            self.add(name, measure_peer(name, self.inputs, self.output, min(warm, 1), self.plan.runs))
        ways = SparkWays(self.spark, self.inputs)
        self.results.chosen[self.case.name] = ways.chosen()
        for name in (FLOOR, WINDOW, SHUFFLED, MAPPED):
            self.add(name, ways.measure(name, self.output, warm, self.plan.runs))
        if self.case.in_full:
            self._native(ways)

    def _native(self, ways: SparkWays) -> None:
        """Spark's own join: on a tenth of the rows, where it ends, and on all of them until it is cut off."""
        self.add(NATIVE, ways.measure_native(self.output, self.plan.native_cut_off_s))
        smaller = self.case.scaled(_NATIVE_SMALLER)
        smaller = replace(smaller, name=f"{self.case.name}, a tenth of the rows", keys=self.case.keys)
        runner = replace(self, case=smaller, inputs=make(smaller, self.plan.data))
        self.results.cases.append(smaller)
        runner.add(DUCKDB, measure_peer(DUCKDB, runner.inputs, self.output, 0, 1))
        runner.add(SHUFFLED, (tenth := SparkWays(self.spark, runner.inputs)).measure(SHUFFLED, self.output, 0, 1))
        runner.add(NATIVE, tenth.measure_native(self.output, self.plan.native_cut_off_s))

    def add(self, way: str, found: Measured) -> None:
        """Keep a measurement of this case."""
        self.results.add(self.case, way, found, self.console)


def bars(results: Results) -> list[report.Bar]:
    """The bars that the project set itself, and what was measured, for both of our ways."""
    seconds = results.median
    rows: list[report.Bar] = []
    for way in (SHUFFLED, MAPPED):
        ours, chosen = seconds("uniform", way), " (default)" if results.chosen.get("uniform") == way else ""
        name = f"{way}{chosen}"
        rows.append(report.ratio(f"{name}: rows/s against union + window", seconds("uniform", WINDOW), ours, 1.5))
        rows.append(report.ratio(f"{name}: time against scan + write", ours, seconds("uniform", FLOOR), -2.5))
        rows.extend(
            report.ratio(f"{name}: {case} against uniform", seconds(case, way), ours, -1.5)
            for case in ("zipf", "hot key")
        )
    small = report.ratio(
        "small right: shuffled against mapped", seconds("small right", SHUFFLED), seconds("small right", MAPPED), 1.2
    )
    peaks = [
        found.peak_bytes for ways in results.ways.values() for way, found in ways.items() if way in (SHUFFLED, MAPPED)
    ]
    return [*rows, small, report.Bar("peak memory of all processes, ours", max(peaks, default=0) / 1e9, -8.0, "GB")]


def publish(results: Results) -> None:
    """Write the results file and the page, after each case: a long run that is stopped has not run for nothing."""
    found = bars(results)
    report.write_json(results, found)
    report.write_page("as of join", report.markdown(results, found))


def main(
    quick: Annotated[bool, typer.Option(help="Small data, one run each.")] = False,
    runs: Annotated[int, typer.Option(help="Timed runs of each way.", min=1)] = 3,
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = _CACHE,
    case: Annotated[list[str] | None, typer.Option(help="Only these cases; DuckDB gives the answer in each.")] = None,
) -> None:
    """Measure, print a table; a full run also writes benchmarks/results/ and docs/benchmarks.md."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    cases = tuple(c for c in CASES if not case or c.name in case)
    if quick:
        plan = Plan(tuple(c.scaled(QUICK_DIVISOR) for c in cases), 1, 0, data / "quick", _NATIVE_CUT_OFF_S)
    else:
        plan = Plan(cases, runs, 1, data, _NATIVE_CUT_OFF_S)
    spark = session()
    try:
        results = run(spark, plan, console, (lambda _: None) if quick or case else publish)
    finally:
        spark.stop()
    console.print(report.table(results))
    if quick or case:
        return
    console.print(report.bars_table(bars(results)))


if __name__ == "__main__":
    typer.run(main)
