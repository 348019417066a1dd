"""What all tests share: one Spark session, UTC, golden files, Hypothesis profiles."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, Verbosity, settings
from xdist.scheduler import LoadScopeScheduling

from tests.harness import reach
from tests.harness.releases import RELEASE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ["TZ"] = "UTC"
time.tzset()
# Of short runs the second compiler and the parallel collector take more from two cores than they give.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

#: Only a client of Spark Connect runs these: `make connect`.
collect_ignore = [] if os.environ.get("SQLX_TEST_REMOTE") else ["connect"]

# A first example may compile a kernel, so no example has a deadline.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# `make test-all` asks for "all": each property meets ten times the examples of the gate, others each time.
settings.register_profile("dev", _COMMON, max_examples=20)
settings.register_profile("ci", _COMMON, max_examples=20, derandomize=True, print_blob=True)
settings.register_profile("all", _COMMON, max_examples=200, print_blob=True)
settings.register_profile("debug", _COMMON, max_examples=10, verbosity=Verbosity.verbose)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


# The part of the Spark tests that the gate also runs on PySpark 4.0: what holds state, what reaches into Spark's own
# parser, and a live case of each operator. `make test-compat` runs them all.
COMPAT = (
    "tests/spark/test_as_of_hosts.py",
    "tests/spark/test_hook.py",
)
COMPAT_CASES = re.compile(
    r"test_live\[(as_of_join/grace_zero|deduplicate/late_to|suppress/full_spills|window_aggregate/averages)"
    r"|test_batch\[as_of_join/pipe_operator"  # which pipe operators Spark's parser takes differs by release
)
NOT_COMPAT = "test_enable_teaches_a_session_made_elsewhere"  # a process of its own: the same call as in this one

# What takes longest goes first: of several processes none then waits for another at the end.
LONG = ("tests/spark/test_kills.py", "tests/semantics/test_semantics.py", "tests/spark/test_serve.py")
# The cases of one file that many processes may share; of all other files the tests share what a module has made.
SHARED = {
    "tests/semantics/test_semantics.py": 16,
    "tests/properties/test_chains.py": 8,
    "tests/test_worked_examples.py": 4,
}
#: Marks of tests that need the jars of a connector, and so Spark; `make kafka` and `make lakehouse` run them.
CONNECTORS = ("kafka", "delta", "iceberg")
#: Files whose tests run in one process, since they share what takes long to make.
TOGETHER = {"tests/spark/test_serve_guard.py": "tests/spark/test_serve.py"}
_GIB_A_PROCESS = 6  # a driver's JVM, its Python workers, and DuckDB beside them


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--complete", action="store_true", help="rewrite golden files with what the tests got")


def pytest_configure(config: pytest.Config) -> None:
    """PySpark leaves sockets to the garbage collector up to 4.1: its warnings are none of ours."""
    if reach.is_measured() and hasattr(config, "workerinput"):
        config.pluginmanager.register(reach.Reach())
    if RELEASE < (4, 2):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")
        config.addinivalue_line("filterwarnings", "ignore:.*<socket:pytest.PytestUnraisableExceptionWarning")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process a core; those of Spark, which wait for micro-batches half of their time, half as many more."""
    cores = os.cpu_count() or 1
    if "not spark" in str(config.option.markexpr):
        return cores
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return max(1, min(cores + cores // 2, gib // _GIB_A_PROCESS))


class ByFile(LoadScopeScheduling):
    """A process takes whole files, of those that several may share a part."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        file = TOGETHER.get(file, file)
        return f"{file} {crc32(nodeid.encode()) % SHARED[file]}" if file in SHARED else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile | None:
    """`--dist loadscope` goes by files here; every other way is xdist's own."""
    return ByFile(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """All tests run in as many processes as the machine has room for; a single file is faster without a second."""
    if hasattr(config, "workerinput"):  # one of them: it starts no others
        return
    is_fast = str(config.option.markexpr).startswith("not spark") and not config.option.file_or_dir
    if is_fast and getattr(config.option, "numprocesses", 0) is None and not config.option.usepdb:
        config.option.numprocesses = pytest_xdist_auto_num_workers(config)
        config.option.dist = "loadscope"  # a file at a time: what it compiles is compiled in one process


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever asks for the session or a connector is a Spark test: no marker is forgotten. Long files come first."""
    left_out = frozenset(() if reach.is_measured() else json.loads(reach.LEFT_OUT.read_text(encoding="utf-8")))
    items.sort(key=lambda item: LONG.index(item.location[0]) if item.location[0] in LONG else len(LONG))
    for item in items:
        file = item.location[0]
        if "spark" in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, CONNECTORS)):
            item.add_marker("spark")
        if item.nodeid in left_out:
            item.add_marker("full")
        if item.get_closest_marker("spark") and _is_compat(file, item.name):
            item.add_marker("compat")


def _is_compat(file: str, name: str) -> bool:
    return name != NOT_COMPAT and (file in COMPAT or bool(COMPAT_CASES.search(name)))


@pytest.fixture(scope="session")
def complete(pytestconfig: pytest.Config) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(pytestconfig.getoption("--complete"))


@pytest.fixture(scope="session")
def golden(complete: bool) -> Callable[[Path, str], None]:
    """Compare a text with a file; with ``--complete`` write the file."""

    def compare(path: Path, text: str) -> None:
        if complete:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing: `make complete` writes it"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: `make complete` rewrites it"

    return compare


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all Spark tests: two cores, small shuffles, nothing left in the working directory.

    With `SQLX_TEST_REMOTE` the same tests run without a JVM, as a client of a stock server (`make connect`).
    """
    import sqlx

    if os.environ.get("SQLX_TEST_REMOTE"):
        from tests.harness.stock_server import stock_server

        with stock_server(tmp_path_factory.mktemp("server")) as url:
            remote = sqlx.session(app="sqlx tests", remote=url, conf={"spark.sql.shuffle.partitions": "2"})
            yield remote
            remote.stop()
        return
    home = tmp_path_factory.mktemp("spark")
    session = sqlx.session(
        app="sqlx tests",
        master="local[2]",
        conf={
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={home}",
            "spark.local.dir": str(home / "local"),
            "spark.log.level": "ERROR",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        },
    )
    yield session
    session.stop()
