"""The command line before Spark starts: help, and everything that is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import sqlx
from sqlx.cli.app import app

COMMANDS = ("run", "sql", "explain", "compile", "test", "demo", "dbt", "doctor")


def invoke(*args: str, stdin: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(app, list(args), input=stdin)
    assert "Traceback" not in result.output
    return result.exit_code, result.output


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused here has to be refused before a session costs seconds."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("sqlx.sessions.session.session", refuse)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    code, output = invoke(command, "--help")
    assert code == 0
    assert "Usage:" in output


def test_help_names_every_command() -> None:
    code, output = invoke("--help")
    assert code == 0
    assert all(f" {command} " in output for command in COMMANDS)


def test_without_a_command_help_is_shown() -> None:
    assert "Usage:" in invoke()[1]


def test_version_names_what_runs() -> None:
    code, output = invoke("--version")
    assert code == 0
    assert output.startswith(f"sqlx {sqlx.__version__} (PySpark ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert invoke("run", str(tmp_path / "no.sql")) == (1, f"There is no file {tmp_path / 'no.sql'}.\n")


def test_a_folder_among_files_is_no_file(tmp_path: Path) -> None:
    code, output = invoke("run", str(tmp_path), str(tmp_path / "x.sql"))
    assert code == 1
    assert "is a folder, not a file" in output


def test_a_folder_is_refused_with_the_way_to_build_a_project(tmp_path: Path) -> None:
    code, output = invoke("run", str(tmp_path))
    assert code == 1
    assert "is a folder, not a file" in output
    assert "sqlx dbt build --project-dir" in output


def test_dbt_without_a_project_is_refused(tmp_path: Path) -> None:
    code, output = invoke("dbt", "build", "--project-dir", str(tmp_path))
    assert code == 1
    assert f"There is no dbt project in {tmp_path}" in output


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.sql"
    path.write_bytes(b"SELECT '\xff'")
    code, output = invoke("run", str(path))
    assert code == 1
    assert "is not a text in UTF-8 (byte 8)" in output


@pytest.mark.parametrize("assignment", ["day", "=1", "a b=1", ""])
def test_a_broken_var_is_refused(tmp_path: Path, assignment: str) -> None:
    path = tmp_path / "x.sql"
    path.write_text("SELECT 1")
    code, output = invoke("run", str(path), "--var", assignment)
    assert (code, output) == (1, f"--var takes name=value, found `{assignment}`.\n")


def test_a_missing_file_is_no_live_stream_either(tmp_path: Path) -> None:
    code, output = invoke("run", str(tmp_path / "any.sql"), "--stream")
    assert code == 1
    assert output.startswith("There is no file")


def test_an_unknown_option_is_wrong_usage() -> None:
    code, output = invoke("run", "x.sql", "--wharehouse", "here")
    assert code == 2
    assert "--wharehouse" in output


def test_an_unknown_command_is_wrong_usage() -> None:
    code, output = invoke("ruun")
    assert code == 2
    assert "ruun" in output


@pytest.mark.parametrize("command", ["explain", "compile"])
def test_a_file_or_a_text_is_needed_and_not_both(command: str) -> None:
    assert invoke(command) == (1, "Name a file, or give a text with -e.\n")
    assert invoke(command, "x.sql", "-e", "SELECT 1") == (1, "Name a file, or give a text with -e; not both.\n")


@pytest.mark.parametrize("text", ["", "  ;", "-- nothing"])
def test_a_text_without_a_statement_is_refused(text: str) -> None:
    assert invoke("sql", "-e", text) == (1, "-e holds no statement.\n")


def test_standard_input_without_a_statement_is_refused() -> None:
    assert invoke("sql", stdin="\n") == (1, "standard input holds no statement.\n")


def test_a_warehouse_is_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    code, output = invoke("sql", "-e", "SELECT 1", "--warehouse", str(path))
    assert code == 1
    assert "--warehouse takes a folder" in output


def test_ctrl_c_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sqlx.sessions.session.session", interrupt)
    assert invoke("sql", "-e", "SELECT 1") == (130, "Interrupted.\n")
