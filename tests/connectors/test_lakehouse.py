"""Tables of Delta and Iceberg that streams keep: each micro-batch once, also after a crash; read without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.connectors.jars import is_43
from sqlx.errors import TemporalSqlError
from tests.harness.keyed import DEFINITION, QUERY, Keyed, lives_and_deaths
from tests.harness.killing import warehouse
from tests.harness.lake import (
    ADDING,
    DELTA,
    FORMATS,
    ICEBERG,
    NOW,
    Format,
    changes_are_merged_once,
    late_rows_are_kept_once,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    Rows = Callable[[str], list[Any]]


def less_in_the_gate(forms: list[Any], left_out: str) -> list[Any]:
    """The formats, of which the gate leaves one out: the other takes the same way there."""
    return [
        pytest.param(*form.values, marks=[*form.marks, pytest.mark.full], id=form.id) if form.id == left_out else form
        for form in forms
    ]


@pytest.mark.parametrize("form", less_in_the_gate(FORMATS, "delta"))
def test_changes_are_merged_once(spark: SparkSession, tmp_path: Path, form: Format) -> None:
    changes_are_merged_once(spark, tmp_path, form, warehouse(spark))


@pytest.mark.parametrize("form", less_in_the_gate(ADDING, "iceberg"))
def test_late_rows_are_kept_beside_the_result_once(spark: SparkSession, tmp_path: Path, form: Format) -> None:
    late_rows_are_kept_once(spark, tmp_path, form, warehouse(spark))


JOIN = "SELECT o.id, r.rate FROM i_orders o JOIN i_prices r AS OF o.ts ON o.ccy = r.ccy"


@pytest.mark.iceberg
def test_iceberg_tables_are_joined_bounded_and_live(spark: SparkSession, rows: Rows) -> None:
    second = "TIMESTAMP'2024-01-01 00:00:0"
    spark.sql("CREATE TABLE iceberg.lake.sent (id INT, ccy STRING, ts TIMESTAMP) USING iceberg")
    spark.sql("CREATE TABLE iceberg.lake.rates (ccy STRING, rate DOUBLE, ts TIMESTAMP) USING iceberg")
    spark.sql(f"INSERT INTO iceberg.lake.rates VALUES ('EUR', 1.1, {second}1'), ('EUR', 1.2, {second}5')")
    spark.sql(f"INSERT INTO iceberg.lake.sent VALUES (2, 'EUR', {second}2'), (6, 'EUR', {second}6')")
    spark.sql("CREATE STREAM i_orders FROM iceberg.lake.sent TIMESTAMP BY ts SEQUENCE BY ts")
    spark.sql("CREATE VERSIONED TABLE i_prices FROM iceberg.lake.rates KEYS (ccy) TIMESTAMP BY ts SEQUENCE BY ts")
    assert rows(JOIN) == [(2, 1.1), (6, 1.2)]
    assert rows("SELECT ccy, rate FROM i_prices") == [("EUR", 1.2)]
    text = f"CREATE STREAMING TABLE iceberg.lake.priced USING iceberg {NOW} AS {JOIN}"
    spark.sql(text)
    assert rows("SELECT * FROM iceberg.lake.priced") == [(2, 1.1), (6, 1.2)]
    spark.sql(f"INSERT INTO iceberg.lake.sent VALUES (7, 'EUR', {second}7')")
    spark.sql(text)
    spark.sql(text)
    assert rows("SELECT * FROM iceberg.lake.priced") == [(2, 1.1), (6, 1.2), (7, 1.2)]
    assert ICEBERG.read(warehouse(spark) / "iceberg/lake/priced") == [(2, 1.1), (6, 1.2), (7, 1.2)]


@pytest.mark.iceberg
def test_a_table_that_is_somebody_elses_is_left_alone(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE iceberg.lake.theirs (g STRING, n BIGINT, v BIGINT) USING iceberg")
    spark.sql("INSERT INTO iceberg.lake.theirs VALUES ('a', 1, 1)")
    Keyed(tmp_path).add()
    spark.sql(DEFINITION.format(folder=tmp_path))
    for create in ("CREATE", "CREATE OR REPLACE"):
        with pytest.raises(TemporalSqlError) as refused:
            spark.sql(
                f"{create} STREAMING TABLE iceberg.lake.theirs USING iceberg OPTIONS (write.mode 'upsert') {NOW} "
                f"AS {QUERY} AS CHANGELOG"
            )
        assert refused.value.getCondition() == "STREAMING.TABLE_EXISTS"
    assert rows("SELECT * FROM iceberg.lake.theirs") == [("a", 1, 1)]


@pytest.mark.usefixtures("connectors")
@pytest.mark.slow
@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes below one in /proc")
@pytest.mark.parametrize("form", FORMATS)
def test_kills_leave_the_current_rows(tmp_path: Path, form: Format) -> None:
    place = tmp_path / "warehouse" / ("iceberg/db/joined" if form.name == "iceberg" else "joined")
    keyed = lives_and_deaths(tmp_path, form.name, int(os.environ.get("SQLX_KILLS", "6")), lambda: form.read(place))
    assert form.read(place) == keyed.answer


#: What a row of a change feed replaces, and what it leaves: of an update both come under the number of one commit.
FEED = (
    "SEQUENCE BY _commit_version * 2 + CAST(_change_type IN ('insert', 'update_postimage') AS INT) "
    "APPLY AS DELETE WHEN _change_type IN ('delete', 'update_preimage')"
)


@pytest.mark.delta
@pytest.mark.skipif(is_43(), reason="Delta has no UPDATE on PySpark 4.3, and none is read by its path")
def test_a_change_feed_of_delta_is_a_table(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    spark.sql(
        "CREATE TABLE f_people (id INT, name STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql("INSERT INTO f_people VALUES (1, 'ann'), (2, 'bob')")
    spark.sql("UPDATE f_people SET name = 'anna' WHERE id = 1")
    options = f"USING delta OPTIONS (path '{warehouse(spark)}/f_people', readChangeFeed 'true', startingVersion '0')"
    with pytest.raises(TemporalSqlError) as refused:
        spark.sql(f"CREATE UPSERT TABLE f_now {options} KEYS (id) TIMESTAMP BY _commit_timestamp {FEED}")
    assert refused.value.getCondition() == "DELTA.OPTIONS"
    spark.sql(f"CREATE TEMPORARY UPSERT TABLE f_now {options} KEYS (id) TIMESTAMP BY _commit_timestamp {FEED}")
    spark.sql(f"CREATE TEMPORARY VERSIONED TABLE f_then {options} KEYS (id) TIMESTAMP BY _commit_timestamp {FEED}")
    text = (
        f"CREATE STREAMING TABLE f_kept USING delta OPTIONS (write.mode 'upsert') CHECKPOINT '{tmp_path}/checkpoint' "
        f"{NOW} AS SELECT id, name FROM f_now EMIT CHANGES AS CHANGELOG"
    )
    spark.sql(text)
    assert rows("SELECT id, name FROM f_now") == DELTA.read(warehouse(spark) / "f_kept") == [(1, "anna"), (2, "bob")]
    spark.sql("DELETE FROM f_people WHERE id = 2")
    spark.sql("INSERT INTO f_people VALUES (3, 'eve')")
    spark.sql("UPDATE f_people SET name = 'eva' WHERE id = 3")
    spark.sql(text)
    assert rows("SELECT id, name FROM f_now") == DELTA.read(warehouse(spark) / "f_kept") == [(1, "anna"), (3, "eva")]
    assert rows("SELECT id, name, valid_to IS NULL FROM history(f_then)") == [
        (1, "ann", False),
        (1, "anna", True),
        (2, "bob", False),
        (3, "eva", True),
        (3, "eve", False),
    ]


@pytest.mark.iceberg
def test_a_changelog_view_of_iceberg_is_a_history(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE iceberg.lake.people (id INT, name STRING) USING iceberg")
    spark.sql("INSERT INTO iceberg.lake.people VALUES (1, 'ann'), (2, 'bob')")
    spark.sql("UPDATE iceberg.lake.people SET name = 'anna' WHERE id = 1")
    spark.sql("DELETE FROM iceberg.lake.people WHERE id = 2")
    spark.sql("INSERT INTO iceberg.lake.people VALUES (2, 'ben')")
    spark.sql(
        "CALL iceberg.system.create_changelog_view(table => 'lake.people', changelog_view => 'i_changes', "
        "identifier_columns => array('id'))"
    )
    spark.sql(
        "CREATE TEMPORARY VIEW i_feed AS SELECT c.*, s.committed_at FROM i_changes c "
        "JOIN iceberg.lake.people.snapshots s ON s.snapshot_id = c._commit_snapshot_id"
    )
    spark.sql(
        "CREATE TEMPORARY VERSIONED TABLE i_people FROM i_feed KEYS (id) TIMESTAMP BY committed_at "
        "SEQUENCE BY _change_ordinal * 2 + CAST(_change_type IN ('INSERT', 'UPDATE_AFTER') AS INT) "
        "APPLY AS DELETE WHEN _change_type IN ('DELETE', 'UPDATE_BEFORE')"
    )
    assert (
        rows("SELECT id, name FROM i_people") == rows("SELECT * FROM iceberg.lake.people") == [(1, "anna"), (2, "ben")]
    )
    assert rows("SELECT id, name, valid_to IS NULL FROM history(i_people)") == [
        (1, "ann", False),
        (1, "anna", True),
        (2, "ben", True),
        (2, "bob", False),
    ]
    at = spark.sql("SELECT committed_at FROM iceberg.lake.people.snapshots ORDER BY committed_at").collect()
    asked = ", ".join(f"({number}, TIMESTAMP'{one[0]}')" for number, one in enumerate(at))
    spark.sql(f"CREATE TEMPORARY VIEW i_asked AS SELECT 2 AS id, * FROM VALUES {asked} AS asked (n, ts)")
    join = "SELECT a.n, p.name FROM i_asked a LEFT JOIN i_people p AS OF a.ts ON a.id = p.id"
    assert rows(join) == [(0, "bob"), (1, "bob"), (2, None), (3, "ben")]


@pytest.mark.full
@pytest.mark.parametrize("form", ADDING)  # bounded, Spark asks for the size of a UNION, which Delta cannot say on 4.3
def test_versioned_and_scd2_tables_over_tables_of_a_lake(spark: SparkSession, rows: Rows, form: Format) -> None:
    second, names = "TIMESTAMP'2026-01-01 10:00:0", {n: f"{form.prefix}s_{n}_{form.name}" for n in ("asked", "spans")}
    spark.sql(f"CREATE TABLE {names['asked']} (id INT, k INT, ts TIMESTAMP) USING {form.name}")
    spark.sql(f"CREATE TABLE {names['spans']} (k INT, v STRING, f TIMESTAMP, t TIMESTAMP) USING {form.name}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY STREAM s_asked FROM {names['asked']} TIMESTAMP BY ts")
    spark.sql(f"CREATE TEMPORARY VERSIONED TABLE s_spans FROM SCD2 TABLE {names['spans']} KEYS (k) VALID (f, t)")
    query = "SELECT a.id, s.v FROM s_asked a LEFT JOIN s_spans s AS OF a.ts ON a.k = s.k"
    text = f"CREATE STREAMING TABLE s_answers_{form.name} USING parquet {NOW} TASKS 1 AS {query}"
    try:
        spark.sql(f"INSERT INTO {names['spans']} VALUES (1, 'a', {second}0', {second}4'), (1, 'b', {second}4', NULL)")
        spark.sql(f"INSERT INTO {names['asked']} VALUES (1, 1, {second}3'), (2, 1, {second}4'), (3, 2, {second}5')")
        spark.sql(text)
        spark.sql(f"INSERT INTO {names['spans']} VALUES (2, 'c', {second}6', {second}8')")
        spark.sql(f"INSERT INTO {names['asked']} VALUES (4, 2, {second}7'), (5, 2, {second}8'), (6, 1, {second}9')")
        spark.sql(text)
        expected = [(1, "a"), (2, "b"), (3, None), (4, "c"), (5, None), (6, "b")]
        assert rows(query) == rows(f"SELECT * FROM s_answers_{form.name}") == expected
    finally:
        spark.sql("DROP VERSIONED TABLE s_spans")
