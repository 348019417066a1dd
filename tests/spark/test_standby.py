"""`sqlx run --stream --standby`: a driver dies, or sleeps, and another one goes on; no row is lost or doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sqlx.cli.app import app
from sqlx.errors import RunError
from sqlx.streaming.lease import Holder, Lease
from tests.harness.killing import WAITED, listed_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[2]
SCRIPT = """
CREATE TEMPORARY STREAM orders (id BIGINT, k BIGINT, ts TIMESTAMP)
  USING parquet OPTIONS (path '{folder}/orders', maxFilesPerTrigger '1') TIMESTAMP BY ts;
CREATE TEMPORARY VERSIONED TABLE rates (k BIGINT, at TIMESTAMP, rate BIGINT)
  USING parquet OPTIONS (path '{folder}/rates') KEYS (k) TIMESTAMP BY at;
CREATE STREAMING TABLE joined USING parquet OPTIONS (path '{folder}/joined') CHECKPOINT '{folder}/checkpoint' TASKS 2 AS
SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k;
"""
KEYS = (1, 2, 3)


class Process:
    """One `sqlx run`, with its JVM and workers as a group of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = self._start(folder, log)

    def _start(self, folder: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "sqlx", "run", "stream.sql", "--stream", "--standby", "--master", "local[2]"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SQLX_DEBUG": ""}
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True)

    def says(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.send(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("orders", "rates"):
        (tmp_path / name).mkdir()
    (tmp_path / "stream.sql").write_text(SCRIPT.format(folder=tmp_path), encoding="utf-8")
    times = pa.array([0] * len(KEYS), pa.timestamp("us", "UTC"))
    rates = {"k": pa.array(KEYS, pa.int64()), "at": times, "rate": pa.array([k * 10 for k in KEYS], pa.int64())}
    pq.write_table(pa.table(rates), tmp_path / "rates/0.parquet")
    return tmp_path


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[[str], Process]]:
    started: list[Process] = []

    def begin(name: str) -> Process:
        started.append(Process(folder, name))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


def feed(folder: Path, number: int) -> None:
    """One more file of orders, whole at once."""
    times = pa.array([number * 1_000_000 + 5] * len(KEYS), pa.timestamp("us", "UTC"))
    ids = pa.array([number * len(KEYS) + n for n in range(len(KEYS))], pa.int64())
    draft = folder / f"orders/.{number}"
    pq.write_table(pa.table({"id": ids, "k": pa.array(KEYS, pa.int64()), "ts": times}), draft)
    draft.rename(folder / f"orders/{number:05}.parquet")


def wait(what: Callable[[], bool], *processes: Process) -> None:
    """Until it is so; a test that waits for what never comes ends by its own time limit."""
    while not what():
        for process in processes:
            assert process.process.poll() is None, process.log.read_text(errors="replace")
        WAITED.wait(0.1)


def committed(folder: Path, number: int) -> Callable[[], bool]:
    return (folder / "checkpoint/commits" / str(number)).exists


def joined(folder: Path) -> list[tuple[int, int]]:
    """The rows that Spark's log of the table lists."""
    tables = [pq.read_table(path) for path in listed_files(folder / "joined")]
    return sorted((row["id"], row["rate"]) for table in tables for row in table.to_pylist())


def expected(files: int) -> list[tuple[int, int]]:
    return [(number * len(KEYS) + n, key * 10) for number in range(files) for n, key in enumerate(KEYS)]


def test_a_lease_passes_on_when_its_holder_falls_silent_or_gives_it_back(spark: SparkSession, tmp_path: Path) -> None:
    """Drivers of one process here; the tests of processes below take a minute each."""
    first, second, third = (Lease(spark, str(tmp_path)) for _ in range(3))
    nobody = list[Holder]()
    held = first.wait(nobody.append)
    assert (held.number, nobody) == (1, [])
    told: Queue[Holder] = Queue()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(second.wait, told.put)
        assert told.get() == held
        first.check()
        assert not waiting.done()
        first._stopped.set()  # as if its process had died, or slept
        assert waiting.result().number == 2
    with pytest.raises(RunError, match=r"LEASE\.LOST"):
        first.check()
    first.release()  # of what it has no more
    second.check()
    second.release()
    assert third.wait(nobody.append).number == 3
    assert nobody == []
    third.release()


@pytest.mark.full
def test_another_process_goes_on_where_one_is_killed(folder: Path, start: Callable[[str], Process]) -> None:
    feed(folder, 0)
    first = start("first")
    wait(lambda: first.says("Active"), first)
    second = start("second")
    wait(lambda: second.says("Standing by: process"), first, second)
    wait(committed(folder, 0), first, second)
    assert not second.says("Active")
    feed(folder, 1)
    first.kill()
    wait(committed(folder, 1), second)
    feed(folder, 2)
    wait(committed(folder, 2), second)
    assert joined(folder) == expected(3)


@pytest.mark.full
def test_one_that_wakes_up_again_cannot_commit(folder: Path, start: Callable[[str], Process]) -> None:
    feed(folder, 0)
    first = start("first")
    wait(committed(folder, 0), first)
    second = start("second")
    wait(lambda: second.says("Standing by: process"), first, second)
    feed(folder, 1)
    wait((folder / "checkpoint/offsets/1").exists, first, second)
    first.send(signal.SIGSTOP)  # in mid micro-batch: it is planned, and not committed
    assert not committed(folder, 1)()
    wait(committed(folder, 1), second)
    for number in range(2, 5):
        feed(folder, number)
    wait(committed(folder, 4), second)
    first.send(signal.SIGCONT)
    assert first.process.wait() == 1
    assert first.says("[LEASE.LOST]")
    assert not first.says("Traceback")
    feed(folder, 5)
    wait(committed(folder, 5), second)
    second.send(signal.SIGINT)
    second.process.wait()
    assert joined(folder) == expected(6)
    third = start("third")  # the lease was given back: nobody waits for a silence
    wait(lambda: third.says("Active"), third)
    assert not third.says("Standing by")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (SCRIPT, ["--warehouse", "w"], "--standby goes with neither --warehouse nor --remote"),
        (SCRIPT.replace("CREATE STREAMING", "CREATE OR REPLACE STREAMING"), [], "OR REPLACE would begin anew"),
        (SCRIPT.replace("CHECKPOINT '{folder}/checkpoint'", ""), [], "needs a CHECKPOINT that all processes see"),
        ("SELECT 1;\n" + SCRIPT, [], "holds definitions and streaming tables only"),
        (SCRIPT.split("CREATE STREAMING")[0], [], "There is nothing to stand by for"),
    ],
)
def test_what_cannot_stand_by_is_said(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    text: str,
    options: list[str],
    says: str,
) -> None:
    if not options:
        spark = request.getfixturevalue("spark").newSession()
        monkeypatch.setattr(spark, "stop", lambda: None)
        monkeypatch.setattr("sqlx.cli.start._start", lambda *_: spark)
    (folder / "stream.sql").write_text(text.format(folder=folder), encoding="utf-8")
    done = CliRunner().invoke(app, ["run", str(folder / "stream.sql"), "--stream", "--standby", *options])
    assert (done.exit_code, says in done.stderr) == (1, True), done.output
