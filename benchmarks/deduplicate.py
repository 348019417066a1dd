"""Deduplication side by side: ours, what people write today, Spark's own operator, our loop without Spark; the floor.

    python -m benchmarks.deduplicate                  all of it
    python -m benchmarks.deduplicate --quick          small data, one run each: whether it works, not what it costs
    python -m benchmarks.deduplicate --part stream    live rows only, or batch

In batch a way counts only when its answer has the checksum of Polars with our loop; ROW_NUMBER by bucket answers
another question (fixed edges) and is shown for its time only. What runs live is in `deduplicate_stream`.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks import deduplicate_stream, report, stream_report
from benchmarks.batch_results import HEADER, BatchResults
from benchmarks.data import Case, make
from benchmarks.deduplicate_ways import BUCKETS, FLOOR, OURS, PANDAS, POLARS, UNTOUCHED, SparkWays, measure_polars
from benchmarks.spark_ways import session
from benchmarks.stream_report import Results, write_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = (Case("uniform", 10_000, "uniform", versions=1_000), Case("zipf", 10_000, "zipf", versions=1_000))
PANDAS_SMALLER = 10
QUICK_DIVISOR, QUICK_LIVE_DIVISOR = 500, 250
_CACHE = Path(".cache/benchmarks")
_OTHER_ANSWERS = (FLOOR, UNTOUCHED, BUCKETS)
_BARS = ("bar", "measured", "wanted", "met")


class Part(StrEnum):
    """What can be run alone."""

    BATCH = "batch"
    STREAM = "stream"


def run(
    spark: SparkSession, cases: tuple[Case, ...], data: Path, warm: int, runs: int, console: Console
) -> BatchResults:
    """Run all ways on all cases, the one without Spark first."""
    results = BatchResults(POLARS, _OTHER_ANSWERS)
    with tempfile.TemporaryDirectory(prefix="deduplicate_") as folder:
        output = Path(folder) / "answer"
        for case in cases:
            rows = make(case, data).left
            results.add(case, POLARS, measure_polars(rows, output, min(warm, 1), runs), console)
            ways = SparkWays(spark, rows)
            for way in (FLOOR, UNTOUCHED, BUCKETS, OURS):
                results.add(case, way, ways.measure(way, output, warm, runs), console)
            few = case.scaled(PANDAS_SMALLER)
            few = Case(f"{case.name}, fewer rows", case.keys, case.spread, few.rows, few.versions)
            rows = make(few, data).left
            results.add(few, POLARS, measure_polars(rows, output, 0, 1), console)
            results.add(few, PANDAS, SparkWays(spark, rows).measure(PANDAS, output, 0, 1), console)
    return results


def bars(results: BatchResults) -> list[report.Bar]:
    """The bars that the project set itself."""
    rate, found = results.rate, []
    for case in (name for name in results.cases if "fewer" not in name):
        ours, polars = results.ways[case, OURS], results.ways[case, POLARS]
        cpu = ours.cpu_seconds / polars.cpu_seconds if ours.median and polars.cpu_seconds else None
        pandas = rate(f"{case}, fewer rows", PANDAS)
        found += [
            report.ratio(f"{case}: rows/s against applyInPandas by key", rate(case, OURS), pandas, 10),
            report.ratio(f"{case}: rows/s against ROW_NUMBER by bucket", rate(case, OURS), rate(case, BUCKETS), 1),
            report.Bar(f"{case}: CPU seconds against Polars + our loop", cpu, -3),
        ]
    return found


def publish(results: BatchResults) -> None:
    """Write the results file and the page."""
    ways = [{"case": case, "way": way, **found.as_json()} for (case, way), found in results.ways.items()]
    judged = bars(results)
    content = {
        "machine": report.machine(),
        "cases": [vars(case) for case in results.cases.values()],
        "measured": ways,
        "bars": [{**asdict(bar), "is_met": bar.is_met} for bar in judged],
    }
    write_json("deduplicate", content)
    tables = [
        report.as_markdown(_BARS, (bar.cells() for bar in judged)),
        report.as_markdown(HEADER, results.rows()),
    ]
    report.write_page("deduplicate", "\n\n".join([report.conditions(), *tables]))


def publish_live(results: Results) -> None:
    """The same for what ran live."""
    judged = deduplicate_stream.bars(results)
    content = {
        "machine": report.machine(),
        **stream_report.measured_json(results),
        "bars": [{**asdict(bar), "is_met": bar.is_met} for bar in judged],
    }
    write_json("deduplicate_stream", content)
    state = report.as_markdown(deduplicate_stream.STATE_HEADER, deduplicate_stream.state_rows(results))
    report.write_page("deduplicate stream", "\n\n".join([stream_report.markdown(results, judged), state]))


def _live_cases(quick: bool, batches: int | None, names: list[str] | None) -> tuple[deduplicate_stream.Case, ...]:
    cases = tuple(case for case in deduplicate_stream.CASES if not names or case.name in names)
    if quick:
        cases = tuple(case.scaled(QUICK_LIVE_DIVISOR) for case in cases)
    return tuple(replace(case, batches=min(case.batches, batches or case.batches)) for case in cases)


def main(
    quick: Annotated[bool, typer.Option(help="Small data, one run each.")] = False,
    runs: Annotated[int, typer.Option(help="Timed runs of each way in batch.", min=1)] = 3,
    rounds: Annotated[int, typer.Option(help="How often the live ways run, in turns.", min=1)] = 2,
    batches: Annotated[int | None, typer.Option(help="At most so many micro-batches; they are not published.")] = None,
    case: Annotated[list[str] | None, typer.Option(help="Only these live cases; they are not published.")] = None,
    part: Annotated[list[Part] | None, typer.Option(help="Only this.")] = None,
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = _CACHE,
) -> None:
    """Measure, print tables; a full run also writes benchmarks/results/ and docs/benchmarks.md."""
    console = Console(width=None if sys.stdout.isatty() else 200)
    parts, data = tuple(part or Part), data / "quick" if quick else data
    live_cases = _live_cases(quick, batches, case)
    spark = session()
    try:
        if Part.BATCH in parts:
            cases = tuple(one.scaled(QUICK_DIVISOR) for one in CASES) if quick else CASES
            results = run(spark, cases, data, 0 if quick else 1, 1 if quick else runs, console)
            console.print(report.as_markdown(HEADER, results.rows()), soft_wrap=True)
            console.print(report.bars_table(bars(results)))
            if not quick:
                publish(results)
        if Part.STREAM in parts:
            with tempfile.TemporaryDirectory(prefix="deduplicate_stream_") as folder:
                live = deduplicate_stream.run(spark, live_cases, data, Path(folder), 1 if quick else rounds, console)
            console.print(report.as_markdown(stream_report.HEADER, stream_report.rows(live)), soft_wrap=True)
            state = deduplicate_stream.state_rows(live)
            console.print(report.as_markdown(deduplicate_stream.STATE_HEADER, state), soft_wrap=True)
            console.print(report.bars_table(deduplicate_stream.bars(live)))
            if not (quick or batches or case):
                publish_live(live)
    finally:
        spark.stop()


if __name__ == "__main__":
    typer.run(main)
