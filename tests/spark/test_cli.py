"""The command line with Spark after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import sqlx.cli.start
from sqlx.cli.app import app
from sqlx.cli.scripts import split
from tests.harness.releases import since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITIONS = """
CREATE OR REPLACE TEMPORARY VIEW cli_orders AS SELECT * FROM VALUES
  (1, 'EUR', TIMESTAMP '2026-03-02 08:30:00'), (2, 'EUR', TIMESTAMP '2026-03-02 09:15:00')
  AS t(id, currency, ordered_at);
CREATE OR REPLACE TEMPORARY VIEW cli_changes AS SELECT * FROM VALUES
  ('EUR', TIMESTAMP '2026-03-02 09:00:00', 1.05) AS t(currency, changed_at, rate);
CREATE OR REPLACE TEMPORARY VERSIONED TABLE cli_rates FROM cli_changes KEYS (currency) TIMESTAMP BY changed_at;
"""
JOIN = "SELECT o.id, r.rate FROM cli_orders o LEFT JOIN cli_rates r AS OF o.ordered_at ON o.currency = r.currency"


@pytest.fixture(autouse=True)
def one_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands run in the session of all tests, and leave it running."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(sqlx.cli.start, "_start", lambda *_: spark)
    yield
    for name in ("cli_orders", "cli_changes", "cli_rates", "cli_base"):
        spark.catalog.dropTempView(name)


def invoke(*args: str, stdin: str = "") -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(args), input=stdin)
    assert "Traceback" not in result.output
    return result.exit_code, result.stdout, result.stderr


def rows(stdout: str) -> list[list[str]]:
    return [line.split() for line in stdout.splitlines() if line.strip() and "─" not in line]


def script(folder: Path, text: str, name: str = "story") -> str:
    path = folder / f"{name}.sql"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_run_prints_the_result_of_a_script(tmp_path: Path) -> None:
    code, stdout, stderr = invoke("run", script(tmp_path, f"{DEFINITIONS}{JOIN} ORDER BY o.id;"))
    assert code == 0, stderr
    assert rows(stdout) == [["id", "rate"], ["1", "NULL"], ["2", "1.05"]]
    assert stderr == "2 rows\n"


def test_run_replaces_variables_and_limits_rows(tmp_path: Path) -> None:
    path = script(tmp_path, "SELECT id AS n FROM range({{ var('rows', 2) }})")
    code, stdout, stderr = invoke("run", path, "--var", "rows=5", "--limit", "3")
    assert code == 0
    assert rows(stdout) == [["n"], ["0"], ["1"], ["2"]]
    assert "the first 3 rows; --limit shows more" in stderr


def test_run_puts_models_in_order(tmp_path: Path) -> None:
    report = script(tmp_path, "SELECT sum(n) AS total FROM {{ ref('cli_base') }}", "report")
    base = script(tmp_path, "SELECT id AS n FROM range(5)", "cli_base")
    code, stdout, _ = invoke("run", report, base)
    assert code == 0
    assert rows(stdout) == [["total"], ["10"]]


def test_an_error_of_ours_is_shown_with_its_place_and_caret(tmp_path: Path) -> None:
    path = script(tmp_path, f"{DEFINITIONS}\nSELECT 1 AS one;\n{JOIN.replace('cli_rates', 'cli_changes')};\nSELECT 2")
    code, stdout, stderr = invoke("run", path)
    assert code == 1
    assert rows(stdout) == [["one"], ["1"]]
    assert "story.sql, statement 5 (line " in stderr
    assert "[AS_OF_JOIN." in stderr
    assert "^^^^" in stderr
    assert "HINT:" in stderr


def test_an_error_of_sparks_keeps_its_words_and_shows_no_plan() -> None:
    code, _, stderr = invoke("sql", "-e", "SELECT * FROM nowhere_at_all")
    assert code == 1
    assert "[TABLE_OR_VIEW_NOT_FOUND] The table or view `nowhere_at_all` cannot be found" in stderr
    assert "UnresolvedRelation" not in stderr


def test_an_error_while_rows_are_computed_is_a_message() -> None:
    code, _, stderr = invoke("sql", "-e", "SELECT assert_true(id < 5, 'too many') FROM range(10)")
    assert code == 1
    assert "too many" in stderr
    assert "\tat " not in stderr


def test_types_are_shown_as_spark_writes_them() -> None:
    query = "SELECT X'0fa0' AS b, ARRAY(1, NULL) AS a, DATE '2026-01-02' AS d, CAST(NULL AS INT) AS n, 1 AS d"
    code, stdout, stderr = invoke("sql", "-e", query)
    assert code == 0, stderr
    assert stdout.splitlines()[-1].split("   ") == ["0FA0", "[1, null]", "2026-01-02", "NULL", "1"]


def test_sql_reads_a_script_from_standard_input() -> None:
    code, stdout, _ = invoke("sql", stdin="SELECT 1 AS a;\nSELECT 2 AS b")
    assert code == 0
    assert rows(stdout) == [["a"], ["1"], ["b"], ["2"]]


def test_explain_shows_stages_and_runs_definitions_only(tmp_path: Path, spark: SparkSession) -> None:
    insert = f"CREATE TABLE cli_must_not_exist AS {JOIN}"
    code, stdout, stderr = invoke(
        "explain", script(tmp_path, f"{DEFINITIONS}{JOIN};\n{insert};\nDROP TABLE IF EXISTS x")
    )
    assert code == 0, stderr
    assert stdout.count("AS OF join (left) with the versions of") == 2
    assert not spark.catalog.tableExists("cli_must_not_exist")


def test_explain_takes_the_query_of_explain_temporal_and_says_where_there_is_none(tmp_path: Path) -> None:
    code, stdout, stderr = invoke("explain", script(tmp_path, f"{DEFINITIONS}EXPLAIN TEMPORAL\n{JOIN};"))
    assert code == 0, stderr
    assert stdout.count("AS OF join (left) with the versions of") == 1
    code, stdout, stderr = invoke("explain", "-e", "SHOW TABLES")
    assert (code, stdout, stderr) == (0, "", "There is no query to explain.\n")


@since((4, 1), "table functions that read Arrow batches")
def test_compile_prints_a_script_that_spark_runs_without_our_parser(tmp_path: Path, spark: SparkSession) -> None:
    code, stdout, stderr = invoke("compile", script(tmp_path, f"{DEFINITIONS}{JOIN} ORDER BY o.id"))
    assert code == 0, stderr
    statements = [statement.text for statement in split(stdout, "compiled")]
    assert not any(" AS OF " in statement or "VERSIONED TABLE" in statement for statement in statements)
    assert [tuple(row) for row in [spark.sql(statement) for statement in statements][-1].collect()] == [
        (1, None),
        (2, Decimal("1.05")),
    ]


@pytest.mark.full
def test_the_command_in_a_process_of_its_own_shows_no_stack_trace(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sqlx", "sql", "--warehouse", str(tmp_path / "house"), "-e"]
    text = "CREATE TABLE kept AS SELECT 42 AS n; SELECT n FROM kept; SELECT 1 / 0"
    done = subprocess.run([*command, text], capture_output=True, text=True, timeout=280, cwd=tmp_path, check=False)
    assert done.returncode == 1, done.stderr
    assert rows(done.stdout) == [["n"], ["42"]]
    assert "[DIVIDE_BY_ZERO]" in done.stderr
    assert not any(word in done.stderr for word in ("Traceback", "\tat ", "WARN", "log4j"))
    assert (tmp_path / "house" / "kept").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["house"]


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_start_after_warming_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    archive, log = tmp_path / "spark.jsa", tmp_path / "loaded.log"

    def ran(*arguments: str, **further: str) -> str:
        own = {**os.environ, "SQLX_CLASS_ARCHIVE": str(archive), **further}
        command = [sys.executable, "-m", "sqlx", *arguments]
        return subprocess.run(command, env=own, capture_output=True, text=True, timeout=500, check=True).stdout

    assert str(archive) in ran("warm")
    options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Xlog:class+load:file={log}"
    assert "42" in ran("sql", "-e", "SELECT 42 AS answer", SPARK_SUBMIT_OPTS=options)
    assert log.read_text().count("shared objects file (top)") > 5000
