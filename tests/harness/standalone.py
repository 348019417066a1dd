"""A standalone cluster on this machine: a master and workers as processes, each worker with a folder of its own."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING

from tests.harness.ports import free_port
from tests.harness.processes import running
from tests.harness.stock_server import spark_home_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST = "127.0.0.1"


@dataclass
class Cluster:
    """A master and its workers.

    Attributes:
        url: of the master.
        is_apart: each worker has an address of its own, as on machines of their own; Linux has them for a loopback.
        workers: each with all that it has started.
    """

    home: Path
    spark_home: str
    url: str
    cores: int
    stack: ExitStack
    is_apart: bool = False
    workers: list[Popen[bytes]] = field(default_factory=list)

    def add_worker(self) -> None:
        """Start one more."""
        number = len(self.workers)
        folder = self.home / f"worker{number}"
        folder.mkdir()
        size = ["--cores", str(self.cores), "--memory", "1g", "--work-dir", str(folder)]
        started = [
            f"{self.spark_home}/bin/spark-class",
            "org.apache.spark.deploy.worker.Worker",
            *_at(f"127.0.{number // 250}.{number % 250 + 2}" if self.is_apart else _HOST),
            *size,
            self.url,
        ]
        says = "Successfully registered with master"
        self.workers.append(
            self.stack.enter_context(running(started, says, folder, _environment(self.spark_home), "log"))
        )

    def kill_worker(self, number: int) -> None:
        """With its executor and the Python of that, as when a machine goes."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)
        self.workers[number].wait()


def _at(host: str) -> list[str]:
    return ["--host", host, "--webui-port", "0"]


def _environment(spark_home: str) -> dict[str, str]:
    return {"SPARK_HOME": spark_home, "SPARK_LOCAL_IP": _HOST}


@contextmanager
def cluster_of(
    home: Path, python: Path, workers: int = 3, cores: int = 1, *, is_apart: bool = False
) -> Iterator[Cluster]:
    """A cluster for the block.

    Args:
        home: an empty folder for all that it writes.
        python: the Python whose PySpark it is of.
        workers: how many.
        cores: of each.
        is_apart: see `Cluster`.
    """
    spark_home, port = spark_home_of(python), free_port()
    with ExitStack() as stack:
        master = [
            f"{spark_home}/bin/spark-class",
            "org.apache.spark.deploy.master.Master",
            *_at(_HOST),
            "--port",
            str(port),
        ]
        stack.enter_context(running(master, "elected leader", home, _environment(spark_home), "master.log"))
        found = Cluster(home, spark_home, f"spark://{_HOST}:{port}", cores, stack, is_apart)
        for _ in range(workers):
            found.add_worker()
        yield found


@contextmanager
def standalone(home: Path, python: Path, workers: int = 3, cores: int = 1) -> Iterator[str]:
    """The same; the URL of its master."""
    with cluster_of(home, python, workers, cores) as found:
        yield found.url
