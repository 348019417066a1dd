"""How long a stream stands still when its driver is killed: with another one standing by, and started anew.

A live AS OF join, whose state is millions of versions. Its driver is killed with ``kill -9`` again and again, and the
next one has to go on each time; all rows are counted in the end.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

ROWS = 1_000
_LOOK_SECONDS = 0.02
_MOST_SECONDS = 300.0
SCRIPT = """
CREATE TEMPORARY STREAM orders (id BIGINT, k BIGINT, ts TIMESTAMP)
  USING parquet OPTIONS (path '{folder}/orders', maxFilesPerTrigger '1') TIMESTAMP BY ts;
CREATE TEMPORARY VERSIONED TABLE rates (k BIGINT, at TIMESTAMP, rate BIGINT)
  USING parquet OPTIONS (path '{folder}/rates') KEYS (k) TIMESTAMP BY at;
CREATE STREAMING TABLE joined USING parquet OPTIONS (path '{folder}/joined') CHECKPOINT '{folder}/checkpoint' AS
SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k;
"""


class Run:
    """The streams of one folder, and the drivers that run them.

    Args:
        folder: of the data, the checkpoint and the table.
        keys: of the versioned table.
    """

    def __init__(self, folder: Path, keys: int) -> None:
        self.folder, self.keys, self.fed, self.started = folder, keys, 0, 0
        for name in ("orders", "rates"):
            (folder / name).mkdir()
        (folder / "stream.sql").write_text(SCRIPT.format(folder=folder), encoding="utf-8")
        times = pa.array([0] * keys, pa.timestamp("us", "UTC"))
        ids = pa.array(range(keys), pa.int64())
        pq.write_table(pa.table({"k": ids, "at": times, "rate": ids}), folder / "rates/0.parquet")

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

    def feed(self) -> int:
        """One more file of orders; the number of its micro-batch."""
        number, self.fed = self.fed, self.fed + 1
        ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
        keys = pa.array([id_ * 7919 % self.keys for id_ in range(number * ROWS, (number + 1) * ROWS)], pa.int64())
        times = pa.array([number * 1_000_000 + 5] * ROWS, pa.timestamp("us", "UTC"))
        draft = self.folder / f"orders/.{number}"
        pq.write_table(pa.table({"id": ids, "k": keys, "ts": times}), draft)
        draft.rename(self.folder / f"orders/{number:05}.parquet")
        return number

    def committed(self, number: int) -> None:
        """Wait until a micro-batch was committed."""
        wait((self.folder / "checkpoint/commits" / str(number)).exists)

    def wrong(self) -> int:
        """How many rows are missing, too many, or wrong: each has the rate of its key."""
        import duckdb

        written = ", ".join(f"'{path}'" for path in self._written())
        query = f"""
            SELECT count(*) FILTER (WHERE found.rate IS DISTINCT FROM wanted.rate), count(found.id)
            FROM (SELECT id, rate FROM read_parquet([{written}])) AS found
            FULL JOIN (SELECT id, k AS rate FROM '{self.folder}/orders/*.parquet') AS wanted USING (id)"""
        with duckdb.connect() as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0]) + abs(int(row[1]) - self.fed * ROWS)

    def _written(self) -> set[str]:
        """The files that Spark's log of the table lists: others are of micro-batches that were not committed."""
        logs = [path for path in (self.folder / "joined/_spark_metadata").iterdir() if path.name[0].isdigit()]
        lines = [line for path in logs for line in path.read_text().splitlines()[1:]]
        return {json.loads(line)["path"].removeprefix("file://") for line in lines}


def wait(is_so: Callable[[], bool]) -> None:
    """Look until it is so."""
    ends = time.monotonic() + _MOST_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise TimeoutError
        time.sleep(_LOOK_SECONDS)


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
        ordered = sorted(seconds)
        p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        table.add_row(name, f"{statistics.median(ordered):.1f}", f"{p95:.1f}", f"{ordered[-1]:.1f}", str(len(ordered)))
    console.print(table)
    console.print(f"{run.fed * ROWS:,} rows, {wrong} of them missing, doubled or wrong")


if __name__ == "__main__":
    typer.run(main)
