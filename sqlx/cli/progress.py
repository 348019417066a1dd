"""A progress bar over the tasks of whatever Spark is doing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from sqlx.cli.output import err

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOKS_PER_SECOND = 5


def progress_bar() -> Progress:
    """A bar on stderr that goes away when it is done; nothing where stderr is no terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}"))
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not err.is_terminal)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A bar that only moves, for work without a measure."""
    with progress_bar() as bar:
        bar.add_task(what, total=None, detail="")
        yield


@contextmanager
def watching(spark: SparkSession, what: str) -> Iterator[None]:
    """A bar over the tasks of Spark's stages, for as long as the block runs.

    Args:
        spark: the session that the work runs in.
        what: said in front of the bar.
    """
    if not err.is_terminal:
        yield
        return
    done = threading.Event()
    with progress_bar() as bar:
        task = bar.add_task(what, total=None, detail="")
        watcher = threading.Thread(target=_watch, args=(spark, bar, task, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join(timeout=1)


def _watch(spark: SparkSession, bar: Progress, task: TaskID, done: threading.Event) -> None:
    tracker = spark.sparkContext.statusTracker()
    stages: dict[int, tuple[int, int]] = {}
    while not done.wait(1 / _LOOKS_PER_SECOND):
        try:
            active = set(tracker.getActiveStageIds())
            seen = {stage: tracker.getStageInfo(stage) for stage in active | set(stages)}
        except Exception:  # noqa: BLE001 - the bar must not end the work, whatever Spark's answer was
            return
        stages.update({n: (info.numCompletedTasks, info.numTasks) for n, info in seen.items() if info is not None})
        completed, total = (sum(parts) for parts in zip(*stages.values(), strict=True)) if stages else (0, 0)
        if total:
            bar.update(task, completed=completed, total=total, detail=f"{completed}/{total} tasks")
