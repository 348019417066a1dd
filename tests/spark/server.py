"""`sqlx serve` as a process of its own, as users run it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Any

import pyspark
import pytest

from tests.harness.ports import free_port

ROOT = Path(__file__).parent.parent.parent
_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_STOPS_WITHIN_SECONDS = 60
LOOK_SECONDS, _PATIENCE_SECONDS = 0.3, 90
#: Of a result, for clients of `Home`.
MOST_ROWS = 1000


class ServerProcess:
    """One life of a server.

    Args:
        home: its warehouse, its log and what else it needs.
        options: of the command line, without ports and warehouse.
        thrift: the port for JDBC; None is any.
    """

    def __init__(self, home: Path, *options: str, thrift: int | None = None) -> None:
        self.home, self.thrift, self.connect, self.health = home, thrift or free_port(), free_port(), free_port()
        ports = {"--thrift": self.thrift, "--connect": self.connect, "--health": self.health}
        given = [text for option, port in ports.items() for text in (option, str(port))]
        given += ["--warehouse", str(home / "warehouse"), "--memory", "1500m"]
        given += [f"--conf=spark.{setting}" for setting in ("master=local[2]", "sql.shuffle.partitions=2")]
        with (home / "log").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sqlx", "serve", *given, *options],
                cwd=home,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.said = self._until_ready()

    def _until_ready(self) -> list[str]:
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(" ".join(line.split()))
            if line.startswith("ready"):
                return said
        raise AssertionError((said, self.log))

    @property
    def log(self) -> str:
        """What it has written to stderr."""
        return (self.home / "log").read_text()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def kill(self) -> None:
        """As if its machine went: Java and the workers too."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self.stop()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            return self._process.wait(_STOPS_WITHIN_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()


def rows(connection: Any, statement: str) -> list[tuple[Any, ...]]:
    """What a statement gives over a DB-API connection; () where it gives nothing."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []


def refusal(run: Any, *args: Any) -> str:
    """The text of the error that a call raises; each client has errors of its own."""
    with pytest.raises(Exception) as refused:  # noqa: PT011
        run(*args)
    return str(refused.value)


def java_tool(name: str) -> str:
    """A program of the Java that is in use."""
    from sqlx.sessions.java import use_java

    use_java()
    return str(Path(os.environ["JAVA_HOME"]) / "bin" / name)


def java(*words: str) -> list[str]:
    """The command line of a Java program that Spark's jars hold."""
    return [java_tool("java"), "-cp", str(_SPARK_JARS / "*"), *words]


class Home:
    """A server without users, which may begin another life; its clients share a folder with it."""

    def __init__(self, path: Path, *options: str, thrift: int | None = None) -> None:
        self.path = path
        self._options = ("--max-rows", str(MOST_ROWS), "--folder", str(path / "shared"), *options)
        (path / "shared").mkdir(exist_ok=True)
        self.server = self.start(thrift)

    def start(self, thrift: int | None = None) -> ServerProcess:
        self.server = ServerProcess(self.path, *self._options, thrift=thrift)
        return self.server

    def client(self, **settings: str) -> Any:
        """A JDBC client, of sorts: PyHive speaks what drivers speak."""
        from pyhive import hive

        return closing(hive.connect("127.0.0.1", self.server.thrift, auth="NONE", username="x", configuration=settings))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement gives in a session of its own."""
        with self.client() as client:
            return rows(client, statement)

    def until(self, statement: str, expected: list[tuple[Any, ...]]) -> None:
        """Wait until a statement gives these rows."""
        deadline, waited = time.monotonic() + _PATIENCE_SECONDS, Event()
        while (found := sorted(self.rows(statement))) != expected and time.monotonic() < deadline:
            waited.wait(LOOK_SECONDS)
        assert found == expected
