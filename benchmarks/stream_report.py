"""What was measured of live joins: as tables, as JSON, and in docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from benchmarks import report
from benchmarks.stream_data import Case
from benchmarks.stream_measure import PARQUET, Live
from benchmarks.stream_restart import HEADER as RESTART_HEADER
from benchmarks.stream_restart import Restart
from benchmarks.stream_ways import BY_KEY, OURS

SECTION = "as of stream"
HEADER = (
    "case",
    "way",
    "rows/s",
    "s per micro-batch",
    "fastest to slowest",
    "counted",
    "CPU s",
    "others",
    "state rows",
    "state MB",
    "checkpoint MB per micro-batch",
    "peak GB",
    "answer",
)


@dataclass
class Results:
    """What was measured, by case and way.

    Attributes:
        title: of the table.
        checked: the ways whose answers are compared.
        sink: where all ways wrote their rows.
        cases: by name.
        ways: by case and way.
        restarts: of our query.
    """

    title: str = "Live AS OF joins"
    checked: tuple[str, ...] = (OURS, BY_KEY)
    sink: str = PARQUET
    cases: dict[str, Case] = field(default_factory=dict)
    ways: dict[tuple[str, str], Live] = field(default_factory=dict)
    restarts: list[Restart] = field(default_factory=list)

    def median(self, case: str, way: str) -> float | None:
        """Median seconds of a micro-batch."""
        found = self.ways.get((case, way))
        return found.median if found else None

    def rate(self, case: str, way: str) -> float | None:
        """Rows per second of the median micro-batch."""
        found = self.ways.get((case, way))
        return found.rate if found else None


def rows(results: Results) -> Iterable[tuple[str, ...]]:
    """The lines of the table."""
    for (case, way), found in results.ways.items():
        yield (
            case,
            way,
            f"{found.rate:,.0f}" if found.rate else found.note,
            f"{found.median:.2f}" if found.median else "",
            f"{min(found.seconds):.2f} to {max(found.seconds):.2f}" if found.seconds else "",
            str(len(found.seconds)),
            f"{found.cpu_seconds:.1f}",
            f"{found.others_share:.0%}",
            f"{found.state_rows:,}",
            f"{found.state_bytes / 1e6:.1f}",
            f"{found.checkpoint_bytes / 1e6:.2f}",
            f"{found.peak_bytes / 1e9:.2f}",
            answer_of(results, way, found),
        )


def answer_of(results: Results, way: str, found: Live) -> str:
    """What is known of the answer."""
    if way not in results.checked:
        return "another"
    return "not checked" if found.answer is None else "equal" if found.seconds else "WRONG"


def table(results: Results) -> Table:
    """The table for the terminal."""
    shown = Table(*HEADER, title=f"{results.title}, Parquet to {results.sink}")
    for line in rows(results):
        shown.add_row(*line)
    return shown


def markdown(results: Results, bars: Iterable[report.Bar]) -> str:
    """Bars, cases, measurements and restarts for the page."""
    parts = [
        report.conditions(),
        report.as_markdown(("bar", "measured", "wanted", "met"), (bar.cells() for bar in bars)),
        cases_markdown(results),
        report.as_markdown(HEADER, rows(results)),
    ]
    if results.restarts:
        parts += [
            "Our query, stopped and started again from its checkpoint by new workers:",
            report.as_markdown(RESTART_HEADER, (one.cells() for one in results.restarts)),
        ]
    return "\n\n".join(parts)


def cases_markdown(results: Results) -> str:
    """The table of cases; what they all lack is left out."""
    header = ["case", "rows", "micro-batches", "rows of each", "keys"]
    cases = results.cases.values()
    lines = [[c.name, f"{c.rows:,}", str(c.batches), f"{c.batch_rows:,}", f"{c.keys:,}"] for c in cases]
    if any(case.preload for case in cases):
        header.append("versions before")
        lines = [[*line, f"{case.preload:,}"] for line, case in zip(lines, cases, strict=True)]
    return report.as_markdown(tuple(header), (tuple(line) for line in lines))


def publish(results: Results, bars: list[report.Bar]) -> None:
    """Write the results file and the page: after each case, so that a run that is stopped has not run for nothing."""
    content: dict[str, Any] = {
        "machine": report.machine(),
        "sink": results.sink,
        **measured_json(results),
        "restarts": [one.as_json() for one in results.restarts],
        "bars": [{**asdict(bar), "is_met": bar.is_met} for bar in bars],
    }
    write_json("as_of_stream", content)
    report.write_page(SECTION, markdown(results, bars))


def measured_json(results: Results) -> dict[str, Any]:
    """Cases and measurements for a results file."""
    return {
        "cases": [asdict(case) for case in results.cases.values()],
        "measured": [{"case": case, "way": way, **found.as_json()} for (case, way), found in results.ways.items()],
    }


def write_json(name: str, content: dict[str, Any]) -> None:
    """Keep all numbers beside the code."""
    report.RESULTS.mkdir(exist_ok=True)
    path = report.RESULTS / f"{name}.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
