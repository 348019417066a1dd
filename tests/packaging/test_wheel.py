"""What is installed elsewhere is whole: the wheel, built from the source distribution, holds all that runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

import sqlx

ROOT = Path(__file__).parents[2]
PACKAGES = ("sqlx", "udtf", "catalog")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel that was built out of it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as file:
        return message_from_string(file.read(f"sqlx_temporal-{sqlx.__version__}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as pip unpacks it, away from the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*command, str(wheel)], check=True, timeout=120)
    return folder


def run(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of what was installed; of the checkout it sees nothing."""
    code = f"import sys; sys.path.insert(0, {str(installed)!r}); import sqlx.cli; sys.exit(sqlx.cli.main())"
    command = [sys.executable, "-I", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=installed)


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        packed = set(file.namelist())
    needed = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in ROOT.joinpath(package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    stories = {f"sqlx/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("sql_examples/*.sql")}
    assert {f"{package}/py.typed" for package in PACKAGES} <= needed
    assert (needed | stories) - packed == set()
    assert not any("/tests/" in name or name.startswith(("tests/", "benchmarks/")) for name in packed)


def test_the_source_distribution_has_what_tests_and_demo_need(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    wanted = {"pyproject.toml", "LICENSE", "README.md", "Makefile", "CHANGELOG.md", ".ci/run", "tests/conftest.py"}
    assert wanted - names == set()
    assert "sql_examples/as_of_join.sql" in names


def test_the_metadata_says_what_it_is(metadata: Message) -> None:
    assert metadata["Name"] == "sqlx-temporal"
    assert metadata["Version"] == sqlx.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("License-File") == ["LICENSE"]
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"java", "demo", "connect", "notebook"} <= set(metadata.get_all("Provides-Extra", []))


def test_the_version_is_semantic() -> None:
    assert [part.isdigit() for part in sqlx.__version__.split(".")] == [True, True, True]


def test_what_is_installed_is_imported_and_runs(installed: Path) -> None:
    found = run(installed, "--version")
    assert found.stdout.startswith(f"sqlx {sqlx.__version__} (PySpark "), found.stderr
    case = ROOT / "tests/semantics/as_of_join/keys_in_using.slt"
    assert run(installed, "test", str(case)).returncode == 0


def test_the_doctor_of_what_is_installed_answers(installed: Path) -> None:
    done = run(installed, "doctor", "--json")
    assert {"Python", "Java", "pandas"} <= {check["check"] for check in json.loads(done.stdout)["checks"]}


def test_the_demo_finds_its_stories_in_what_is_installed(installed: Path) -> None:
    code = (
        "from sqlx.cli.demo import ACTS, STORIES; print(STORIES); assert all((STORIES / act).is_file() for act in ACTS)"
    )
    environ = os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=installed, env=environ)
    assert done.stdout.strip() == str(installed / "sqlx" / "sql_examples"), done.stderr
