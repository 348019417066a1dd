"""`sqlx serve` under load: JDBC sessions at once that run extended queries, their errors, and the server's memory.

python -m benchmarks.serving [--seconds 300] [--sessions 20]

Each session asks the queries below in turns, checks every answer, and connects anew now and then. Before that one
session alone is timed, and after it the same queries in process, so that the table says what serving them costs.
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.report import RESULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

ORDERS, VERSIONS, KEYS = 20_000, 5_000, 500
_STATEMENTS_A_CONNECTION = 40
_ALONE_RUNS = 7
_SAMPLE_SECONDS = 1.0
_MB = 1 << 20
_BEGIN = "TIMESTAMP'2026-01-01'"
SETUP = (
    f"""CREATE TABLE orders USING parquet AS
        SELECT id, cast(id % {KEYS} AS INT) AS k, {_BEGIN} + make_dt_interval(0, 0, 0, id) AS ts
        FROM range({ORDERS})""",
    "CREATE VERSIONED TABLE rates (k INT, rate DOUBLE, at TIMESTAMP) KEYS (k) TIMESTAMP BY at",
    f"""INSERT INTO rates
        SELECT cast(id % {KEYS} AS INT), id, {_BEGIN} + make_dt_interval(0, 0, 0, 4 * id) FROM range({VERSIONS})""",
    "CREATE STREAM clicks FROM orders TIMESTAMP BY ts",
)
QUERIES = {
    "plain": "SELECT count(*), sum(id) FROM orders WHERE k < 100",
    "AS OF join": "SELECT count(*), sum(r.rate) FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k",
    "deduplication": "SELECT count(*), sum(id) FROM clicks DEDUPLICATE WITHIN INTERVAL 20 MINUTES BY (k)",
    "window, final": "SELECT count(*), sum(n) FROM (SELECT k, window(ts, '1 hour') AS w, count(*) AS n FROM clicks "
    "GROUP BY k, window(ts, '1 hour') GRACE PERIOD INTERVAL 5 MINUTES EMIT FINAL)",
    "current rows": "SELECT count(*), sum(rate) FROM rates",
}


class Server:
    """The server that is measured: a process as users start it."""

    def __init__(self, home: Path, port: int, memory: str) -> None:
        words = ["--thrift", str(port), "--warehouse", str(home / "warehouse"), "--memory", memory]
        with (home / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sqlx", "serve", *words], stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.port = port
        assert self.process.stdout is not None
        if not any(line.startswith("ready") for line in self.process.stdout):
            raise RuntimeError((home / "log").read_text())

    def memory(self) -> dict[str, float]:
        """Resident megabytes: of Java, of our Python beside it, and of Spark's Python workers."""
        found = {"java": 0.0, "python": 0.0, "workers": 0.0}
        own = psutil.Process(self.process.pid)
        for one in [own, *own.children(recursive=True)]:
            try:
                name = "python" if one.pid == own.pid else "java" if "java" in one.name() else "workers"
                found[name] += one.memory_info().rss / _MB
            except psutil.NoSuchProcess:
                continue
        return found

    def stop(self) -> int:
        """End it; its exit code."""
        self.process.terminate()
        return self.process.wait(120)


@dataclass
class Load:
    """What the sessions have done.

    Attributes:
        seconds: per query, how long each of its statements took.
        errors: the texts of those that failed, and of wrong answers.
        connections: how many sessions were opened.
        samples: the server's memory over time: seconds since the start, megabytes by process.
    """

    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in QUERIES})
    errors: list[str] = field(default_factory=list)
    connections: int = 0
    samples: list[tuple[float, dict[str, float]]] = field(default_factory=list)


def connect(port: int) -> Any:
    """A JDBC session, of sorts: PyHive speaks what drivers speak."""
    from pyhive import hive

    return hive.connect("127.0.0.1", port, auth="NONE", username="bench")


def ask(connection: Any, text: str) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    with connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []


def client(number: int, port: int, answers: dict[str, Any], load: Load, until: float) -> None:
    """One session after the other, until the time is over."""
    names = list(QUERIES)
    asked = number  # so that not all ask the same at once
    while time.monotonic() < until:
        try:
            connection = connect(port)
        except Exception as error:  # noqa: BLE001 - an error is what is counted
            load.errors.append(f"connect: {error}")
            continue
        load.connections += 1
        for _ in range(_STATEMENTS_A_CONNECTION):
            if time.monotonic() >= until:
                break
            name = names[asked % len(names)]
            asked += 1
            one(connection, name, answers[name], load)
        connection.close()


def one(connection: Any, name: str, answer: Any, load: Load) -> None:
    """One statement, timed and checked."""
    began = time.monotonic()
    try:
        found = ask(connection, QUERIES[name])
    except Exception as error:  # noqa: BLE001 - an error is what is counted
        load.errors.append(f"{name}: {error}"[:2000])
        return
    load.seconds[name].append(time.monotonic() - began)
    if found != answer:
        load.errors.append(f"{name}: {found} instead of {answer}")


def under_load(server: Server, sessions: int, seconds: float, answers: dict[str, Any]) -> Load:
    """All sessions at once."""
    load, began = Load(), time.monotonic()
    until = began + seconds
    threads = [
        threading.Thread(target=client, args=(n, server.port, answers, load, until), daemon=True)
        for n in range(sessions)
    ]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        load.samples.append((time.monotonic() - began, server.memory()))
        time.sleep(_SAMPLE_SECONDS)
    for thread in threads:
        thread.join(120)
        if thread.is_alive():
            load.errors.append("a session did not end")
    load.samples.append((time.monotonic() - began, server.memory()))
    return load


def alone(run: Callable[[str], Any]) -> dict[str, float]:
    """The median time of each query, asked one after the other."""
    medians = {}
    for name, text in QUERIES.items():
        times = []
        for _ in range(_ALONE_RUNS + 2):
            began = time.monotonic()
            run(text)
            times.append(time.monotonic() - began)
        medians[name] = statistics.median(times[2:])  # the first ones start workers and warm Java up
    return medians


def in_process(warehouse: Path, memory: str) -> dict[str, float]:
    """The same queries without a server between."""
    import sqlx

    spark = sqlx.session(
        conf={"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": memory},
        warehouse=str(warehouse),
    )
    logging.getLogger("sqlx").setLevel(logging.ERROR)  # the compiler's remarks, once a statement
    try:
        return alone(lambda text: spark.sql(text).collect())
    finally:
        spark.stop()


def memory_rows(load: Load) -> list[tuple[str, list[float]]]:
    """The mean memory in each fifth of the run, by process: what grows shows."""
    last = load.samples[-1][0]
    rows = []
    for name in ("java", "python", "workers"):
        fifths: list[list[float]] = [[] for _ in range(5)]
        for at, sample in load.samples:
            fifths[min(4, int(5 * at / last))].append(sample[name])
        rows.append((name, [statistics.mean(fifth) if fifth else 0.0 for fifth in fifths]))
    return rows


def report(console: Console, load: Load, served: dict[str, float], direct: dict[str, float]) -> None:
    """What was measured, as tables."""
    times = Table(
        "query", "in process ms", "served, alone ms", "overhead ms", "under load, median ms", "95 % ms", "count"
    )
    for name, found in load.seconds.items():
        quantiles = statistics.quantiles(found, n=20) if len(found) > 1 else [0.0] * 19
        cells = (direct[name], served[name], served[name] - direct[name], quantiles[9], quantiles[18])
        times.add_row(name, *(f"{1000 * cell:,.0f}" for cell in cells), f"{len(found):,}")
    console.print(times)
    memory = Table("resident MB in each fifth of the run", "1", "2", "3", "4", "5")
    for name, fifths in memory_rows(load):
        memory.add_row(name, *(f"{value:,.0f}" for value in fifths))
    console.print(memory)
    console.print(f"{load.connections} sessions opened, {len(load.errors)} errors")
    for error in load.errors[:5]:
        console.print(error.splitlines()[0], markup=False)


def main(words: Sequence[str] | None = None) -> int:
    """Measure; 1 where a statement failed."""
    parser = argparse.ArgumentParser(description="sqlx serve under load")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--port", type=int, default=20900)
    parser.add_argument("--memory", default="2g")
    chosen = parser.parse_args(words)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="sqlx-bench-serving-") as folder:
        home = Path(folder)
        server = Server(home, chosen.port, chosen.memory)
        try:
            with connect(server.port) as connection:
                for statement in SETUP:
                    ask(connection, statement)
                answers = {name: ask(connection, text) for name, text in QUERIES.items()}
                served = alone(lambda text: ask(connection, text))
            load = under_load(server, chosen.sessions, chosen.seconds, answers)
        finally:
            code = server.stop()
        facts = _facts(chosen, load, served, code)
        direct = in_process(home / "warehouse", chosen.memory)
    _keep(facts | {"in_process_s": direct})
    report(console, load, served, direct)
    return 1 if load.errors or code else 0


def _facts(chosen: argparse.Namespace, load: Load, served: dict[str, float], code: int) -> dict[str, Any]:
    """What was measured of the server; kept at once, since what follows takes minutes."""
    facts = {
        "seconds": chosen.seconds,
        "sessions": chosen.sessions,
        "errors": load.errors[:20],
        "error_count": len(load.errors),
        "connections": load.connections,
        "under_load_s": {name: statistics.quantiles(found or [0.0, 0.0], n=20) for name, found in load.seconds.items()},
        "statements": {name: len(found) for name, found in load.seconds.items()},
        "served_s": served,
        "memory_mb_by_fifth": dict(memory_rows(load)),
        "server_exit_code": code,
    }
    _keep(facts)
    return facts


def _keep(facts: dict[str, Any]) -> None:
    RESULTS.joinpath("serving.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
