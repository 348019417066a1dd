"""Joins and groups of live tables on Spark: replay's changes one by one, and sums of changes with several tasks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import ParseException

from sqlx.replay.driver import ReplayDriver
from sqlx.replay.script import read_script
from tests.harness.marks import gated
from tests.harness.slt_live import SETTINGS, check_live, run_live
from tests.test_worked_table_joins import QUERIES, TABLES, definition, expected

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

#: A group of a join by a foreign key; semantic cases that the gate runs live have the others.
GATE = [
    "SELECT g AS k, sum(n) AS x, count(*) AS y FROM (SELECT b.g, a.k, a.v AS n FROM a JOIN b ON a.f = b.k) GROUP BY g",
]
queries = pytest.mark.parametrize("query", gated(QUERIES, GATE))
assert set(GATE) <= set(QUERIES)


def drawn(query: str) -> tuple[str, list[Any], list[tuple[str, dict[str, Any]]], set[str]]:
    """Definitions, updates, the same as records, and which tables are versioned."""
    dice = random.Random(query)
    updates = [
        (dice.choice(list(TABLES)), dice.choice("pqrs"), dice.choice(["p", "q", "r", None]),
         dice.choice(["p", "h", None]), dice.choice([None, 0, 1, 2, 3]), dice.randrange(20))
        for _ in range(40)
    ]  # fmt: skip
    versioned = {name for name in TABLES if dice.random() < 0.5}
    tables = {name: {"versioned": name in versioned, "retention": 1000} for name in TABLES}
    script = "".join(definition(name, tables[name], columns) for name, columns in TABLES.items())
    records = [(name, {"k": k, "f": f, "g": g, "v": v, "ts": ts * 1000}) for name, k, f, g, v, ts in updates]
    return script, updates, records, versioned


@queries
def test_live_changes_are_those_of_replay(spark: SparkSession, query: str) -> None:
    script, _, records, _ = drawn(query)
    shape = random.Random(query).choice(["CHANGELOG", "UPSERT"])
    check_live(spark, f"{script}{query} EMIT CHANGES AS {shape}", records, [13, 13, 14])


@pytest.mark.full
@queries
def test_changes_of_several_tasks_sum_up_to_the_query(spark: SparkSession, query: str) -> None:
    script, updates, records, versioned = drawn(query)
    text = f"{query} EMIT CHANGES AS CHANGELOG"
    answer = run_live(spark, read_script(script + text), records, [9, 12, 19], text, tasks=3, conf=SETTINGS)
    rows: list[tuple[Any, ...]] = []
    for *values, kind in answer.rows:
        if kind in ("update_before", "delete"):
            rows.remove(tuple(values))
        else:
            rows.append(tuple(values))
    assert sorted(rows, key=str) == expected(query, updates, versioned)


@pytest.mark.parametrize("query", GATE)
def test_state_that_is_read_again_in_each_micro_batch_answers_alike(spark: SparkSession, query: str) -> None:
    """Without memory for states each micro-batch is as after a restart: snapshots and deltas are all there is."""
    script, _, records, _ = drawn(query)
    text = f"{query} EMIT CHANGES AS CHANGELOG"
    forgets = {**SETTINGS, "sqlx.stream.cache_bytes": "0"}
    driver = ReplayDriver(script + text)
    wanted = [(*change.row.values(), change.op) for change in driver.push(records)]
    assert run_live(spark, read_script(script + text), records, [10] * 4, text, conf=forgets).rows == wanted


def test_updates_of_a_join_wait_per_key(spark: SparkSession) -> None:
    script, _, records, _ = drawn("EVERY")
    query = "SELECT a.k, b.v AS x FROM a LEFT JOIN b ON a.f = b.k EMIT EVERY INTERVAL 1 MILLISECOND PER KEY"
    check_live(spark, script + query, records, [20, 20])


FOLLOWS = """
CREATE TEMPORARY UPSERT TABLE d KEYS (k) TIMESTAMP BY at AS
  SELECT k, a.g AS g, a.v AS x, b.v AS y, greatest(a.ts, b.ts) AS at
  FROM a LEFT JOIN b USING (k) WHERE a.v IS NULL OR a.v > 0;
CREATE TEMPORARY UPSERT TABLE e KEYS (g) TIMESTAMP BY at AS
  SELECT g, sum(x) AS n, max(at) AS at FROM d WHERE g IS NOT NULL GROUP BY g;
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "query", ["SELECT k, x, y FROM d EMIT CHANGES", "SELECT c.k, c.v, e.n FROM c JOIN e ON c.g = e.g EMIT CHANGES"]
)
def test_tables_that_follow_queries_are_read_as_in_replay(spark: SparkSession, query: str) -> None:
    script, _, records, _ = drawn(query)
    check_live(spark, script + FOLLOWS + query, records, [13, 13, 14])


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        ("UPSERT TABLE d KEYS (g) TIMESTAMP BY ts AS SELECT k, g, ts FROM a", "has its key: `k`"),
        ("STREAM d TIMESTAMP BY ts AS SELECT k, ts FROM a", "the rows of a stream do not"),
        ("UPSERT TABLE d KEYS (g) TIMESTAMP BY at AS SELECT k, max(g) g, max(ts) at FROM s GROUP BY k", "its key: `k`"),
    ],
)
def test_what_cannot_be_followed_says_why(spark: SparkSession, tmp_path: Path, definition: str, reason: str) -> None:
    session = spark.newSession()
    spark.createDataFrame([], "k STRING, g STRING, ts TIMESTAMP").write.parquet(str(tmp_path / "rows"))
    source = f"(k STRING, g STRING, ts TIMESTAMP) USING parquet OPTIONS (path '{tmp_path / 'rows'}')"
    session.sql(f"CREATE TEMPORARY UPSERT TABLE a {source} KEYS (k) TIMESTAMP BY ts")
    session.sql(f"CREATE TEMPORARY STREAM s {source} TIMESTAMP BY ts")
    session.sql(f"CREATE TEMPORARY {definition}")
    with pytest.raises(ParseException, match=reason):
        session.sql("SELECT * FROM STREAM d")
