"""The programs that Spark consists of: this Python, Java, and the Python of its workers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlx import java
from sqlx.doctor.finding import Finding

OLDEST, NEWEST = (3, 11), (3, 13)
"""The first and the last version of Python that the tests run on."""

_WORKERS_NEED = ("udtf", "pyarrow", "pandas", "numba")
_ASK = """
import importlib.util, json, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
print(json.dumps({"version": sys.version.split()[0], "missing": missing}))
"""
_UNSET = "Unset PYSPARK_PYTHON (sqlx then takes this Python, {own}), or set it to {own}."
_SECONDS_TO_ANSWER = 30


def python(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> Finding:
    """The Python that runs this.

    Args:
        version: its version; for tests.
    """
    text = ".".join(str(part) for part in version)
    found = f"{text} ({sys.executable})"
    if version[:2] < OLDEST:
        return Finding("Python", "problem", found, "sqlx needs Python 3.11 or newer: install it in one of those.")
    if version[:2] > NEWEST:
        return Finding(
            "Python", "warning", found, "sqlx is tested on Python 3.11 to 3.13; numba or PySpark may not run on this."
        )
    return Finding("Python", "ok", found)


def java_home(environ: Mapping[str, str]) -> Finding:
    """The Java that Spark will run on.

    Args:
        environ: where ``JAVA_HOME`` and ``PATH`` are looked up.
    """
    try:
        home = java.find_java(environ, java.PLACES)
    except java.JavaError as error:
        message, _, hint = str(error).partition("\nHINT: ")
        return Finding("Java", "problem", message, hint)
    found = f"{home.version} from {home.source}"
    if environ.get("JAVA_HOME") and home.source != "JAVA_HOME":
        remedy = f"Unset JAVA_HOME, or set it to a Java {' or '.join(str(n) for n in java.SUPPORTED)}."
        return Finding("Java", "warning", f"{found}; JAVA_HOME={environ['JAVA_HOME']} is none for Spark", remedy)
    return Finding("Java", "ok", found)


def workers_python(environ: Mapping[str, str]) -> Finding:
    """Whether the Python that Spark starts its workers with is like this one, and has what operators import.

    Args:
        environ: where ``PYSPARK_PYTHON`` is looked up.
    """
    check, given = "Python of workers", environ.get("PYSPARK_PYTHON", "")
    if not given:
        return Finding(check, "ok", "this Python (PYSPARK_PYTHON is not set)")
    remedy = _UNSET.format(own=sys.executable)
    program = shutil.which(given, path=environ.get("PATH", os.defpath))
    if program is None:
        return Finding(check, "problem", f"PYSPARK_PYTHON is {given}, and there is no such program", remedy)
    answer = _ask(program, environ)
    if answer is None:
        return Finding(check, "problem", f"PYSPARK_PYTHON is {given}, and it is no Python that runs", remedy)
    version, missing = str(answer["version"]), answer["missing"]
    own = sys.version.split()[0]
    if version.split(".")[:2] != own.split(".")[:2]:
        found = f"PYSPARK_PYTHON is {given}, a Python {version}; this one is {own}, and Spark needs two alike"
        return Finding(check, "problem", found, remedy)
    if missing:
        found = f"PYSPARK_PYTHON is {given}, which lacks {', '.join(missing)}"
        return Finding(check, "problem", found, f"{given} -m pip install sqlx-temporal, or: {remedy}")
    return Finding(check, "ok", f"{version} ({given})")


def _ask(program: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What a Python says about itself, from a folder where nothing of ours lies; None where it does not answer."""
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _SECONDS_TO_ANSWER, "check": True}
    try:
        done = subprocess.run([program, "-c", _ASK, *_WORKERS_NEED], env=dict(environ), cwd=Path.home(), **options)
        answer: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return answer
