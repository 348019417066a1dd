"""WHEN FULL SPILL: the memory of the operator with 20 times more open windows than its limit.

No Spark: the operator of one task takes batches in a process of its own. Each batch has other keys, a fiftieth of
those that have a window open at a time. Sessions close as they were opened, so many with each batch; tumbling windows
all close with one batch, whose result is then as large as all that was open, wherever it lay before.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import in_own_process
from benchmarks.report import Bar, ratio

if TYPE_CHECKING:
    from udtf.operators.window_aggregate.config import WindowAggregateConfig

HEADER = (
    "windows",
    "run",
    "most open",
    "limit",
    "most spilled",
    "s per batch",
    "operator MB",
    "process MB",
    "of these grown MB",
    "rows given out",
    "answer",
)
TIMES = 20
AT_LIMIT, BEYOND, UNLIMITED = "at the limit", f"{TIMES} times the limit, SPILL", f"{TIMES} times the limit, without one"
SESSIONS, TUMBLING = "session", "tumbling"
_SIZE_US = 600_000_000
_GRACE_US = 5_000_000
_START_US = 1_700_000_400_000_000  # a tumbling window begins here
_BATCHES_PER_SIZE = 50  # what one batch brings has to fit the limit: a fiftieth of what is open
_BATCHES = 3 * _BATCHES_PER_SIZE
_SPAN_US = _SIZE_US // _BATCHES_PER_SIZE
_HASH_FACTOR = np.int64(0x9E3779B97F4A7C1)
_PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class Spilled:
    """One run.

    Attributes:
        windows: of which kind.
        name: as in the table.
        limit: windows in memory, `BUFFER MAX n ROWS`; None is no limit.
        open_rows, spilled_rows: the most windows that were open, and that were not in memory.
        batch_s: median of the batches.
        operator_bytes: the most that the operator held after a batch, by its own count.
        process_bytes: the most memory of the process at any time, Python and libraries, input and result included.
        grown_bytes: the same, less what it took when everything was loaded.
        rows: how many results went out.
        answer: a digest of them, in the order in which they went out.
    """

    windows: str
    name: str
    limit: int | None
    open_rows: int
    spilled_rows: int
    batch_s: float
    operator_bytes: int
    process_bytes: int
    grown_bytes: int
    rows: int
    answer: str

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return asdict(self)


Runs = dict[tuple[str, str], Spilled]


def measure_spill(limit: int) -> Runs:
    """For each kind the run at the limit, the one far beyond it, and the same without a limit."""
    for windows in (SESSIONS, TUMBLING):
        # What compiles takes memory that one which finds it compiled does not: no run that counts may be the first.
        in_own_process(_run, windows, "", 100, 100 * TIMES, 100)
    runs = ((AT_LIMIT, limit, limit), (BEYOND, limit * TIMES, limit), (UNLIMITED, limit * TIMES, None))
    return {
        (windows, name): in_own_process(_run, windows, name, limit, opened, most)
        for windows in (SESSIONS, TUMBLING)
        for name, opened, most in runs
    }


def cells(runs: Runs) -> list[tuple[str, ...]]:
    """The lines of the table."""
    return [
        (
            one.windows,
            one.name,
            f"{one.open_rows:,}",
            "" if one.limit is None else f"{one.limit:,}",
            f"{one.spilled_rows:,}",
            f"{one.batch_s:.3f}",
            f"{one.operator_bytes / 1e6:.1f}",
            f"{one.process_bytes / 1e6:.0f}",
            f"{one.grown_bytes / 1e6:.0f}",
            f"{one.rows:,}",
            _answer(runs, one),
        )
        for one in runs.values()
    ]


def _answer(runs: Runs, one: Spilled) -> str:
    if one.name != BEYOND:
        return ""
    return "equal" if one.answer == runs[one.windows, UNLIMITED].answer else "WRONG"


def bars(runs: Runs) -> list[Bar]:
    """Memory with 20 times more open windows than the limit; a wrong answer has none."""
    found = []
    for windows in dict.fromkeys(windows for windows, _ in runs):
        few, many = runs[windows, AT_LIMIT], runs[windows, BEYOND]
        is_right = _answer(runs, many) == "equal"
        for name, field in (("process", "process_bytes"), ("operator, by its own count", "operator_bytes")):
            above = getattr(many, field) if is_right else None
            found.append(ratio(f"SPILL, {windows}: memory of the {name}", above, getattr(few, field), -1.5))
    return found


def _run(windows: str, name: str, limit: int, opened: int, most: int | None) -> Spilled:
    from udtf.operators.window_aggregate.config import Aggregate, Window, WindowAggregateConfig
    from udtf.operators.window_aggregate.stream import WindowAggregateStream

    aggregates = (Aggregate("count"), Aggregate("sum", 1), Aggregate("max", 1, type="double"))
    window = Window("session", _SIZE_US) if windows == SESSIONS else Window("time", _SIZE_US, _SIZE_US)
    config = WindowAggregateConfig(window, _GRACE_US, "final", 1, aggregates, most, when_full="spill")
    _load(config)
    operator, digest, gauges = WindowAggregateStream(config), hashlib.sha256(), []
    _PROCESS.joinpath("clear_refs").write_text("5", encoding="ascii")  # Linux: the peak begins anew
    before, seconds = _peak_bytes(), []
    for number in range(_BATCHES):
        batch = _batch(number, TIMES * limit // _BATCHES_PER_SIZE, opened)
        started = time.perf_counter()
        emitted = operator.on_batch([batch])
        seconds.append(time.perf_counter() - started)
        gauges.append(emitted.metrics)
        for column in emitted.rows.columns:
            digest.update(column.to_numpy().tobytes())
    peak = _peak_bytes()
    return Spilled(
        windows,
        name,
        most,
        max(found["state_rows"] for found in gauges),
        max(found.get("spilled_rows", 0) for found in gauges),
        statistics.median(seconds),
        max(found["state_bytes"] for found in gauges),
        peak,
        peak - before,
        sum(found["emitted"] for found in gauges),
        digest.hexdigest(),
    )


def _load(config: WindowAggregateConfig) -> None:
    """Import and compile everything that will run, on few rows."""
    from dataclasses import replace

    from udtf.operators.window_aggregate.stream import WindowAggregateStream

    operator = WindowAggregateStream(replace(config, max_rows=None if config.max_rows is None else 20))
    for number in range(_BATCHES):
        operator.on_batch([_batch(number, 100, 2500)])


def _batch(number: int, rows: int, opened: int) -> pa.Table:
    """The rows of a part of a window's length, in order of time.

    Args:
        number: of the batch.
        rows: how many.
        opened: how many keys there are in the batches of one window's length; they come again after two of them.
    """
    random, keys = np.random.default_rng(number), opened // _BATCHES_PER_SIZE
    key = random.permutation(np.arange(rows) % keys + number % (2 * _BATCHES_PER_SIZE) * keys)
    times = _START_US + number * _SPAN_US + np.sort(random.integers(0, _SPAN_US, rows))
    return pa.table(
        {
            "__k0": key,
            "__hash": (key * _HASH_FACTOR) ^ (key << 40),
            "__time": pa.array(times).view(pa.timestamp("us", "UTC")),
            "__a1_0": random.integers(0, 1000, rows),
            "__a2_0": random.random(rows),
            "_l0": key,
        }
    )


def _peak_bytes() -> int:
    """The most resident memory of this process since the peak began anew."""
    lines = _PROCESS.joinpath("status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
