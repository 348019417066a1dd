"""Tests as SQL files: reads ``.slt`` files and runs them in replay, on DuckDB and on Spark.

A file holds one idea::

    # title: an out-of-order table update serves later lookups only
    # source: KIP-914, stream-table join
    # modes: replay batch oracle
    # notyet batch: why it cannot run there yet       (also: notimpl, never)
    CREATE STREAM orders (ts TIMESTAMP, id INT, ccy STRING) TIMESTAMP BY ts;
    CREATE VERSIONED TABLE rates (ts TIMESTAMP, ccy STRING, rate INT) KEYS (ccy) TIMESTAMP BY ts;

    input rates
    @10 EUR 105
    input orders (id, ccy, ts)
    1 EUR @25           # a comment
    query
    SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy
    ---- emits
    @25 1 105

* A line is a row; lines are in order of arrival, across all ``input`` blocks. Values stand in the order of the
  definition's columns, or of those named; columns that are not named are NULL.
* ``@25`` is a time in microseconds since the epoch, ``@25ms``, ``@25s``, ``@2m``, ``@1h``, ``@1d`` likewise; ``NULL``
  is NULL, text with blanks stands in single quotes, bytes are ``X'00ff'``, nested values JSON in quotes.
* ``---- emits``: the changes of the stream in the order of emission, event time first, then the operation where it is
  no insert. ``---- final``: the rows over the complete inputs, in any order. With one of both, stream and batch agree.
* ``---- late``: what was refused: the reason, then the input's columns.
* ``---- error CONDITION``: the script is refused; lines below it stand in the message.
* ``oracle``: the same query for DuckDB, over tables with the input's rows (and ``__arrival``).

Modes: ``replay`` runs the records one by one, all at once, with restarts, and on three tasks where nothing depends on
tasks; ``oracle`` runs the file's DuckDB query; ``batch`` runs the query on Spark, over temporary definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from sqlx.errors import TemporalSqlError
from sqlx.slt_case import MODES, Case, read_case
from sqlx.slt_modes import Answer, Differs, run_batch, run_error, run_oracle, run_replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Result:
    """How a case went in one mode.

    Attributes:
        path, title: the case.
        mode: "replay", "batch" or "oracle".
        outcome: "passed", "failed" or "skipped".
        message: how the answer differs, or why it was not run.
    """

    path: Path
    title: str
    mode: str
    outcome: str
    message: str = ""


def run_directory(
    path: str | Path,
    modes: Sequence[str] = ("replay", "oracle"),
    spark: SparkSession | None = None,
    complete: bool = False,
) -> list[Result]:
    """Run all cases below a folder, or one file.

    Args:
        path: the folder or file.
        modes: in which to run; a case runs in those that it names.
        spark: a session of ours, for the mode ``batch``.
        complete: rewrite the expected blocks with what replay answers.
    """
    return [result for file in case_files(path) for result in run_file(file, modes, spark, complete)]


def case_files(path: str | Path) -> list[Path]:
    """The files of the cases below a folder, sorted.

    Raises:
        FileNotFoundError: there is no such path.
    """
    root = Path(path)
    if not root.exists():
        raise FileNotFoundError(root)
    return [root] if root.is_file() else sorted(root.rglob("*.slt"))


def run_file(
    path: Path, modes: Sequence[str], spark: SparkSession | None = None, complete: bool = False
) -> list[Result]:
    """Run one file in those of the modes that it names."""
    try:
        case = read_case(path)
    except TemporalSqlError as error:
        return [Result(path, path.stem, "read", "failed", str(error))]
    if complete and "replay" in case.modes:
        complete_file(case)
        case = read_case(path)
    return [run_case(case, mode, spark) for mode in modes if mode in case.modes or mode in case.not_run]


def run_case(case: Case, mode: str, spark: SparkSession | None = None) -> Result:
    """Run one case in one mode; a mode that is marked as not supported has to fail, else the mark is stale."""
    mark = case.not_run.get(mode)
    if mark is not None and (mark.startswith("never") or (mode == "batch" and spark is None)):
        return Result(case.path, case.title, mode, "skipped", mark)
    try:
        _run(case, mode, spark)
    except (Differs, TemporalSqlError, KeyError, ValueError) as error:
        if mark is not None:
            return Result(case.path, case.title, mode, "skipped", mark)
        return Result(case.path, case.title, mode, "failed", f"{type(error).__name__}: {error}")
    if mark is not None:
        return Result(case.path, case.title, mode, "failed", f"it passes, but is marked {mark}")
    return Result(case.path, case.title, mode, "passed")


def _run(case: Case, mode: str, spark: SparkSession | None) -> Answer:
    runs: dict[str, Callable[[Case], Answer]] = {"replay": run_replay, "oracle": run_oracle}
    if spark is not None:
        runs["batch"] = partial(run_batch, spark=spark)
    return run_error(case, runs[mode]) if case.condition else runs[mode](case)


def complete_file(case: Case) -> None:
    """Rewrite the blocks ``emits`` and ``late`` of a file with what replay answers, and ``final`` with the oracle."""
    if case.condition:
        return
    empty = Case(**{**case.__dict__, "blocks": {}})
    answers = dict(run_replay(empty).blocks)
    if case.oracle:
        answers.update(run_oracle(empty).blocks)
    lines, skipping = [], False
    for line in case.path.read_text(encoding="utf-8").splitlines():
        block = line[4:].split("#")[0].strip() if line.startswith("----") else ""
        if line.startswith(("----", "input ")) or line in ("query", "oracle"):
            skipping = block in answers
            lines += [line, *(" ".join(words) for words in answers.get(block, []))]
        elif not skipping or line.startswith("#"):
            lines.append(line)
    case.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def results_table(results: Iterable[Result]) -> Table:
    """A table of results: a row per case, a column per mode."""
    table = Table(title="semantic tests", title_justify="left")
    results = list(results)
    modes = [mode for mode in ("read", *MODES) if any(r.mode == mode for r in results)]
    for header in ("case", *modes):
        table.add_column(header)
    styles = {"passed": ("ok", "green"), "failed": ("FAILED", "bold red"), "skipped": ("-", "dim")}
    for path in dict.fromkeys(r.path for r in results):
        outcomes = {r.mode: r for r in results if r.path == path}
        cells = [Text(*styles[outcomes[m].outcome]) if m in outcomes else Text("") for m in modes]
        table.add_row(Text(f"{path.stem}: {next(iter(outcomes.values())).title}"), *cells)
    return table
