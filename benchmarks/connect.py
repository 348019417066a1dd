"""A client of Spark Connect beside a session with a JVM: the same AS OF joins, and what a statement costs to compile.

    python -m benchmarks.connect               10 million rows, two rounds: about ten minutes on two cores
    python -m benchmarks.connect --quick       small data, one round

Both are PySpark 4.2 with two cores and a driver of 4 GB, each in a process of its own and in turns; the client has no
Java, and the workers of its server have never heard of us (`.ci/setup-connect` makes both). Both write Parquet, and
DuckDB compares what they wrote.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import duckdb
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.data import CASES, Inputs, make

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).parents[1]
_PYTHONS = {"JVM": _ROOT / ".venv-4.2/bin/python", "Connect": _ROOT / ".venv-connect/bin/python"}
_QUICK_DIVISOR, _RUNS, _STATEMENTS, _CHARACTERS = 100, 3, 30, 500
_JOIN = "SELECT l.k, l.ts, l.id, l.qty, r.rate FROM l LEFT ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k"


def one(way: str, inputs: Inputs, output: Path) -> dict[str, object]:
    """Seconds of each run, and milliseconds of each compilation; in a process of the way's own Python."""
    import sqlx

    if way == "JVM":
        conf = {"spark.driver.memory": "4g", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
        spark = sqlx.session(master="local[2]", conf=conf)
        found = _measured(spark, inputs, output)
        spark.stop()
        return found
    from tests.harness.stock_server import stock_server

    with tempfile.TemporaryDirectory() as home, stock_server(Path(home), conf={"spark.driver.memory": "4g"}) as url:
        spark = sqlx.session(remote=url)
        found = _measured(spark, inputs, output)
        spark.stop()
        return found


def _measured(spark: SparkSession, inputs: Inputs, output: Path) -> dict[str, object]:
    spark.read.parquet(str(inputs.left)).createOrReplaceTempView("l")
    spark.read.parquet(str(inputs.right)).createOrReplaceTempView("r")
    seconds = [
        _seconds(lambda: spark.sql(_JOIN).write.mode("overwrite").parquet(str(output))) for _ in range(1 + _RUNS)
    ]
    padded = f"{_JOIN} WHERE l.id > 0"
    padded += " AND l.qty IS NOT NULL" * ((_CHARACTERS - len(padded)) // len(" AND l.qty IS NOT NULL"))
    compiled = [_seconds(lambda: spark.sql(padded)) * 1_000 for _ in range(_STATEMENTS)]
    return {"seconds": seconds[1:], "compiled_ms": compiled[3:], "characters": len(padded)}


def _seconds(run: object) -> float:
    start = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - start


def _checksum(folder: Path) -> tuple[object, ...]:
    query = f"SELECT count(*), sum(id), sum(hash(k, ts, id, qty, rate)) FROM '{folder}/*.parquet'"
    return duckdb.sql(query).fetchall()[0]


def _run(way: str, inputs: Inputs) -> tuple[dict[str, list[float]], tuple[object, ...]]:
    """One round of a way, and the checksum of what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [way, str(inputs.left), str(inputs.right), f"{folder}/rows"]
        command = [str(_PYTHONS[way]), "-m", "benchmarks.connect", *arguments]
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3_000:]
        return json.loads(done.stdout.splitlines()[-1]), _checksum(Path(folder) / "rows")


def _row(name: str, rounds: int, divisor: int) -> tuple[str, ...]:
    """The line of a case."""
    case = next(case for case in CASES if case.name == name)
    inputs = make(case.scaled(divisor) if divisor > 1 else case, _ROOT / ".cache/benchmarks")
    found = [(way, *_run(way, inputs)) for _ in range(rounds) for way in _PYTHONS]
    assert len({checksum for _, _, checksum in found}) == 1, f"the answers differ: {found}"
    taken, compiled = (
        [statistics.median(value for own, one, _ in found if own == way for value in one[what]) for way in _PYTHONS]
        for what in ("seconds", "compiled_ms")
    )
    times = [f"{seconds:.2f} s" for seconds in taken]
    return (name, *times, f"{taken[1] / taken[0]:.2f}", *(f"{ms:.0f} ms" for ms in compiled))


def main(quick: Annotated[bool, typer.Option("--quick", help="Small data, one round.")] = False) -> None:
    """Measure both ways in turns, and print a table."""
    table = Table("case", "JVM", "Connect", "ratio", "JVM compiles", "Connect compiles")
    for name in ("uniform", "small right"):
        table.add_row(*_row(name, rounds=1 if quick else 2, divisor=_QUICK_DIVISOR if quick else 1))
    Console().print(table)


if __name__ == "__main__":
    if len(sys.argv) > 2:  # a process of one way
        way, left, right, output = sys.argv[1:]
        sys.stdout.write(json.dumps(one(way, Inputs(Path(left), Path(right)), Path(output))) + "\n")
    else:
        typer.run(main)
