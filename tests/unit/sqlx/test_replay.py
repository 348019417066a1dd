"""What a test's author sees of replay: values in and out, tasks, late rows, counters, definitions over definitions."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.errors import BindError, RunError
from sqlx.replay.driver import ReplayDriver
from sqlx.replay.placement import task_of, xxhash64
from sqlx.replay.types import TypeTextError, common_type, parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERS = "CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts;"
RATES = """CREATE VERSIONED TABLE rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts
           HISTORY RETENTION INTERVAL '1' HOUR;"""
JOIN = "SELECT o.id, r.rate FROM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy"
UTC = dt.UTC


def rows(driver: ReplayDriver, *records: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [change.row for change in driver.push(list(records))]


def test_groups_of_keep_last_go_out_when_nothing_comes_for_the_idle_timeout() -> None:
    query = "SELECT id, ccy FROM orders DEDUPLICATE WITHIN INTERVAL 10 MINUTES BY (ccy) KEEP LAST LATE TO lost"
    driver = ReplayDriver(f"{ORDERS} {query} IDLE TIMEOUT INTERVAL 5 SECONDS", tasks=1)
    first, second = {"id": 1, "ccy": "EUR", "ts": 10}, {"id": 2, "ccy": "EUR", "ts": 20}
    assert driver.push([("orders", first), ("orders", second)]) == []
    assert driver.advance_processing_time(4999) == []
    driver.restart()
    assert [change.row for change in driver.advance_processing_time(1)] == [{"id": 2, "ccy": "EUR"}]
    assert (driver.metrics["idle_closed"], driver.metrics["buffered_rows"]) == (1, 0)
    assert driver.push([("orders", {"id": 3, "ccy": "EUR", "ts": 9})]) == []
    assert [row["id"] for row in driver.late] == [3]  # as after a row that came just behind the interval
    assert driver.advance_processing_time(100_000) == []


def test_what_waits_is_answered_when_nothing_comes_for_the_idle_timeout() -> None:
    driver = ReplayDriver(f"{ORDERS} {RATES} {JOIN} GRACE PERIOD INTERVAL 1 MINUTE IDLE TIMEOUT INTERVAL 5 SECONDS")
    rates, orders = {"ccy": "EUR", "rate": 1, "ts": 10}, {"id": 1, "ccy": "EUR", "ts": 20}
    assert driver.push([("rates", rates), ("orders", orders)]) == []
    assert driver.advance_processing_time(4999) == []
    assert driver.push([("rates", {**rates, "rate": 2, "ts": 15})]) == []  # a row of either side begins the wait anew
    assert driver.advance_processing_time(4999) == []
    driver.restart()
    assert [change.row for change in driver.advance_processing_time(1)] == [{"id": 1, "rate": 2}]
    assert (driver.metrics["idle_closed"], driver.metrics["buffered_rows"]) == (1, 0)
    assert driver.advance_processing_time(100_000) == []
    assert driver.push([("orders", {**orders, "id": 2, "ts": 19})]) == []  # not late: stream time has not moved


VALUES = [
    ("TIMESTAMP", 1_500_000, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
    (
        "TIMESTAMP",
        dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
        dt.datetime(2024, 1, 1, tzinfo=UTC),
    ),
    ("TIMESTAMP_NTZ", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 1)),
    ("DATE", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
    ("DECIMAL(10,2)", "1.005", Decimal("1.01")),
    ("DECIMAL(38,0)", 10**37, Decimal(10**37)),
    ("BIGINT", -(2**63), -(2**63)),
    ("DOUBLE", 1, 1.0),
    ("FLOAT", 0.1, 0.10000000149011612),
    ("STRING", "'quoted' ünï", "'quoted' ünï"),
    ("BINARY", bytearray(b"\x00\xff"), b"\x00\xff"),
    ("BOOLEAN", False, False),
    ("ARRAY<INT>", (1, None), [1, None]),
    ("ARRAY<INT>", [], []),
    ("MAP<INT, STRING>", {1: "one"}, {1: "one"}),
    ("STRUCT<a: INT, `b c`: TIMESTAMP>", {"a": 1, "b c": 0}, {"a": 1, "b c": dt.datetime(1970, 1, 1, tzinfo=UTC)}),
]


@pytest.mark.parametrize(("kind", "given", "expected"), VALUES, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("expression", ["x", "coalesce(x, x)"], ids=["picked", "by DuckDB"])
def test_values_come_out_as_they_went_in(kind: str, given: object, expected: object, expression: str) -> None:
    driver = ReplayDriver(
        f"CREATE STREAM s (x {kind}, ts TIMESTAMP) TIMESTAMP BY ts; SELECT {expression} AS x FROM STREAM s"
    )
    (found,) = rows(driver, ("s", {"x": given, "ts": 1}))
    assert found == {"x": expected}
    assert type(found["x"]) is type(expected)
    assert rows(driver, ("s", {"ts": 2})) == [{"x": None}]


def test_change_has_operation_row_and_event_time() -> None:
    driver = ReplayDriver(ORDERS + RATES + JOIN)
    assert driver.push([("rates", {"ccy": "EUR", "rate": 105, "ts": 10})]) == []
    (change,) = driver.push([("ORDERS", {"ID": 1, "Ccy": "EUR", "ts": 25})])
    assert (change.op, change.row) == ("insert", {"id": 1, "rate": 105})
    assert change.time == dt.datetime(1970, 1, 1, microsecond=25, tzinfo=UTC)


def test_late_rows_say_why() -> None:
    driver = ReplayDriver(ORDERS + RATES + JOIN)
    hour_us = 3_600_000_000
    driver.push(
        [("rates", {"ccy": "EUR", "rate": 1, "ts": hour_us + 1}), ("rates", {"ccy": "EUR", "rate": 2, "ts": 0})]
    )
    driver.push([("orders", {"id": 7, "ts": 5})])
    expired, null_key = driver.late
    assert expired == {
        "ccy": "EUR",
        "rate": 2,
        "ts": dt.datetime(1970, 1, 1, tzinfo=UTC),
        "_reason": "expired",
        "_operator": "as_of_join",
        "_stream_time": dt.datetime(1970, 1, 1, 1, 0, 0, 1, tzinfo=UTC),
        "_lateness": hour_us + 1,
    }
    assert {name: null_key[name] for name in ("id", "ccy", "_reason")} == {"id": 7, "ccy": None, "_reason": "null_key"}
    assert driver.metrics["expired"] == driver.metrics["null_key"] == 1


def test_metrics_always_hold_the_counters() -> None:
    names = {"late", "expired", "null_key", "buffered_rows", "buffered_bytes", "evicted_early"}
    assert names <= ReplayDriver(ORDERS + RATES + JOIN, tasks=3).metrics.keys()
    assert names <= ReplayDriver(ORDERS + "SELECT id FROM STREAM orders").metrics.keys()


def test_buffered_rows_are_counted_over_tasks() -> None:
    driver = ReplayDriver(ORDERS + RATES + JOIN + " GRACE PERIOD INTERVAL '1' MINUTE", tasks=4)
    driver.push([("orders", {"id": n, "ccy": f"c{n}", "ts": 1}) for n in range(9)])
    assert driver.metrics["buffered_rows"] == 9
    assert driver.metrics["buffered_bytes"] > 0


def test_query_without_operator_is_answered_row_by_row() -> None:
    driver = ReplayDriver(ORDERS + "SELECT upper(ccy) AS c, id FROM STREAM orders WHERE id > 1")
    assert rows(driver, ("orders", {"id": 1, "ccy": "eur"}), ("orders", {"id": 2, "ccy": "usd"})) == [
        {"c": "USD", "id": 2}
    ]
    assert driver.advance_processing_time(1000) == []


def test_one_row_may_become_several() -> None:
    driver = ReplayDriver(
        "CREATE STREAM s (a ARRAY<INT>, ts TIMESTAMP) TIMESTAMP BY ts; SELECT explode(a) AS x FROM STREAM s"
    )
    assert rows(driver, ("s", {"a": [3, 1, 2], "ts": 1})) == [{"x": 3}, {"x": 1}, {"x": 2}]


def test_definitions_may_read_definitions() -> None:
    script = (
        ORDERS
        + RATES
        + """
        CREATE STREAM big TIMESTAMP BY ts AS SELECT * FROM STREAM orders WHERE id >= 10;
        CREATE STREAM priced TIMESTAMP BY ts
          AS SELECT b.id, b.ccy, r.rate, b.ts FROM STREAM big b JOIN rates r AS OF b.ts ON b.ccy = r.ccy;
        CREATE VERSIONED TABLE last_price FROM STREAM priced KEYS (ccy) TIMESTAMP BY ts;
        SELECT o.id, p.id AS of_order FROM orders o JOIN last_price p AS OF o.ts ON o.ccy = p.ccy"""
    )
    driver = ReplayDriver(script)
    driver.push([("rates", {"ccy": "EUR", "rate": 105, "ts": 10})])
    pushed = [("orders", {"id": n, "ccy": "EUR", "ts": 10 + n}) for n in (9, 10, 11)]
    driver.restart()
    assert rows(driver, *pushed)[-1]["of_order"] in (10, 11)
    assert rows(driver, ("orders", {"id": 1, "ccy": "EUR", "ts": 50})) == [{"id": 1, "of_order": 11}]


def test_qualified_and_quoted_names() -> None:
    driver = ReplayDriver(
        "CREATE STREAM db.`my s` (`a b` INT, ts TIMESTAMP) TIMESTAMP BY ts; SELECT `a b` AS x FROM STREAM db.`my s`"
    )
    assert rows(driver, ("db.my s", {"a b": 1, "ts": 1}), ("DB.`My S`", {"a b": 2, "ts": 2})) == [{"x": 1}, {"x": 2}]


def test_comments_and_empty_statements_in_a_script() -> None:
    assert rows(ReplayDriver(f"-- a; comment\n{ORDERS};;\nSELECT id FROM STREAM orders;\n"), ("orders", {"id": 1})) == [
        {"id": 1}
    ]


def test_drivers_of_one_script_share_no_rows() -> None:
    first, second = ReplayDriver(ORDERS + RATES + JOIN), ReplayDriver(ORDERS + RATES + JOIN)
    first.push([("rates", {"ccy": "EUR", "rate": 105, "ts": 10})])
    assert rows(second, ("orders", {"id": 1, "ccy": "EUR", "ts": 25})) == []


def test_importing_starts_no_spark() -> None:
    code = (
        "import sqlx.testing as t, pyspark; "
        "t.ReplayDriver('CREATE STREAM s (id INT, ts TIMESTAMP) TIMESTAMP BY ts; SELECT id FROM STREAM s'); "
        "assert pyspark.SparkContext._gateway is None"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ("int", "bigint", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("int", "float", "double"),
        ("float", "double", "double"),
        ("decimal(10,2)", "decimal(5,4)", "decimal(12,4)"),
        ("decimal(10,2)", "bigint", "decimal(22,2)"),
        ("decimal(10,2)", "double", "double"),
        ("string", "int", "bigint"),
        ("string", "decimal(5,2)", "double"),
        ("string", "date", "date"),
        ("date", "timestamp", "timestamp"),
        ("timestamp_ntz", "timestamp", "timestamp"),
        ("array<int>", "array<bigint>", "array<bigint>"),
        ("boolean", "int", None),
        ("date", "int", None),
        ("array<int>", "int", None),
    ],
)
def test_common_types_are_those_of_spark(left: str, right: str, common: str | None) -> None:
    for one, other in ((left, right), (right, left)):
        found = common_type(parse_type(one), parse_type(other))
        assert (found and found.text) == common


def test_a_type_that_replay_does_not_know() -> None:
    with pytest.raises(TypeTextError):
        parse_type("geometry")


HASHED: dict[str, list[Any]] = {
    "int": [0, -7, 2**31 - 1],
    "smallint": [300],
    "tinyint": [-1],
    "bigint": [2**40, -(2**63)],
    "string": ["", "a", "ünïcode", "x" * 31, "y" * 32, "z" * 77, None],
    "binary": [b"", bytes(range(50))],
    "boolean": [True, False],
    "double": [0.1, -0.0, math.nan, math.inf],
    "float": [0.5, -0.0],
    "decimal(10,2)": [Decimal("-12.34")],
    "decimal(18,0)": [Decimal(10**17)],
    "decimal(38,3)": [Decimal("-123456789012345678901.5")],
    "decimal(20,0)": [Decimal(0), Decimal(128), Decimal(-128), Decimal(255)],
    "date": [dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    "timestamp": [
        dt.datetime(2024, 1, 1, 1, 2, 3, 4, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 9, tzinfo=UTC),
    ],
    "array<string>": [["a", None, "b"]],
    "struct<a:int,b:string>": [{"a": 1, "b": "x"}],
}


def test_keys_are_placed_as_spark_places_them(spark: SparkSession) -> None:
    pairs = [(kind, value) for kind, values in HASHED.items() for value in values]
    kinds, values = [parse_type(kind) for kind, _ in pairs], [value for _, value in pairs]
    frame = spark.createDataFrame([tuple(values)], ", ".join(f"c{n} {kind}" for n, (kind, _) in enumerate(pairs)))
    whole = f"xxhash64({', '.join(frame.columns)})"
    each = [f"xxhash64({column}) AS h_{column}" for column in frame.columns]
    (found,) = frame.selectExpr(*each, f"{whole} AS whole", f"pmod({whole}, 7) AS task").collect()
    assert [xxhash64([value], [kind]) for value, kind in zip(values, kinds, strict=True)] == list(found)[:-2]
    assert (xxhash64(values, kinds), task_of(values, kinds, 7)) == (found["whole"], found["task"])


def test_stream_time_is_of_the_task() -> None:
    names = [chr(ord("a") + n) for n in range(9)]
    string = [parse_type("string")]
    one = names[0]
    other = next(name for name in names if task_of([name], string, 2) != task_of([one], string, 2))
    hour_us = 3_600_000_000
    pushed = [
        ("rates", {"ccy": one, "rate": 1, "ts": 0}),
        ("rates", {"ccy": one, "rate": 2, "ts": 10}),
        ("rates", {"ccy": other, "rate": 3, "ts": 9 * hour_us}),
        ("orders", {"id": 1, "ccy": one, "ts": 5}),
    ]
    assert rows(ReplayDriver(ORDERS + RATES + JOIN, tasks=1), *pushed) == []
    assert rows(ReplayDriver(ORDERS + RATES + JOIN, tasks=2), *pushed) == [{"id": 1, "rate": 1}]


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        ("concat_ws(',', k, t, k, 'x')", "a,a,x"),
        ("concat(k, i, k, '!')", "a7a!"),
        ("greatest(i, 5, i, 9)", 9),
        ("least(k, 'm', k)", "a"),
    ],
)
def test_what_is_calculated_of_two_values_is_calculated_of_many(item: str, shown: Any) -> None:
    driver = ReplayDriver(
        f"CREATE STREAM s (k STRING, t STRING, i INT, ts TIMESTAMP) TIMESTAMP BY ts; SELECT {item} AS x FROM s"
    )
    (change,) = driver.push([("s", {"k": "a", "i": 7, "ts": 1})])
    assert change.row == {"x": shown}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s.k, t.known AS q FROM s JOIN t AS OF s.ts ON s.k = t.k",
        "SELECT k, known AS q FROM s DEDUPLICATE WITHIN INTERVAL 1 SECOND BY (k)",
        "WITH reason AS (SELECT * FROM s) SELECT k FROM reason DEDUPLICATE WITHIN INTERVAL 1 SECOND BY (k)",
        "WITH reason (a, b, c) AS (SELECT * FROM s) SELECT a FROM reason DEDUPLICATE WITHIN INTERVAL 1 SECOND BY (a)",
    ],
)
def test_names_that_begin_a_clause_elsewhere_are_names(query: str) -> None:
    ReplayDriver(
        "CREATE STREAM s (k STRING, known INT, ts TIMESTAMP) TIMESTAMP BY ts;"
        "CREATE VERSIONED TABLE t (k STRING, known INT, at TIMESTAMP) KEYS (k) TIMESTAMP BY at;" + query
    )


def test_fields_of_structs_are_called_as_on_spark() -> None:
    script = "CREATE STREAM s (k STRING, v INT, ts TIMESTAMP) TIMESTAMP BY ts;"
    items = "struct(k, count(*), upper(k)) AS x, (k, max(v)) AS y, struct(window.start, (k)) AS z"
    driver = ReplayDriver(f"{script} SELECT {items} FROM s GROUP BY k, window(ts, '1 second') EMIT FINAL")
    (final,) = driver.push([("s", {"k": "a", "v": 1, "ts": 0}), ("s", {"k": "b", "v": 2, "ts": 5_000_000})])
    began = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert final.row["x"] == {"k": "a", "col2": 1, "col3": "A"}
    assert final.row["y"] == {"k": "a", "col2": 1}
    assert final.row["z"] == {"start": began, "k": "a"}


@pytest.mark.parametrize("kind", ["INTERVAL DAY TO SECOND", "INTERVAL HOUR", "interval minute to second"])
def test_intervals_of_days_and_less_are_pushed_summed_and_averaged(kind: str) -> None:
    script = f"CREATE STREAM s (k STRING, v {kind}, ts TIMESTAMP) TIMESTAMP BY ts;"
    driver = ReplayDriver(f"{script} SELECT k, sum(v) AS s, avg(v) AS a, max(v) AS m FROM s GROUP BY k")
    pushed = [dt.timedelta(microseconds=-3), None, dt.timedelta(0)]
    found = driver.push([("s", {"k": "a", "v": value, "ts": n}) for n, value in enumerate(pushed)])
    sums, average = dt.timedelta(microseconds=-3), dt.timedelta(microseconds=-2)  # half is rounded away from zero
    assert found[-1].row == {"k": "a", "s": sums, "a": average, "m": dt.timedelta(0)}
    with pytest.raises(BindError, match=r"REPLAY\.VALUE.*\n.*Push a timedelta"):
        driver.push([("s", {"k": "a", "v": 3, "ts": 9})])


def test_sums_of_intervals_overflow_as_on_spark() -> None:
    script = "CREATE STREAM s (k STRING, v INTERVAL DAY, ts TIMESTAMP) TIMESTAMP BY ts;"
    for call in ("sum", "avg"):
        driver = ReplayDriver(f"{script} SELECT k, {call}(v) AS x FROM s GROUP BY k")
        with pytest.raises(RunError, match=f"The query stops: {call} overflows interval"):
            driver.push([("s", {"k": "a", "v": dt.timedelta(days=100_000_000), "ts": n}) for n in range(2)])


@pytest.mark.parametrize("kind", ["INTERVAL YEAR TO MONTH", "ARRAY<INTERVAL MONTH>", "VARIANT"])
def test_types_that_replay_has_not_are_refused_where_they_are_declared(kind: str) -> None:
    with pytest.raises(BindError, match=r"There is no type(.|\n)*\^") as caught:
        ReplayDriver(f"CREATE STREAM s (k STRING, v {kind}, ts TIMESTAMP) TIMESTAMP BY ts; SELECT k FROM s")
    assert caught.value.condition == "DEFINITION.COLUMN_TYPE"
