"""What a plain statement pays for our parser in front of Spark's, and how long an extended statement is read.

python -m benchmarks.hook
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from benchmarks import report
from benchmarks.spark_ways import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STATEMENTS = 200
_EXTENDED_CHARACTERS = 2_000
_KINDS = (
    "SELECT {n} AS a",
    "SELECT id, id * {n} FROM range(10) WHERE id > 3 ORDER BY id",
    "WITH t AS (SELECT {n} AS k) SELECT t.k, count(*) FROM t JOIN range(5) r ON t.k = r.id GROUP BY t.k",
    "SHOW TABLES LIKE 'x{n}'",
    "SET spark.sql.x{n}",
)
_WITH_OUR_WORDS = "SELECT of.id FROM range({n}) AS OF JOIN range(5) b ON of.id = b.id"


def milliseconds(run: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1_000


def plain_session(spark: SparkSession) -> SparkSession:
    """A session beside ours whose parser is Spark's own."""
    from pyspark.sql import SparkSession

    jvm: Any = spark._jvm
    java = jvm.org.apache.spark.sql.classic.SparkSession(spark.sparkContext._jsc.sc())
    assert "Proxy" not in java.sessionState().sqlParser().getClass().getName()
    return SparkSession(spark.sparkContext, java)


@dataclass(frozen=True)
class Compared:
    """Medians in milliseconds: with our parser, without, and of the differences statement by statement."""

    with_us: float
    without: float
    difference: float

    def cells(self, what: str) -> tuple[str, ...]:
        """A line of the page's table."""
        return what, f"{self.with_us:.2f}", f"{self.without:.2f}", f"{self.difference:.2f}"


def compare(ours: SparkSession, plain: SparkSession, kinds: tuple[str, ...]) -> Compared:
    """Run the same statements with and without our parser, in turns."""
    pairs: list[tuple[float, float]] = []
    for number in range(2 * _STATEMENTS):
        text = kinds[number % len(kinds)].format(n=number)
        sessions = (ours, plain) if number // len(kinds) % 2 else (plain, ours)
        taken = {spark: milliseconds(lambda s=spark: s.sql(text)) for spark in sessions}  # type: ignore[misc]  # noqa: B023
        if number >= _STATEMENTS:  # the first half warms up
            pairs.append((taken[ours], taken[plain]))
    with_us, without = zip(*pairs, strict=True)
    differences = [one - other for one, other in pairs]
    return Compared(*(statistics.median(values) for values in (with_us, without, differences)))


def extended_text() -> str:
    """A temporal statement of 2,000 characters: several AS OF joins in common table expressions."""
    part = (
        "p{n} AS (SELECT o.k, o.ts, o.id, o.qty * r.rate AS amount_{n},"
        " CASE WHEN r.rate > {n} THEN 'high' ELSE 'low' END AS c\n"
        "  FROM l AS o LEFT ASOF JOIN r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k TOLERANCE INTERVAL {n} HOURS)"
    )
    parts = [part.format(n=n) for n in range(1, 12)]
    text = ""
    for count in range(1, len(parts)):
        text = "WITH " + ",\n".join(parts[:count]) + f"\nSELECT * FROM p1 JOIN p{count} USING (id) WHERE p1.k > 0"
        if len(text) >= _EXTENDED_CHARACTERS - len(part):
            break
    return text + " -- " + "x" * (_EXTENDED_CHARACTERS - len(text) - 4)


def reading() -> float:
    """Median milliseconds to read the structure of the extended statement, nothing remembered from before."""
    from sqlx.sql.parser import scan
    from sqlx.sql.tokens import tokenize

    text = extended_text()
    times = []
    for _ in range(60):
        tokenize.cache_clear()
        times.append(milliseconds(lambda: scan(text)))
    return statistics.median(times[10:])


def compiling(spark: SparkSession) -> float:
    """Median milliseconds from the extended statement to a DataFrame, Spark's analysis of all its parts included."""
    ids = "SELECT id, id AS k, timestamp_seconds(id) AS ts, CAST(id AS DOUBLE) AS qty, 1.5D AS rate FROM range(1000)"
    for name in ("l", "r"):
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {ids}")
    return statistics.median([milliseconds(lambda: spark.sql(extended_text())) for _ in range(13)][3:])


def main() -> None:
    """Measure, print, and write the section of docs/benchmarks.md."""
    ours = session()
    try:
        plain = plain_session(ours)
        statements = compare(ours, plain, _KINDS)
        with_words = compare(ours, plain, (_WITH_OUR_WORDS,))
        compiled = compiling(ours)
    finally:
        ours.stop()
    extended = f"an extended statement of {_EXTENDED_CHARACTERS:,} characters is read"
    bars = [
        report.Bar("a plain statement: more than without our parser", statements.difference, -5.0, "ms"),
        report.Bar(extended, reading(), -50.0, "ms"),
    ]
    Console().print(report.bars_table(bars))
    header = (f"median ms of `spark.sql`, {_STATEMENTS} statements", "with our parser", "without", "difference")
    lines = [
        statements.cells("plain statement, as are nearly all"),
        with_words.cells("plain statement that holds words of ours"),
        ("the extended statement: read, compiled and analysed", f"{compiled:.2f}", "", ""),
    ]
    tables = [report.as_markdown(("bar", "measured", "wanted", "met"), (bar.cells() for bar in bars))]
    report.write_page("hook", "\n\n".join([report.conditions(), *tables, report.as_markdown(header, lines)]))


if __name__ == "__main__":
    main()
