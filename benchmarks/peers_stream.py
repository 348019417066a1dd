"""The live AS OF join beside its peers: Flink's temporal join, and Kafka Streams' join with a versioned table.

All of them read the same rows in the order of event time, on two cores, in a Java that has run the query before, over
few rows and over all of them: as often for each, until its compiler has little left to do, as in a query that runs for
days. What is compared is processor time, that of the compiler included. The peers read rows from a mapped file and add
their answers up. Ours read Parquet; once they are a whole streaming table, with its files written, and once they add
their answers up, too; both with their checkpoints. Answers have to be equal.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Clock
from benchmarks.stream_data import LARGE, Case, make
from benchmarks.stream_measure import LEFT_OUT, PARQUET, run_available, seconds_of, state_of
from benchmarks.stream_ways import OURS, RETENTION_US, StreamWays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.data import Inputs

TABLE, SUMMED = "sqlx, a streaming table", "sqlx, answers added up"

JAVA = Path(__file__).parent / "java"
PEERS = {
    "Flink 2.3, RocksDB": "flink-rocksdb",
    "Flink 2.3, states on the heap": "flink-hashmap",
    "Kafka Streams 4.4, no broker": "kafka-streams",
}
_MIX = np.uint64(0x9E3779B97F4A7C15)
#: What Flink asks of a Java that has modules.
_OPENS = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.util", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.time", "java.text")
]


@dataclass(frozen=True)
class Before:
    """How often each way runs in its process before what counts.

    Attributes:
        short: over a fiftieth of the rows; ours in as many micro-batches.
        whole: over all of them.
    """

    short: int
    whole: int


@dataclass(frozen=True)
class Run:
    """What one way cost.

    Attributes:
        way: its name.
        seconds, cpu_seconds: of a whole run.
        compiler_seconds: how long Java's compiler worked meanwhile; it is in `cpu_seconds` too.
        rows: that it read, of both sides.
        state_bytes: what it keeps: on disk, of ours in memory.
        answer: rows, matches and a sum.
    """

    way: str
    seconds: float
    cpu_seconds: float
    compiler_seconds: float
    rows: int
    state_bytes: int
    answer: str

    @property
    def rate(self) -> float:
        """Rows per second of processor time."""
        return self.rows / self.cpu_seconds


def mapped(inputs: Inputs, folder: Path) -> tuple[Path, Path, int]:
    """Both sides as files of four numbers a row: key, event time in microseconds, id, value; and how many rows."""
    total = 0
    paths = []
    for name, source, value in (("left", inputs.left, "qty"), ("right", inputs.right, "rate")):
        path = folder / f"{name}.bin"
        with path.open("wb") as target:
            for file in sorted(source.glob("*.parquet")):
                table = pq.read_table(file)
                rows = np.zeros((len(table), 4), np.int64)
                rows[:, 0] = table["k"].to_numpy()
                rows[:, 1] = table["ts"].cast(pa.int64()).to_numpy()
                rows[:, 2] = table["id"].to_numpy() if "id" in table.column_names else 0
                rows[:, 3] = table[value].to_numpy().view(np.int64)
                target.write(rows.tobytes())
                total += len(table)
        paths.append(path)
    return paths[0], paths[1], total


def build() -> str:
    """Compile the peers, and their class path."""
    subprocess.run(
        ["mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DincludeScope=runtime"], cwd=JAVA, check=True
    )
    return f"{JAVA}/target/peers-1.jar:{JAVA}/target/dependency/*"


def run_peer(way: str, classes: str, sides: tuple[Path, Path], rows: int, before: Before) -> Run:
    """Run one of them in a JVM of its own; the last of its runs counts."""
    command = ["java", "-Xmx6g", *_OPENS, "-cp", classes, "sqlx.peers.Peers", PEERS[way], *map(str, sides)]
    counts = map(str, (RETENTION_US, before.short, before.whole + 1))
    done = subprocess.run([*command, *counts], capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if len(found) <= before.whole:
        message = f"{way} has failed:\n{done.stderr[-3000:]}"
        raise RuntimeError(message)
    return Run(way=way, rows=rows, **json.loads(found[-1].removeprefix("RESULT ")))


def run_ours(inputs: Inputs, few: Inputs, folder: Path, rows: int, files: int, before: Before) -> list[Run]:
    """Ours with changelogs, the last run of each way: a streaming table, and the same rows added up as the peers do."""
    from benchmarks.spark_ways import session

    read = [few] * before.short + [inputs] * (before.whole + 1)
    spark = session()
    try:
        # Each run has a folder, kept until all are done: ext4 asks itself at each new file which were deleted of late.
        for number, of_run in enumerate(read):
            table = _run_once(spark, of_run, folder / f"table{number}", PARQUET)
        for number, of_run in enumerate(read):
            added = Added()
            summed = _run_once(spark, of_run, folder / f"summed{number}", added.add)
        answers, expected = folder / f"table{before.short + before.whole}/answer", Added()
        expected.add(spark.read.parquet(str(answers)))
        answer = sum_of(answers)
        found = answer if added == expected else f"{added} in place of {expected}"
    finally:
        spark.stop()
    runs = []
    for way, (progress, *used), of_way in ((TABLE, table, answer), (SUMMED, summed, found)):
        # Times of micro-batches leave the first ones out.
        seconds = sum(map(seconds_of, progress[LEFT_OUT:])) * files / (files - LEFT_OUT)
        runs.append(Run(way, seconds, *used, rows, state_of(progress[-1])[1], of_way))
    return runs


def _run_once(
    spark: SparkSession, inputs: Inputs, place: Path, sink: str | Callable[[DataFrame, int], None]
) -> tuple[list[Any], float, float]:
    """The progress, processor and compiler seconds of a run from a new checkpoint."""
    frame = StreamWays(spark, inputs, kept=place / "checkpoint/changelog").frame(OURS)
    compiler = spark._jvm.java.lang.management.ManagementFactory.getCompilationMXBean()
    compiled_ms = compiler.getTotalCompilationTime()
    with Clock() as clock:  # nobody looks at memory meanwhile, which costs processor time too
        progress = run_available(frame, place, sink)
    return progress, clock.cpu_seconds, (compiler.getTotalCompilationTime() - compiled_ms) / 1000


@dataclass
class Added:
    """Rows added up by Spark, micro-batch by micro-batch.

    Attributes:
        rows, matched: how many.
        hashes: of all rows, by exclusive or.
    """

    rows: int = 0
    matched: int = 0
    hashes: int = 0

    def add(self, batch: DataFrame, _number: int = 0) -> None:
        """Add the rows of a frame."""
        row = batch.selectExpr("count(*)", "count(rate)", "coalesce(bit_xor(xxhash64(id, rate)), 0)").first()
        assert row is not None, "an aggregate without groups has one"
        self.rows, self.matched, self.hashes = self.rows + row[0], self.matched + row[1], self.hashes ^ row[2]


def sum_of(answer: Path) -> str:
    """Rows, matches, and a sum that is equal for equal bags of rows: that of `Rows.Answer` in Java."""
    rows = matched = 0
    total = np.uint64(0)
    with np.errstate(over="ignore"):
        for file in answer.glob("*.parquet"):
            table = pq.read_table(file, columns=["id", "rate"])
            is_match = table["rate"].is_valid().to_numpy()
            bits = np.where(is_match, table["rate"].fill_null(0.0).to_numpy().view(np.uint64), np.uint64(0))
            total += (table["id"].to_numpy().astype(np.uint64) * _MIX ^ bits).sum(dtype=np.uint64)
            rows, matched = rows + len(table), matched + int(is_match.sum())
    return f"{rows}:{matched}:{int(total.astype(np.int64))}"


def chosen(names: list[str] | None) -> list[str]:
    """The peers of these names; all of them where none is named."""
    unknown = [name for name in names or () if name not in PEERS]
    if unknown:
        message = f"{unknown[0]!r} is none of: {'; '.join(PEERS)}"
        raise typer.BadParameter(message, param_hint="--peer")
    return names or list(PEERS)


def main(
    data: Annotated[Path, typer.Option(help="Where the data is kept between runs.")] = Path(".cache/benchmarks"),
    quick: Annotated[bool, typer.Option(help="A fiftieth of the rows.")] = False,
    rounds: Annotated[int, typer.Option(help="How often all run, in turns; of each the median run counts.", min=1)] = 1,
    short: Annotated[int, typer.Option(help="How often each has run over a fiftieth of them at first.", min=0)] = 20,
    warm: Annotated[int, typer.Option(help="How often each has run over all rows before what counts.", min=1)] = 2,
    peer: Annotated[list[str] | None, typer.Option(help=f"Only these beside ours: {'; '.join(PEERS)}.")] = None,
) -> None:
    """Run all of them on ten million rows, and print what each costs."""
    ways = chosen(peer)
    case: Case = LARGE.scaled(50) if quick else LARGE
    console, before = Console(), Before(short, warm)
    inputs, few = make(case, data), make(replace(case, batch_rows=max(1_000, case.batch_rows // 50)), data)
    with tempfile.TemporaryDirectory(prefix="peers_") as name:
        folder = Path(name)
        left, right, rows = mapped(inputs, folder)
        classes = build()
        found: list[list[Run]] = []
        for number in range(rounds):
            place = folder / str(number)
            runs = run_ours(inputs, few, place, rows, case.files, before)
            console.print(*runs)
            for way in ways:
                runs.append(run_peer(way, classes, (left, right), rows, before))
                console.print(runs[-1])
            found.append(runs)
    runs = [sorted(of_one, key=attrgetter("cpu_seconds"))[rounds // 2] for of_one in zip(*found, strict=True)]
    table = Table("way", "s", "CPU s", "compiler", "rows per CPU s", "of ours", "state MB", "answer")
    for run in runs:
        answer = "equal" if run.answer == runs[0].answer else f"WRONG {run.answer}"
        used = (f"{seconds:.1f}" for seconds in (run.seconds, run.cpu_seconds, run.compiler_seconds))
        shown = *used, f"{run.rate:,.0f}", f"{run.rate / runs[0].rate:.2f}"
        table.add_row(run.way, *shown, f"{run.state_bytes / 1e6:.0f}", answer)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
