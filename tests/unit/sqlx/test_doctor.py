from __future__ import annotations

import json
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from typer.testing import CliRunner

import sqlx.sessions.java
from sqlx import doctor as checks_of
from sqlx.cli.app import app
from sqlx.connectors.jars import CONNECTORS

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine with one right Java, and nothing of this one's settings."""
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "SQLX_JARS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "java", "17.0.15")))


def java(path: Path, version: str) -> Path:
    program(path / "bin" / "java", "")
    path.joinpath("release").write_text(f'JAVA_VERSION="{version}"\n')
    return path


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def doctor(*options: str) -> tuple[int, dict[str, dict[str, str]]]:
    result = CliRunner().invoke(app, ["doctor", "--json", *options])
    return result.exit_code, {check["check"]: check for check in json.loads(result.stdout)["checks"]}


def only_java(monkeypatch: pytest.MonkeyPatch, home: Path | None) -> None:
    monkeypatch.setattr(sqlx.sessions.java, "find_spec", lambda _: None)
    monkeypatch.setattr(sqlx.sessions.java, "PLACES", ())
    monkeypatch.setenv("PATH", "/nowhere" if home is None else str(home / "bin"))
    monkeypatch.delenv("JAVA_HOME")


def test_no_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    only_java(monkeypatch, None)
    code, checks = doctor()
    assert (code, checks["Java"]["status"]) == (1, "problem")
    assert "there is no Java" in checks["Java"]["found"]
    assert "Install Java 17 or 21 and set JAVA_HOME" in checks["Java"]["remedy"]


def test_a_wrong_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    only_java(monkeypatch, java(tmp_path / "old", "11.0.2"))
    code, checks = doctor()
    assert (code, checks["Java"]["status"]) == (1, "problem")
    assert "found only: 11.0.2 (PATH)" in checks["Java"]["found"]
    assert "Install Java 17 or 21" in checks["Java"]["remedy"]


def test_a_java_home_that_is_passed_over_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right, wrong = java(tmp_path / "right", "21.0.1"), java(tmp_path / "wrong", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(wrong))
    monkeypatch.setenv("PATH", str(right / "bin"))
    code, checks = doctor()
    assert (code, checks["Java"]["status"]) == (0, "warning")
    assert checks["Java"]["found"] == f"21.0.1 from PATH; JAVA_HOME={wrong} is none for Spark"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Puts a distribution of a given version before the one that is installed."""

    def put(name: str, version: str) -> None:
        folder = tmp_path / "site" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        folder.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))

    return put


def test_pandas_3_is_named(installed: Any) -> None:
    installed("pandas", "3.0.1")
    code, checks = doctor()
    assert (code, checks["pandas"]["status"]) == (1, "problem")
    assert checks["pandas"]["found"] == "3.0.1; PySpark does not work with pandas 3"
    assert checks["pandas"]["remedy"] == "pip install 'pandas>=2.2,<3'"


@pytest.mark.parametrize(
    ("version", "code"), [("3.5.8", 1), ("4.0.1", 0), ("4.1.2", 0), ("4.2.0", 0), ("4.3.0", 0), ("4.4.0", 1)]
)
def test_the_spark_that_is_supported(installed: Any, version: str, code: int) -> None:
    installed("pyspark", version)
    assert doctor()[0] == code


def test_a_package_that_is_not_there_is_named() -> None:
    (finding,) = checks_of.needed({"no-such-package": SpecifierSet(">=1")})
    assert (finding.status, finding.remedy) == ("problem", "pip install 'no-such-package>=1'")


def test_what_is_checked_is_what_the_package_asks_for() -> None:
    project = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
    written = {(found := Requirement(line)).name: found.specifier for line in project["dependencies"]}
    assert checks_of.bounds() == {name: written[name] for name in checks_of.WHY}
    listed = {Requirement(line).name for line in project["optional-dependencies"]["connect"]}
    assert listed == set(checks_of.CONNECT)


def test_a_spark_home_of_another_version_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("jars").mkdir()
    tmp_path.joinpath("jars", "spark-core_2.13-3.5.1.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    code, checks = doctor()
    assert (code, checks["SPARK_HOME"]["status"]) == (1, "problem")
    assert checks["SPARK_HOME"]["found"].startswith("Spark 3.5.1, and PySpark is 4.")
    assert checks["SPARK_HOME"]["remedy"].startswith("Unset SPARK_HOME")


def test_another_python_for_workers_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program(tmp_path / "python3.9", """echo '{"version": "3.9.18", "missing": []}'""")
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    code, checks = doctor()
    found = checks["Python of workers"]
    assert (code, found["status"]) == (1, "problem")
    assert found["found"].startswith(f"PYSPARK_PYTHON is {other}, a Python 3.9.18; this one is ")
    assert found["remedy"].startswith("Unset PYSPARK_PYTHON")
    assert found["remedy"].endswith(f"or set it to {sys.executable}.")


def test_a_python_for_workers_without_our_package_is_named() -> None:
    bare = getattr(sys, "_base_executable", sys.executable)  # the one that the virtual environment was made from
    finding = checks_of.workers_python({"PYSPARK_PYTHON": bare, "PATH": ""})
    assert finding.status == "problem"
    assert "which lacks udtf" in finding.found
    assert finding.remedy.startswith(f"{bare} -m pip install sqlx-temporal")


def test_a_python_for_workers_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    code, checks = doctor()
    assert (code, checks["Python of workers"]["status"]) == (1, "problem")
    assert "there is no such program" in checks["Python of workers"]["found"]


def test_this_python_may_run_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert doctor()[1]["Python of workers"]["status"] == "ok"


@pytest.mark.parametrize(("version", "status"), [((3, 10, 1), "problem"), ((3, 13, 0), "ok"), ((3, 15, 0), "warning")])
def test_the_python_that_is_supported(version: tuple[int, ...], status: str) -> None:
    assert checks_of.python(version).status == status


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        code, checks = doctor("--port", str(number))
    found = checks[f"port {number}"]
    assert (code, found["status"], found["found"]) == (1, "problem", "in use by another process")
    assert f"lsof -i :{number}" in found["remedy"]
    assert doctor("--port", str(number))[0] == 0


def test_a_default_port_in_use_is_a_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        finding = checks_of.port(server.getsockname()[1], asked=False)
    assert finding.status == "warning"


def test_a_missing_connector_is_named(tmp_path: Path) -> None:
    code, checks = doctor("--connector", "kafka")
    found = checks["connector kafka"]
    assert (code, found["status"]) == (1, "problem")
    assert found["found"].startswith("spark-sql-kafka-0-10_2.13-")
    assert f"is not in {tmp_path}" in found["found"]
    assert found["remedy"] == "sqlx connectors fetch kafka"
    assert checks["connector delta"]["status"] == "warning"


def test_a_connector_whose_jars_are_there_is_ok(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQLX_JARS", str(tmp_path))
    for artifact in CONNECTORS["kafka"].artifacts:
        tmp_path.joinpath(artifact.file).touch()
    code, checks = doctor("--connector", "kafka")
    assert (code, checks["connector kafka"]["found"]) == (0, f"in {tmp_path}")


def test_a_connector_among_the_jars_of_spark_is_ok(tmp_path: Path) -> None:
    jar = tmp_path / "jars" / "spark-avro_2.13-4.2.0.jar"
    jar.parent.mkdir()
    jar.touch()
    assert checks_of.connector("avro", {"SPARK_HOME": str(tmp_path)}).found == str(jar)


def test_an_unknown_connector_is_refused() -> None:
    result = CliRunner().invoke(app, ["doctor", "--connector", "oracle"])
    assert result.exit_code == 1
    assert "There are: kafka, avro, delta, iceberg." in result.stderr


HOLD = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="locks of files are seen on POSIX only")
def test_a_warehouse_in_use_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "metastore_db" / "dbex.lck"
    lock.parent.mkdir()
    lock.touch()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], **pipes) as holder:  # type: ignore[call-overload]
        assert holder.stdout.readline() == b"held\n"
        code, checks = doctor("--warehouse", str(tmp_path))
        holder.stdin.close()
    assert (code, checks["warehouse"]["status"]) == (1, "problem")
    assert "in use by another process" in checks["warehouse"]["found"]
    assert "sqlx serve --warehouse" in checks["warehouse"]["remedy"]
    assert doctor("--warehouse", str(tmp_path))[1]["warehouse"]["status"] == "ok"


def test_a_warehouse_that_is_a_file_is_named(tmp_path: Path) -> None:
    tmp_path.joinpath("file").touch()
    assert doctor("--warehouse", str(tmp_path / "file"))[1]["warehouse"]["status"] == "problem"


def test_a_machine_that_has_all_has_no_problem() -> None:
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "sqlx can run here" in result.stdout


def test_a_client_without_java_needs_neither_java_nor_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": None, "pyspark-client": Version("4.2.0")}
    real = checks_of.version_of
    monkeypatch.setattr(checks_of, "version_of", lambda name: versions[name] if name in versions else real(name))
    found = {finding.check: finding for finding in checks_of.examine(checks_of.Wanted(), {})}
    assert (found["pyspark-client"].status, found["pyspark-client"].found) == ("ok", "4.2.0")
    assert not {"pyspark", "Java", "connector kafka"} & set(found)
    versions["pyspark-client"] = Version("3.5.0")
    assert checks_of.worst(checks_of.needed()) == "problem"
