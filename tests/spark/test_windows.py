"""Sliding windows on Spark in batch: by the operator, wherever a grouped query may stand, and as plain SQL."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

import sqlx
from sqlx.sessions.compile_text import compile_text
from sqlx.sql.expressions import AGGREGATES

MINUTE = timedelta(minutes=1)
NOON = datetime(2024, 3, 31, 12)
#: Key, minutes past noon, value.
ROWS = [("a", 0, 1), ("a", 5, 2), ("a", 5, 4), ("a", 40, None), (None, 0, 16), ("b", None, 32)]
BY = "sliding_window(ts, '10 minutes')"
#: Key, minutes past noon of the end, one microsecond more or none, rows, sum, values.
WINDOWS = [
    ("a", 0, 0, 1, 1, [1]), ("a", 5, 0, 3, 7, [1, 2, 4]), ("a", 10, 1, 2, 6, [2, 4]), ("a", 40, 0, 1, None, []),
    (None, 0, 0, 1, 16, [16]),
]  # fmt: skip


@pytest.fixture(scope="module")
def db(spark):
    rows = [(k, None if at is None else NOON + at * MINUTE, v, n) for n, (k, at, v) in enumerate(ROWS)]
    spark.createDataFrame(rows, "k STRING, ts TIMESTAMP, v INT, n INT").repartition(3).createOrReplaceTempView("s")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW names AS SELECT * FROM VALUES ('a', 'Ann'), ('b', 'Bob') AS t(k, name)")
    spark.sql("CREATE TEMPORARY STREAM arrivals FROM s TIMESTAMP BY ts SEQUENCE BY n")
    return spark


def bag(rows):
    return sorted((tuple(row) for row in rows), key=repr)


def expected(*places):
    """Some columns of the windows; 1 is the end and -1 the start."""
    found = []
    for k, at, more, *others in WINDOWS:
        end = NOON + at * MINUTE + timedelta(microseconds=more)
        whole = {0: k, 1: end, -1: end - 10 * MINUTE, 2: others[0], 3: others[1], 4: others[2]}
        found.append(tuple(whole[place] for place in places))
    return sorted(found, key=repr)


COUNTED = (
    f"SELECT k, sliding_window.start AS ws, sliding_window.end AS we, count(*) AS n, sum(v) FROM @ GROUP BY k, {BY}"
)


@pytest.mark.parametrize("relation", ["s", "arrivals", "(SELECT * FROM s WHERE n >= 0)"])
@pytest.mark.parametrize("clauses", ["", "EMIT FINAL", "GRACE PERIOD INTERVAL '1' SECOND EMIT FINAL"])
def test_every_row_with_a_time_counts(db, relation, clauses):
    found = db.sql(f"{COUNTED.replace('@', relation)} {clauses}")
    assert found.columns == ["k", "ws", "we", "n", "sum(v)"]
    assert bag(found.collect()) == expected(0, -1, 1, 2, 3)


def test_changes_of_a_batch_query_are_inserts(db):
    found = db.sql(f"SELECT k, count(*) AS n FROM s GROUP BY k, {BY} EMIT CHANGES")
    assert found.columns == ["k", "n", "_change_type"]
    assert bag(found.collect()) == [(*row, "insert") for row in expected(0, 2)]


def test_aggregates_without_a_fold_are_computed_by_spark(db):
    listed = "array_sort(collect_list(v)), percentile(v, 0.5), first(v) FILTER (WHERE v > 1) IGNORE NULLS"
    query = (
        f"SELECT k, sliding_window.end AS we, {listed}, count(DISTINCT v), count(v), max(ts) FROM s GROUP BY k, {BY}"
    )
    for k, end, values, middle, first, distinct, count, last in db.sql(query).collect():
        assert (k, end, values) in expected(0, 1, 4)
        assert middle == (values[len(values) // 2] if len(values) % 2 else sum(values) / 2 if values else None)
        assert first in ([value for value in values if value > 1] or [None])
        assert (distinct, count) == (len(values), len(values))
        assert last <= end
    assert db.sql(query).count() == len(WINDOWS)


def test_compiled_aggregates_are_those_that_spark_computes(db):
    calls = [
        "count(*)", "count(v)", "count(k)", "sum(v)", "avg(v)", "min(v)", "max(ts)", "stddev(v)", "var_pop(v)",
        "sum(CAST(v AS DECIMAL(10,2)))", "avg(CAST(v AS DECIMAL(10,2)))", "bool_and(v > 1)", "bit_xor(v)",
        "count_if(v > 1)", "sum(v) FILTER (WHERE v > 1)", "min(CAST(ts AS DATE))", "max(CAST(v AS FLOAT))",
    ]  # fmt: skip
    text = f"SELECT k, sliding_window.end, {', '.join(calls)} FROM s GROUP BY k, {BY}"
    listed = text.replace(" FROM s", ", collect_list(v) FROM s")
    assert bag(db.sql(text).collect()) == bag(row[:-1] for row in db.sql(listed).collect())
    assert "Spark aggregates" not in sqlx.explain(db, text)
    assert "members of each window, which whole tasks list, for collect_list" in sqlx.explain(db, listed)


PLACES = {
    "cte": f"WITH w AS (SELECT k, count(*) AS n FROM s GROUP BY k, {BY}) SELECT k, n FROM w",
    "subquery": f"SELECT k, n FROM (SELECT k, count(*) AS n, {BY} AS w FROM s GROUP BY k, w)",
    "by ordinal": f"SELECT k, c FROM (SELECT k, {BY}, count(*) AS c FROM s GROUP BY 1, 2)",
    "group by all": f"SELECT k, c FROM (SELECT k, {BY}.end, count(*) AS c FROM s GROUP BY ALL)",
    "after a join": f"SELECT s.k, count(*) FROM s LEFT JOIN names USING (k) GROUP BY s.k, {BY}",
    "order": f"SELECT k, count(*) FROM s GROUP BY k, {BY} ORDER BY sliding_window.end DESC, s.k, sum(v) LIMIT 9",
    "lateral view": f"SELECT k, count(*) FROM s LATERAL VIEW explode(array(1)) e AS x WHERE x = 1 GROUP BY k, x, {BY}",
    "having": f"SELECT k, count(*) AS c FROM s GROUP BY k, {BY} HAVING c > 0 AND sum(v) IS NOT NULL OR c = 1",
    "ranked": f"SELECT k, n FROM (SELECT k, count(*) n, rank() OVER (ORDER BY max(v)) FROM s GROUP BY k, {BY})",
    "in": f"SELECT k, count(*) FROM s WHERE n IN (SELECT n FROM s) GROUP BY k, {BY}",
    "of windows": f"SELECT k, max(n) FROM (SELECT k, count(*) n, sliding_window.end ts FROM s GROUP BY 1, {BY}) "
    "GROUP BY k, sliding_window(ts, '1 microsecond')",
}  # fmt: skip


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES.keys())
def test_they_may_stand_wherever_a_group_may(db, text):
    assert bag(db.sql(text).collect()) == expected(0, 2)


def test_views_tables_and_inserts_take_them(db):
    query = f"SELECT k, count(*) AS n FROM s GROUP BY k, {BY}"
    db.sql(f"CREATE OR REPLACE TEMPORARY VIEW slid AS {query}")
    assert bag(db.table("slid").collect()) == expected(0, 2)
    db.sql("DROP VIEW slid")
    db.sql("CREATE TABLE slid_rows AS SELECT * FROM s")
    db.sql(f"CREATE VIEW slid AS {query.replace('FROM s', 'FROM slid_rows')}")
    assert bag(db.table("slid").collect()) == expected(0, 2)
    db.sql("DROP VIEW slid")
    db.sql("DROP TABLE slid_rows")
    db.sql(f"CREATE TABLE slid AS {query}")
    db.sql(f"INSERT INTO slid {query}")
    assert bag(db.table("slid").collect()) == sorted(2 * expected(0, 2), key=repr)
    db.sql("DROP TABLE slid")


@pytest.mark.parametrize("relation", ["s", "(SELECT k, v, n, CAST(ts AS TIMESTAMP_NTZ) AS ts FROM s)"])
def test_compiled_text_answers_the_same(db, relation):
    text = f"{COUNTED.replace('@', relation)} HAVING count(*) > 0"
    plain = compile_text(db, text)
    assert "sliding_window(" not in plain
    assert bag(db.sql(plain).collect()) == bag(db.sql(text).collect()) == expected(0, -1, 1, 2, 3)


def test_bounds_are_of_the_type_of_the_time_and_know_no_change_of_clocks(spark):
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    query = "SELECT sliding_window.start, sliding_window.end FROM (SELECT {} AS t) GROUP BY sliding_window(t, '1 day')"
    instant, local = "TIMESTAMP'2024-03-31 12:00:00 UTC'", "TIMESTAMP_NTZ'2024-03-31 12:00:00'"
    (row,) = session.sql(f"SELECT string(start), string(end) FROM ({query.format(instant)})").collect()
    assert tuple(row) == ("2024-03-30 13:00:00", "2024-03-31 14:00:00")
    (row,) = session.sql(query.format(local)).collect()
    assert tuple(row) == (NOON - timedelta(days=1), NOON)
    assert [kind for _, kind in session.sql(query.format(local)).dtypes] == ["timestamp_ntz"] * 2


def test_explain_says_how_they_run(db):
    text = sqlx.explain(db, f"SELECT k, count(*) FROM s GROUP BY k, {BY}")
    assert "aggregate s by sliding windows of 10 min, both ends included" in text
    assert "runs: whole tasks" in text
    assert "stream time" not in text


def test_every_aggregate_of_spark_is_known_as_one(spark):
    found = set()
    for (name,) in spark.sql("SHOW ALL FUNCTIONS").collect():
        if re.fullmatch(r"\w+", name):
            described = spark.sql(f"DESCRIBE FUNCTION EXTENDED `{name}`").collect()
            kind = next((row[0] for row in described if row[0].startswith("Class: ")), "")
            found |= {name} if re.search(r"\.aggregate\.|Agg\w*$", kind) else set()
    assert len(found) > 60
    assert found - AGGREGATES <= {"aggregate", "reduce", "measure"}  # those of arrays, and of metric views
