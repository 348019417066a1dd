"""Processes that run streaming tables and are killed: drivers and their Python workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAITED = threading.Event()
_ROOT = Path(__file__).parents[2]


def listed_files(table: Path) -> set[str]:
    """The files of a table that the log of Spark's sink lists."""
    logs = [path for path in (table / "_spark_metadata").iterdir() if path.name[0].isdigit()]
    lines = [line for path in logs for line in path.read_text().splitlines()[1:]]
    return {urlsplit(json.loads(line)["path"]).path for line in lines}


class Driver:
    """One life of the process."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.folder = folder
        script = _ROOT / "tests/spark/kill_driver.py"
        with (folder / "driver.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), str(folder), *args],
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                env=os.environ | {"PYTHONPATH": str(_ROOT)},
            )

    @property
    def log(self) -> str:
        """The end of what it has printed."""
        return (self.folder / "driver.log").read_text()[-3000:]

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """The Python driver and its JVM, at once: the JVM would wind up in good order without its parent."""
        if self.is_alive:
            for pid in [self.process.pid, *descendants(self.process.pid)]:
                kill(pid)
        self.process.wait()

    def workers(self) -> list[int]:
        """Python workers: children of the daemons that the JVM has started."""
        daemons = [pid for pid in descendants(self.process.pid) if "pyspark.daemon" in command(pid)]
        return [pid for pid in daemons if parent(pid) in daemons]


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (OSError, IndexError):
        return 0


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def descendants(pid: int) -> Iterator[int]:
    """All processes below one."""
    parents = {int(path.name): parent(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = {pid}
    while more := {child for child, above in parents.items() if above in found} - found:
        found |= more
    yield from found - {pid}


def finished(folder: Path) -> int:
    """How many micro-batches are done."""
    return len([path for path in (folder / "checkpoint" / "commits").glob("*") if path.name.isdigit()])


def warehouse(spark: SparkSession) -> Path:
    """The folder of the session's tables and of their checkpoints."""
    return Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))


def die_before_commit(checkpoint: Path) -> None:
    """As if a driver had died when the last micro-batch was in all its tables: Spark does not know that it is done."""
    last = max(
        (path for path in (checkpoint / "commits").glob("*") if path.name.isdigit()), key=lambda at: int(at.name)
    )
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
