"""Results that fit, and messages without stack traces."""

from __future__ import annotations

import pytest
from rich.console import Console

from sqlx.cli import output
from sqlx.cli.output import Result, fit, show
from sqlx.failures import CommandError, is_lost, message_of, without_frames


def printed(monkeypatch: pytest.MonkeyPatch, result: Result, width: int | None) -> list[str]:
    """What `show` prints on a terminal of a width, or into a pipe."""
    console = Console(force_terminal=width is not None, width=width, color_system=None, highlight=False, markup=False)
    monkeypatch.setattr(output, "out", console)
    with console.capture() as captured:
        show(result)
    return captured.get().splitlines()


def result(*rows: tuple[str | None, ...], names: str = "id name", has_more: bool = False) -> Result:
    columns = tuple(names.split())
    return Result(columns, tuple(name == "id" for name in columns), rows, has_more)


def test_numbers_stand_right_and_null_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, result(("7", "seven"), ("10", None)), 80)
    assert [line.rstrip() for line in lines if "─" not in line] == ["id   name", " 7   seven", "10   NULL"]


def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    names = " ".join(f"column_number_{n}" for n in range(12))
    lines = printed(monkeypatch, result(tuple("x" * 50 for _ in range(12)), names=names), 60)
    assert max(len(line) for line in lines) <= 60
    assert len(lines) == 3


def test_a_pipe_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    long = "x" * 300
    lines = printed(monkeypatch, result(("1", long)), None)
    assert long in lines[-1]


def test_a_value_of_several_lines_stays_in_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, result(("1", "a\nb")), 80)
    assert lines[-1].rstrip() == " 1   a⏎b"


def test_a_plan_is_printed_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, result(("== Plan ==\n  [red]x[/red]",), names="plan"), 20)
    assert lines == ["== Plan ==", "  [red]x[/red]"]


def test_what_was_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show(result(("1", "a"), has_more=True))
    assert "the first 1 row; --limit shows more" in capsys.readouterr().err


@pytest.mark.parametrize("room", [10, 37, 80, 200])
def test_fitted_columns_fit(room: int) -> None:
    widths = fit([4, 9, 60, 25, 12], room)
    assert sum(widths) + 3 * len(widths) <= max(room, 3 + widths[0])


def test_a_hint_follows_its_message() -> None:
    assert message_of(CommandError("No.", "Yes.")) == "No.\nHINT: Yes."


def test_an_error_of_the_system_names_its_file() -> None:
    assert message_of(PermissionError(13, "Permission denied", "x.sql")) == "x.sql: Permission denied"


def test_an_error_that_nobody_foresaw_has_no_words() -> None:
    assert message_of(ZeroDivisionError("x")) is None


def test_carets_and_hints_stay() -> None:
    text = "[A.B] no. SQLSTATE: 42K0E\nLINE 1: SELECT a\n               ^\nHINT: at (x) write b."
    assert without_frames(text) == text


@pytest.mark.parametrize(
    ("module", "name", "text", "lost"),
    [
        ("grpc._channel", "_MultiThreadedRendezvous", "StatusCode.UNKNOWN", True),
        ("pyspark.errors.exceptions.connect", "SparkConnectGrpcException", "StatusCode.UNAVAILABLE", True),
        ("pyspark.errors.exceptions.connect", "SparkConnectGrpcException", "Application error processing RPC", True),
        ("pyspark.errors.exceptions.connect", "X", "Cannot call methods on a stopped SparkContext.", True),
        ("pyspark.errors.exceptions.captured", "X", "Cannot call methods on a stopped SparkContext.", False),
        ("pyspark.errors.exceptions.connect", "AnalysisException", "UNAVAILABLE is a column", False),
    ],
)
def test_a_server_that_is_gone_is_told_from_what_it_says(module: str, name: str, text: str, lost: bool) -> None:
    kind = type(name, (Exception,), {"__module__": module})
    assert is_lost(kind(text)) is lost
