"""The live act of the demo: a streaming table followed until it has read all, and what came of it in lines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlx.cli.output import Result
from sqlx.cli.progress import progress_bar
from sqlx.streaming.registry import RunningQuery, registry
from sqlx.streaming.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

_LOOK_SECONDS = 0.25
_UNMATCHED = "unmatched_"


def is_stream(text: str) -> bool:
    """Whether a statement starts a streaming table.

    >>> is_stream("CREATE OR REPLACE STREAMING TABLE t AS SELECT 1"), is_stream("CREATE STREAM s FROM t")
    (True, False)
    """
    return "STREAMING" in text.upper().split()[:4]


def followed(spark: SparkSession, what: str, total: int, work: Callable[[], object]) -> None:
    """Start a streaming table that ends by itself, with a bar over the rows that it has read.

    Args:
        spark: the session.
        what: said in front of the bar.
        total: the rows that there are to read.
        work: starts it, and returns at its end.
    """
    done, before = threading.Event(), _latest(spark)
    with progress_bar() as bar:
        task = bar.add_task(what, total=total, detail="starting")
        watcher = threading.Thread(target=_watch, args=(spark, before, bar, task, done), daemon=True)
        watcher.start()
        try:
            work()
        finally:
            done.set()
            watcher.join()


def _watch(
    spark: SparkSession, before: RunningQuery | None, bar: Progress, task: TaskID, done: threading.Event
) -> None:
    while not done.wait(_LOOK_SECONDS):
        query = _latest(spark)
        totals = query.refresh() if query is not None and query is not before else Totals()
        if totals.batches:
            bar.update(task, completed=totals.rows, detail=f"{totals.rows:,} rows, {totals.sum('late'):,} late")


def live_totals(spark: SparkSession) -> Totals:
    """What the query that was started last has counted."""
    query = _latest(spark)
    return Totals() if query is None else query.refresh()


def _latest(spark: SparkSession) -> RunningQuery | None:
    """The query that was started last."""
    queries = registry(spark.sparkContext).all()
    return queries[-1] if queries else None


def live_counts(compared: Result, totals: Totals) -> list[str]:
    r"""How the live answer came about, and how it compares with the batch one, as lines.

    Args:
        compared: rows of verdict and count.
        totals: what the query has counted.

    >>> compared = Result(("verdict", "n"), (False, True), (("equal", "9000"), ("different", "41")), False)
    >>> observed = {"join": {"matched": 9030, "unmatched_no_key": 11, "late": 7, "buffered_rows": 2}}
    >>> print("\n".join(live_counts(compared, Totals(rows=9543, batches=3, observed=observed))))
    The same live, 9,543 rows of both inputs in 3 micro-batches:
      9,030 joined with the weather at their airport
         11 without a match: no_key
          7 of these late, and answered at once
          2 wait for the grace period to pass
    Beside the batch answer:
      9,000 equal
         41 different
    """
    reasons = sorted({name for counted in totals.observed.values() for name in counted if name.startswith(_UNMATCHED)})
    missed = {name.removeprefix(_UNMATCHED): totals.sum(name) for name in reasons}
    counted = [(totals.sum("matched"), "joined with the weather at their airport")]
    counted += [(count, f"without a match: {reason}") for reason, count in missed.items() if count]
    counted += [(totals.sum("late"), "of these late, and answered at once")]
    counted += [(totals.sum("buffered_rows"), "wait for the grace period to pass")]
    verdicts = [(int(count or 0), str(verdict)) for verdict, count in compared.rows]
    width = max(len(f"{count:,}") for count, _ in counted + verdicts) + 2
    return [
        f"The same live, {totals.rows:,} rows of both inputs in {totals.batches:,} micro-batches:",
        *(f"{count:>{width},} {what}" for count, what in counted),
        "Beside the batch answer:",
        *(f"{count:>{width},} {what}" for count, what in verdicts),
    ]
