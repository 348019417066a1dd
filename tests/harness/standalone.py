"""A standalone cluster on this machine: a master and workers as processes, each worker with a folder of its own."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.processes import running
from tests.harness.stock_server import free_port, spark_home_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def standalone(home: Path, python: Path, workers: int = 3, cores: int = 1) -> Iterator[str]:
    """A cluster for the block; the URL of its master.

    Args:
        home: an empty folder for all that it writes.
        python: the Python whose PySpark it is of.
        workers: how many.
        cores: of each.
    """
    spark_home, port = spark_home_of(python), free_port()
    environment = {"SPARK_HOME": spark_home, "SPARK_LOCAL_IP": "127.0.0.1"}
    start, classes = f"{spark_home}/bin/spark-class", "org.apache.spark.deploy"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    with ExitStack() as stack:
        master = [start, f"{classes}.master.Master", *where, "--port", str(port)]
        stack.enter_context(running(master, "elected leader", home, environment, "master.log"))
        url = f"spark://127.0.0.1:{port}"
        for number in range(workers):
            folder = home / f"worker{number}"
            folder.mkdir()
            size = ["--cores", str(cores), "--memory", "1g", "--work-dir", str(folder)]
            worker = [start, f"{classes}.worker.Worker", *where, *size, url]
            stack.enter_context(running(worker, "Successfully registered with master", folder, environment, "log"))
        yield url
