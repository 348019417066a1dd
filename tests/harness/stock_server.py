"""A stock server of Spark Connect as a process of its own: PySpark's, with workers that have never heard of us."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.ports import free_port
from tests.harness.processes import running

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
#: Of the server and its workers; `make test-compat` names that of another release.
PYTHON = ROOT / os.environ.get("SQLX_TEST_SERVER_PYTHON", ".venv-server-4.2/bin/python")
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def stock_server(
    home: Path, master: str = "local[2]", conf: dict[str, str] | None = None, python: Path = PYTHON
) -> Iterator[str]:
    """A server for the block; its URL.

    Args:
        home: an empty folder for all that it writes.
        master: its Spark master.
        conf: further Spark configuration.
        python: its own and its workers'.
    """
    port, spark_home = free_port(), spark_home_of(python)
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={home}",
        "spark.local.dir": str(home / "local"),
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
        **(conf or {}),
    }
    pairs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [f"{spark_home}/bin/spark-submit", "--class", _CLASS, "--master", master, *pairs, "spark-internal"]
    environment = {"SPARK_HOME": spark_home, "PYSPARK_PYTHON": str(python)}
    with running(command, "Spark Connect server started at", home, environment, "server.log"):
        yield f"sc://localhost:{port}"


def spark_home_of(python: Path) -> str:
    """The Spark that comes with the PySpark of a Python."""
    command = [python, "-c", "import pyspark; print(pyspark.__path__[0])"]
    return subprocess.check_output(command, text=True, cwd="/").strip()
