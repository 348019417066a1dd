"""A real Kafka broker of one node for tests and benchmarks: started, stopped, killed and started again.

``python -m benchmarks.kafka_broker`` fetches what it needs (44 MB, once) into ``.cache/kafka-broker``.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import uuid
from pathlib import Path
from threading import Event

from sqlx.connectors.jars import Artifact, fetch
from sqlx.sessions.java import use_java
from tests.harness.ports import free_port

ROOT = Path(__file__).parent.parent
JARS = ROOT / ".cache" / "kafka-broker"
_LISTED = Path(__file__).with_suffix(".txt")
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:{controller}
listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}
advertised.listeners=PLAINTEXT://localhost:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={home}/data
num.partitions=2
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
log.cleaner.backoff.ms=200
"""


def broker_artifacts() -> tuple[Artifact, ...]:
    """The broker and all that it needs, with their checksums."""
    lines = (line.split() for line in _LISTED.read_text(encoding="utf-8").splitlines())
    return tuple(Artifact(coordinates, checksum) for coordinates, checksum in lines)


def fetch_broker() -> Path:
    """The folder of the broker's jars; what is missing is fetched."""
    fetch(broker_artifacts(), JARS)
    return JARS


class Broker:
    """One broker with its data in a folder; it keeps its port and its data when it is started again.

    Args:
        home: an empty folder, or one of a broker before.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port, self._controller = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = fetch_broker()
        use_java()
        self._format()

    @property
    def address(self) -> str:
        """What clients take as bootstrap servers."""
        return f"localhost:{self.port}"

    def start(self) -> Broker:
        """Start it, and wait until it takes connections.

        Raises:
            RuntimeError: it ended, or does not answer within a minute.
        """
        command = self._java("kafka.Kafka", str(self._properties))
        with self.home.joinpath("broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.home)
        waited, left = Event(), _START_SECONDS
        while not _answers(self.port):
            if self._process.poll() is not None or left <= 0:
                msg = f"the broker did not start: {self.home}/broker.log"
                raise RuntimeError(msg)
            waited.wait(_LOOK_SECONDS)
            left -= _LOOK_SECONDS
        return self

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Crash, and come back with the same data on the same port."""
        self.kill()
        self.start()

    def remove(self) -> None:
        """Stop it and delete its data."""
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def _end(self, how: int) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    @property
    def _properties(self) -> Path:
        return self.home / "server.properties"

    def _format(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        text = _PROPERTIES.format(port=self.port, controller=self._controller, home=self.home)
        self._properties.write_text(text, encoding="utf-8")
        identity = uuid.uuid4().hex[:22]
        arguments = ("format", "--ignore-formatted", "-t", identity, "-c", str(self._properties))
        subprocess.run(
            self._java("kafka.tools.StorageTool", *arguments), check=True, capture_output=True, cwd=self.home
        )

    def _java(self, main: str, *arguments: str) -> list[str]:
        java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
        return [str(java), "-Xmx512m", "-cp", f"{self._jars}/*", main, *arguments]


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("localhost", port), timeout=1):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    print(fetch_broker())
