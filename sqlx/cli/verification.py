"""``sqlx verify``: whether the queries of scripts answer live as they do over bounded tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sqlx.cli.output import Result, err, note, show
from sqlx.cli.scripts import Script, error_place, is_query, run_scripts
from sqlx.failures import CommandError
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.sql.verification import Verification, parse_verification
from sqlx.verify.report import SAME, Finding, Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = ("arrivals", "verdict", "rows", "row", "why")
_NUMBERS = (False, False, True, False, False)


def verify_scripts(spark: SparkSession, scripts: Sequence[Script], shuffles: int, limit: int) -> None:
    """Verify each query and streaming table of the scripts; their other statements are run.

    Args:
        spark: the session.
        scripts: as :func:`sqlx.cli.scripts.read_scripts` gives them.
        shuffles: in how many further orders of arrival.
        limit: the most rows to print of a statement that is run.

    Raises:
        CommandError: there is nothing to verify.
        typer.Exit: something differs.
    """
    from sqlx.sessions.session import statements_of

    found: list[Finding] = []
    for script in scripts:
        for statement in script.statements:
            asked = _asked(statement.text, shuffles)
            if asked is None:
                run_scripts(spark, [Script((statement,), script.model)], limit)
                continue
            with error_place(statement), _line() as bar:
                findings = statements_of(spark).verified(asked, _watch(bar))
            note(statement.place)
            show(Result(_COLUMNS, _NUMBERS, tuple(_row(finding) for finding in findings), has_more=False))
            found += findings
    if not found:
        msg = "There is nothing to verify: no query, no CREATE STREAMING TABLE."
        raise CommandError(msg, "Give definitions and a query over them: sqlx verify FILE.sql")
    if any(finding.verdict != SAME for finding in found):
        raise typer.Exit(1)


def _asked(text: str, shuffles: int) -> Verification | None:
    tokens = tokenize(text)
    asked = parse_verification(text, tokens)
    if asked is not None:
        return asked
    made = parse_streaming(text, tokens)
    if isinstance(made, StreamingTable):
        return Verification(made.query, made.query_start, shuffles)
    return Verification(text, 0, shuffles) if is_query(text) else None


def _row(finding: Finding) -> tuple[str | None, ...]:
    return finding.arrivals, finding.verdict, f"{finding.rows:,}", finding.row, finding.why


def _line() -> Progress:
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeElapsedColumn())
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def _watch(bar: Progress) -> Watch:
    @contextmanager
    def watch(rows: int) -> Iterator[Callable[[int], None]]:
        task = bar.add_task("", total=rows)
        yield lambda more: bar.advance(task, more)

    return watch
