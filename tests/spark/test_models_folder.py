"""`sqlx run DIR`: a folder of models is built in order, in batch and live, again and anew."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import sqlx.cli.start
from sqlx.cli.app import app
from sqlx.sessions import statements_of
from sqlx.streaming.registry import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = "name: p\nmodel-paths: [models]\nmodels: {+schema: folder}\n"
SOURCES = (
    "sources: [{name: shop, schema: folder_raw, tables: [{name: orders}, {name: rates, identifier: rate_changes}]}]"
)
FILES = {
    "dbt_project.yml": PROJECT,
    "models/sources.yml": SOURCES,
    "models/rates.sql": "{{ config(materialized='versioned_table', keys='currency', timestamp_by='changed_at') }}\n"
    "SELECT currency, rate, changed_at FROM {{ source('shop', 'rates') }}",
    "models/orders.sql": "{{ config(materialized='stream', timestamp_by='ts') }}\n"
    "SELECT id, currency, ts FROM {{ source('shop', 'orders') }}",
    "models/recent.sql": "{{ config(materialized='ephemeral') }}\n"
    "SELECT * FROM {{ ref('orders') }} WHERE ts >= '{{ var('since', '2026-01-01') }}'",
    "models/priced.sql": "{{ config(materialized='table') }}\n"
    "SELECT o.id, o.ts, r.rate\nFROM {{ ref('recent') }} o\n"
    "LEFT JOIN {{ ref('rates') }} r AS OF o.ts ON o.currency = r.currency",
    "models/shown.sql": "SELECT id, rate FROM {{ ref('priced') }}",
    "models/days.sql": "{{ config(materialized='incremental', incremental_strategy='insert_overwrite', "
    "partition_by='day') }}\nSELECT count(*) AS n, to_date(ts) AS day FROM {{ ref('priced') }}\n"
    "{% if is_incremental() %}WHERE to_date(ts) >= (SELECT max(day) FROM {{ this }}){% endif %} GROUP BY ALL",
    "models/log.sql": "{{ config(materialized='incremental') }}\nSELECT id, ts FROM {{ ref('priced') }}\n"
    "{% if is_incremental() %}WHERE ts > (SELECT max(ts) FROM {{ this }}){% endif %}",
    "models/live.sql": "{{ config(materialized='streaming_table', tags=['live']) }}\n"
    "SELECT o.id, r.rate FROM {{ ref('orders') }} o\n"
    "LEFT JOIN {{ ref('rates') }} r AS OF o.ts ON o.currency = r.currency",
}
# One file each: of two, which are written at once, either may arrive first.
ORDERS = "INSERT INTO folder_raw.orders SELECT /*+ COALESCE(1) */ * FROM VALUES {}"
FIRST = "(1, 'USD', TIMESTAMP '2026-03-02 09:30:00'), (2, 'USD', TIMESTAMP '2026-03-02 10:30:00')"
SECOND = "(3, 'USD', TIMESTAMP '2026-03-02 11:00:00'), (4, 'USD', TIMESTAMP '2026-03-03 08:00:00')"
RATES = (
    "SELECT /*+ COALESCE(1) */ * FROM VALUES ('USD', 1.0D, TIMESTAMP '2026-03-02 09:00:00'), "
    "('USD', 2.0D, TIMESTAMP '2026-03-02 10:00:00')"
)


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands run in the session of all tests, and leave it running."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sqlx.cli.start, "_start", lambda *_, **__: spark)
    yield
    for schema in ("folder", "folder_raw"):
        spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    warehouse = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"))
    shutil.rmtree(warehouse / "_checkpoints" / "folder.live", ignore_errors=True)


def run(folder: Path, *options: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["run", str(folder), *options])
    assert "Traceback" not in result.output
    return result.exit_code, result.stdout, result.stderr


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def load(spark: SparkSession) -> None:
    spark.sql("CREATE SCHEMA folder_raw")
    spark.sql("CREATE TABLE folder_raw.orders (id INT, currency STRING, ts TIMESTAMP) USING parquet")
    spark.sql("CREATE TABLE folder_raw.rate_changes (currency STRING, rate DOUBLE, changed_at TIMESTAMP) USING parquet")
    spark.sql(f"INSERT INTO folder_raw.rate_changes {RATES}")
    spark.sql(ORDERS.format(FIRST))


def rows(spark: SparkSession, name: str, columns: str = "*") -> list[tuple[object, ...]]:
    spark.catalog.refreshTable(f"folder.{name}")
    return sorted(map(tuple, spark.sql(f"SELECT {columns} FROM folder.{name}").collect()))


def done(stdout: str) -> dict[str, str]:
    """Model to what it became, without the seconds."""
    lines = [line.split(None, 2)[1:] for line in stdout.splitlines()]
    return {name: what.rsplit(None, 2)[0].strip() if what.endswith(" s") else what for name, what in lines}


def test_a_folder_is_built_added_to_and_built_anew(spark: SparkSession, tmp_path: Path) -> None:
    folder = write(tmp_path, FILES)
    load(spark)
    code, stdout, stderr = run(folder)
    assert code == 0, stdout + stderr
    assert done(stdout) == {
        "rates": "versioned table", "orders": "stream", "recent": "ephemeral", "priced": "table", "shown": "view",
        "days": "incremental, anew", "log": "incremental, anew", "live": "streaming table",
    }  # fmt: skip
    assert "8 models: 8 done" in stderr
    assert rows(spark, "shown") == rows(spark, "live") == [(1, 1.0), (2, 2.0)]
    assert rows(spark, "days", "cast(day AS STRING), n") == [("2026-03-02", 2)]
    assert statements_of(spark).catalog.resolve("folder.rates") is not None

    spark.sql(ORDERS.format(SECOND))
    code, stdout, stderr = run(folder)
    assert code == 0, stdout + stderr
    assert (done(stdout)["days"], done(stdout)["log"]) == ("incremental, insert overwrite", "incremental, append")
    assert rows(spark, "shown") == rows(spark, "live") == [(1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)]
    assert rows(spark, "days", "cast(day AS STRING), n") == [("2026-03-02", 3), ("2026-03-03", 1)]
    assert [row[0] for row in rows(spark, "log")] == [1, 2, 3, 4]

    code, stdout, stderr = run(folder, "--select", "+log live", "--full-refresh", "--var", "since=2026-03-03")
    assert code == 0, stdout + stderr
    assert list(done(stdout)) == ["orders", "rates", "recent", "live", "priced", "log"]
    assert [row[0] for row in rows(spark, "log")] == [4]
    assert len(rows(spark, "live")) == 4
    assert "OR REPLACE: dropped the table" in stderr


def test_streaming_tables_run_on_until_somebody_stops_them(spark: SparkSession, tmp_path: Path) -> None:
    names = ("dbt_project.yml", "models/sources.yml", "models/orders.sql", "models/rates.sql", "models/live.sql")
    folder = write(tmp_path, {name: FILES[name] for name in names})
    load(spark)
    stop = threading.Event()

    def add_rows_then_stop() -> None:
        added = False
        while not stop.wait(0.05):
            queries = [
                q for q in registry(spark.sparkContext).all() if q.query.isActive and not q.trigger.available_now
            ]
            if queries and not added:
                spark.sql(ORDERS.format(SECOND))
                added = True
            if queries and queries[0].refresh().rows:
                os.kill(os.getpid(), signal.SIGINT)
                return

    asking = threading.Thread(target=add_rows_then_stop)
    asking.start()
    try:
        code, _, stderr = run(folder, "--stream")
    finally:
        stop.set()
        asking.join()
    assert code == 130, stderr
    assert "goes on from its checkpoint" in stderr
    assert [row[0] for row in rows(spark, "live")] == [1, 2, 3, 4]


def test_what_stands_behind_a_failed_model_is_skipped_and_all_else_is_built(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrong = "{{ config(\n  materialized='table'\n) }}\n\nSELECT o.id\nFROM {{ ref('a') }} o\n"
    wrong += "JOIN {{ ref('v') }} r AS OF o.ts ON o.nope = r.k"
    versioned = "{{ config(materialized='versioned_table', keys='k', timestamp_by='ts') }}"
    files = {
        "dbt_project.yml": PROJECT,
        "models/a.sql": "SELECT 1 AS id, TIMESTAMP '2026-03-02 09:30:00' AS ts",
        "models/v.sql": f"{versioned} SELECT 1 AS k, TIMESTAMP '2026-03-02 09:00:00' AS ts",
        "models/wrong.sql": wrong,
        "models/behind.sql": "SELECT * FROM {{ ref('wrong') }}",
        "models/far_behind.sql": "SELECT * FROM {{ ref('behind') }}",
        "models/beside.sql": "SELECT * FROM {{ ref('a') }}",
    }
    code, stdout, stderr = run(write(tmp_path, files))
    assert code == 1
    assert done(stdout) == {
        "a": "view", "v": "versioned table", "beside": "view", "wrong": "failed",
        "behind": "skipped: wrong failed", "far_behind": "skipped: wrong failed",
    }  # fmt: skip
    assert f"{tmp_path}/models/wrong.sql:\n[BIND.UNKNOWN_COLUMN]" in stderr
    assert "LINE 7: JOIN folder.v r AS OF o.ts ON o.nope = r.k\n" in stderr
    assert "                                      ^^^^^^\n" in stderr
    assert "6 models: 3 done, 1 failed, 2 skipped" in stderr


def test_a_table_that_cannot_be_made_anew_keeps_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    config = "{{ config(materialized='table') }}"
    files = {"dbt_project.yml": PROJECT, "models/t.sql": f"{config} SELECT 1 AS a"}
    assert run(write(tmp_path, files))[0] == 0
    files["models/t.sql"] = f"{config} SELECT cast(raise_error('no') AS INT) AS a"
    assert run(write(tmp_path, files))[0] == 1
    assert rows(spark, "t") == [(1,)]
    files["models/t.sql"] = "SELECT 2 AS a"
    assert run(write(tmp_path, files))[0] == 0
    assert rows(spark, "t") == [(2,)]
