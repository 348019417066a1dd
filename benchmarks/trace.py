"""What compiling a statement passes: files, places that call, calls, questions to the analyzer, and how long it takes.

``python -m benchmarks.trace`` prints a table. Names and types come from the tests' session without Spark, so that only
the front end is counted. Files are those of `sqlx`, `udtf` and `catalog`; a place is a line that calls a function of
theirs, comprehensions left out; time is the median of thirty, with the answers of the analyzer remembered.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from sqlx.sessions.statements import may_be_ours
from sqlx.sql.parser import scan
from sqlx.sql.tokens import tokenize
from tests.harness import fake_binder
from tests.harness.fake_binder import BINDER, compiled

ROOT = Path(__file__).parents[1]
OURS = tuple(f"{ROOT / package}/" for package in ("sqlx", "udtf", "catalog"))
CASES = "".join(
    f", CASE WHEN o.n BETWEEN {n} AND 9 THEN round(o.n * r.rate, 2) ELSE {n} END AS c{n}" for n in range(27)
)
LONG = f"SELECT o.id{CASES} FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k WHERE o.n > 0 ORDER BY o.id"
STATEMENTS = {
    "an AS OF join in batch": ("SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k", False),
    "windows, live": (
        "SELECT k, window.start, count(*) AS n FROM STREAM clicks GROUP BY k, window(ts, '1 hour') "
        "GRACE PERIOD INTERVAL 5 MINUTES EMIT FINAL",
        True,
    ),
    f"an AS OF join of {len(LONG):,} characters": (LONG, False),
}
_RUNS = 30


class Trace(NamedTuple):
    """What one compilation passed."""

    files: int
    places: int
    calls: int
    questions: int


def traced(text: str, streaming: bool) -> Trace:
    """Compile a statement that nothing has seen yet, and count."""
    files, places, calls = set[str](), set[tuple[str, int, str, str]](), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        code, caller = frame.f_code, frame.f_back
        if event != "call" or caller is None or not code.co_filename.startswith(OURS) or "<" in code.co_name:
            return
        calls += 1
        files.add(code.co_filename)
        places.add((caller.f_code.co_filename, caller.f_lineno, code.co_filename, code.co_qualname))

    compiled(text, streaming)  # what is imported or cached for good is
    _forget()
    BINDER.asked.clear()
    sys.setprofile(count)
    try:
        compiled(text, streaming)
    finally:
        sys.setprofile(None)
    return Trace(len(files), len(places), calls, len(BINDER.asked))


def _forget() -> None:
    tokenize.cache_clear()
    scan.cache_clear()


def median_ms(work: Callable[[], object]) -> float:
    """Milliseconds of one run, the median."""
    found = []
    for _ in range(_RUNS):
        _forget()
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return statistics.median(found) * 1000


def main() -> None:
    """Print the table."""
    table = Table("statement", "files", "places", "calls", "questions", "ms")
    rows = {name: traced(*statement) for name, statement in STATEMENTS.items()}
    answers: dict[str, object] = {}
    ask = fake_binder.FakeBinder.columns

    def remembered(self: fake_binder.FakeBinder, query: str) -> object:
        if query not in answers:
            answers[query] = ask(self, query)
        return answers[query]

    fake_binder.FakeBinder.columns = remembered  # type: ignore[assignment,method-assign]
    for name, trace in rows.items():
        table.add_row(name, *map(str, trace), f"{median_ms(lambda n=name: compiled(*STATEMENTS[n])):.1f}")  # type: ignore[misc]
    plain = LONG.replace(" AS OF o.ts", "")
    look = median_ms(lambda: [may_be_ours(plain) for _ in range(100)]) / 100
    table.add_row(f"the hook's look at {len(plain):,} plain characters", "", "", "", "", f"{look:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
