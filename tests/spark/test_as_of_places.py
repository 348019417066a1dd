"""Anywhere Spark allows a join: each statement answers as the same one over a plain join with validity spans."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from pyspark.errors import AnalysisException, ParseException

from sqlx.errors import TemporalSqlError, UnsupportedError
from tests.harness.releases import RELEASE, since

# `@r(o.ts, o.k)` is the AS OF join with the rates under the name r, or Spark's plain join with their spans.
MACRO = re.compile(r"@(\w+)\(([^,]+), ([^)]+)\)")
ORDERS = """
    (1, 'a', TIMESTAMP'2024-01-01 10:00', 10), (2, 'a', TIMESTAMP'2024-01-01 11:30', 20),
    (3, 'b', TIMESTAMP'2024-01-01 09:00', 30), (4, 'b', TIMESTAMP'2024-01-01 12:00', 40),
    (5, 'c', TIMESTAMP'2024-01-01 12:00', 50), (6, NULL, TIMESTAMP'2024-01-01 12:00', 60), (7, 'a', NULL, 70)"""
RATES = """
    ('a', TIMESTAMP'2024-01-01 09:00', 1.0), ('a', TIMESTAMP'2024-01-01 11:00', 2.0),
    ('b', TIMESTAMP'2024-01-01 10:00', 3.0), ('d', TIMESTAMP'2024-01-01 10:00', 4.0)"""
JOINED = "SELECT o.id, r.rate FROM orders o LEFT @r(o.ts, o.k)"

PLACES = {
    "cte": f"WITH x AS ({JOINED}) SELECT * FROM x WHERE rate > 1",
    "cte below": "WITH x AS (SELECT * FROM orders WHERE id > 1) SELECT o.id, r.rate FROM x o LEFT @r(o.ts, o.k)",
    "ctes of ctes": f"WITH y AS ({JOINED}), z AS (SELECT * FROM y) SELECT id, b.rate FROM y a JOIN z b USING (id)",
    "in": "SELECT id FROM orders WHERE id IN (SELECT o.id FROM orders o @r(o.ts, o.k) WHERE r.rate > 1)",
    "exists around": "SELECT id FROM orders p WHERE EXISTS (SELECT 1 FROM orders o @r(o.ts, o.k) WHERE o.id = p.id)",
    "scalar around": "SELECT p.id, (SELECT max(r.rate) FROM orders o @r(o.ts, o.k) WHERE o.id = p.id) m FROM orders p",
    "exists inside": f"{JOINED} WHERE NOT EXISTS (SELECT 1 FROM names n WHERE n.k = o.k AND r.rate > 1)",
    "union": f"SELECT o.id FROM orders o @r(o.ts, o.k) UNION ALL SELECT id FROM ({JOINED}) t",
    "except": "SELECT o.id FROM orders o LEFT @r(o.ts, o.k) EXCEPT SELECT o.id FROM orders o @r(o.ts, o.k)",
    "chained": "SELECT o.id, r.rate, q.rate q FROM orders o @r(o.ts, o.k) LEFT @q(r.ts - INTERVAL 1 HOUR, o.k)",
    "two in a list": "SELECT a.id, r.rate, q.rate s FROM orders a LEFT @r(a.ts, a.k), orders b LEFT @q(b.ts, b.k) "
    "WHERE a.id + 1 = b.id",
    "join before": "SELECT o.id, n.name, r.rate FROM orders o JOIN names n ON o.k = n.k LEFT @r(o.ts, o.k)",
    "left and right after": f"{JOINED} LEFT JOIN names n ON o.k = n.k RIGHT JOIN names m ON n.k = m.k",
    "full after": f"{JOINED} FULL JOIN names n ON o.k = n.k",
    "full before": "SELECT id, name, rate FROM names n FULL JOIN orders o ON o.k = n.k LEFT @r(o.ts, o.k)",
    "semi, anti": f"{JOINED} LEFT SEMI JOIN names n ON o.k = n.k LEFT ANTI JOIN names m ON m.name = o.k",
    "semi before": "SELECT o.id, r.rate FROM orders o LEFT SEMI JOIN names n ON o.k = n.k LEFT @r(o.ts, o.k)",
    "cross": "SELECT o.id, n.name, m.k, r.rate FROM orders o CROSS JOIN names n LEFT @r(o.ts, o.k) CROSS JOIN names m",
    "using before": "SELECT id, name, rate FROM orders o JOIN names n USING (k) LEFT @r(o.ts, o.k)",
    "comma after": f"{JOINED}, names n WHERE n.k = o.k",
    "comma before": "SELECT o.id, n.name, r.rate FROM names n, orders o LEFT @r(o.ts, o.k) WHERE n.k = o.k",
    "lateral after": "SELECT o.id, x.d FROM orders o LEFT @r(o.ts, o.k), LATERAL (SELECT r.rate * 2 AS d) x",
    "lateral before": "SELECT o.id, r.rate FROM orders o, LATERAL (SELECT o.ts + INTERVAL 1 DAY t) x LEFT @r(x.t, o.k)",
    "lateral view": f"{JOINED} LATERAL VIEW explode(array(1, 2)) e AS e",
    "aggregate": "SELECT r.rate, count(*) c, sum(amount) FROM orders o LEFT @r(o.ts, o.k) GROUP BY r.rate HAVING c > 1",
    "cube": "SELECT r.rate, o.k, count(*) c FROM orders o LEFT @r(o.ts, o.k) GROUP BY CUBE (r.rate, o.k)",
    "window": "SELECT o.id, sum(r.rate) OVER (PARTITION BY o.k ORDER BY o.id) s FROM orders o LEFT @r(o.ts, o.k)",
    "qualify": f"{JOINED} QUALIFY row_number() OVER (PARTITION BY o.k ORDER BY o.id) = 1",
    "order, limit": f"{JOINED} ORDER BY r.rate DESC NULLS LAST, o.id LIMIT 3",
    "count": "SELECT count(*) FROM orders o @r(o.ts, o.k)",
    "star": "SELECT o.*, r.rate FROM orders o LEFT @r(o.ts, o.k)",
    "struct": "SELECT struct(o.*) s, struct(r.rate) t FROM orders o LEFT @r(o.ts, o.k)",
    "parentheses": "SELECT n.name, o.id, r.rate FROM names n LEFT JOIN (orders o @r(o.ts, o.k)) ON n.k = o.k",
    "pipes": "FROM orders o LEFT @r(o.ts, o.k) |> WHERE o.id > 2 |> SELECT o.id, r.rate |> ORDER BY id",
    "pivot": "SELECT p.* FROM (SELECT o.k, r.rate FROM orders o @r(o.ts, o.k)) PIVOT (sum(rate) FOR k IN ('a', 'b')) p",
    "values": "SELECT o.id, r.rate FROM VALUES (1, 'a', TIMESTAMP'2024-01-01 10:00') AS o(id, k, ts) @r(o.ts, o.k)",
    "hint": "SELECT /*+ BROADCAST(n) */ o.id, r.rate FROM orders o JOIN names n ON n.k = o.k LEFT @r(o.ts, o.k)",
    "expressions": "SELECT o.id, r.rate FROM orders o LEFT @r(o.ts + INTERVAL 1 HOUR, o.k || '')",
    "self join": f"SELECT x.id, y.rate FROM ({JOINED}) x FULL JOIN ({JOINED}) y ON x.id = y.id + 1",
}


def ours(text):
    return MACRO.sub(r"JOIN rates \1 AS OF \2 ON \3 = \1.k", text)


def plain(text):
    return MACRO.sub(r"JOIN spans \1 ON \3 = \1.k AND \1.ts <= \2 AND \2 < \1.until", text)


def rows(frame):
    return sorted(map(repr, map(tuple, frame.collect())))


@pytest.fixture(scope="module")
def db(spark):
    """A database with permanent tables, so that every session and every kind of view can read them."""
    spark.sql("CREATE DATABASE places")
    spark.sql("USE places")
    spark.sql(
        f"CREATE TABLE orders USING parquet AS SELECT /*+ COALESCE(1) */ * FROM VALUES {ORDERS} t(id, k, ts, amount)"
    )
    spark.sql(
        "CREATE TABLE names USING parquet AS SELECT * FROM VALUES ('a', 'Ann'), ('b', 'Bob'), ('z', 'b') t(k, name)"
    )
    spark.sql("CREATE VERSIONED TABLE rates (k STRING, ts TIMESTAMP, rate DECIMAL(3, 1)) KEYS (k) TIMESTAMP BY ts")
    spark.sql(f"INSERT INTO rates VALUES {RATES}")
    spark.sql(f"""CREATE TABLE spans USING parquet AS SELECT /*+ COALESCE(1) */ k, ts, CAST(rate AS DECIMAL(3, 1)) rate,
        coalesce(lead(ts) OVER (PARTITION BY k ORDER BY ts), TIMESTAMP'9999-01-01') AS until
        FROM VALUES {RATES} AS t(k, ts, rate)""")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE places CASCADE")


#: Places of Spark's own grammar that older ones lack.
SINCE = {"qualify": (4, 2), "pipes": (4, 2), "pivot": (4, 2)}


@pytest.mark.parametrize("place", [pytest.param(p, marks=since(SINCE[p], p)) if p in SINCE else p for p in PLACES])
def test_a_query(db, place):
    expected, found = db.sql(plain(PLACES[place])), db.sql(ours(PLACES[place]))
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows(found) == rows(expected)


COMMANDS = {
    "ctas": "CREATE TABLE target USING parquet AS {query}",
    "insert": "INSERT INTO empty {query}",
    "insert by name": "INSERT INTO empty (id, rate) {query}",
    "overwrite": "INSERT OVERWRITE empty WITH x AS ({query}) SELECT * FROM x",
    "with before insert": "WITH x AS ({query}) INSERT INTO empty SELECT * FROM x",
    "from before insert": "FROM orders o LEFT @r(o.ts, o.k) INSERT INTO empty SELECT o.id, r.rate",
    "temporary view": "CREATE OR REPLACE TEMP VIEW target AS {query}",
    "global temporary view": "CREATE OR REPLACE GLOBAL TEMP VIEW target_of_places AS {query}",
    "permanent view": "CREATE VIEW target AS {query}",
    "cache": "CACHE TABLE target AS {query}",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command(db, command):
    db.sql("CREATE TABLE empty (id INT, rate DECIMAL(3, 1)) USING parquet")
    target = "empty" if "empty" in COMMANDS[command] else "target"
    target = "global_temp.target_of_places" if "GLOBAL" in COMMANDS[command] else target
    try:
        db.sql(ours(COMMANDS[command].format(query=JOINED)))
        assert rows(db.table(target)) == rows(db.sql(plain(JOINED)))
    finally:
        db.sql("DROP TABLE empty")
        db.catalog.dropTempView("target")
        db.catalog.dropGlobalTempView("target_of_places")
        for kind in {"ctas": ["TABLE"], "permanent view": ["VIEW"]}.get(command, []):
            db.sql(f"DROP {kind} target")


def test_a_permanent_view_is_compiled_at_each_read_in_every_session(db):
    db.sql("CREATE TABLE growing USING parquet AS SELECT * FROM orders WHERE id < 3")
    db.sql(ours("CREATE OR REPLACE VIEW seen (number, price) COMMENT 'c' AS " + JOINED.replace("orders", "growing")))
    assert len(rows(db.table("seen"))) == 2
    db.sql("INSERT INTO growing SELECT * FROM orders WHERE id = 4")
    assert [tuple(row) for row in db.sql("SELECT number, price * 2 FROM seen WHERE number > 3").collect()] == [(4, 6)]
    other = db.newSession()
    assert other.sql("SELECT * FROM places.seen").columns == ["number", "price"]
    assert other.sql("SELECT * FROM places.seen").count() == 3
    assert "AS OF o.ts" in db.sql("SHOW CREATE TABLE seen").collect()[0][0]
    db.sql("DROP VIEW seen")
    db.sql("DROP TABLE growing")


@pytest.mark.parametrize("head", ["TEMPORARY VIEW fresh", "GLOBAL TEMP VIEW fresh"])
def test_a_temporary_view_is_compiled_at_each_read(db, head):
    """Its right side is mapped from a file of the day on which it was compiled: an old file would be an old answer."""
    db.sql("CREATE TABLE daily USING parquet AS SELECT * FROM spans WHERE k IS NULL")
    query = "SELECT o.id, r.rate FROM orders o ASOF LEFT JOIN daily r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    db.sql(f"CREATE OR REPLACE {head} AS {query}")
    name = "global_temp.fresh" if "GLOBAL" in head else "fresh"
    assert not any(row.rate for row in db.sql(f"SELECT * FROM {name}").collect())
    db.sql("INSERT INTO daily SELECT * FROM spans")
    assert rows(db.sql(f"SELECT * FROM {name}")) == rows(db.sql(query))
    assert any(row.rate for row in db.sql(f"SELECT * FROM {name}").collect())
    db.sql(f"DROP VIEW {name}")
    db.sql("DROP TABLE daily")


def test_a_cached_result_is_dropped_when_either_side_changes(db):
    """As Spark does with its own: a right side that was mapped would be a file that it knows nothing of."""
    db.sql("CREATE TABLE daily USING parquet AS SELECT * FROM spans WHERE k IS NULL")
    db.sql("CREATE TABLE growing USING parquet AS SELECT * FROM orders WHERE id < 3")
    query = "SELECT o.id, r.rate FROM growing o ASOF LEFT JOIN daily r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    db.sql(f"CACHE TABLE fresh AS {query}")
    assert not any(row.rate for row in db.sql("SELECT * FROM fresh").collect())
    db.sql("INSERT INTO daily SELECT * FROM spans")
    assert rows(db.sql("SELECT * FROM fresh")) == rows(db.sql(query))
    assert any(row.rate for row in db.sql("SELECT * FROM fresh").collect())
    db.sql("INSERT INTO growing SELECT * FROM orders WHERE id = 4")
    assert db.sql("SELECT * FROM fresh").count() == 3
    db.sql("UNCACHE TABLE fresh")
    db.catalog.dropTempView("fresh")
    db.sql("DROP TABLE growing")
    db.sql("DROP TABLE daily")


@since((4, 1), "table functions that read Arrow batches")
def test_the_table_function_is_there_in_every_session(db):
    with pytest.raises(Exception, match="__side") as caught:
        db.newSession().sql("SELECT * FROM as_of('{}', TABLE(SELECT 1 AS x))").collect()
    assert "UNRESOLVED" not in str(caught.value)


def test_merge_is_read_and_left_to_the_table_format(db):
    """No table format of stock Spark supports MERGE: that is all that it complains about."""
    query = "MERGE INTO orders t USING ({}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.rate"
    with pytest.raises(Exception, match="MERGE") as caught:
        db.sql(ours(query.format(JOINED)))
    assert not isinstance(caught.value, TemporalSqlError)


@pytest.mark.parametrize("kind", ["", "EXTENDED", "FORMATTED", "COST"])
def test_explain(db, kind):
    assert "as_of_join(" in db.sql(ours(f"EXPLAIN {kind} {JOINED}")).collect()[0][0]


def test_explain_temporal_says_how_it_runs(db):
    text = "\n".join(row.plan for row in db.sql(ours(f"EXPLAIN TEMPORAL {JOINED}")).collect())
    assert "AS OF join (left) with the versions of rates" in text
    assert "without a shuffle" in text


def test_parameters(db):
    hour, query = (
        timedelta(hours=1),
        "SELECT o.id, {} AS s FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k TOLERANCE {}",
    )
    where = " WHERE o.id IN (SELECT id FROM orders WHERE amount > {})"
    named = db.sql((query + where).format(":s", ":t", ":a"), args={"s": "it's", "t": hour, "a": 15})
    assert (
        rows(named) == rows(db.sql((query + where).format("?", "?", "?"), args=["it's", hour, 15])) == ['(2, "it\'s")']
    )
    if RELEASE < (4, 1):  # there its parser does not see the values of EXECUTE IMMEDIATE
        return
    dynamic = db.sql(f"EXECUTE IMMEDIATE '{(query + where).format('?', 'INTERVAL 1 HOUR', '?')}' USING 'x', 15")
    assert rows(dynamic) == ["(2, 'x')"]


def test_dataframes_as_arguments_and_as_temporary_views(db):
    left, right = db.table("orders").where("id < 3"), db.table("spans").select("k", "ts", "rate")
    query = "SELECT o.id, r.rate FROM {} o ASOF LEFT JOIN {} r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    expected = rows(db.sql(plain(JOINED) + " WHERE o.id < 3"))
    assert rows(db.sql(query.format("{left}", "{right}"), left=left, right=right)) == expected
    left.createOrReplaceTempView("left_of_places")
    right.createOrReplaceTempView("right_of_places")
    assert rows(db.sql(query.format("left_of_places", "right_of_places"))) == expected


def test_variables_of_the_session_are_constants(db):
    db.sql("DECLARE OR REPLACE VARIABLE wanted STRING DEFAULT 'a'")
    join = "orders o ASOF JOIN spans r MATCH_CONDITION (o.ts >= r.ts) ON"
    for key, same in (("o.k = r.k AND o.k = wanted", "o.k = r.k AND o.k = 'a'"), ("r.k = session.wanted", "r.k = 'a'")):
        found = rows(db.sql(f"SELECT o.id, r.rate FROM {join} {key}"))
        assert found == rows(db.sql(f"SELECT o.id, r.rate FROM {join} {same}"))
        assert found
    with pytest.raises(TemporalSqlError, match="UNKNOWN_COLUMN"):
        db.sql(f"SELECT o.id FROM {join} o.k = r.k AND o.k = wanter")
    db.sql("DROP TEMPORARY VARIABLE wanted")


@since((4, 1), "scripts, unless a setting has them")
def test_scripts_variables_and_described_queries(db):
    expected = rows(db.sql(plain(JOINED)))
    assert rows(db.sql(ours(f"BEGIN DECLARE x INT DEFAULT 0; {JOINED} WHERE o.id > x; END"))) == expected
    db.sql("DECLARE OR REPLACE VARIABLE most INT DEFAULT 1")
    db.sql(ours(f"SET VAR most = (SELECT max(id) FROM ({JOINED}) t)"))
    assert db.sql("SELECT most").collect()[0][0] == 7
    assert [row.col_name for row in db.sql(ours(f"DESCRIBE QUERY {JOINED}")).collect()] == ["id", "rate"]


@since((4, 1), "scripts, unless a setting has them")
def test_the_query_of_a_loop_may_end_with_a_clause_of_ours(db):
    query = "SELECT k, count(*) AS n FROM orders GROUP BY k, window(ts, '1 day')"
    counted = sum(row.n for row in db.sql(query).collect())
    for clause in ("EMIT FINAL", "GRACE PERIOD INTERVAL 1 DAY", "HAVING count(*) > 0 EMIT FINAL"):
        loop = f"FOR w AS {query} {clause} DO SET total = total + w.n; END FOR"
        script = f"BEGIN DECLARE total BIGINT DEFAULT 0; {loop}; SELECT total; END"
        assert db.sql(script).collect()[0].total == counted, clause


def test_a_name_may_be_a_parameter(db):
    names = {"o": "orders", "r": "places.`rates`"}
    expected = rows(db.sql(plain(JOINED)))
    for join in ("JOIN {r} AS r AS OF o.ts", "ASOF JOIN {r} AS r MATCH_CONDITION (o.ts >= r.ts)"):
        query = f"SELECT o.id, r.rate FROM {{o}} AS o LEFT {join} ON o.k = r.k"
        assert rows(db.sql(query.format(o="IDENTIFIER(:o)", r="IDENTIFIER(:r)"), args=names)) == expected
        calculated = query.format(o="IDENTIFIER(lower('ORD') || 'ers')", r="IDENTIFIER(concat('places.`', :r, '`'))")
        assert rows(db.sql(calculated, args={"r": "rates"})) == expected
    at = "SELECT * FROM IDENTIFIER(:r) TIMESTAMP AS OF '2024-01-01'"
    assert rows(db.sql(at, args=names)) == rows(db.sql("SELECT * FROM rates TIMESTAMP AS OF '2024-01-01'"))


def test_a_name_may_be_calculated(db):
    db.sql("DECLARE OR REPLACE VARIABLE prefix STRING DEFAULT 'ra'")
    query = "SELECT o.id, r.rate FROM orders o ASOF LEFT JOIN {} r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    expected = rows(db.sql(query.format("rates")))
    assert rows(db.sql(query.format("IDENTIFIER(prefix || 'tes')"))) == expected
    with pytest.raises(TemporalSqlError, match="`rats`"):
        db.sql(query.format("IDENTIFIER(prefix || 'ts')"))
    with pytest.raises(AnalysisException):
        db.sql(query.format("IDENTIFIER(prefiks || 'tes')")).collect()
    with pytest.raises(ParseException):
        db.sql(f"SELECT IDENTIFIER('a' || 'b', * FROM ({query.format('rates')})")
    if RELEASE >= (4, 1):  # scripts, unless a setting has them
        of_script = query.format("IDENTIFIER(first || 'tes')")
        assert rows(db.sql(f"BEGIN DECLARE first STRING DEFAULT 'ra'; {of_script}; END")) == expected
    db.sql("DROP TEMPORARY VARIABLE prefix")


@since((4, 1), "scripts, unless a setting has them")
def test_variables_of_a_script_in_clauses_of_an_operator(db):
    join = "SELECT o.id, r.rate FROM orders o ASOF LEFT JOIN spans r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    expected = rows(db.sql(f"{join} AND o.k = 'a'"))
    assert rows(db.sql(f"BEGIN DECLARE x STRING DEFAULT 'a'; {join} AND o.k = x; END")) == expected
    looped = f"BEGIN FOR w AS SELECT 'a' AS k DO CREATE TABLE found AS {join} AND o.k = w.k; END FOR; END"
    try:
        db.sql(looped).collect()
        assert rows(db.table("found")) == expected
    finally:
        db.sql("DROP TABLE IF EXISTS found")
    with pytest.raises(TemporalSqlError, match="UNKNOWN_COLUMN"):
        db.sql(f"BEGIN DECLARE x INT DEFAULT 1; {join} AND o.k = y; END").collect()


def test_a_view_whose_schema_is_gone_can_be_dropped(db):
    db.sql("CREATE SCHEMA gone")
    db.sql("USE gone")
    query = "SELECT o.id FROM places.orders o ASOF JOIN places.spans r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    db.sql(f"CREATE TEMPORARY VIEW left_behind AS {query}")
    db.sql("USE places")
    db.sql("DROP SCHEMA gone")
    assert db.table("left_behind").count() == db.sql(query).count()
    assert db.catalog.dropTempView("left_behind")


def test_a_permanent_view_is_read_twice_by_one_statement(db):
    """What a statement has read once Spark copies, as it copies plans that nobody has analysed yet."""
    once = "SELECT DISTINCT k FROM orders DEDUPLICATE WITHIN INTERVAL '1' DAY BY (id) ON TIME ts"
    db.sql(f"CREATE VIEW priced AS SELECT * FROM ({once}) o")
    try:
        expected = db.sql(once).count()
        assert db.sql("SELECT k FROM priced UNION ALL SELECT k FROM priced").count() == 2 * expected > 0
        assert db.sql("SELECT a.k FROM priced a JOIN priced b ON a.k <=> b.k").count() == expected
    finally:
        db.sql("DROP VIEW priced")


@since((4, 1), "scripts, unless a setting has them")
def test_a_script_reads_what_it_has_changed(db):
    """Spark parses a script before it runs: a right side that was mapped then would be that of before."""
    db.sql("CREATE TABLE daily USING parquet AS SELECT * FROM spans WHERE k IS NULL")
    query = "SELECT o.id, r.rate FROM orders o ASOF LEFT JOIN daily r MATCH_CONDITION (o.ts >= r.ts) ON o.k = r.k"
    found = db.sql(f"BEGIN INSERT INTO daily SELECT * FROM spans; {query}; END").collect()
    assert sorted(map(str, found)) == sorted(map(str, db.sql(query).collect()))
    assert any(row.rate for row in found)
    view = f"CREATE OR REPLACE TEMP VIEW picked AS {query}; CREATE OR REPLACE TEMP VIEW seen AS SELECT * FROM picked"
    script = f"BEGIN DECLARE n INT DEFAULT 1; {view}; IF n = 1 THEN SELECT count(*) AS c FROM seen; END IF; END"
    assert db.sql(script).collect()[0].c == len(found)
    with pytest.raises(UnsupportedError, match=r"UNSUPPORTED\.SCRIPT"):
        db.sql(f"BEGIN DECLARE id INT; TRUNCATE TABLE daily; {query} WHERE id > 1; END")
    assert db.table("daily").count() > 0, "nothing of a refused script has run"
    db.sql("CREATE VERSIONED TABLE steps (k INT, ts TIMESTAMP, v INT) KEYS (k) TIMESTAMP BY ts")
    times = "INSERT INTO steps VALUES (5, TIMESTAMP'2026-01-01', 7)"
    script = f"BEGIN DECLARE n INT DEFAULT 5; {times}; SELECT v FROM steps WHERE k = n; END"
    assert db.sql(script).collect() == [(7,)], "what only names a definition is read when it is its turn"
    db.sql("DROP VERSIONED TABLE steps")
    for name in ("picked", "seen"):
        db.catalog.dropTempView(name)
    db.sql("DROP TABLE daily")


TABLE = "TABLE (id INT, rate DECIMAL(3, 1))"


@pytest.mark.parametrize("kind", ["FUNCTION", "TEMPORARY FUNCTION"])
@pytest.mark.parametrize(
    ("returns", "items", "call"),
    [
        ("TABLE (id INT, rate DECIMAL(3, 1))", "o.id, r.rate", "SELECT * FROM {}(4)"),
        (
            "TABLE (id INT, rate DECIMAL(3, 1))",
            "o.id, r.rate",
            "SELECT f.* FROM VALUES (4) AS t(n), LATERAL {}(t.n) AS f",
        ),
        ("DECIMAL(3, 1)", "max(r.rate)", "SELECT 4 AS id, {}(4) AS rate"),
    ],
)
def test_a_sql_function_is_compiled_at_each_call_with_its_arguments(db, kind, returns, items, call):
    db.sql("CREATE TABLE later USING parquet AS SELECT * FROM spans WHERE k IS NULL")
    db.sql("CREATE VERSIONED TABLE later_rates FROM later KEYS (k) TIMESTAMP BY ts")
    body = f"SELECT {items} FROM orders o LEFT JOIN later_rates r AS OF o.ts ON o.k = r.k WHERE o.id = n"
    try:
        db.sql(f"CREATE OR REPLACE {kind} dated(n INT) RETURNS {returns} COMMENT 'RETURN' RETURN {body}")
        is_plain = "TEMP" in kind or RELEASE < (4, 2)  # before, a table function has no schema in front of its name
        name = "dated" if is_plain else "places.dated"
        assert db.sql(call.format(name)).collect() == [(4, None)]
        db.sql("INSERT INTO later SELECT * FROM spans")
        db.sql("USE places" if RELEASE < (4, 2) else "USE default")
        expected = db.sql("SELECT o.id, r.rate FROM places.orders o LEFT JOIN places.rates r AS OF o.ts ON o.k = r.k")
        if "TEMP" in kind:  # its names are those of where it is called
            db.sql("USE places")
        assert rows(db.sql(call.format(name))) == rows(expected.where("id = 4"))
    finally:
        db.sql("USE places")
        db.sql(f"DROP {kind} dated")
        db.sql("DROP VERSIONED TABLE later_rates")
        db.sql("DROP TABLE later")


@pytest.mark.parametrize("kind", ["LEFT", "INNER"])
def test_a_parameter_of_a_function_is_tested_on_what_was_joined(db, kind):
    body = f"SELECT o.id, r.rate FROM orders o {kind} JOIN rates r AS OF o.ts ON o.k = r.k"
    expected = rows(db.sql(f"{body} AND o.k = 'a' AND r.rate > 1.0"))
    db.sql(
        f"CREATE OR REPLACE TEMPORARY FUNCTION joined_for(kk STRING, least DOUBLE) RETURNS {TABLE} "
        f"RETURN {body} AND kk = o.k AND r.rate > least"
    )
    try:
        assert rows(db.sql("SELECT * FROM joined_for('a', 1.0)")) == expected
        assert rows(db.sql("SELECT f.* FROM VALUES ('a') AS t(n), LATERAL joined_for(t.n, 1.0) AS f")) == expected
    finally:
        db.sql("DROP TEMPORARY FUNCTION joined_for")
    with pytest.raises(TemporalSqlError, match="FUNCTION_PARAMETER"):
        db.sql(
            "CREATE TEMPORARY FUNCTION by_k(kk STRING) RETURNS TABLE (id INT) RETURN "
            "SELECT id FROM orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (kk) ON TIME ts"
        )


def test_the_body_of_a_function_that_is_an_expression_is_refused(db):
    with pytest.raises(TemporalSqlError, match=r"UNSUPPORTED\.FUNCTION_BODY"):
        db.sql(ours(f"CREATE TEMPORARY FUNCTION counted() RETURNS BIGINT RETURN 1 + (SELECT count(*) FROM ({JOINED}))"))


@pytest.mark.parametrize("made", ["VIEW v AS", f"FUNCTION v() RETURNS {TABLE} RETURN"])
@pytest.mark.parametrize(
    "temporary", ["VIEW today AS SELECT * FROM orders", "STREAM today FROM orders TIMESTAMP BY ts"]
)
def test_what_stays_may_not_read_what_belongs_to_the_session(db, made, temporary):
    db.sql(f"CREATE OR REPLACE TEMPORARY {temporary}")
    with pytest.raises(ParseException) as caught:
        db.sql(ours(f"CREATE {made} {JOINED.replace('orders', 'today')}"))
    assert caught.value.getCondition() == "INVALID_TEMP_OBJ_REFERENCE"
    db.sql("DROP VIEW today")
