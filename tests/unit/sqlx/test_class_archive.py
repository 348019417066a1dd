"""The archive of Spark's classes: where it is, when a start takes it, and what is said where there can be none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from sqlx.cli.app import app
from sqlx.errors import RunError
from sqlx.sessions import class_archive, java
from sqlx.sessions.java import JavaHome

JAVA = JavaHome(Path("/opt/java"), "17.0.15", "PATH")
OTHER = JavaHome(Path("/opt/other"), "17.0.15", "PATH")


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(class_archive.VARIABLE, raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Xss4m")


def made(java: JavaHome) -> Path:
    archive = class_archive.archive_of(java)
    assert archive is not None
    archive.parent.mkdir(exist_ok=True)
    archive.touch()
    return archive


def options(java: JavaHome) -> str:
    with class_archive.used(java):
        found = os.environ["SPARK_SUBMIT_OPTS"]
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Xss4m"
    return found


def test_each_java_has_its_own_and_takes_no_other(tmp_path: Path) -> None:
    archive = made(JAVA)
    assert archive.parent == tmp_path / "sqlx"
    assert options(JAVA).startswith(f"-Xss4m -XX:SharedArchiveFile={archive} ")
    assert options(OTHER) == "-Xss4m"


def test_the_environment_names_another_file_or_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made(JAVA)
    monkeypatch.setenv(class_archive.VARIABLE, "")
    assert options(JAVA) == "-Xss4m"
    monkeypatch.setenv(class_archive.VARIABLE, str(tmp_path / "own.jsa"))
    assert options(JAVA) == "-Xss4m"  # it is not there yet
    (tmp_path / "own.jsa").touch()
    assert f"={tmp_path / 'own.jsa'} " in options(JAVA)


def test_without_options_of_the_user_none_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    made(JAVA)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    with class_archive.used(JAVA):
        assert os.environ["SPARK_SUBMIT_OPTS"].startswith("-XX:SharedArchiveFile=")
    assert "SPARK_SUBMIT_OPTS" not in os.environ


def running(monkeypatch: pytest.MonkeyPatch, writes: bool, said: str = "") -> dict[str, str]:
    """In the place of the process that makes it; its environment."""
    found: dict[str, str] = {}

    def run(_: list[str], env: dict[str, str], **__: Any) -> SimpleNamespace:
        found.update(env)
        if writes:
            Path(env["SPARK_SUBMIT_OPTS"].rpartition("=")[2]).write_text("classes")
        return SimpleNamespace(returncode=0, stdout="", stderr=said)

    monkeypatch.setattr(subprocess, "run", run)
    return found


def test_it_is_made_by_a_process_that_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = running(monkeypatch, writes=True)
    monkeypatch.setattr(java, "find_java", lambda: JAVA)
    done = CliRunner().invoke(app, ["warm"])
    archive = class_archive.archive_of(JAVA)
    assert archive is not None
    assert (done.exit_code, archive.read_text(), list(archive.parent.iterdir())) == (0, "classes", [archive])
    assert str(archive) in done.output
    assert environment[class_archive.VARIABLE] == ""
    assert environment["SPARK_SUBMIT_OPTS"].startswith("-Xss4m -XX:ArchiveClassesAtExit=")
    assert environment["JAVA_HOME"] == "/opt/java"


def test_a_java_that_can_make_none_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    running(monkeypatch, writes=False, said="\nError: no base archive\n\n")
    with pytest.raises(RunError) as refused:
        class_archive.make(JAVA, tmp_path / "own.jsa")
    assert refused.value.condition == "JAVA_NO_CLASS_ARCHIVE"
    assert "Java 17.0.15 made no archive of Spark's classes: Error: no base archive." in str(refused.value)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"File exists|Not a directory"):
        class_archive.make(JAVA, tmp_path / "file" / "own.jsa")


def test_a_path_may_have_spaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "own cache.jsa"
    path.touch()
    monkeypatch.setenv(class_archive.VARIABLE, str(path))
    assert options(JAVA).startswith(f"-Xss4m '-XX:SharedArchiveFile={path}' ")


def test_who_wants_none_is_asked_to_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(class_archive.VARIABLE, "")
    monkeypatch.setattr(java, "find_java", lambda: JAVA)
    done = CliRunner().invoke(app, ["warm"])
    assert done.exit_code == 1
    assert "Unset SQLX_CLASS_ARCHIVE, or let it name a file." in done.output
