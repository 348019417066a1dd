"""What a worker says of itself, and what is refused then."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
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


def test_a_worker_that_has_all_is_fine() -> None:
    check_worker(GOOD)
    check_worker(replace(GOOD, version=""))  # on its path, not installed
    check_worker(replace(GOOD, is_shipped=True, version="0.0.9"))


@pytest.mark.parametrize(
    ("worker", "condition", "says"),
    [
        (replace(GOOD, missing="pyarrow, numba"), "WORKERS.PACKAGE_MISSING", "/usr/bin/python3 on node1"),
        (replace(GOOD, missing="numba"), "WORKERS.PACKAGE_MISSING", "Install them into that Python on every node"),
        (replace(GOOD, version="0.0.9"), "WORKERS.OTHER_VERSION", "has sqlx-temporal 0.0.9"),
    ],
)
def test_what_it_lacks_is_said(worker: Worker, condition: str, says: str) -> None:
    with pytest.raises(RunError) as refused:
        check_worker(worker)
    assert refused.value.condition == condition
    assert says in str(refused.value)


def test_this_python_says_of_itself_that_it_has_all(monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {}
    exec(workers._LOOK, space)
    monkeypatch.setattr(SparkFiles, "_root_directory", "/nowhere")
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    _, python, _, missing, is_shipped = json.loads(space["look"](0))
    assert (python, missing, is_shipped) == (sys.executable, "", False)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(Path(udtf.__file__).parent.parent))
    assert json.loads(space["look"](0))[-1] is True


class Cluster:
    """A session whose workers answer in turn; an error is raised."""

    def __init__(self, *answers: list[Worker] | Exception) -> None:
        self.answers, self.shipped = list(answers), 0
        self._sqlx_engine = SimpleNamespace(cores=2, ship_code=self.ship)

    def ship(self) -> None:
        self.shipped += 1

    def range(self, *_: object) -> Cluster:
        return self

    select = range

    def collect(self) -> list[tuple[str]]:
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return [(json.dumps(list(astuple(worker))),) for worker in found]


@pytest.fixture(autouse=True)
def no_udf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.sql.functions.udf", lambda _: str)


def test_workers_that_do_not_run_are_said_to_be_so() -> None:
    cluster: Any = Cluster(PySparkException(message='Cannot run program "/opt/python": error=2, No such file'))
    with pytest.raises(RunError, match="/opt/python") as refused:
        workers._ask(cluster)
    assert refused.value.condition == "WORKERS.NO_ANSWER"


def test_our_code_is_brought_to_workers_that_lack_it() -> None:
    bare, brought = replace(GOOD, version="", missing="udtf"), replace(GOOD, version="", is_shipped=True)
    cluster: Any = Cluster([GOOD, bare], [GOOD, brought])
    assert workers._with_code(cluster) == sorted([GOOD, brought])
    assert cluster.shipped == 1
    cluster = Cluster([GOOD, GOOD])
    assert (workers._with_code(cluster), cluster.shipped) == ([GOOD], 0)


def test_the_python_of_the_workers_has_to_be_beside_the_driver_too() -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec="./environment/bin/python"))
    with pytest.raises(RunError, match=r"\./environment/bin/python is not there") as refused:
        workers.check_driver(session)
    assert refused.value.condition == "WORKERS.PYTHON_OF_DRIVER"
    session.sparkContext.pythonExec = sys.executable
    workers.check_driver(session)
