"""What was measured as a table on the terminal, as JSON, and in docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.as_of_join import Results
    from benchmarks.data import Case

_ROOT = Path(__file__).parent.parent
PAGE = _ROOT / "docs/benchmarks.md"
RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("pyspark", "pyarrow", "numpy", "numba", "duckdb", "polars")


@dataclass(frozen=True)
class Bar:
    """A bar and what was measured against it.

    Attributes:
        name: what is measured.
        value: what it is; None where it was not measured.
        bar: what it should be: at least this, or, when negative, at most its absolute value.
        unit: of both.
    """

    name: str
    value: float | None
    bar: float
    unit: str = "times"

    @property
    def is_met(self) -> bool:
        """Whether it holds."""
        if self.value is None:
            return False
        return self.value >= self.bar if self.bar > 0 else self.value <= -self.bar

    def cells(self) -> tuple[str, str, str, str]:
        """Name, value, bar and verdict."""
        wanted = f"{'at least' if self.bar > 0 else 'at most'} {abs(self.bar):g} {self.unit}"
        value = "not measured" if self.value is None else f"{self.value:.2f} {self.unit}"
        return self.name, value, wanted, "yes" if self.is_met else "NO"


def ratio(name: str, above: float | None, below: float | None, bar: float) -> Bar:
    """A bar on the quotient of two times."""
    return Bar(name, above / below if above and below else None, bar)


def spread_of(values: Iterable[float]) -> tuple[float, float, float]:
    """The median, what 95 % are not above, and the most.

    >>> spread_of([3.0, 1.0, 2.0])
    (2.0, 3.0, 3.0)
    """
    ordered = sorted(values)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))], ordered[-1]


HEADER = ("case", "way", "seconds", "all runs", "CPU s", "others", "rows/s", "times floor", "peak GB", "answer")


def rows(results: Results) -> Iterable[tuple[str, ...]]:
    """The lines of the table, case by case."""
    for case in results.cases:
        for way, found in results.ways[case.name].items():
            floor = results.median(case.name, "scan + write")
            name = f"{way} (default)" if results.chosen.get(case.name) == way else way
            yield (
                case.name,
                name,
                f"{found.median:.2f}" if found.median else found.note,
                " ".join(f"{seconds:.2f}" for seconds in found.seconds),
                f"{found.cpu_seconds:.1f}" if found.seconds else "",
                f"{found.others_share:.0%}" if found.seconds else "",
                f"{case.rows / found.median / 1e6:.2f} M" if found.median else "",
                f"{found.median / floor:.2f}" if found.median and floor else "",
                f"{found.peak_bytes / 1e9:.2f}" if found.peak_bytes else "",
                answer_of(way, found.median),
            )


def answer_of(way: str, median: float | None) -> str:
    """What is known of the answer."""
    if way == "scan + write" or median is None:
        return ""
    return "reference" if way == "DuckDB ASOF" else "equal"


def table(results: Results) -> Table:
    """The table for the terminal."""
    shown = Table(*HEADER, title="AS OF joins, Parquet to Parquet")
    for line in rows(results):
        shown.add_row(*line)
    return shown


def bars_table(bars: Iterable[Bar]) -> Table:
    """The bars for the terminal."""
    shown = Table("bar", "measured", "wanted", "met")
    for bar in bars:
        shown.add_row(*bar.cells())
    return shown


def markdown(results: Results, bars: Iterable[Bar]) -> str:
    """Tables of bars, cases and measurements for the page."""
    cases = [(c.name, f"{c.rows:,}", f"{c.versions:,}", f"{c.keys:,}", spread(c)) for c in results.cases]
    return "\n\n".join(
        [
            conditions(),
            as_markdown(("bar", "measured", "wanted", "met"), (bar.cells() for bar in bars)),
            as_markdown(("case", "rows", "versions", "keys", "spread of the keys"), cases),
            as_markdown(HEADER, rows(results)),
        ]
    )


def spread(case: Case) -> str:
    """How keys are spread, in words."""
    return {"uniform": "even", "zipf": "Zipf, exponent 1.1", "hot": "one key holds half of both sides"}[case.spread]


def as_markdown(header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    found = [header, ("---",) * len(header), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in found)


def machine() -> dict[str, Any]:
    """Cores, memory and versions; nothing that names the machine."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory_bytes / 1e9),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
    }


def conditions() -> str:
    """One line: when and on what."""
    found = machine()
    packages = ", ".join(f"{package} {found[package]}" for package in _PACKAGES)
    return (
        f"Measured on {found['date']}: {found['cores']} cores, {found['memory_gb']} GB of memory, {found['system']}, "
        f"Python {found['python']}, {packages}."
    )


def write_json(results: Results, bars: Iterable[Bar]) -> None:
    """Keep all numbers beside the code."""
    ways = {case: {way: found.as_json() for way, found in ways.items()} for case, ways in results.ways.items()}
    content = {
        "machine": machine(),
        "cases": [asdict(case) for case in results.cases],
        "default_way": results.chosen,
        "measured": ways,
        "bars": [{**asdict(bar), "is_met": bar.is_met} for bar in bars],
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "as_of_join.json"
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_page(section: str, text: str) -> None:
    """Put a text between the marks of a section of docs/benchmarks.md."""
    begin, end = f"<!-- {section}: measured -->", f"<!-- {section}: end -->"
    page = PAGE.read_text(encoding="utf-8")
    found = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL)
    PAGE.write_text(found, encoding="utf-8")
