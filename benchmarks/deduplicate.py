"""Deduplication of bounded rows side by side: ours, what people write today, the same loop without Spark; the floor.

    python -m benchmarks.deduplicate            all of it
    python -m benchmarks.deduplicate --quick    small data, one run each: whether it works, not what it costs

A way counts only when its answer has the checksum of Polars with our loop; ROW_NUMBER by bucket answers another
question (fixed edges) and is shown for its time only.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from benchmarks import report
from benchmarks.data import Case, make
from benchmarks.deduplicate_ways import BUCKETS, FLOOR, OURS, PANDAS, POLARS, SparkWays, measure_polars
from benchmarks.measure import Measured
from benchmarks.spark_ways import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = (Case("uniform", 10_000, "uniform", versions=1_000), Case("zipf", 10_000, "zipf", versions=1_000))
PANDAS_SMALLER = 10
QUICK_DIVISOR = 500
_CACHE = Path(".cache/benchmarks")
_OTHER_ANSWERS = (FLOOR, BUCKETS)
HEADER = ("case", "way", "rows", "seconds", "CPU s", "others", "rows/s", "peak GB", "answer")


@dataclass
class Results:
    """What was measured, by case and way; `applyInPandas` stands with a case of fewer rows."""

    cases: dict[str, Case] = field(default_factory=dict)
    ways: dict[tuple[str, str], Measured] = field(default_factory=dict)

    def add(self, case: Case, way: str, found: Measured, console: Console) -> None:
        """Keep a measurement; it loses its time when the answer is not that of the others."""
        right = self.ways.get((case.name, POLARS))
        if right is not None and way not in _OTHER_ANSWERS and found.answer != right.answer:
            found = Measured(answer=found.answer, note="WRONG ANSWER")
        self.cases[case.name] = case
        self.ways[case.name, way] = found
        console.print(f"{case.name}: {way}: {' '.join(f'{s:.2f}' for s in found.seconds)} {found.note}")

    def rate(self, case: str, way: str) -> float | None:
        """Rows per second."""
        found = self.ways.get((case, way))
        return self.cases[case].rows / found.median if found and found.median else None

    def rows(self) -> list[tuple[str, ...]]:
        """The lines of the table."""
        return [
            (
                case,
                way,
                f"{self.cases[case].rows:,}",
                f"{found.median:.2f}" if found.median else found.note,
                f"{found.cpu_seconds:.1f}",
                f"{found.others_share:.0%}",
                f"{self.rate(case, way) or 0:,.0f}",
                f"{found.peak_bytes / 1e9:.2f}",
                "another" if way in _OTHER_ANSWERS else "equal" if found.median else "WRONG",
            )
            for (case, way), found in self.ways.items()
        ]


def run(spark: SparkSession, cases: tuple[Case, ...], data: Path, warm: int, runs: int, console: Console) -> Results:
    """Run all ways on all cases, the one without Spark first."""
    results = Results()
    with tempfile.TemporaryDirectory(prefix="deduplicate_") as folder:
        output = Path(folder) / "answer"
        for case in cases:
            rows = make(case, data).left
            results.add(case, POLARS, measure_polars(rows, output, min(warm, 1), runs), console)
            ways = SparkWays(spark, rows)
            for way in (FLOOR, BUCKETS, OURS):
                results.add(case, way, ways.measure(way, output, warm, runs), console)
            few = case.scaled(PANDAS_SMALLER)
            few = Case(f"{case.name}, fewer rows", case.keys, case.spread, few.rows, few.versions)
            rows = make(few, data).left
            results.add(few, POLARS, measure_polars(rows, output, 0, 1), console)
            results.add(few, PANDAS, SparkWays(spark, rows).measure(PANDAS, output, 0, 1), console)
    return results


def bars(results: Results) -> list[report.Bar]:
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


def publish(results: Results) -> None:
    """Write the results file."""
    ways = [{"case": case, "way": way, **found.as_json()} for (case, way), found in results.ways.items()]
    content = {
        "machine": report.machine(),
        "cases": [asdict(case) for case in results.cases.values()],
        "measured": ways,
        "bars": [{**asdict(bar), "is_met": bar.is_met} for bar in bars(results)],
    }
    report.RESULTS.mkdir(exist_ok=True)
    path = report.RESULTS / "deduplicate.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    tables = [("bar", "measured", "wanted", "met"), HEADER]
    lines: list[Callable[[], list[tuple[str, ...]]]] = [lambda: [b.cells() for b in bars(results)], results.rows]
    shown = [report.as_markdown(header, made()) for header, made in zip(tables, lines, strict=True)]
    report.write_page("deduplicate", "\n\n".join([report.conditions(), *shown]))


def main(
    quick: Annotated[bool, typer.Option(help="Small data, one run each.")] = False,
    runs: Annotated[int, typer.Option(help="Timed runs of each way.", min=1)] = 3,
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = _CACHE,
) -> None:
    """Measure, print a table; a full run also writes benchmarks/results/ and docs/benchmarks.md."""
    console = Console(width=160)
    cases = tuple(case.scaled(QUICK_DIVISOR) for case in CASES) if quick else CASES
    spark = session()
    try:
        results = run(spark, cases, data / "quick" if quick else data, 0 if quick else 1, 1 if quick else runs, console)
    finally:
        spark.stop()
    console.print(report.as_markdown(HEADER, results.rows()))
    console.print(report.bars_table(bars(results)))
    if not quick:
        publish(results)


if __name__ == "__main__":
    typer.run(main)
