from __future__ import annotations

import pytest
from typer.testing import CliRunner

from sqlx.cli.app import app
from sqlx.cli.serve import seconds_of
from sqlx.failures import CommandError
from tests.harness.ports import free_port


def run(*args: str, typed: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(app, ["serve", *args], input=typed)
    return done.exit_code, " ".join(done.output.split())


def test_a_user_is_added_from_a_pipe(tmp_path) -> None:
    file = str(tmp_path / "users")
    assert run("--users", file, "--add-user", "anna", typed="a long secret\n") == (0, f"{file}: added anna")
    code, said = run("--users", file, "--add-user", "anna", typed="a new secret\n")
    assert (code, said) == (0, f"{file}: changed the password of anna")
    assert run("--add-user", "anna")[0] == 1


def test_other_addresses_than_loopback_do_not_start_without_users() -> None:
    code, said = run("--thrift", "1", "--host", "0.0.0.0")
    assert code == 1
    assert "nothing says who may come in" in said


def test_check_says_what_does_not_answer() -> None:
    free = str(free_port())
    code, said = run("--check", "--thrift", free)
    assert (code, f"--thrift {free}: nothing takes connections" in said) == (1, True)
    assert run("--check")[0] == 1


@pytest.mark.parametrize("text", ["", "5 weeks", "-1", "soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="no length of time"):
        seconds_of(text)


def test_what_is_no_setting_is_refused() -> None:
    code, said = run("--thrift", "65000", "--conf", "x")
    assert (code, "--conf x: this is no setting" in said) == (1, True)
