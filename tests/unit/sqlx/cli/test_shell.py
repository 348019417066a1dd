"""The prompt, typed at through a pipe; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from sqlx.cli import shell
from sqlx.cli.shell import SqlCompleter, execute, history_file, interact, prompt_session
from sqlx.errors import BindError


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SQLX_HISTORY", str(tmp_path / "state" / "history"))
    return history_file()


@pytest.fixture
def keyboard() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


def completer(*names: str) -> SqlCompleter:
    return SqlCompleter(lambda: names)


def completions(of: SqlCompleter, text: str) -> list[str]:
    return [found.text for found in of.get_completions(Document(text), CompleteEvent())]


def test_enter_reads_on_until_a_semicolon(keyboard: PipeInput) -> None:
    keyboard.send_text("SELECT ';'\r  AS a;\r")
    assert prompt_session(completer()).prompt() == "SELECT ';'\n  AS a;"


def test_what_was_typed_is_in_the_history_file(keyboard: PipeInput, history: Path) -> None:
    keyboard.send_text("SELECT 42;\r")
    prompt_session(completer()).prompt()
    assert "SELECT 42;" in history.read_text()


def test_a_history_that_cannot_be_written_is_done_without(
    keyboard: PipeInput, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SQLX_HISTORY", str(tmp_path / "file" / "history"))
    keyboard.send_text("SELECT 1;\r")
    assert prompt_session(completer()).prompt() == "SELECT 1;"


def test_names_come_before_words() -> None:
    assert completions(completer("selections", "orders"), "sel") == ["selections", "SELECT"]


def test_phrases_of_the_language_are_completed() -> None:
    assert completions(completer(), "FROM f JOIN w TOL") == ["TOLERANCE INTERVAL"]


def test_a_name_behind_a_parenthesis_is_completed() -> None:
    assert completions(completer("rates"), "SELECT * FROM history(ra") == ["rates"]


def test_nothing_is_offered_for_nothing() -> None:
    assert completions(completer("rates"), "SELECT ") == []


def test_names_are_asked_for_again_after_a_statement() -> None:
    names = ["rates"]
    of = SqlCompleter(lambda: names)
    assert completions(of, "r") == ["rates", "RIGHT"]
    names.append("rows_of_mine")
    of.forget()
    assert completions(of, "r") == ["rates", "rows_of_mine", "RIGHT"]


@pytest.mark.parametrize("leave", ["exit\r", "\\q\r", "\x04"])
def test_the_prompt_is_left_by_word_and_by_key(
    keyboard: PipeInput, leave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(shell, "execute", lambda _spark, text, _limit: ran.append(text))
    keyboard.send_text("SELECT 1;\r" + leave)
    interact(SimpleNamespace(), 20)  # type: ignore[arg-type]
    assert ran == ["SELECT 1;"]


def test_ctrl_c_gives_up_the_line_only(keyboard: PipeInput, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(shell, "execute", lambda _spark, text, _limit: ran.append(text))
    keyboard.send_text("SELECT nonsense\x03")
    keyboard.send_text("SELECT 2;\r\x04")
    interact(SimpleNamespace(), 20)  # type: ignore[arg-type]
    assert ran == ["SELECT 2;"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BindError("AS_OF_JOIN.TIES_FROM_LEFT", "SELECT a", (7, 8), column="a"), "LINE 1: SELECT a\n               ^"),
        (ZeroDivisionError("odd"), "ZeroDivisionError: odd"),
        (KeyboardInterrupt(), "Interrupted."),
    ],
)
def test_an_error_ends_the_statement_without_a_trace(
    error: BaseException, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_text: str) -> Any:
        raise error

    context = SimpleNamespace(addJobTag=lambda _: None, cancelJobsWithTag=lambda _: None)
    execute(SimpleNamespace(sql=fail, sparkContext=context), "SELECT a; SELECT b;", 20)  # type: ignore[arg-type]
    printed = capsys.readouterr().err
    assert words in printed
    assert "Traceback" not in printed
    assert printed.count(words) == 1
