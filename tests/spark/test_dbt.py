"""The project in sql_examples/dbt through stock dbt: in process, over Thrift, and without our parser."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import sqlx.cli.start
from sqlx.cli.app import app
from tests.harness.ports import free_port
from tests.harness.releases import RELEASE, since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("dbt") is None, reason="pip install 'sqlx-temporal[dbt]'"),  # to import it takes long
]

ROOT = Path(__file__).parent.parent.parent
PROJECT = ROOT / "sql_examples" / "dbt"
SCHEMAS = ("analytics", "shop")
EUROS = [(1, 18.0, "gold"), (2, 9.5, "silver"), (3, 48.0, "gold"), (4, 27.6, "silver"), (5, 55.0, "silver")]
PLAIN = """
import os, sys
from pyspark.sql import SparkSession
import udtf
from dbt.cli.main import dbtRunner
from sqlx.sessions.java import use_java
use_java()
os.environ["PYSPARK_PYTHON"] = sys.executable
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(
    "spark.sql.warehouse.dir", sys.argv[1]).config("spark.sql.shuffle.partitions", "2").getOrCreate()
udtf.register(spark)
result = dbtRunner().invoke(["run", "--select", "tag:plain", "--no-use-colors"])
print("tables:", *sorted(spark.table("analytics.orders_once_by_function").toPandas()["id"]))
print("rates:", *sorted(spark.table("analytics.order_rates_by_function").toPandas()["rate"]))
spark.stop()
sys.exit(not result.success)
"""


def copied(folder: Path) -> Path:
    """The project in a folder of its own: dbt writes into it."""
    return Path(shutil.copytree(PROJECT, folder / "dbt", ignore=shutil.ignore_patterns("target", "logs", "sqlx-*")))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project, in which dbt finds itself by its environment; without table functions where none are."""
    found = copied(tmp_path)
    if RELEASE < (4, 1):
        shutil.rmtree(found / "models" / "functions")
        (found / "tests" / "functions_equal_clauses.sql").unlink()
    for name in ("DBT_PROJECT_DIR", "DBT_PROFILES_DIR"):
        monkeypatch.setenv(name, str(found))
    return found


@pytest.fixture
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command runs in the session of all tests, and leaves it as it was."""
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sqlx.cli.start, "_start", lambda *_, **__: spark)
    yield
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    for schema in SCHEMAS:
        spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def dbt(*arguments: str) -> tuple[int, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # dbt's own
        result = CliRunner().invoke(app, ["dbt", *arguments])
    return result.exit_code, result.output


def results(project: Path) -> dict[str, str]:
    """Node to status of the last run, as dbt writes it."""
    found = json.loads((project / "target" / "run_results.json").read_text(encoding="utf-8"))["results"]
    return {node["unique_id"].split(".", 2)[2]: node["status"] for node in found}


def euros(spark: SparkSession) -> list[tuple[object, ...]]:
    return sorted(map(tuple, spark.sql("SELECT id, euros, tier FROM analytics.orders_in_euros").collect()))


@pytest.mark.full
def test_dbt_builds_the_project_in_process_again_and_documents_it(
    spark: SparkSession, one_session: None, project: Path
) -> None:
    code, output = dbt("build")
    assert code == 0, output
    assert set(results(project).values()) == {"success", "pass"}
    assert euros(spark) == [*EUROS, (6, 75.0, "gold")]

    spark.sql("INSERT INTO shop.order_events VALUES (7, 'ann', 'CHF', 10.0D, timestamp '2026-03-03 13:00:00')")
    seed = project / "seeds" / "customers.csv"
    seed.write_text(seed.read_text().replace("ann,gold,2026-03-01 00:00:00", "ann,silver,2026-03-03 12:30:00"))
    code, output = dbt("build", "--select", "customers+", "orders_live", "--exclude-resource-type", "test")
    assert code == 0, output
    assert euros(spark) == [*EUROS, (6, 75.0, "gold"), (7, 11.0, "silver")]
    history = spark.sql("SELECT tier, dbt_valid_to IS NULL FROM analytics.customer_history WHERE customer = 'ann'")
    assert sorted(map(tuple, history.collect())) == [("gold", False), ("silver", True)]
    live = spark.sql("SELECT id, count(*) FROM analytics.orders_live GROUP BY id ORDER BY id").collect()
    assert list(map(tuple, live)) == [(1, 1), (2, 2), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)]
    days = spark.sql("SELECT sum(orders) FROM analytics.daily_revenue").collect()
    assert days[0][0] == 7

    code, output = dbt("docs", "generate")
    assert code == 0, output
    catalog = json.loads((project / "target" / "catalog.json").read_text(encoding="utf-8"))
    assert list(catalog["nodes"]["model.shop.orders_in_euros"]["columns"])[-2:] == ["euros", "tier"]
    assert {"model.shop.rates", "model.shop.orders_live", "snapshot.shop.customer_history"} <= set(catalog["nodes"])


def test_an_error_in_a_model_is_shown_with_its_line(one_session: None, project: Path) -> None:
    model = project / "models" / "marts" / "orders_in_euros.sql"
    model.write_text(model.read_text().replace("o.currency = r.currency", "o.curency = r.currency"))
    code, output = dbt("build", "--select", "+orders_in_euros", "--no-use-colors")
    assert code == 1
    assert "[BIND.UNKNOWN_COLUMN] There is no column `o.curency` here." in output
    assert "left join analytics.rates r as of o.ordered_at on o.curency = r.currency" in output.split("LINE ", 1)[1]
    assert "Traceback" not in output


def test_dbt_says_what_it_does_not_understand(one_session: None, project: Path) -> None:
    code, output = dbt("build", "--nope")
    assert code == 1
    assert "dbt: No such option" in output


@since((4, 1), "table functions that read Arrow batches")
@pytest.mark.dbt  # a session of their own each: `make dbt` runs them
def test_functions_work_in_dbt_without_our_parser(project: Path, tmp_path: Path) -> None:
    models = project / "models"
    for folder in ("definitions", "marts"):
        shutil.rmtree(models / folder)
    for file in (models / "schema.yml", *project.glob("tests/*"), *project.glob("snapshots/*")):
        file.unlink()
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(tmp_path / "warehouse")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tables: 1 2 3 4 5 6\n" in done.stdout
    assert "rates: 0.9 0.92 0.95 0.95 1.1 1.2 1.25\n" in done.stdout


@pytest.fixture
def thrift_port(tmp_path: Path) -> Iterator[int]:
    """The port of `sqlx serve`, once it is ready; it ends as when somebody stops it."""
    port = free_port()
    command = [sys.executable, "-m", "sqlx", "serve", "--thrift", str(port), "--warehouse", str(tmp_path / "warehouse")]
    with subprocess.Popen(
        [*command, "--conf", "spark.sql.shuffle.partitions=2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            assert any(line.startswith("ready") for line in server.stdout)
            yield port
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()


@pytest.mark.dbt  # a session of their own each: `make dbt` runs them
def test_plain_dbt_builds_the_project_over_thrift(thrift_port: int, project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from dbt.cli.main import cli; cli()", "build", "--target", "thrift", "--no-use-colors"],
        cwd=project,
        env={**os.environ, "SQLX_THRIFT_PORT": str(thrift_port), "SQLX_POLL_SECONDS": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(results(project).values()) == {"success", "pass"}
    assert {"orders_live", "orders_in_euros", "customer_history", "live_equals_batch"} <= set(results(project))
