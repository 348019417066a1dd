"""A standalone cluster: a master and three workers as processes, whose Python has never heard of us.

All is the PySpark that the tests run on (`.ci/setup-server` makes the Python of workers); each test is its own driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.harness.killing import listed_files
from tests.harness.places import WHOLE, everywhere, found, run
from tests.harness.releases import RELEASE
from tests.harness.standalone import cluster_of, standalone
from tests.harness.stock_server import ROOT, spark_home_of, stock_server

pytestmark = [pytest.mark.spark, pytest.mark.full]
DRIVER, NAME = Path(sys.executable), ".".join(map(str, RELEASE))
PYTHON = ROOT / f".venv-server-{NAME}/bin/python"
#: Without a Java where there is one: `.ci/setup-connect` makes it of 4.2.
CLIENT = ROOT / ".venv-connect/bin/python" if RELEASE == (4, 2) else DRIVER
SCRIPT = Path(__file__).with_name("cluster.py")
BARE = sys.executable if sys.prefix == sys.base_prefix else str(Path(sys.base_prefix) / "bin/python3")
LIVE = [[0, 0, 0], *[[8, 0, 0]] * 3]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    subprocess.run([ROOT / ".ci/setup-server", NAME], check=True, capture_output=True)
    with standalone(tmp_path_factory.mktemp("cluster"), PYTHON, cores=2) as url:
        yield url


def test_spark_submit_is_not_overridden(cluster: str, tmp_path: Path) -> None:
    given = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.pyspark.python": str(PYTHON),
        "spark.pyspark.driver.python": str(DRIVER),
        "spark.shuffle.io.retryWait": "9s",
    }
    conf = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
    submit = Path(spark_home_of(DRIVER)) / "bin/spark-submit"
    done = run(DRIVER, submit, "--master", cluster, "--name", "told", *conf, SCRIPT, tmp_path, "", "{}", cwd=tmp_path)
    answered = found(done)
    assert answered.pop("told") == [cluster, "told", "3"]
    assert answered.pop("waits") == ["500ms", "100ms", "9s"]
    assert answered == {"bounded": [[1, 5]], "live": LIVE, "partitions": "3"}


def test_a_session_on_the_cluster(cluster: str, tmp_path: Path) -> None:
    conf = json.dumps({"spark.sql.warehouse.dir": str(tmp_path / "warehouse")})
    done = run(DRIVER, DRIVER, SCRIPT, tmp_path, cluster, conf, cwd=tmp_path, PYSPARK_PYTHON=str(PYTHON))
    assert found(done) == {"bounded": [[1, 5]], "live": LIVE, "partitions": "4"}


def test_the_command_line_on_the_cluster(cluster: str, tmp_path: Path) -> None:
    script = tmp_path / "windows.sql"
    script.write_text(
        "CREATE TEMPORARY VIEW r AS SELECT id % 3 AS k, TIMESTAMP_SECONDS(id) AS ts FROM range(100);\n"
        "SELECT k, count(*) AS n FROM (SELECT k FROM r DEDUPLICATE WITHIN INTERVAL '6' SECONDS BY (k) ON TIME ts) "
        "GROUP BY k ORDER BY k;\n",
        encoding="utf-8",
    )
    done = run(
        DRIVER, DRIVER, "-m", "sqlx", "run", "--master", cluster, script, cwd=tmp_path, PYSPARK_PYTHON=str(PYTHON)
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [line.split() for line in done.stdout.splitlines()[-3:]] == [["0", "12"], ["1", "11"], ["2", "11"]]


def test_a_client_of_spark_connect_at_the_cluster(cluster: str, tmp_path: Path) -> None:
    text = (
        "SELECT o.id, r.v FROM VALUES (1, TIMESTAMP'2026-01-02') o(id, ts) "
        "ASOF JOIN VALUES (1, TIMESTAMP'2026-01-01', 5) r(id, ts, v) MATCH_CONDITION (o.ts >= r.ts) ON o.id = r.id"
    )
    if CLIENT != DRIVER:
        subprocess.run([ROOT / ".ci/setup-connect"], check=True, capture_output=True)
    with stock_server(tmp_path, cluster, python=PYTHON) as url:
        done = run(DRIVER, CLIENT, "-m", "sqlx", "sql", "--remote", url, "-e", text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].split() == ["1", "5"]


@pytest.mark.timeout(900)
def test_every_operator_answers_as_on_one_machine(cluster: str, tmp_path: Path) -> None:
    here = everywhere(tmp_path / "here", DRIVER, "--master", "local[2]")
    assert everywhere(tmp_path / "there", DRIVER, "--master", cluster, PYSPARK_PYTHON=str(PYTHON)) == here


@pytest.mark.timeout(900)  # it packs a whole environment
def test_an_environment_travels_to_workers_that_have_a_bare_python(tmp_path: Path) -> None:
    environment, packed, folder = tmp_path / "env", tmp_path / "packed", tmp_path / "answers"
    subprocess.run([BARE, "-m", "venv", environment], check=True)
    wanted = [f"{ROOT}[pack]", f"pyspark=={pyspark.__version__}"]
    subprocess.run([environment / "bin/pip", "install", "--quiet", *wanted], check=True)
    own = environment / "bin/python"
    done = run(own, environment / "bin/sqlx", "pack", packed, "--environment", cwd=tmp_path, PYTHONPATH="")
    (line,) = (line for line in done.stdout.splitlines() if "--archives" in line)
    _, _, submit = line.strip().removesuffix(" …").partition(" && ")
    folder.mkdir()
    conf = json.dumps({"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.ui.enabled": "false"})
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    (tmp_path / "cluster").mkdir()
    with standalone(tmp_path / "cluster", own, cores=2) as master:
        more = ["--master", master, WHOLE, folder, "--conf", conf]
        done = run(own, *submit.split(), *more, cwd=packed, PYTHONPATH="", PATH=path)
    assert found(done) == everywhere(tmp_path / "here", DRIVER, "--master", "local[2]")


@pytest.mark.timeout(900)
def test_a_lost_worker_costs_its_own_tasks_alone(tmp_path: Path) -> None:
    """Of six tasks those of the worker that is killed are restored; the others have their states in memory still.

    One that is added gets some of them, and soon all states are in memory again.
    """
    subprocess.run([ROOT / ".ci/setup-server", NAME], check=True, capture_output=True)
    home, tasks = tmp_path / "cluster", 6
    for folder in (home, tmp_path / "in"):
        folder.mkdir()
    files = iter(range(100))

    def feed() -> None:
        number = next(files)
        ids = pa.array(range(number * 100, number * 100 + 200), pa.int64())  # half of them were there before
        times = pa.array([number * 1_000_000] * len(ids), pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"id": ids, "ts": times}), tmp_path / "in/.draft")
        (tmp_path / "in/.draft").rename(tmp_path / f"in/{number:03}.parquet")

    with cluster_of(home, PYTHON) as cluster, (tmp_path / "driver.log").open("wb") as log:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(PYTHON)}
        command = [str(DRIVER), str(SCRIPT.with_name("cluster_stream.py")), str(tmp_path), cluster.url, str(tasks)]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=tmp_path)

        def restores() -> list[int]:
            """Of one more micro-batch: states that were in memory, caught up, and read from the checkpoint."""
            feed()
            assert driver.stdout is not None
            line = next((line for line in driver.stdout if line.startswith("BATCH ")), None)
            assert line is not None, (tmp_path / "driver.log").read_text()[-3000:]
            return list(json.loads(line.removeprefix("BATCH "))["restores"])

        def even_out(most: int) -> None:
            """So few tasks move that all workers have equally many; from then on states are in memory."""
            found = [restores() for _ in range(8)]
            assert [sum(one) for one in found] == [tasks] * 8
            moved = [tasks - kept for kept, *_ in found]
            assert sum(moved) <= most
            assert moved[-3:] == [0, 0, 0]

        try:
            assert restores() == [0, 0, 0]
            even_out(most=2)  # Spark has dealt them out by chance
            cluster.kill_worker(1)
            kept, *read = restores()
            assert kept + sum(read) == tasks
            assert 0 < sum(read) < tasks
            even_out(most=1)  # two that were lost may have come to one worker
            cluster.add_worker()
            while restores()[0] == tasks:  # until it has come, and is found out
                pass
            even_out(most=3)  # its Python starts meanwhile: one of its two tasks may be taken by an idle worker first
            (tmp_path / "stop").touch()
            assert driver.wait(60) == 0
        finally:
            driver.kill()
            driver.wait()
            if driver.stdout is not None:
                driver.stdout.close()
    paths = listed_files(tmp_path / "out")
    answered = sorted(n for path in paths for n in pq.read_table(path)["id"].to_pylist())
    assert answered == list(range(next(files) * 100 + 100))
