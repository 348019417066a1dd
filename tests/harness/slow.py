"""A file system of the tests: ``slow:///…`` is the local disk with the manners of an object store."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

SOURCE = Path(__file__).parent / "java" / "SlowFileSystem.java"
needs_javac = pytest.mark.skipif(
    shutil.which("javac") is None, reason="it is compiled first: a JDK has to be on the PATH"
)


def slow_conf(folder: Path) -> dict[str, str]:
    """Compile it into a folder; the settings with which a session knows it."""
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    subprocess.run(["javac", "-nowarn", "-cp", jars, "-d", str(folder), str(SOURCE)], check=True, capture_output=True)
    return {"spark.driver.extraClassPath": str(folder), "spark.hadoop.fs.slow.impl": "SlowFileSystem"}
