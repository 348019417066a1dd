"""The parser in front of Spark's: plain statements and Spark's errors are unchanged, ours carry their SQLSTATE."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

from sqlx.errors import BindError, RefusedBySpark, TemporalSqlError
from sqlx.sessions.statements import SessionStatements
from tests.harness.releases import since

ROOT = Path(__file__).parent.parent.parent
AS_OF = "SELECT o.id, r.rate FROM hook_orders o LEFT JOIN hook_rates r AS OF o.ts ON o.k = r.k"
ENABLE = """
from pyspark.sql import SparkSession
import sqlx
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
sqlx.enable(sqlx.enable(spark))
for session in (spark, spark.newSession()):
    session.sql("CREATE TEMP VIEW o AS SELECT 1 AS id, 'a' AS k, TIMESTAMP'2024-01-01 10:00' AS ts")
    session.sql("CREATE TEMP VIEW s AS SELECT 'a' AS k, TIMESTAMP'2024-01-01 09:00' AS ts, 2 AS rate")
    session.sql("CREATE TEMPORARY VERSIONED TABLE r FROM s KEYS (k) TIMESTAMP BY ts")
    print(session.sql("SELECT o.id, r.rate FROM o JOIN r AS OF o.ts ON o.k = r.k").collect())
spark.stop()
"""


@pytest.fixture(scope="module", autouse=True)
def inputs(spark):
    make(spark)


def make(session):
    session.sql(
        "CREATE OR REPLACE TEMP VIEW hook_orders AS SELECT 1 AS id, 'a' AS k, TIMESTAMP'2024-01-01 10:00' AS ts"
    )
    session.sql(
        "CREATE OR REPLACE TEMP VIEW hook_source AS SELECT 'a' AS k, TIMESTAMP'2024-01-01 09:00' AS ts, 2 AS rate"
    )
    session.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE hook_rates FROM hook_source KEYS (k) TIMESTAMP BY ts")


def parser_of(spark):
    return spark._jsparkSession.sessionState().sqlParser()


def java_error(spark, text):
    """The exception that a JDBC or Connect server gets for a statement."""
    with pytest.raises(ParseException) as caught:
        parser_of(spark).parsePlan(text)
    return caught.value._origin


def test_sparks_own_error_for_a_plain_statement_is_unchanged(spark):
    with pytest.raises(ParseException) as caught:
        spark.sql("SELEC 1")
    assert caught.value.getCondition() == "PARSE_SYNTAX_ERROR"
    assert caught.value.getSqlState() == "42601"
    assert "Traceback" not in str(caught.value)
    origin = java_error(spark, "SELEC 1")
    assert origin.getClass().getName() == "org.apache.spark.sql.catalyst.parser.ParseException"
    with pytest.raises(AnalysisException) as missing:
        spark.sql("SELECT * FROM nowhere")
    assert missing.value.getSqlState() == "42P01"


def test_sparks_refusal_of_a_statement_that_might_be_ours_is_unchanged(spark):
    origin = java_error(spark, "SELECT stream FROM (SELECT 1")
    assert origin.getClass().getName() == "org.apache.spark.sql.catalyst.parser.ParseException"
    assert (origin.getCondition(), origin.getSqlState()) == ("PARSE_SYNTAX_ERROR", "42601")


def test_java_sees_our_condition_and_sqlstate(spark):
    origin = java_error(spark, AS_OF.replace("o.k = r.k", "o.nope = r.k"))
    assert origin.getCondition() == "BIND.UNKNOWN_COLUMN"
    assert origin.getSqlState() == "42703"
    assert origin.getMessage().splitlines()[0].endswith("SQLSTATE: 42703")
    assert "^^^^" in origin.getMessage()


@pytest.mark.parametrize(
    ("inner", "named"),
    [
        ("SELECT k, rate FROM hook_rates WHERE ratee > 1", "ratee"),
        ("SELECT k, x.rate FROM hook_rates", "x.rate"),
        ("SELECT k, nosuch(rate) AS rate FROM hook_rates", "nosuch(rate)"),
    ],
)
def test_what_is_wrong_in_a_subquery_on_the_right_has_a_caret(spark, inner, named):
    text = f"SELECT o.id, r.rate FROM hook_orders o JOIN ({inner}) r AS OF o.ts ON o.k = r.k"
    with pytest.raises(AnalysisException) as refused:
        spark.sql(text)
    _, line, carets = str(refused.value).splitlines()
    at = carets.index("^")
    assert line[at:].startswith(named)
    assert carets.count("^") == len(named)
    assert "__" not in str(refused.value)


_TUMBLE = (
    "SELECT window_start FROM TABLE(TUMBLE(TABLE hook_orders, DESCRIPTOR({}), INTERVAL 1 HOUR)) GROUP BY window_start"
)


@pytest.mark.parametrize(
    ("text", "at", "named"),
    [
        ("SELECT sum(b) FROM hook_orders GROUP BY sliding_window(ts, INTERVAL 1 HOUR)", "b)", "b"),
        ("SELECT sum(id) AS b FROM hook_orders GROUP BY sliding_window(ts, INTERVAL 1 HOUR) HAVING bb > 1", "bb", "bb"),
        ("SELECT nosuch, id FROM hook_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k) ON TIME ts", "nosuch", "nosuch"),
        ("SELECT id FROM (SELECT nosuch, id FROM hook_orders) DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) ON TIME id",
         "nosuch", "nosuch"),
        ("SELECT k AS nosuch1, max(nosuch) FROM hook_orders GROUP BY k, window(ts, '1 hour') EMIT FINAL",
         "nosuch)", "nosuch"),
        (_TUMBLE.format("nosuch"), "nosuch", "nosuch"),
    ],
)  # fmt: skip
def test_what_spark_refuses_has_a_caret_where_it_was_written(spark, text, at, named):
    with pytest.raises(RefusedBySpark) as refused:
        spark.sql(text)
    start = text.index(at)
    assert refused.value.span == (start, start + len(named))
    assert "__" not in str(refused.value)


def test_what_spark_refuses_of_plain_text_stays_as_it_was(spark):
    with pytest.raises(AnalysisException) as refused:
        spark.sql("SELECT nosuch FROM hook_orders GROUP BY window(ts, '1 hour')")
    assert not isinstance(refused.value, TemporalSqlError)


def test_a_query_that_spark_refuses_inside_ours_keeps_sparks_condition(spark):
    origin = java_error(spark, AS_OF.replace("SELECT ", "SELECT nope(1), "))
    assert (origin.getCondition(), origin.getSqlState()) == ("UNRESOLVED_ROUTINE", "42883")


def test_python_callers_get_our_error_itself(spark):
    with pytest.raises(BindError) as caught:
        spark.sql(AS_OF.replace("o.k = r.k", "o.nope = r.k"))
    assert caught.value.condition == "BIND.UNKNOWN_COLUMN"


def test_a_fault_of_ours_is_one_line_and_not_a_stack_trace(spark, monkeypatch, caplog):
    def broken(*_):
        raise KeyError("oops")

    monkeypatch.setattr(SessionStatements, "rewrite", broken)
    with caplog.at_level(logging.ERROR):
        origin = java_error(spark, AS_OF)
    assert origin.getSqlState() == "XX000"
    assert len(origin.getMessage().splitlines()) == 1
    assert "KeyError" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'JOIN x AS OF y ON' AS t",
        "SELECT stream FROM VALUES (1) AS t(stream)",
        "SELECT 1 /* ASOF JOIN */",
        "SELECT `as`, `of` FROM VALUES (1, 2) AS emit(`as`, `of`)",
    ],
)
def test_plain_statements_reach_spark_byte_for_byte(spark, monkeypatch, text):
    def never(*_):
        raise AssertionError(_)

    monkeypatch.setattr("sqlx.sessions.statements.lower_query", never)
    assert spark.sql(text).count() == 1


def test_several_threads_at_once(spark):
    def ask(number):
        if number % 2:
            return spark.sql(f"{AS_OF} WHERE o.id < {number + 2}").collect()[0].rate
        with pytest.raises(TemporalSqlError) as caught:
            spark.sql(AS_OF.replace("o.k = r.k", f"o.nope{number} = r.k"))
        return f"nope{number}" in str(caught.value)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ask, range(8))) == [True, 2] * 4


def test_a_new_session_knows_the_language_and_has_definitions_of_its_own(spark):
    session = spark.newSession()
    with pytest.raises(AnalysisException):
        session.sql(AS_OF)
    make(session)
    assert [row.rate for row in session.sql(AS_OF).collect()] == [2]


def test_a_session_of_ours_is_taught_once(spark):
    import sqlx

    identity = spark._jvm.System.identityHashCode
    parser = identity(parser_of(spark))
    assert sqlx.enable(spark) is spark
    assert identity(parser_of(spark)) == parser


def test_enable_teaches_a_session_made_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", ENABLE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **_java()},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.stdout.splitlines() == ["[Row(id=1, rate=2)]"] * 2, done.stderr


def _java():
    kept = ("JAVA_HOME", "PATH", "HOME", "PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS")
    return {name: os.environ[name] for name in kept if name in os.environ}


@pytest.mark.parametrize(
    "call",
    [
        lambda spark: spark.range(1).selectExpr("id +"),
        lambda spark: spark.range(1).filter("id >"),
        lambda spark: spark.table("a b c"),
        lambda spark: spark.range(1).write.saveAsTable("a b c"),
        lambda spark: spark.createDataFrame([(1,)], "a intt b"),
        lambda spark: spark.range(1).select(F.col("id").cast("strin g")),
    ],
)
def test_texts_of_the_dataframe_api_that_spark_refuses_have_its_own_error(spark, call):
    with pytest.raises(ParseException) as caught:
        call(spark)
    assert caught.value.getCondition() == "PARSE_SYNTAX_ERROR"


@since((4, 1), "scripts, unless a setting has them")
def test_a_script_that_spark_refuses_keeps_its_condition(spark):
    with pytest.raises(ParseException) as caught:
        spark.sql("BEGIN LEAVE x; END")
    assert caught.value.getCondition().startswith("INVALID_LABEL_USAGE")


@pytest.fixture
def plain_tables(spark):
    spark.sql("CREATE OR REPLACE TEMP VIEW plain_s AS SELECT * FROM VALUES ('a', 1), ('b', 2) AS t(k, v)")
    spark.sql("CREATE OR REPLACE TEMP VIEW plain_s2 AS SELECT * FROM VALUES ('a', 3) AS t(k, w)")
    spark.sql("CREATE OR REPLACE TEMP FUNCTION sliding_window(x INT) RETURNS INT RETURN x + 1")
    spark.sql("CREATE OR REPLACE TEMP FUNCTION stream() RETURNS TABLE (a INT) RETURN SELECT 1 AS a")
    yield
    spark.sql("DROP TEMPORARY FUNCTION sliding_window")
    spark.sql("DROP TEMPORARY FUNCTION stream")


@pytest.mark.usefixtures("plain_tables")
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT k, count(*) AS stream FROM plain_s GROUP BY k |> WHERE k = 'a'", [("a", 1)]),
        ("SELECT emit.w FROM plain_s s JOIN plain_s2 emit ON emit.k = s.k GROUP BY ALL", [(3,)]),
        ("SELECT sum(v) OVER emit AS stream FROM plain_s WINDOW emit AS (ORDER BY v)", [(1,), (3,)]),
        pytest.param(
            "SELECT 'it''s', count(*) AS emit FROM plain_s GROUP BY 'it''s'",
            [("it's", 2)],
            marks=since((4, 1), "two quotes as one in a string"),
        ),
        ("SELECT watermark.w FROM (plain_s s JOIN plain_s2 watermark ON watermark.k = s.k)", [(3,)]),
        ("SELECT window.w FROM (plain_s s JOIN plain_s2 window ON window.k = s.k)", [(3,)]),
        ("SELECT match_condition.w FROM (plain_s s JOIN plain_s2 match_condition USING (k))", [(3,)]),
        ("SELECT sliding_window(v) AS w, count(*) FROM plain_s GROUP BY sliding_window(v)", [(2, 1), (3, 1)]),
        ("SELECT * FROM stream()", [(1,)]),
        ("SELECT 1 AS stream, 2 AS asof, 3 AS deduplicate, 4 emit, 5 grace", [(1, 2, 3, 4, 5)]),
    ],
)
def test_what_spark_accepts_and_names_nothing_of_ours_is_sparks(spark, text, rows):
    assert sorted(map(tuple, spark.sql(text).collect())) == rows


def test_names_in_double_quotes_where_the_session_has_them(spark):
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        joined = 'hook_orders "o" JOIN "hook_rates" r AS OF "o".ts ON o."k" = r.k'
        assert spark.sql(f'SELECT o."id", "r".rate AS "my ""rate" FROM {joined}').columns == ["id", 'my "rate']
        spark.sql('CREATE OR REPLACE TEMPORARY VERSIONED TABLE "a b" FROM hook_source KEYS ("k") TIMESTAMP BY "ts"')
        assert spark.sql('SELECT rate FROM "a b"').collect() == [(2,)]
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def test_variables_are_put_in_before_a_statement_is_read(spark):
    spark.sql("SET hivevar:hours=1")
    assert spark.sql(f"{AS_OF} TOLERANCE INTERVAL ${{hours}} HOURS").collect() == [(1, 2)]
    assert spark.sql(f"{AS_OF} TOLERANCE INTERVAL ${{hivevar:hours}} MINUTES").collect() == [(1, None)]


@since((4, 1), "two quotes as one in a string")
def test_quotes_in_strings_of_our_clauses(spark):
    assert spark.sql(f"{AS_OF} AND o.k <> 'it''s'").collect() == [(1, 2)]
    query = "SELECT id FROM hook_orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (k, 'it''s') ON TIME ts"
    assert spark.sql(query).collect() == [(1,)]
    query = "SELECT 'it''s' AS x, count(*) AS n FROM hook_orders GROUP BY 'it''s', sliding_window(ts, '1 day')"
    assert spark.sql(query).collect() == [("it's", 1)]


def test_explain_temporal_needs_a_query(spark):
    with pytest.raises(TemporalSqlError, match="Expected a query"):
        spark.sql("EXPLAIN TEMPORAL ;")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("SELECT :p", "UNBOUND_SQL_PARAMETER"),
        ("SELECT ?", "UNBOUND_SQL_PARAMETER"),
        ("EXECUTE IMMEDIATE 'SELECT :p'", "UNBOUND_SQL_PARAMETER"),
        ("EXECUTE IMMEDIATE 'SELECT :p' USING 1, 2", "ALL_PARAMETERS_MUST_BE_NAMED"),
        ("EXECUTE IMMEDIATE 'SELECT 42 WHERE ? = :p' USING 1, 2 AS p", "INVALID_QUERY_MIXED_QUERY_PARAMETERS"),
    ],
)
def test_a_refusal_by_spark_s_parser_keeps_its_condition_and_message(spark, text, condition):
    """Its checked exceptions come back as a class of ours, which has what PySpark makes the message of."""
    with pytest.raises(AnalysisException) as refused:
        spark.sql(text)
    assert refused.value.getCondition() == condition
    assert f"[{condition}]" in str(refused.value)
    assert "Undefined error message parameter" not in str(refused.value)
