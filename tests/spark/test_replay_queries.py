"""Queries over single rows in replay beside Spark: the same rows and names, what generators make in its order."""

from __future__ import annotations

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.testing import ReplayDriver
from tests.harness.marks import gated

DEFINITION = "CREATE STREAM o (id INT, a ARRAY<INT>, s STRING, ts TIMESTAMP) TIMESTAMP BY ts;"
ROWS = [
    (1, [5, 3, 9], "b,a,,c"),
    (2, None, None),
    (3, [], ""),
    (4, [7, None, 7, 1], ","),
    (5, [None], "x%y_z"),
    (6, list(range(2100, 0, -1)), "z" * 40),
]
QUERIES = (
    "SELECT id, x FROM {o} LATERAL VIEW explode(a) t AS x",
    "SELECT id, x FROM {o} LATERAL VIEW OUTER explode(a) t AS x",
    "SELECT id, x FROM {o} LATERAL VIEW explode_outer(a) t AS x",
    "SELECT id, p, x FROM {o} LATERAL VIEW posexplode(a) t AS p, x",
    "SELECT id, p, x FROM {o} LATERAL VIEW OUTER posexplode(array(id, 7, id)) t AS p, x",
    "SELECT id, pos, col FROM {o} LATERAL VIEW posexplode_outer(a) t",
    "SELECT id, t.col FROM {o} LATERAL VIEW explode(split(s, ',')) t",
    "SELECT id, x FROM {o} LATERAL VIEW OUTER explode(split(s, ',')) t AS x WHERE x IS NULL OR x <> 'a'",
    "SELECT o.id, t.x, u.y FROM {o} LATERAL VIEW explode(a) t AS x LATERAL VIEW explode(array(t.x, o.id)) u AS y",
    "SELECT id, x, q, y FROM {o} LATERAL VIEW OUTER explode(a) t AS x LATERAL VIEW posexplode(array(x, 1)) u AS q, y",
    "SELECT t.*, id FROM {o} LATERAL VIEW posexplode(a) t AS p, x",
    "SELECT * EXCEPT (a, s, ts) FROM {o} LATERAL VIEW explode(a) t AS x",
    "SELECT id, x FROM {o}, LATERAL explode(a) AS t(x)",
    "SELECT id, x FROM {o} JOIN LATERAL explode(array(id, 2, 1)) AS t(x) WHERE x <> 2",
    "SELECT id, explode(a) AS x FROM {o}",
    "SELECT id, posexplode(a) AS (p, x) FROM {o}",
    "SELECT id, x + 1 AS y FROM (SELECT id, x FROM {o} LATERAL VIEW explode(a) t AS x WHERE x > 2)",
    "WITH f AS (SELECT * FROM {o} LATERAL VIEW explode(a) t AS x) SELECT id, x FROM f WHERE x <> 7",
    "SELECT id, x FROM {o} LATERAL VIEW explode(a) t AS x UNION ALL SELECT id, -1 FROM {o}",
    "SELECT ID, o.S, id AS `I d` FROM {o}",
    "SELECT id + 1 AS y, upper(s) AS t, y * 2 AS z, t || 'x' AS u FROM {o}",
    "SELECT id + 1 AS id, id + 1 AS z FROM {o}",
    r"SELECT id FROM {o} WHERE s LIKE 'x\\%y%' OR s LIKE '_\\_'",
    r"SELECT id FROM {o} WHERE s NOT LIKE '%\\_z'",
    r"SELECT id FROM {o} WHERE s ILIKE 'X!%Y%' ESCAPE '!' OR s LIKE 'B,%'",
    "SELECT id FROM {o} WHERE s LIKE s",
    "SELECT id, round(id / 7) + 1 AS q, coalesce(s LIKE concat(s, '%'), false) AS r FROM {o}",
    "SELECT o.id FROM {o} LEFT SEMI JOIN (VALUES (1), (4)) v(k) ON o.id = v.k",
    "SELECT o.id FROM {o} LEFT ANTI JOIN (VALUES (1), (4)) v(k) ON o.id = v.k",
    "SELECT id, round(-0.04D * id, 1) AS q, round(CAST(-id AS DOUBLE) / 10) AS r FROM {o}",
)
GATE = (QUERIES[1], QUERIES[8], QUERIES[19])


@pytest.mark.parametrize("query", gated(QUERIES, GATE))
def test_a_row_answers_as_on_spark(spark, query):
    replayed = [replay(query, row) for row in ROWS]
    assert replayed == [on_spark(spark, query, row) for row in ROWS]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, explode(a) + 1 AS x FROM {o}",
        "SELECT explode(a), explode(a) FROM {o}",
        "SELECT id, posexplode_outer(a) FROM {o}",
        "SELECT id, x FROM {o} LEFT JOIN LATERAL explode(a) AS t(x)",
        "SELECT id, x FROM {o} LATERAL VIEW inline(array(struct(id AS x))) t",
        "SELECT id FROM {o} TABLESAMPLE (10 PERCENT)",
        r"SELECT id FROM {o} WHERE s LIKE 'a\\b'",
        "SELECT id, transform(a, x -> x + 1) AS y FROM {o}",
        "SELECT id, own(s) AS y FROM {o}",
    ],
)
def test_what_would_answer_otherwise_is_refused_with_a_caret(query):
    with pytest.raises(TemporalSqlError) as refused:
        ReplayDriver(DEFINITION + query.format(o="STREAM o"))
    assert refused.value.span is not None or query.count("explode") > 1


def replay(query: str, row: tuple) -> list[dict]:
    driver = ReplayDriver(DEFINITION + query.format(o="STREAM o"))
    record = {"id": row[0], "a": row[1], "s": row[2], "ts": 0}
    return [change.row for change in driver.push([("o", record)])]


def on_spark(spark, query: str, row: tuple) -> list[dict]:
    given = "id INT, a ARRAY<INT>, s STRING, ts TIMESTAMP"
    spark.createDataFrame([(*row, None)], given).coalesce(1).createOrReplaceTempView("single")
    return [found.asDict() for found in spark.sql(query.format(o="single AS o")).collect()]
