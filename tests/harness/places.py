"""The product in a process of its own, at any place where Spark runs: what it answers there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.harness.stock_server import ROOT, spark_home_of

#: What it runs: every operator, bounded and live.
WHOLE = ROOT / "tests/spark/everywhere.py"


def run(python: Path, *command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command with our code and the PySpark of a Python, whatever the environment of the tests says.

    Args:
        python: whose PySpark it is.
        command: the program and its arguments.
        cwd: where.
        environment: variables of its own.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    home = {"SPARK_HOME": spark_home_of(python), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=own | home | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    """What a script of the tests has found, in its line ``FOUND …``."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    return dict(json.loads(lines[-1].removeprefix("FOUND ")))


def everywhere(
    folder: Path, python: Path, *where: str, warehouse: str = "", conf: dict[str, str] | None = None, **environment: str
) -> dict[str, object]:
    """What every operator answers.

    Args:
        folder: a new one, for its input.
        python: the driver's.
        where: ``--master URL``.
        warehouse: where its tables and checkpoints are; "" is in the folder.
        conf: further settings.
        environment: variables of its own.
    """
    folder.mkdir()
    settings = {"spark.sql.warehouse.dir": warehouse or str(folder / "warehouse"), "spark.ui.enabled": "false"}
    given = json.dumps(settings | (conf or {}))
    return found(run(python, python, WHOLE, folder, *where, "--conf", given, cwd=folder, **environment))
