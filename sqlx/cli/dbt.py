"""``sqlx dbt …``: stock dbt in the process of a sqlx session, through dbt-spark's method ``session``."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sqlx.cli.output import note
from sqlx.cli.start import started
from sqlx.failures import CommandError

if TYPE_CHECKING:
    from dbt.cli.main import dbtRunner

WAREHOUSE = "sqlx-warehouse"
"""The folder beside ``dbt_project.yml`` where tables are kept, unless ``--warehouse`` names another one."""

_WITHOUT_SPARK = ("clean", "deps", "init", "list", "ls", "parse")
_FAILED, _BROKEN = 1, 2


SETTINGS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
"""How typer is to read the command: what is after dbt's own word is dbt's, options as well."""


def dbt(
    arguments: Annotated[list[str], typer.Argument(metavar="COMMAND …", help="A command of dbt, with its options.")],
    warehouse: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"Keep tables and definitions here, else in {WAREHOUSE}.")
    ] = None,
) -> None:
    """Run stock dbt over a session that understands the language: sqlx dbt build, sqlx dbt test, and so on.

    The project's profile names type: spark and method: session. `sqlx dbt build --help` is dbt's own help.
    """
    run_dbt(arguments, warehouse)


def run_dbt(arguments: Sequence[str], warehouse: Path | None = None) -> None:
    """Start a sqlx session, then run dbt in this process: dbt-spark finds the session and sends it each statement.

    Args:
        arguments: dbt's own; ``--warehouse DIR`` among them is ours.
        warehouse: where tables are kept; None is :data:`WAREHOUSE` in the project's folder.

    Raises:
        CommandError: dbt is not there, or it does not understand the arguments.
        typer.Exit: dbt's exit code, where it is not 0.
    """
    passed, chosen = taken_out(arguments, "--warehouse")
    project = project_folder(passed)
    if (project / "profiles.yml").exists():  # dbt itself looks into the current folder only
        os.environ.setdefault("DBT_PROFILES_DIR", str(project))
    has_tables = needs_spark(passed)
    if has_tables and not (project / "dbt_project.yml").exists():
        msg = f"There is no dbt project in {project}: it has no dbt_project.yml."
        raise CommandError(msg, "Go into the folder of a project, or name it: --project-dir DIR.")
    runner = _runner()
    if not has_tables:
        _finish(_invoke(runner, passed))
        return
    home = Path(chosen) if chosen else warehouse or project / WAREHOUSE
    with started(home) as spark:
        from sqlx.cli.streams import stop_leftovers

        note(f"Tables and definitions: {home}")
        code = _invoke(runner, passed)
        stop_leftovers(spark)
    _finish(code)


def needs_spark(arguments: Sequence[str]) -> bool:
    """Whether what dbt is to do reads or writes tables.

    >>> needs_spark(["build", "--select", "a+"]), needs_spark(["deps"]), needs_spark(["docs", "serve"])
    (True, False, False)
    >>> needs_spark(["--version"]), needs_spark(["run", "--help"])
    (False, False)
    """
    words = [word for word in arguments if not word.startswith("-")]
    if not words or {"--help", "-h", "--version"} & set(arguments):
        return False
    return words[0] not in _WITHOUT_SPARK and words[:2] != ["docs", "serve"]


def taken_out(arguments: Sequence[str], option: str) -> tuple[list[str], str]:
    """The arguments without an option, and its value; "" where it is not there.

    Raises:
        CommandError: the option has no value.

    >>> taken_out(["build", "--out", "w", "-x"], "--out"), taken_out(["run", "--out=w"], "--out")
    ((['build', '-x'], 'w'), (['run'], 'w'))
    """
    rest, value, given = [], "", iter(arguments)
    for argument in given:
        if argument == option:
            value = next(given, "")
            if not value:
                msg = f"{option} takes a value."
                raise CommandError(msg)
        elif argument.startswith(f"{option}="):
            value = argument.removeprefix(f"{option}=")
        else:
            rest.append(argument)
    return rest, value


def project_folder(arguments: Sequence[str]) -> Path:
    """The folder of the project: ``--project-dir``, ``DBT_PROJECT_DIR``, or the current one."""
    named = taken_out(arguments, "--project-dir")[1] or os.environ.get("DBT_PROJECT_DIR", "")
    return Path(named or ".").resolve()


def _runner() -> dbtRunner:
    try:
        import dbt.adapters.spark  # noqa: F401 - dbt finds it by its name
        from dbt.cli.main import dbtRunner
    except ImportError as error:
        msg = f"dbt with its Spark adapter is not installed ({error})."
        raise CommandError(msg, "pip install 'sqlx-temporal[dbt]'") from error
    return dbtRunner()


def _invoke(runner: dbtRunner, arguments: Sequence[str]) -> int:
    """Run dbt, which prints what it does; its exit code.

    Raises:
        CommandError: it does not understand the arguments.
    """
    from dbt.cli.exceptions import DbtUsageException

    logging.raiseExceptions = False  # dbt prints through a logger: a reader that has had enough is no error of it
    result = runner.invoke(list(arguments))
    if isinstance(result.exception, DbtUsageException):
        msg = f"dbt: {result.exception}"
        raise CommandError(msg, f"dbt's own help: sqlx dbt {' '.join(arguments[:1])} --help")
    if result.exception is not None:  # dbt has said it already
        return _BROKEN
    return 0 if result.success else _FAILED


def _finish(code: int) -> None:
    if code:
        raise typer.Exit(code)
