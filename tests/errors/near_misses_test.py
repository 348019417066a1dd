"""Statements that come close to ours, with all that a user reads: what to write, or Spark's own words where we know
nothing better. `--complete` rewrites ``near_misses.txt``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from sqlx.errors import UnsupportedError
from sqlx.sessions.compile_text import compile_text
from tests.harness.refusals import check_refusals

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

CASES = Path(__file__).with_name("near_misses.txt")


def test_near_misses_say_what_to_write(spark: SparkSession, golden: Callable[[Path, str], None]) -> None:
    plain = "SELECT 1 AS k, TIMESTAMP'2024-01-01 00:00:01' AS ts"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW m_plain AS {plain}")
    spark.sql("CREATE TEMPORARY STREAM m_orders FROM m_plain TIMESTAMP BY ts")
    spark.sql("CREATE TEMPORARY VERSIONED TABLE m_rates FROM m_plain KEYS (k) TIMESTAMP BY ts")

    def error_of(text: str) -> str:
        try:
            spark.sql(text)
        except PySparkException as error:
            return "\n".join(line.rstrip() for line in str(error).strip().splitlines())
        return "no error"

    check_refusals(CASES, error_of, golden)


@pytest.mark.parametrize(
    "text", ["SELECT 1 FROM range(3) DEDUPLICATE BY (id)", "SELECT 1 FROM range(3) FORM x EMIT FINAL"]
)
def test_what_is_no_sql_is_not_compiled(spark: SparkSession, text: str) -> None:
    with pytest.raises(PySparkException, match=r"\^\^\^"):
        compile_text(spark, text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT 1 FROM STREAM compile_clicks c", "STREAM compile_clicks c"),
        ("CREATE OR REPLACE STREAMING TABLE x AS SELECT 1", "CREATE OR REPLACE STREAMING TABLE"),
        ("EXPLAIN TEMPORAL SELECT 1", "EXPLAIN TEMPORAL"),
        ("VERIFY BATCH = STREAM SELECT 1", "VERIFY BATCH = STREAM"),
        ("SHOW STREAMING QUERIES;", "SHOW STREAMING QUERIES"),
        ("STOP STREAMING QUERY x", "STOP STREAMING QUERY"),
    ],
)
def test_what_plain_sql_has_no_form_for_is_not_compiled(spark: SparkSession, text: str, what: str) -> None:
    spark.sql("CREATE TEMPORARY STREAM compile_clicks (id INT, ts TIMESTAMP) TIMESTAMP BY ts")
    try:
        with pytest.raises(UnsupportedError) as refused:
            compile_text(spark, text)
    finally:
        spark.sql("DROP STREAM compile_clicks")
    assert refused.value.condition == "UNSUPPORTED.COMPILE"
    assert f"no form for `{what}`" in str(refused.value)
