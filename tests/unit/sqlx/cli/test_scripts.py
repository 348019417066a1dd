"""Files as scripts and models; which statements only define."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlx.cli.scripts import Script, holds_query, is_definition, read_scripts, split
from sqlx.failures import CommandError


def write(folder: Path, **texts: str) -> list[Path]:
    for name, text in texts.items():
        (folder / f"{name}.sql").write_text(text, encoding="utf-8")
    return [folder / f"{name}.sql" for name in texts]


def read(folder: Path, *assignments: str, **texts: str) -> list[Script]:
    return read_scripts(write(folder, **texts), assignments)


def test_a_script_is_its_statements(tmp_path: Path) -> None:
    (script,) = read(tmp_path, "n=3", x="-- a\nSELECT {{ var('n') }};\n\nSELECT ';' /* ; */;")
    assert [statement.text for statement in script.statements] == ["SELECT 3", "SELECT ';'"]
    assert script.statements[1].place.endswith("x.sql, statement 2 (line 4)")
    assert script.model is None


def test_an_open_string_is_left_to_spark() -> None:
    assert [s.text for s in split("SELECT 'x; SELECT 2", "-e")] == ["SELECT 'x; SELECT 2"]


def test_a_file_that_others_refer_to_is_a_model_and_runs_first(tmp_path: Path) -> None:
    report, base = "SELECT * FROM {{ ref('base') }}", "SELECT 1 AS a"
    scripts = read(tmp_path, report=report, base=base)
    assert [script.model for script in scripts] == [("base", "ephemeral"), None]


def test_config_makes_a_model(tmp_path: Path) -> None:
    (script,) = read(tmp_path, daily="{{ config(materialized='table') }} SELECT 1 AS a")
    assert script.model == ("daily", "table")


def test_a_model_is_one_query(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="exactly one query; it holds 2 statements"):
        read(tmp_path, daily="{{ config(materialized='view') }} SELECT 1; SELECT 2")


def test_a_materialization_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"materialized='incremental' cannot be run here") as refused:
        read(tmp_path, daily="{{ config(materialized='incremental') }} SELECT 1")
    assert "HINT: Choose one of view, table, ephemeral" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v AS SELECT 1",
        "create or replace temp view v as select 1",
        "CREATE STREAM s (a INT) TIMESTAMP BY a",
        "CREATE OR REPLACE TEMPORARY VERSIONED TABLE t FROM r KEYS (k) TIMESTAMP BY ts",
        "CREATE UPSERT TABLE t FROM r KEYS (k) TIMESTAMP BY ts",
        "SET spark.sql.ansi.enabled = false",
        "USE db",
    ],
)
def test_definitions_are_told_from_the_rest(text: str) -> None:
    assert is_definition(text)


@pytest.mark.parametrize("text", ["CREATE TABLE t (a INT)", "DROP VIEW v", "INSERT INTO v SELECT 1", "SELECT 1", ""])
def test_what_changes_data_is_no_definition(text: str) -> None:
    assert not is_definition(text)


def test_a_statement_around_a_query_holds_one() -> None:
    assert holds_query("CREATE TABLE t AS\nSELECT 1")
    assert not holds_query("INSERT INTO t VALUES (1)")
    assert not holds_query("DROP TABLE t")
