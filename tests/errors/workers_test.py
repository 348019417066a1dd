"""What a worker says of itself, and what is refused then."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkFiles
from pyspark.errors import PySparkException

import udtf
from sqlx.errors import RunError
from sqlx.spark import workers
from sqlx.spark.workers import Worker, check_worker
from sqlx.version import __version__

GOOD = Worker("node1", "/usr/bin/python3", __version__, "", is_shipped=False)


@pytest.mark.parametrize("is_live", [False, True])
def test_a_worker_that_has_all_is_fine(is_live: bool) -> None:
    check_worker(GOOD, is_live=is_live)
    check_worker(replace(GOOD, version=""), is_live=is_live)  # on its path, not installed


@pytest.mark.parametrize(
    ("worker", "is_live", "condition", "says"),
    [
        (replace(GOOD, missing="udtf, numba"), False, "WORKERS.PACKAGE_MISSING", "/usr/bin/python3 on node1"),
        (replace(GOOD, missing="udtf"), True, "WORKERS.PACKAGE_MISSING", f"Install sqlx-temporal {__version__}"),
        (replace(GOOD, version="0.0.9"), False, "WORKERS.OTHER_VERSION", "has sqlx-temporal 0.0.9"),
        (replace(GOOD, is_shipped=True), True, "WORKERS.SHIPPED", "--py-files"),
    ],
)
def test_what_it_lacks_is_said(worker: Worker, is_live: bool, condition: str, says: str) -> None:
    with pytest.raises(RunError) as refused:
        check_worker(worker, is_live=is_live)
    assert refused.value.condition == condition
    assert says in str(refused.value)


def test_shipped_is_enough_for_bounded_rows() -> None:
    check_worker(replace(GOOD, is_shipped=True, version="0.0.9"), is_live=False)


def test_this_python_says_of_itself_that_it_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {}
    exec(workers._LOOK, space)
    monkeypatch.setattr(SparkFiles, "_root_directory", "/nowhere")
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    ((_, python, _, missing, is_shipped),) = space["look"]([])
    assert (python, missing, is_shipped) == (sys.executable, "", False)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(Path(udtf.__file__).parent.parent))
    assert [one[-1] for one in space["look"]([])] == [True]


class NoPython:
    """A cluster on whose nodes there is no such Python."""

    defaultParallelism = 2

    def parallelize(self, *_: object) -> NoPython:
        return self

    def mapPartitions(self, *_: object) -> NoPython:
        return self

    def collect(self) -> None:
        raise PySparkException(message='Cannot run program "/opt/python": error=2, No such file or directory')


def test_workers_that_do_not_run_are_said_to_be_so() -> None:
    with pytest.raises(RunError, match="/opt/python") as refused:
        workers._ask(NoPython())  # type: ignore[arg-type]
    assert refused.value.condition == "WORKERS.NO_ANSWER"
