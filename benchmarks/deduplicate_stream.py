"""Live deduplication: ours beside Spark's ``dropDuplicatesWithinWatermark``, and whether its state stays bounded.

Ours counts only when its rows are those of DuckDB, which folds the rows of each key in order of time: the rule itself,
in another engine. Spark's drops a duplicate whenever its state still has the key, so it answers another question.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from benchmarks import report
from benchmarks.measure import checksum, in_own_process
from benchmarks.peers import THREADS
from benchmarks.stream_data import BATCH_SPAN_US, Case, make
from benchmarks.stream_measure import PARQUET, Live, in_turns, measure_live
from benchmarks.stream_report import Results
from benchmarks.stream_ways import IN_STORE, YARDSTICK, in_files, with_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from rich.console import Console

OURS = "ours"
#: As long as the rows of a micro-batch: at 500 thousand rows of 100 thousand keys, five of six are duplicates.
INTERVAL_US = BATCH_SPAN_US
LARGE = Case("500 k rows, 100 k keys", 100_000, 500_000, 20, stream_share=1.0)
ZIPF = replace(LARGE, name="500 k rows, Zipf", spread="zipf")
SMALL = Case("10 k rows, 100 k keys", 100_000, 10_000, 20, stream_share=1.0)
#: An interval for each micro-batch: most keys of an interval are not in the next one.
LONG = Case("100 intervals of 10 k rows", 100_000, 10_000, 100, stream_share=1.0)
CASES = (LARGE, ZIPF, SMALL, LONG)
WAYS = {case.name: (YARDSTICK, OURS, IN_STORE) for case in (LARGE, ZIPF, SMALL)} | {LONG.name: (OURS,)}
_ROWS = "k bigint, ts timestamp, id bigint, qty double"
_ROW = "k, epoch_us(ts), id, qty"
_MOST_GROWTH = 1.1


@dataclass(frozen=True)
class StreamWays:
    """The ways over the files of one case.

    Attributes:
        spark: a session of its own.
        rows: the folder of the files, one for each micro-batch.
        kept: a folder for our changelogs, as that of a checkpoint.
    """

    spark: SparkSession
    rows: Path
    kept: Path

    def frame(self, way: str) -> DataFrame:
        """The streaming result of a way."""
        return self.yardstick() if way == YARDSTICK else self.ours(in_store=way == IN_STORE)

    def ours(self, *, in_store: bool) -> DataFrame:
        """A definition and a query."""
        self.spark.sql(f"""CREATE OR REPLACE TEMPORARY STREAM events ({_ROWS})
            USING parquet OPTIONS (path '{self.rows}', maxFilesPerTrigger '1') TIMESTAMP BY ts""")
        within = f"DEDUPLICATE WITHIN INTERVAL {INTERVAL_US // 1_000_000} SECONDS BY (k)"
        query = f"SELECT k, ts, id, qty FROM STREAM events {within}"
        return self.spark.sql(query) if in_store else in_files(self.spark, query, self.kept)

    def yardstick(self) -> DataFrame:
        """Spark's own, with a watermark as far behind as the interval is long."""
        rows = self.spark.readStream.schema(_ROWS).option("maxFilesPerTrigger", 1).parquet(str(self.rows))
        return rows.withWatermark("ts", f"{INTERVAL_US // 1_000_000} seconds").dropDuplicatesWithinWatermark(["k"])


def run(
    spark: SparkSession, cases: tuple[Case, ...], data: Path, folder: Path, rounds: int, console: Console
) -> Results:
    """All ways in turns, case by case."""
    results = Results("Live deduplication", (OURS, IN_STORE))
    for case in cases:
        rows = make(case, data).left
        right = in_own_process(reference, rows, folder / "reference")
        results.cases[case.name] = case

        def measured(way: str, rows: Path = rows) -> Live:
            place = Path(mkdtemp(dir=folder))  # Spark may write into the one before for a moment yet
            frame = StreamWays(with_settings(spark), rows, place / "checkpoint/changelog").frame(way)
            return measure_live(frame, place, PARQUET, is_checked=way != YARDSTICK, summed=_summed)

        for way, live in in_turns(WAYS[case.name], 1 if case.name == LONG.name else rounds, measured).items():
            found = live if way == YARDSTICK or live.answer == right else Live(answer=live.answer, note="WRONG ANSWER")
            results.ways[case.name, way] = found
            console.print(f"{case.name}: {way}: {found.rate or 0:,.0f} rows/s {found.note}", soft_wrap=True)
            console.print(f"    {found.phases_ms}", soft_wrap=True)
    return results


def _summed(answer: Path) -> str:
    return checksum(answer, _ROW)


def reference(rows: Path, folder: Path) -> str:
    """The checksum of the rows that are kept: a fold over the rows of each key, in order of time, as they came.

    A row that is more than the interval after the last one that was kept is kept; the list of these is carried along.
    """
    import duckdb

    first = "{'t': min(t), 'ids': [arg_min(id, t)]}"
    step = f"""lambda kept, row: CASE WHEN row.t - kept.t <= {INTERVAL_US} THEN kept
        ELSE {{'t': row.t, 'ids': list_append(kept.ids, row.id)}} END"""
    folder.mkdir(parents=True)
    try:
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {THREADS}")
            connection.execute(f"""
                COPY (
                  WITH events AS (SELECT *, epoch_us(ts) AS t FROM '{rows}/*.parquet'),
                  folded AS (
                    SELECT list_reduce(list({{'t': t, 'id': id}} ORDER BY t), {step}, {first}).ids AS ids
                    FROM events GROUP BY k)
                  SELECT k, ts, id, qty FROM events WHERE id IN (SELECT unnest(ids) FROM folded))
                TO '{folder}/0.parquet' (FORMAT parquet)""")
        return _summed(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def bars(results: Results) -> list[report.Bar]:
    """The bars that the project set itself, of the cases that ran."""
    found = []
    for case in (name for name in (LARGE.name, ZIPF.name) if name in results.cases):
        ours, sparks = results.rate(case, OURS), results.rate(case, YARDSTICK)
        found.append(report.ratio(f"live, {case}: rows/s against {YARDSTICK}", ours, sparks, 1.0))
    if SMALL.name in results.cases:
        ours, sparks = results.median(SMALL.name, OURS), results.median(SMALL.name, YARDSTICK)
        found.append(report.ratio(f"live, {SMALL.name}: time against {YARDSTICK}", ours, sparks, -2.5))
    if LONG.name in results.cases:
        found.append(report.Bar("state: bytes in the last quarter against the second", _growth(results), -_MOST_GROWTH))
    return found


def _growth(results: Results) -> float | None:
    """The most bytes of state in the last quarter of the intervals against the most in the second."""
    states = [size for _, size in results.ways[LONG.name, OURS].states]
    quarter = len(states) // 4
    return max(states[-quarter:]) / max(states[quarter : 2 * quarter]) if quarter else None


def state_rows(results: Results) -> list[tuple[str, ...]]:
    """Bytes of state for each key in it, per case; the lines of a table under STATE_HEADER."""
    return [
        (
            case,
            f"{found.state_rows:,}",
            f"{found.state_bytes / 1e6:.2f}",
            f"{found.state_bytes / found.state_rows:.0f}" if found.state_rows else "",
            f"{min(size for _, size in found.states) / 1e6:.2f} to {max(size for _, size in found.states) / 1e6:.2f}",
        )
        for (case, way), found in results.ways.items()
        if way == OURS and found.states
    ]


STATE_HEADER = ("case, ours", "live keys at the end", "state MB", "bytes per live key", "state MB, least to most")
