"""How long a stream stands still when its driver is killed: with another one standing by, and started anew.

A live AS OF join, whose state is millions of versions. Its driver is killed with ``kill -9`` again and again, and the
next one has to go on each time; all rows are counted in the end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.live_join import JoinFiles, wait


class Run(JoinFiles):
    """The join's files, and the drivers that run it.

    Args:
        folder: of the data, the checkpoint and the table.
        keys: of the versioned table.
    """

    def __init__(self, folder: Path, keys: int) -> None:
        super().__init__(folder, keys)
        self.started = 0
        (folder / "stream.sql").write_text(";\n".join(self.statements), encoding="utf-8")

    def start(self) -> subprocess.Popen[bytes]:
        """One more driver."""
        self.started += 1
        command = [sys.executable, "-m", "sqlx", "run", "stream.sql", "--stream", "--standby"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        with self.log(self.started).open("wb") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=environment, start_new_session=True
            )

    def log(self, number: int) -> Path:
        """What the driver of that number says."""
        return self.folder / f"driver{number}.log"

    def says(self, text: str) -> None:
        """Wait until the driver that was started last says so."""
        wait(lambda: text in self.log(self.started).read_text(errors="replace"))


def kill(driver: subprocess.Popen[bytes]) -> None:
    """With its JVM and its workers."""
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def measure(run: Run, kills: int, console: Console) -> tuple[list[float], list[float]]:
    """Seconds from a kill to the first new row committed: with a driver standing by, and with one started then."""
    active = run.start()
    run.says("Active")
    run.committed(run.feed())
    standby, cold = [], []
    for number in range(kills):
        following = run.start()
        run.says("are in memory here")
        for _ in range(3):
            run.committed(run.feed())
        began = time.monotonic()
        kill(active)
        run.committed(run.feed())
        standby.append(time.monotonic() - began)
        active = following
        if number % 5 == 0:
            began = time.monotonic()
            kill(active)
            active = run.start()
            run.committed(run.feed())
            cold.append(time.monotonic() - began)
        console.print(f"kill {number + 1}: {standby[-1]:.1f} s; started anew {cold[-1]:.1f} s")
    kill(active)
    return standby, cold


def main(
    keys: Annotated[int, typer.Option(help="Versions in the state.", min=1_000)] = 2_000_000,
    kills: Annotated[int, typer.Option(help="How often the active driver is killed.", min=1)] = 20,
) -> None:
    """Kill the active driver again and again, and print how long the stream stood still."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="standby_") as folder:
        run = Run(Path(folder), keys)
        standby, cold = measure(run, kills, console)
        wrong = run.wrong()
    table = Table("from the kill to the first new row committed", "median s", "p95 s", "most s", "kills")
    for name, seconds in (("another driver stands by", standby), ("started anew", cold)):
        table.add_row(name, *(f"{value:.1f}" for value in report.spread_of(seconds)), str(len(seconds)))
    console.print(table)
    console.print(f"{run.fed * run.rows:,} rows, {wrong} of them missing, doubled or wrong")


if __name__ == "__main__":
    typer.run(main)
