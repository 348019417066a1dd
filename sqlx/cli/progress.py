"""A progress bar over the tasks of whatever Spark is doing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from sqlx.cli.output import err
from udtf.engine import engine_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
_LOOKS_PER_SECOND = 5
_SECONDS_TO_STOP = 10


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


def watched(spark: SparkSession, what: str, work: Callable[[], T]) -> T:
    """Do work in Spark with a bar over the tasks of its stages; Ctrl-C cancels the work.

    Args:
        spark: the session that the work runs in.
        what: said in front of the bar.
        work: what to do; it runs in a thread, since py4j cannot cancel on the connection that waits for an answer.

    Returns:
        What the work gives.
    """
    done, tag = threading.Event(), f"sqlx-{uuid4()}"
    with progress_bar() as bar:
        task = bar.add_task(what, total=None, detail="")
        if err.is_terminal:
            threading.Thread(target=_watch, args=(spark, bar, task, done), daemon=True).start()
        future: Future[T] = Future()
        worker = threading.Thread(target=_work, args=(spark, tag, work, future), daemon=True)
        worker.start()
        try:
            return future.result()
        except KeyboardInterrupt:
            engine_of(spark).cancel(tag)
            worker.join(_SECONDS_TO_STOP)
            raise
        finally:
            done.set()


def _work(spark: SparkSession, tag: str, work: Callable[[], T], future: Future[T]) -> None:
    try:
        engine_of(spark).tag(tag)  # of this thread: streams that run beside are not cancelled with it
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - raised again where the result is asked for
        future.set_exception(error)


def _watch(spark: SparkSession, bar: Progress, task: TaskID, done: threading.Event) -> None:
    look = engine_of(spark).progress()
    while not done.wait(1 / _LOOKS_PER_SECOND):
        try:
            completed, total = look()
        except Exception:  # noqa: BLE001 - the bar must not end the work, whatever Spark's answer was
            return
        if total:
            bar.update(task, completed=completed, total=total, detail=f"{completed}/{total} tasks")
