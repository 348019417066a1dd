"""Which tests that need Spark the gate leaves out: those that reach no line which others do not reach for less time.

`make choose` runs the fast tests and those of Spark under coverage, and writes `tests/left_out.json`. A new test is
in the gate until then. Semantic cases and programs have a choice of their own (`tests/harness/gate.py`), and what
`KEPT` names stays.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coverage import Coverage

ROOT = Path(__file__).parents[2]
LEFT_OUT = ROOT / "tests" / "left_out.json"
#: Where processes of pytest leave what they have measured, and which run it was: "fast" or "spark".
FOLDER, RUN = "SQLX_REACH_FOLDER", "SQLX_REACH_RUN"
KEPT = (
    "tests/semantics/",
    "tests/properties/test_chains.py",
    "tests/spark/test_kills.py",
    "readme",
    "README",
    "test_as_of_places.py::test_a_permanent_view_is_read_twice",  # what it reaches is Spark's analyzer
    "test_definitions.py::test_a_query_behind_a_definition_means_the_same",  # likewise
    # What these reach is reached in workers, or in a server, which are not measured.
    "test_as_of_hosts.py::test_whole_tasks[7]",
    "test_replay.py::test_keys_are_placed_as_spark_places_them",
    "test_stream_host.py::test_answers_and_metrics",
    "test_stream_host.py::test_a_batch_that_is_read_twice",
    "test_changelog.py::test_files_that_were_harmed",
    "test_streaming_tables.py::test_a_streaming_table_goes_on",
    "test_streaming_tables.py::test_a_live_join_writes_its_result",
    "test_live_windows.py::test_idle_streams",
    "test_serve.py::test_jdbc_runs",
    "test_serve.py::test_connect_reads",
    "test_serve_doors.py::test_a_wrong_login",
    "test_serve_doors.py::test_a_port_with_tls",
)
#: A test that takes a smaller share of the time of all is in the gate whatever it reaches.
CHEAP = 1 / 3_000
#: One that takes longer has to reach its share of so many further lines. Shares, since machines differ in speed.
LINES = 1_500

Line = tuple[str, int]


def is_measured() -> bool:
    """Whether this run measures, and so leaves nothing out."""
    return FOLDER in os.environ


class Reach:
    """A plugin of pytest: lines and seconds of each test of one process."""

    def __init__(self) -> None:
        from coverage import Coverage

        self._place = Path(os.environ[FOLDER], f"{os.environ[RUN]}.{os.getpid()}").absolute()
        self._seconds: dict[str, float] = {}
        packages = [str(ROOT / name) for name in ("sqlx", "udtf", "catalog")]
        self._coverage: Coverage = Coverage(data_file=str(self._place), source=packages, config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Lines and seconds are those of this test."""
        self._coverage.switch_context(item.nodeid)
        began = time.monotonic()
        found = yield
        self._seconds[item.nodeid] = time.monotonic() - began
        return found

    def pytest_unconfigure(self) -> None:
        """Write what was measured."""
        self._coverage.stop()
        self._coverage.save()
        self._place.with_suffix(f"{self._place.suffix}.json").write_text(json.dumps(self._seconds), encoding="utf-8")


def measured(folder: Path, run: str) -> tuple[dict[str, set[Line]], dict[str, float]]:
    """Lines and seconds of each test of a run; "" is what importing has reached."""
    from coverage.numbits import numbits_to_nums

    lines: dict[str, set[Line]] = {}
    seconds: dict[str, float] = {}
    for path in folder.glob(f"{run}.*.json"):
        seconds |= json.loads(path.read_text(encoding="utf-8"))
        database = sqlite3.connect(path.with_suffix(""))
        rows: Iterator[Any] = database.execute(
            "SELECT c.context, f.path, l.numbits FROM line_bits l"
            " JOIN context c ON c.id = l.context_id JOIN file f ON f.id = l.file_id"
        )
        for context, file, bits in rows:
            lines.setdefault(context, set()).update((file, number) for number in numbits_to_nums(bits))
        database.close()
    return lines, seconds


def left_out(lines: Mapping[str, Set[Line]], seconds: Mapping[str, float], reached: Set[Line]) -> list[str]:
    """The tests that the gate leaves out.

    Args:
        lines: that each Spark test reaches.
        seconds: that each of them takes.
        reached: lines that other tests reach.

    >>> lines = {"a": range(600), "b": range(850), "c": range(500, 900)}
    >>> lines = {name: {("x", number) for number in numbers} for name, numbers in lines.items()}
    >>> left_out(lines, {"a": 5.0, "b": 9.0, "c": 1.0}, set())
    ['b']
    """
    whole = sum(seconds.values())
    kept = {name for name, took in seconds.items() if took < CHEAP * whole or any(word in name for word in KEPT)}
    rest = {name: set(lines.get(name, ())) for name in seconds.keys() - kept}
    found = set(reached).union(*(lines.get(name, ()) for name in kept))
    while rest:
        best = max(sorted(rest), key=lambda name: len(rest[name] - found) / seconds[name])
        if len(rest[best] - found) < LINES * seconds[best] / whole or not rest[best] - found:
            break
        found |= rest.pop(best)
    return sorted(rest)


def main(folder: Path) -> None:
    """Choose, write, and say what it comes to, and which lines no test of the gate reaches now."""
    fast, _ = measured(folder, "fast")
    lines, seconds = measured(folder, "spark")
    reached = lines.get("", set()).union(*fast.values())
    names = left_out(lines, seconds, reached)
    LEFT_OUT.write_text(json.dumps(names, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    out, total = sum(seconds[name] for name in names), sum(seconds.values())
    sys.stdout.write(f"{len(names)} of {len(seconds)} tests are left out, {out:,.0f} of {total:,.0f} s\n")
    kept = reached.union(*(lines[name] for name in lines.keys() & seconds.keys() - set(names)))
    for file, number in sorted(set().union(*lines.values()) - kept):
        sys.stdout.write(f"{Path(file).relative_to(ROOT)}:{number} is reached with `make test-all` only\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
