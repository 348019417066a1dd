"""A stock server of Spark Connect as a process of its own: PySpark's, with workers that have never heard of us."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-server/bin/python"
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED = "Spark Connect server started at"


@contextmanager
def stock_server(home: Path, master: str = "local[2]", conf: dict[str, str] | None = None) -> Iterator[str]:
    """A server for the block; its URL.

    Args:
        home: an empty folder for all that it writes.
        master: its Spark master.
        conf: further Spark configuration.
    """
    port = _free_port()
    where = subprocess.check_output([PYTHON, "-c", "import pyspark; print(pyspark.__path__[0])"], text=True, cwd="/")
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
    spark_home = where.strip()
    command = [f"{spark_home}/bin/spark-submit", "--class", _CLASS, "--master", master, *pairs, "spark-internal"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    environment |= {"SPARK_HOME": spark_home, "PYSPARK_PYTHON": str(PYTHON), "TZ": "UTC"}
    process = subprocess.Popen(
        command, env=environment, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _await(process, home / "server.log")
        yield f"sc://localhost:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
        if process.stderr is not None:
            process.stderr.close()


def _await(process: subprocess.Popen[bytes], log: Path) -> None:
    """Read the server's log until it says that it has started; what comes later goes into the file."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line.decode(errors="replace"))
        if _STARTED in seen[-1]:
            break
    else:
        message = "the server did not start:\n" + "".join(seen[-30:])
        raise AssertionError(message)
    # The pipe must not fill up.
    Thread(target=_drain, args=(process.stderr, log), daemon=True).start()


def _drain(pipe: IO[bytes], log: Path) -> None:
    with log.open("ab") as out:
        for line in pipe:
            out.write(line)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])
