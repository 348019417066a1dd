"""``sqlx test``: runs ``.slt`` cases, a bar over them, and a table of how they went."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import typer

from sqlx.cli.output import complain, note, out
from sqlx.cli.progress import progress_bar
from sqlx.cli.start import started
from sqlx.failures import CommandError

MODES = ("replay", "oracle", "batch")
MODE_HELP = f"One of {', '.join(MODES)} (batch starts Spark); repeatable."


def run_cases(path: Path, modes: Sequence[str], complete: bool) -> None:
    """Run all cases below a folder and print how they went.

    Args:
        path: the folder, or one case.
        modes: in which to run.
        complete: rewrite what the cases expect.

    Raises:
        CommandError: an unknown mode, or no case there.
        typer.Exit: 1 where a case failed.
    """
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        msg = f"There is no mode `{unknown[0]}`."
        raise CommandError(msg, f"Modes are {', '.join(MODES)}.")
    if not path.exists():
        msg = f"There is no folder {path}."
        raise CommandError(msg)
    if not _run(path, list(dict.fromkeys(modes)), complete):
        raise typer.Exit(1)


def _run(path: Path, modes: list[str], complete: bool) -> bool:
    from sqlx.testing.slt import case_files, results_table, run_file  # DuckDB and sqlglot: for this command only

    files = case_files(path)
    if not files:
        msg = f"There is no .slt case in {path}."
        raise CommandError(msg)
    with ExitStack() as stack:
        spark = stack.enter_context(started(None)) if "batch" in modes else None
        bar = stack.enter_context(progress_bar())
        task = bar.add_task("cases", total=len(files), detail="")
        results = []
        for done, file in enumerate(files):
            bar.update(task, completed=done, detail=file.name)
            results += run_file(file, modes, spark, complete)
    failed = [result for result in results if result.outcome == "failed"]
    out.print(results_table(results))
    for result in failed:
        complain(f"{result.path} ({result.mode}): {result.title}\n{result.message}\n")
    passed = sum(result.outcome == "passed" for result in results)
    note(f"{len(files)} cases: {passed} passed, {len(failed)} failed, {len(results) - passed - len(failed)} skipped")
    return not failed
