"""What replay refuses, with the message that a user reads."""

from __future__ import annotations

from typing import Any

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.replay.driver import ReplayDriver
from sqlx.testing.slt import parse_case

STREAM = "CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts;\n"
TABLE = "CREATE VERSIONED TABLE rates (ccy STRING, rate DECIMAL(5,2), ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts;\n"
QUERY = "SELECT o.id, r.rate FROM STREAM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy"
HINT = "HINT: Replay runs projections, filters, UNION ALL and the temporal operators; "
HINT += "ask for the rest over bounded tables."

SCRIPTS = {
    STREAM: """
[REPLAY.SCRIPT] A replay script is definitions and exactly one query, found 0 queries. SQLSTATE: 42601
LINE 1: CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts;
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
HINT: Separate statements with semicolons: CREATE STREAM …; CREATE VERSIONED TABLE …; SELECT ….""",
    STREAM + "SELECT id FROM orders; SELECT ccy FROM orders": """
[REPLAY.SCRIPT] A replay script is definitions and exactly one query, found 2 queries. SQLSTATE: 42601
LINE 1: SELECT ccy FROM orders
        ^^^^^^^^^^^^^^^^^^^^^^
HINT: Separate statements with semicolons: CREATE STREAM …; CREATE VERSIONED TABLE …; SELECT ….""",
    STREAM + STREAM + "SELECT id FROM orders": """
[REPLAY.SCRIPT] A replay script is definitions and exactly one query, `orders` is defined twice. SQLSTATE: 42601
LINE 1: CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
HINT: Separate statements with semicolons: CREATE STREAM …; CREATE VERSIONED TABLE …; SELECT ….""",
    STREAM + "SELECT 1 AS one": """
[REPLAY.SCRIPT] A replay script is definitions and exactly one query, found a query that reads none of them.""",
    STREAM + "SELECT id FROM ordrs": """
[BIND.UNKNOWN_RELATION] There is no table, view, stream or CTE `ordrs`. SQLSTATE: 42P01
LINE 1: SELECT id FROM ordrs
                       ^^^^^
HINT: Did you mean `orders`?""",
    STREAM + "INSERT INTO orders VALUES (1)": """
[REPLAY.SCRIPT] A replay script is definitions and exactly one query, found `INSERT INTO orders …`. SQLSTATE: 42601
LINE 1: INSERT INTO orders VALUES (1)
        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
HINT: Separate statements with semicolons: CREATE STREAM …; CREATE VERSIONED TABLE …; SELECT ….""",
    "CREATE STREAM orders USING parquet OPTIONS (path 'x') TIMESTAMP BY ts; SELECT id FROM orders": """
[REPLAY.NO_COLUMNS] Replay feeds `orders` itself, without its source, so it has to know its columns. SQLSTATE: 42601
LINE 1: CREATE STREAM orders USING parquet OPTIONS (path 'x') TIMESTAMP BY ts
                      ^^^^^^
HINT: Write the columns with their types after the name: CREATE … orders (id INT, ts TIMESTAMP) ….""",
    STREAM + "SELECT window(ts, '1 minute') FROM orders": """
[REPLAY.QUERY_REFUSED] This query cannot be run in replay: """,
    STREAM + "SELECT DISTINCT ccy FROM STREAM orders": f"""
[UNSUPPORTED.STREAM_FRAGMENT] DISTINCT over a live stream is not supported here. SQLSTATE: 0A000
LINE 1: SELECT DISTINCT ccy FROM STREAM orders
               ^^^^^^^^
{HINT}""",
    STREAM + "SELECT ccy FROM STREAM orders ORDER BY ccy": f"""
[UNSUPPORTED.STREAM_FRAGMENT] ORDER BY over a live stream is not supported here. SQLSTATE: 0A000
LINE 1: SELECT ccy FROM STREAM orders ORDER BY ccy
                                      ^^^^^^^^
{HINT}""",
    STREAM + "SELECT ccy FROM STREAM orders LIMIT 1": f"""
[UNSUPPORTED.STREAM_FRAGMENT] LIMIT over a live stream is not supported here. SQLSTATE: 0A000
LINE 1: SELECT ccy FROM STREAM orders LIMIT 1
                                      ^^^^^
{HINT}""",
    STREAM + "SELECT row_number() OVER (ORDER BY id) AS n FROM STREAM orders": f"""
[UNSUPPORTED.STREAM_FRAGMENT] A window function over a live stream is not supported here. SQLSTATE: 0A000
LINE 1: SELECT row_number() OVER (ORDER BY id) AS n FROM STREAM orders
                            ^^^^
{HINT}""",
    STREAM + "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id": """
[UNSUPPORTED.STREAM_FRAGMENT] A join of two streams over a live stream is not supported here. SQLSTATE: 0A000
""",
    STREAM + "SELECT a.id FROM orders a, orders b": f"""
[UNSUPPORTED.STREAM_FRAGMENT] A join of two sources over a live stream is not supported here. SQLSTATE: 0A000
{HINT}""",
    STREAM + "SELECT id FROM orders UNION SELECT 1": f"""
[UNSUPPORTED.STREAM_FRAGMENT] UNION of distinct rows over a live stream is not supported here. SQLSTATE: 0A000
LINE 1: SELECT id FROM orders UNION SELECT 1
                              ^^^^^
{HINT}""",
    STREAM + "SELECT id FROM orders WHERE id IN (SELECT id FROM orders)": f"""
[UNSUPPORTED.STREAM_FRAGMENT] A subquery in an expression over a live stream is not supported here. SQLSTATE: 0A000
LINE 1: SELECT id FROM orders WHERE id IN (SELECT id FROM orders)
                                          ^^^^^^^
{HINT}""",
    STREAM + TABLE + "SELECT o.id, r.rate FROM orders o JOIN rates r ON o.ccy = r.ccy": """
[UNSUPPORTED.VERSIONED_PLAIN_JOIN] A plain JOIN of a stream with the versioned table `rates` could mean two things:""",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_is_refused(script: str) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        ReplayDriver(script)
    assert SCRIPTS[script].strip() in str(refused.value)


PUSHES: list[tuple[str, dict[str, Any], str]] = [
    (
        "order",
        {},
        "[REPLAY.UNKNOWN_INPUT] There is no input `order` to push rows to. SQLSTATE: 42P01\nHINT: Did you mean",
    ),
    (
        "rates",
        {"rat": 1},
        "[REPLAY.UNKNOWN_COLUMN] `rates` has no column `rat`. SQLSTATE: 42703\nHINT: Did you mean `rate`? ",
    ),
    (
        "orders",
        {"id": "1"},
        "[REPLAY.VALUE] `orders`.`id` is INT, the value '1' does not fit. SQLSTATE: 22018\nHINT: Push an int",
    ),
    ("orders", {"id": 2**31}, "[REPLAY.VALUE] `orders`.`id` is INT, the value 2147483648 does not fit."),
    ("orders", {"ccy": b"EUR"}, "[REPLAY.VALUE] `orders`.`ccy` is STRING, the value b'EUR' does not fit."),
    ("orders", {"ts": "now"}, "HINT: Push an aware datetime, or int microseconds since the epoch, or None."),
    ("rates", {"rate": 1000}, "[REPLAY.VALUE] `rates`.`rate` is DECIMAL(5,2), the value 1000 does not fit."),
]


@pytest.mark.parametrize("record", ["orders", ("orders",), {"id": 1}, ("orders", [1]), (1, {}), ("orders", {1: 2})])
def test_what_is_no_record_is_refused(record: Any) -> None:
    with pytest.raises(
        TemporalSqlError, match=r"\[REPLAY.RECORD\] push takes names of inputs, each with a row; found "
    ):
        ReplayDriver(STREAM + TABLE + QUERY).push([record])


@pytest.mark.parametrize(
    ("query", "message", "caret"),
    [
        ("SELECT * FROM orders DEDUPLICATE BY (id)", "[PARSE.NEAR_MISS]", "DEDUPLICATE BY"),
        (f"{QUERY} WITH REASONS", "[PARSE.NEAR_MISS]", "WITH REASONS"),
        ("SELECT id FROM orders WHERE id > 1 AND id = = 2", "syntax error at or near `=`", "= 2"),
        ("SELECT 1 AS o FROM orders\nGROUP o.id", "syntax error at or near `o`", "o.id"),
    ],
)
def test_what_is_no_sql_is_pointed_at(query: str, message: str, caret: str) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        ReplayDriver(STREAM + TABLE + query)
    assert message in str(refused.value)
    span = refused.value.span
    assert span is not None
    assert query[span[0] :].startswith(caret)


@pytest.mark.parametrize(("name", "row", "message"), PUSHES)
def test_push_is_refused_and_nothing_was_taken(name: str, row: dict[str, Any], message: str) -> None:
    driver = ReplayDriver(STREAM + TABLE + QUERY)
    with pytest.raises(TemporalSqlError) as refused:
        driver.push([("rates", {"ccy": "EUR", "rate": 1, "ts": 1}), (name, row)])
    assert message in str(refused.value)
    assert driver.push([("orders", {"id": 1, "ccy": "EUR", "ts": 2})]) == []


def test_a_row_that_cannot_be_calculated_leaves_the_changes_before_it() -> None:
    driver = ReplayDriver(STREAM + "SELECT 7 % id AS n FROM orders")
    with pytest.raises(TemporalSqlError, match=r"\[REPLAY.CALCULATION\] A row cannot be calculated: ") as refused:
        driver.push([("orders", {"id": 4}), ("orders", {"id": 0})])
    assert [change.row for change in refused.value.changes] == [{"n": 3}]  # type: ignore[attr-defined]


@pytest.mark.parametrize("tasks", [0, -1, "2", True])
def test_tasks_are_a_number(tasks: Any) -> None:
    with pytest.raises(TemporalSqlError, match=r"\[REPLAY.TASKS\] tasks must be an int of at least 1, found "):
        ReplayDriver(STREAM + TABLE + QUERY, tasks=tasks)


@pytest.mark.parametrize("text", ["query\nSELECT 1\n", "query\nSELECT 1\n---- emit\n", "query\nSELECT 1\n---- error\n"])
def test_slt_file_that_cannot_be_read(text: str) -> None:
    with pytest.raises(TemporalSqlError, match=r"\[SLT.FORMAT\] This .slt file cannot be read here: expected "):
        parse_case(text)


@pytest.mark.parametrize(
    ("query", "call", "over"),
    [
        ("SELECT CAST(x AS STRING) AS n FROM STREAM s", "CAST(x AS STRING)", "float"),
        ("SELECT substring(k, 0, 2) AS n FROM STREAM s", "SUBSTRING(k, 0, 2)", "string, int, int"),
        ("SELECT d / d AS n FROM STREAM s", "d / d", "decimal, decimal"),
        ("SELECT CAST(ts AS STRING) AS n FROM STREAM s", "CAST(ts AS STRING)", "timestamp"),
        ("SELECT k FROM STREAM s WHERE hash(k) > 1", "HASH(k)", "string"),
        ("SELECT n FROM (SELECT hash(k) AS n FROM STREAM s)", "HASH(k)", "string"),
        ("WITH c AS (SELECT hash(k) AS n FROM STREAM s) SELECT n FROM c", "HASH(k)", "string"),
    ],
)
def test_what_is_not_proven_to_answer_as_on_spark_is_refused(query: str, call: str, over: str) -> None:
    stream = "CREATE STREAM s (k STRING, x DOUBLE, d DECIMAL(10, 2), ts TIMESTAMP) TIMESTAMP BY ts;\n"
    with pytest.raises(TemporalSqlError) as caught:
        ReplayDriver(stream + query)
    assert str(caught.value).startswith(
        f"[REPLAY.NOT_PROVEN] `{call}` over {over} is not known to answer in replay as it does on Spark."
    )


def test_it_is_pointed_to_where_it_is_written_as_it_is_written() -> None:
    stream = "CREATE STREAM s (k STRING, x DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts;\n"
    with pytest.raises(TemporalSqlError) as caught:
        ReplayDriver(stream + "SELECT k,\n  exp( `x` ) AS e, exp(x)\nFROM STREAM s")
    assert "LINE 2:   exp( `x` ) AS e, exp(x)\n          ^^^^^^^^^^\n" in str(caught.value)
    derived = "CREATE STREAM e FROM (SELECT exp(x) AS x, ts FROM s) TIMESTAMP BY ts;\n"
    with pytest.raises(TemporalSqlError) as caught:
        ReplayDriver(stream + derived + "SELECT x FROM STREAM e")
    assert "FROM (SELECT exp(x) AS x, ts FROM s)" in str(caught.value)
    assert "\n" + " " * 37 + "^^^^^^\n" in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        "percentile_approx(v, 0.5)",
        "percentile(v, 0.5, 2)",
        "percentile(v, array(0.1, 0.9))",
        "median(CAST(v AS DECIMAL(5, 2)))",
        "median(DISTINCT v)",
        "median(CAST(v AS FLOAT))",
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY v)",
        "approx_count_distinct(v)",
        "corr(v, v)",
        "kurtosis(v)",
        "mode(v)",
        "listagg(s, ',') WITHIN GROUP (ORDER BY s)",
        "listagg(CAST(v AS DOUBLE), ',')",
        "listagg(DISTINCT s, ',')",
    ],
)
def test_aggregates_that_have_no_rule_here_are_refused_by_name(call: str) -> None:
    text = f"SELECT {call} AS x FROM t GROUP BY window(ts, '1 minute') EMIT FINAL"
    with pytest.raises(TemporalSqlError) as refused:
        ReplayDriver(f"CREATE STREAM t (v INT, s STRING, ts TIMESTAMP) TIMESTAMP BY ts; {text}")
    assert refused.value.getCondition() == "REPLAY.NOT_PROVEN", str(refused.value)
    assert "\n" + " " * len("LINE 1: SELECT ") + "^" * len(call.partition("(")[0]) + "\n" in str(refused.value)
    assert call.partition("(")[0] in str(refused.value)
