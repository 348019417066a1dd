"""`sqlx run --stream`: live until the end, or until somebody stops it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import sqlx.cli.start
from sqlx.cli.app import app
from sqlx.streaming.registry import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Commands run in the session of all tests, over a stream of three rows."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sqlx.cli.start, "_start", lambda *_: spark)
    spark.range(3).coalesce(1).write.parquet(str(tmp_path / "source"))
    spark.readStream.schema("id BIGINT").parquet(str(tmp_path / "source")).createOrReplaceTempView("cs_source")
    yield
    for query in registry(spark.sparkContext).all():
        query.query.stop()
        registry(spark.sparkContext).forget(query.name)
    spark.catalog.dropTempView("cs_source")
    spark.sql("DROP TABLE IF EXISTS cs_table")


def invoke(folder: Path, text: str, *options: str) -> tuple[int, str, str]:
    path = folder / "story.sql"
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["run", str(path), *options])
    assert "Traceback" not in result.output
    return result.exit_code, result.stdout, result.stderr


def rows(stdout: str) -> list[list[str]]:
    return [line.split() for line in stdout.splitlines() if line.strip() and "─" not in line]


def test_the_last_query_is_shown_when_it_ends(tmp_path: Path) -> None:
    text = "SELECT 'first' AS said; SELECT id * 2 AS twice FROM cs_source"
    code, stdout, stderr = invoke(tmp_path, text, "--stream", "--once", "--limit", "2")
    assert code == 0, stderr
    assert rows(stdout) == [["said"], ["first"], ["twice"], ["0"], ["2"]]
    assert "the first 2 rows" in stderr
    assert "query: finished, 3 rows" in stderr


def test_rows_go_to_files_and_a_second_run_adds_none_twice(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "out"
    for _ in range(2):
        options = ("--stream", "--once", "--output", f"json:{place}")
        code, _, stderr = invoke(tmp_path, "SELECT id FROM cs_source", *options)
        assert code == 0, stderr
        assert f"goes on from its checkpoint {place}/_checkpoint" in stderr
    assert spark.read.json(str(place)).count() == 3


def test_streaming_tables_of_a_script_are_run(tmp_path: Path, spark: SparkSession) -> None:
    text = "CREATE STREAMING TABLE cs_table AS SELECT id FROM cs_source"
    code, _, stderr = invoke(tmp_path, text, "--stream", "--once", "--checkpoint", str(tmp_path / "checkpoints"))
    assert code == 0, stderr
    assert (tmp_path / "checkpoints" / "cs_table" / "_sqlx.json").exists()
    assert spark.table("cs_table").count() == 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_behind_the_running_micro_batch(
    tmp_path: Path, spark: SparkSession, number: int, code: int
) -> None:
    stop = threading.Event()

    def ask_when_it_has_rows() -> None:
        while not stop.wait(0.05):
            query = registry(spark.sparkContext).find("query")
            if query is not None and query.refresh().rows == 3:
                os.kill(os.getpid(), number)
                return

    asking = threading.Thread(target=ask_when_it_has_rows)
    asking.start()
    try:
        found, stdout, stderr = invoke(
            tmp_path, "SELECT id FROM cs_source", "--stream", "--checkpoint", str(tmp_path / "checkpoint")
        )
    finally:
        stop.set()
        asking.join()
    assert found == code, stderr
    assert rows(stdout) == [["id"], ["0"], ["1"], ["2"]]
    assert "query: stopped, 3 rows" in stderr
    assert f"goes on from its checkpoint {tmp_path / 'checkpoint'}" in stderr


def test_a_stream_that_fails_is_a_message(tmp_path: Path) -> None:
    code, _, stderr = invoke(tmp_path, "SELECT assert_true(id < 1, 'too large') FROM cs_source", "--stream", "--once")
    assert code == 1
    assert "[STREAMING.QUERY_FAILED]" in stderr
    assert "too large" in stderr
    assert "\tat " not in stderr


def test_options_that_do_not_fit_are_explained(tmp_path: Path) -> None:
    code, _, stderr = invoke(tmp_path, "SELECT 1", "--once")
    assert (code, "Add --stream" in stderr) == (1, True)
    code, _, stderr = invoke(tmp_path, "CREATE OR REPLACE TEMPORARY VIEW cs_view AS SELECT 1", "--stream")
    assert (code, "There is no stream to run" in stderr) == (1, True)
    code, _, stderr = invoke(tmp_path, "SELECT 1 AS one", "--stream")
    assert (code, "[STREAMING.NOT_LIVE]" in stderr) == (1, True)


@pytest.mark.full
def test_ctrl_c_ends_the_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The signal comes when the first rows were written."""
    script, place = tmp_path / "live.sql", tmp_path / "out"
    script.write_text(
        f"CREATE TEMPORARY STREAM ticks (id BIGINT) USING parquet OPTIONS (path '{tmp_path / 'source'}') "
        "TIMESTAMP BY timestamp_seconds(id);\nSELECT id FROM STREAM ticks"
    )
    command = [sys.executable, "-m", "sqlx", "run", str(script), "--stream", "--output", f"parquet:{place}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    waited = threading.Event()
    while not list(place.glob("_spark_metadata/[0-9]*")) and process.poll() is None:
        waited.wait(0.1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert f"goes on from its checkpoint {place}/_checkpoint" in stderr
    assert not any(word in stderr for word in ("Traceback", "\tat ", "WARN", "ERROR"))
