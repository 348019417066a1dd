"""DEDUPLICATE on Spark in batch: wherever a relation may stand, by keys of every type, as replay for one arrival."""

from __future__ import annotations

import random
import re

import pytest

import sqlx
import udtf
from sqlx.replay.driver import ReplayDriver
from sqlx.sessions.compile_text import compile_text
from tests.harness.releases import since

ORDERS = """
    (1, 'a', TIMESTAMP'2024-01-01 10:00', 10), (2, 'a', TIMESTAMP'2024-01-01 10:30', 20),
    (3, 'a', TIMESTAMP'2024-01-01 11:30', 30), (4, 'b', TIMESTAMP'2024-01-01 10:00', 40),
    (5, NULL, TIMESTAMP'2024-01-01 10:00', 50), (6, NULL, TIMESTAMP'2024-01-01 10:00', 60), (7, 'a', NULL, 70)"""
CLAUSE = "DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k)"
#: `@` is the deduplicated relation, or the rows that it keeps; both are called `orders` unless an alias follows.
PLACES = {
    "alone": "SELECT * FROM @",
    "alias": "SELECT o.id, o.* FROM @ AS o WHERE o.id > 1",
    "column names": "SELECT b FROM @ AS o (a, b, c, d) WHERE a > 1",
    "cte": "WITH x AS (SELECT * FROM @) SELECT x.k, count(*) FROM x GROUP BY x.k",
    "join": "SELECT l.id, r.id FROM @ l LEFT JOIN @ r ON l.k = r.k AND l.id < r.id",
    "using": "SELECT k, n.name, id FROM names n JOIN @ USING (k)",
    "comma": "SELECT o.id, n.name FROM names n, @ o WHERE n.k = o.k",
    "in": "SELECT id FROM orders WHERE id IN (SELECT id FROM @ WHERE amount > 10)",
    "exists": "SELECT id FROM names n JOIN orders p USING (k) WHERE EXISTS (SELECT 1 FROM @ o WHERE o.id = p.id)",
    "union": "SELECT id FROM @ UNION ALL SELECT amount FROM @",
    "aggregate": "SELECT k, sum(amount) s FROM @ GROUP BY k HAVING s > 20",
    "window": "SELECT id, sum(amount) OVER (PARTITION BY k ORDER BY id) FROM @",
    "lateral": "SELECT o.id, x.d FROM @ o, LATERAL (SELECT o.amount * 2 AS d) x",
    "pipes": "FROM @ |> WHERE id > 1 |> SELECT id, k |> ORDER BY id",
    "count": "SELECT count(*) FROM @",
    "parentheses": "SELECT o.id FROM names n LEFT JOIN (@ o JOIN names m ON m.k = o.k) ON n.k = o.k",
    "subquery below": "SELECT id FROM (SELECT * FROM @ ORDER BY id LIMIT 2)",
}


@pytest.fixture(scope="module")
def db(spark):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders AS SELECT * FROM VALUES {ORDERS} AS t(id, k, ts, amount)")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT * FROM orders WHERE id IN (1, 3, 4, 5, 6)")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW names AS SELECT * FROM VALUES ('a', 'Ann'), ('b', 'Bob') AS t(k, name)")
    spark.sql("CREATE TEMPORARY STREAM arrivals FROM orders TIMESTAMP BY ts SEQUENCE BY id")
    return spark


def written(text: str, ours: bool) -> str:
    words = text.split("@")
    found = words[0]
    for word in words[1:]:
        named = re.match(r"\s+(AS|[lro])\b", word) is not None
        plain = "kept" if named else "kept AS orders"
        found += (f"orders {CLAUSE} ON TIME ts" if ours else plain) + word
    return found


@pytest.mark.parametrize("text", PLACES.values(), ids=PLACES.keys())
def test_it_may_stand_wherever_a_relation_may(db, text):
    ours, plain = (db.sql(written(text, is_ours)) for is_ours in (True, False))
    assert ours.columns == plain.columns
    assert sorted(map(repr, ours.collect())) == sorted(map(repr, plain.collect()))


def ids(frame):
    return sorted(row.id for row in frame.collect())


def test_views_tables_and_inserts_take_it(db):
    db.sql(f"CREATE OR REPLACE TEMPORARY VIEW deduplicated AS SELECT * FROM arrivals {CLAUSE}")
    assert ids(db.table("deduplicated")) == [1, 3, 4, 5, 6]
    db.sql("DROP VIEW deduplicated")
    db.sql(f"CREATE TABLE deduplicated_table AS SELECT id FROM arrivals {CLAUSE} KEEP LAST")
    db.sql(f"INSERT INTO deduplicated_table SELECT id + 100 FROM orders {CLAUSE} ON TIME ts LATE DROP")
    assert ids(db.table("deduplicated_table")) == [2, 3, 4, 5, 6, 101, 103, 104, 105, 106]
    db.sql("DROP TABLE deduplicated_table")


@since((4, 1), "table functions that read Arrow batches")
def test_the_table_function_and_compiled_text_answer_the_same(db):
    udtf.register(db)
    call = (
        "deduplicate(TABLE(orders) PARTITION BY k ORDER BY ts, within => INTERVAL 1 HOUR, by => 'k', on_time => 'ts')"
    )
    assert ids(db.sql(f"SELECT id FROM {call}")) == [1, 3, 4, 5, 6]
    assert ids(db.sql(compile_text(db, f"SELECT id FROM arrivals {CLAUSE}"))) == [1, 3, 4, 5, 6]
    assert ids(db.sql(compile_text(db, f"SELECT id FROM orders {CLAUSE} ON TIME ts"))) == [1, 3, 4, 5, 6]


@since((4, 1), "table functions that read Arrow batches")
def test_a_wrong_call_says_what_is_missing(db):
    udtf.register(db)
    with pytest.raises(Exception, match="on_time must be a column of the input"):
        db.sql("SELECT id FROM deduplicate(TABLE(orders) PARTITION BY k, within => INTERVAL 1 HOUR, by => 'k')")


def test_explain_shows_it(db):
    text = sqlx.explain(db, f"SELECT id FROM arrivals {CLAUSE}")
    assert "deduplicate arrivals, the first of rows within 1 h" in text


def test_names_of_spark_s_own_stay_so(db):
    assert db.sql("SELECT id deduplicate FROM orders deduplicate WHERE deduplicate.id = 1").columns == ["deduplicate"]
    assert db.sql("SELECT deduplicate within FROM (SELECT 1 AS deduplicate)").columns == ["within"]


KEYS = {
    "TINYINT": "CAST(n % 3 AS TINYINT)", "BIGINT": "n % 3 - 1L", "STRING": "repeat('ä', n % 3)",
    "BINARY": "CAST(repeat('x', n % 3) AS BINARY)", "BOOLEAN": "n % 2 = 0", "DATE": "date_add(DATE'2024-01-01', n % 3)",
    "TIMESTAMP": "timestamp_micros(n % 3)", "TIMESTAMP_NTZ": "CAST(timestamp_micros(n % 3) AS TIMESTAMP_NTZ)",
    "DECIMAL(30,2)": "CAST(n % 3 AS DECIMAL(30,2))", "DECIMAL(9,2)": "CAST(n % 3 AS DECIMAL(9,2))",
    "DOUBLE": "element_at(array(0D, -0D, 'NaN'), n % 3 + 1)", "FLOAT": "CAST(n % 3 AS FLOAT)",
    "ARRAY<INT>": "array(n % 3, NULL)", "STRUCT<a: INT, b: STRING>": "named_struct('a', n % 3, 'b', 'x')",
    "INTERVAL DAY TO SECOND": "make_dt_interval(0, 0, 0, n % 3)",
}  # fmt: skip


@pytest.mark.full
def test_keys_of_every_type(spark):
    """As by a number that is equal where they are: the rows are few enough for one task."""
    spark.range(60).selectExpr("CAST(id AS INT) AS n", "timestamp_micros(id * 7) AS ts").createOrReplaceTempView("n")
    for kind, key in KEYS.items():
        same = {"BOOLEAN": "n % 2", "DOUBLE": "n % 3 DIV 2"}.get(kind, "n % 3")
        spark.sql(f"SELECT n, ts, {key} AS k, {same} AS same FROM n").createOrReplaceTempView("keyed")
        found, expected = (
            spark.sql(f"SELECT n FROM keyed DEDUPLICATE WITHIN INTERVAL 0.0001 SECOND BY ({by}) ON TIME ts").collect()
            for by in ("k", "same")
        )
        assert sorted(found) == sorted(expected), kind
        assert len(found) > 1, kind


@pytest.mark.parametrize("options", ["", "LATE DROP", "KEEP LAST"])
def test_batch_is_replay_for_the_same_arrival(spark, options):
    """Sixteen tasks each, so that stream time is the same; KEEP LAST closes all groups at the end."""
    numbers = random.Random(7)
    rows = [(n, numbers.choice([*"abcdefgh", None]), numbers.randrange(400), n) for n in range(300)]
    query = f"SELECT n FROM s DEDUPLICATE WITHIN INTERVAL '20' MICROSECONDS BY (k) {options}"
    driver = ReplayDriver(
        f"CREATE STREAM s (n INT, k STRING, ts TIMESTAMP) TIMESTAMP BY ts SEQUENCE BY n; {query}", tasks=16
    )
    changes = driver.push([("s", {"n": n, "k": k, "ts": ts}) for n, k, ts, _ in rows])
    if options == "KEEP LAST":  # stream time far ahead completes all groups, in every task
        changes += driver.push([("s", {"n": -1, "k": f"end {n}", "ts": 10**6}) for n in range(200)])
    spark.createDataFrame(rows, "n INT, k STRING, t BIGINT, x INT").selectExpr(
        "n", "k", "timestamp_micros(t) AS ts"
    ).repartition(5).createOrReplaceTempView("scattered")
    spark.sql("CREATE OR REPLACE TEMPORARY STREAM s FROM scattered TIMESTAMP BY ts SEQUENCE BY n")
    assert sorted(row.n for row in spark.sql(query).collect()) == sorted(c.row["n"] for c in changes if c.row["n"] >= 0)
