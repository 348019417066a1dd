"""Every type that Spark joins and orders, as key, time and payload; NULLs, empty sides, and other time zones."""

from __future__ import annotations

import re

import pytest

from sqlx.errors import TemporalSqlError
from tests.harness.marks import gated

KEYS = {  # type of the left, of the right, values of the left, of the right
    "int": ("int", "int", ["1", "2", "NULL"], ["1", "3", "NULL"]),
    "int, bigint": ("int", "bigint", ["1", "2"], ["1", "2147483648"]),
    "smallint, bigint": ("smallint", "bigint", ["1", "2"], ["2", "7"]),
    "string, int": ("string", "int", ["'1'", "'2'"], ["2", "3"]),
    "string": ("string", "string", ["'a'", "'ä'", "''"], ["'a'", "'ä'", "'A'", "''"]),
    "char, varchar": ("string", "varchar(5)", ["'a'", "'b'"], ["'a'", "'c'"]),
    "decimal": ("decimal(10,2)", "decimal(38,10)", ["1.10", "2.00"], ["1.1000000000", "2.0000000001"]),
    "decimal, int": ("decimal(10,2)", "int", ["1.00", "1.50"], ["1", "2"]),
    "date": ("date", "date", ["'2024-01-01'", "'1960-02-29'"], ["'1960-02-29'", "'2024-01-02'"]),
    "date, timestamp": ("date", "timestamp", ["'2024-01-01'"], ["'2024-01-01 00:00:00'", "'2024-01-01 00:00:01'"]),
    "timestamp": ("timestamp", "timestamp", ["'2024-01-01 00:00:00.000001'"], ["'2024-01-01 00:00:00.000001'"]),
    "timestamp_ntz": ("timestamp_ntz", "timestamp_ntz", ["'2024-03-10 02:30'"], ["'2024-03-10 02:30'"]),
    "binary": ("binary", "binary", ["'ab'", "''"], ["'ab'", "'abc'"]),
    "boolean": ("boolean", "boolean", ["true", "false"], ["true"]),
    "double": ("double", "double", ["'NaN'", "-0.0", "1.5"], ["'NaN'", "0.0", "2.5"]),
    "float, double": ("float", "double", ["0.5", "'NaN'"], ["0.5", "'NaN'"]),
    "struct": ("struct<a:int,b:string>", "struct<a:int,b:string>", ["struct(1, 'x')"], ["struct(1, 'x')"]),
}
#: Those of which the gate runs none are compared like one that it runs.
GATE = (
    "int, bigint",
    "string",
    "decimal, int",
    "date, timestamp",
    "timestamp_ntz",
    "binary",
    "float, double",
    "struct",
)
ORDERED = {  # times that MATCH_CONDITION compares, in ascending order
    "int": ["1", "2", "3", "NULL"],
    "double": ["-1.5", "-0.0", "'Infinity'", "'NaN'", "NULL"],
    "decimal(38,10)": ["-0.0000000001", "0", "12345678901234567890.5", "NULL"],
    "string": ["''", "'B'", "'a'", "'ä'", "NULL"],
    "date": ["'0001-01-01'", "'1969-12-31'", "'2024-02-29'", "NULL"],
    "timestamp_ntz": ["'1969-12-31 23:59:59.999999'", "'2024-03-10 02:30'", "'2024-03-10 02:30:00.000001'", "NULL"],
    "timestamp": ["'1900-01-01'", "'2024-11-03 01:30'", "'2024-11-03 02:30'", "NULL"],
    "binary": ["'A'", "'AB'", "'a'"],
}
PAYLOADS = {
    "struct": "named_struct('a', 1, 'b c', named_struct('d', array(1, NULL)))",
    "array": "array(array('x', NULL), NULL)",
    "map": "map('x', array(1.5BD), 'y', NULL)",
    "decimal": "CAST(1.5 AS DECIMAL(38, 10))",
    "binary": "X'00ff'",
    "interval": "INTERVAL '1 02:03:04.000005' DAY TO SECOND",
    "ntz": "TIMESTAMP_NTZ'2024-03-10 02:30:00'",
    "date": "DATE'1582-10-04'",
    "boolean": "true",
    "byte": "1Y",
    "float": "CAST('NaN' AS FLOAT)",
    "null": "CAST(NULL AS STRING)",
    "time": "CAST('2024-01-01 01:02:03' AS TIMESTAMP)",
}
AT = "TIMESTAMP'2024-01-01 10:00'"


@pytest.fixture(params=["mapped", "shuffled"])
def way(spark, request):
    spark.conf.set("sqlx.as_of.mapped_bytes", "0" if request.param == "shuffled" else str(1 << 26))
    yield request.param
    spark.conf.unset("sqlx.as_of.mapped_bytes")


def rows(frame):
    return sorted(map(repr, map(tuple, frame.collect())))


def relation(items, values):
    """A relation of casts: a row a value, numbered."""
    return " UNION ALL ".join(f"SELECT {n} AS n, {items.format(value)}" for n, value in enumerate(values))


@pytest.mark.parametrize("case", gated(KEYS, GATE))
def test_keys_are_equal_as_spark_compares_them(spark, case):
    left, right, lefts, rights = KEYS[case]
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS {relation(f'CAST({{}} AS {left}) AS k, {AT} AS t', lefts)}")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW s AS {relation(f'CAST({{}} AS {right}) AS k, {AT} AS t', rights)}")
    spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM s KEYS (k) TIMESTAMP BY t")
    expected = rows(spark.sql("SELECT l.n, r.n, l.k, r.k AS k2 FROM l LEFT JOIN s r ON l.k = r.k"))
    for limit in ("0", str(1 << 26)):
        spark.conf.set("sqlx.as_of.mapped_bytes", limit)
        assert rows(spark.sql("SELECT l.n, r.n, l.k, r.k AS k2 FROM l LEFT JOIN r AS OF l.t ON l.k = r.k")) == expected
    spark.conf.unset("sqlx.as_of.mapped_bytes")


def test_a_composite_key_of_three_types(spark, way):
    pairs = [
        ("1", "'a'", "'2024-01-01'"),
        ("1", "'a'", "'2024-01-02'"),
        ("1", "NULL", "'2024-01-01'"),
        ("2", "'a'", "NULL"),
    ]
    parts = [
        f"SELECT {n} AS n, {AT} AS t, {a} AS a, {b} AS b, CAST({c} AS DATE) AS c" for n, (a, b, c) in enumerate(pairs)
    ]
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS {' UNION ALL '.join(parts)}")
    spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM l KEYS (a, b, c) TIMESTAMP BY t")
    found = spark.sql("SELECT l.n, r.n FROM l LEFT JOIN r AS OF l.t USING (c, a, b)")
    assert rows(found) == ["(0, 0)", "(1, 1)", "(2, None)", "(3, None)"]


@pytest.mark.parametrize("kind", ORDERED)
@pytest.mark.parametrize("comparison", [">=", pytest.param("<", marks=pytest.mark.full)])
def test_times_are_ordered_as_spark_orders_them(spark, kind, comparison):
    values = ORDERED[kind]
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS {relation(f'CAST({{}} AS {kind}) AS t', values)}")
    best = "max_by" if comparison == ">=" else "min_by"
    expected = spark.sql(f"SELECT l.n, {best}(r.n, r.n) FROM l LEFT JOIN l r ON l.t {comparison} r.t GROUP BY l.n")
    found = spark.sql(f"SELECT l.n, r.n FROM l ASOF LEFT JOIN l r MATCH_CONDITION (l.t {comparison} r.t)")
    assert rows(found) == rows(expected)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_another_time_zone_shifts_nothing(spark, way, kind):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        times = ["'2024-03-10 01:59'", "'2024-03-10 03:00'", "'2024-11-03 23:30'", "'1900-01-01 00:00'"]
        spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS {relation(f'1 AS k, CAST({{}} AS {kind}) AS t', times)}")
        spark.sql("CREATE OR REPLACE TEMP VIEW s AS SELECT *, array(struct(map('x', t) AS m)) AS nested FROM l")
        spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM s KEYS (k) TIMESTAMP BY t")
        items = "CAST(r.t AS STRING) AS at, CAST(r.nested[0].m['x'] AS STRING) AS inside, CAST(l.t AS STRING) AS wanted"
        join = "l JOIN r AS OF l.t ON l.k = r.k TOLERANCE INTERVAL 0 SECONDS"
        found = spark.sql(f"SELECT {items} FROM {join}").collect()
        assert len(found) == len(times)
        assert all(row.at == row.inside == row.wanted for row in found)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_payloads_of_all_types_come_through_unchanged(spark, way):
    items = ", ".join(f"{text} AS `p {name}`" for name, text in PAYLOADS.items())
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS SELECT 1 AS k, {AT} AS t, {items}")
    spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM l KEYS (k) TIMESTAMP BY t")
    found = spark.sql("SELECT l.*, r.* FROM l JOIN r AS OF l.t ON l.k = r.k")
    expected = spark.sql("SELECT l.*, r.* FROM l JOIN l r ON l.k = r.k")
    assert found.schema.simpleString() == expected.schema.simpleString()
    assert rows(found) == rows(expected)


#: Values with a field that may not be NULL; the columns may be NULL as a whole.
REQUIRED = {
    "variant": "parse_json('{\"a\": [1, null]}')",
    "of variants": "struct(parse_json('1') AS j, array(map('k', parse_json('2'))) AS l)",
    "struct": f"named_struct('a', 1, 'b', array(named_struct('c', {AT})))",
}


def test_null_beside_fields_that_may_not_be_null(spark, way):
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        items = [", ".join(f"{text} AS `p {name}`" for name, text in REQUIRED.items()), ", NULL" * len(REQUIRED)]
        both = f"SELECT 1 AS k, {AT} AS t, {items[0]} UNION ALL SELECT 2, {AT}{items[1]}"
        spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS {both}")
        spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM l KEYS (k) TIMESTAMP BY t")
        asked = ", ".join(f"to_json(struct(r.`p {name}` AS x)) AS `{name}`" for name in REQUIRED)
        found = spark.sql(f"SELECT l.k, {asked} FROM l LEFT JOIN r AS OF l.t ON l.k = r.k AND r.k < 3")
        expected = spark.sql(f"SELECT l.k, {asked} FROM l LEFT JOIN l r ON l.k = r.k")
        assert len(found.collect()) == 2
        assert rows(found) == rows(expected)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.full
def test_wide_rows_and_none_at_all(spark, way):
    items = ", ".join(f"{n} AS c{n}" for n in range(200))
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS SELECT id AS k, {AT} AS t, {items} FROM range(3)")
    spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM l KEYS (k) TIMESTAMP BY t")
    wide = spark.sql("SELECT * FROM l JOIN r AS OF l.t ON l.k = r.k")
    assert len(wide.columns) == 404
    assert set(wide.collect()[0][2:202]) == set(range(200))
    assert spark.sql("SELECT count(*) FROM l JOIN r AS OF l.t ON l.k = r.k").collect()[0][0] == 3


@pytest.mark.parametrize(("left", "right"), [("false", "true"), ("true", "false"), ("false", "false")])
def test_empty_sides(spark, way, left, right):
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS SELECT 1 AS k, {AT} AS t, array('x') AS p WHERE {left}")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW s AS SELECT 1 AS k, {AT} AS t, map(1, 'y') AS q WHERE {right}")
    spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM s KEYS (k) TIMESTAMP BY t")
    query = "SELECT l.p, r.q FROM l {} JOIN r AS OF l.t ON l.k = r.k"
    assert rows(spark.sql(query.format("LEFT"))) == (["(['x'], None)"] if left == "true" else [])
    assert rows(spark.sql(query.format("INNER"))) == []


def test_columns_that_nothing_reads_are_not_shipped(spark, way):
    spark.sql(f"CREATE OR REPLACE TEMP VIEW l AS SELECT id AS k, {AT} AS t, id AS used, id AS unused1 FROM range(3)")
    spark.sql("CREATE OR REPLACE TEMP VIEW s AS SELECT k, t, used AS taken, unused1 AS unused2 FROM l")
    spark.sql("CREATE OR REPLACE TEMPORARY VERSIONED TABLE r FROM s KEYS (k) TIMESTAMP BY t")
    found = spark.sql("SELECT l.used, r.taken FROM l LEFT JOIN r AS OF l.t ON l.k = r.k")
    plan = found._jdf.queryExecution().optimizedPlan().toString()
    assert "unused" not in plan
    shipped = re.search(r"(?:MapInArrow|FlatMapCoGroupsInArrow).*", plan)
    assert shipped is not None
    assert set(re.findall(r"\b(_[lr]\d+)#", shipped.group())) == {"_l0", "_r0"}


@pytest.fixture(scope="module")
def padded(spark):
    """Tables whose CHAR columns Spark compares padded."""
    for table, length in (("char3", 3), ("char5", 5)):
        spark.sql(f"CREATE TABLE {table} (k CHAR({length}), s STRING, n INT, t TIMESTAMP) USING parquet")
        spark.sql(f"INSERT INTO {table} VALUES ('ab', 'ab', 1, {AT}), ('abc', 'abc', 2, {AT})")
    spark.sql("CREATE VERSIONED TABLE versions FROM char3 KEYS (k) TIMESTAMP BY t")
    yield
    spark.sql("DROP VERSIONED TABLE versions")
    for table in ("char3", "char5"):
        spark.sql(f"DROP TABLE {table}")


@pytest.mark.usefixtures("padded")
@pytest.mark.parametrize(
    ("left", "on"),
    [
        ("char5", "l.k = r.k"),
        ("char5", "l.s = r.k"),
        ("char5", "r.k = 'ab'"),
        ("char5", "r.k = 'ab     '"),
        ("(SELECT upper(k) AS k, n, t FROM char5)", "l.k = upper(r.k)"),
    ],
)
def test_char_is_padded_as_spark_pads_it(spark, left, on):
    any_key = "LEFT ASOF JOIN char3 r MATCH_CONDITION (l.t >= r.t)"
    right = any_key if "upper" in on else "LEFT JOIN versions r AS OF l.t"
    expected = rows(spark.sql(f"SELECT l.n, r.n FROM {left} l LEFT JOIN char3 r ON {on}"))
    assert rows(spark.sql(f"SELECT l.n, r.n FROM {left} l {right} ON {on}")) == expected


COLLATED = f"(SELECT CAST('EUR' AS STRING COLLATE UTF8_LCASE) AS k, 1 AS n, {AT} AS t)"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT 1 FROM {COLLATED} l ASOF JOIN {COLLATED} r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k",
        f"SELECT 1 FROM {COLLATED} l ASOF JOIN {COLLATED} r MATCH_CONDITION (l.t >= r.t) ON array(l.k) = array(r.k)",
        f"SELECT 1 FROM {COLLATED} l ASOF JOIN {COLLATED} r MATCH_CONDITION (l.k >= r.k) ON l.n = r.n",
        f"SELECT 1 FROM {COLLATED} l ASOF JOIN {COLLATED} r MATCH_CONDITION (l.t >= r.t) ON l.n = r.n TIES BY r.k",
        f"SELECT 1 FROM {COLLATED} DEDUPLICATE WITHIN INTERVAL 1 DAY BY (k) ON TIME t",
        f"SELECT 1 FROM {COLLATED} DEDUPLICATE WITHIN INTERVAL 1 DAY BY (struct(k)) ON TIME t",
        f"SELECT count(*) FROM {COLLATED} GROUP BY k, sliding_window(t, '1 day')",
        f"SELECT max(k) FROM {COLLATED} GROUP BY sliding_window(t, '1 day')",
    ],
)
def test_a_collation_is_refused_by_name(spark, query):
    with pytest.raises(TemporalSqlError, match=r"UNSUPPORTED\.COLLATION.*UTF8_LCASE(.|\n)*\^"):
        spark.sql(query)


def test_collated_payloads_come_back_with_their_collation(spark):
    query = f"SELECT l.k FROM {COLLATED} l ASOF JOIN {COLLATED} r MATCH_CONDITION (l.t >= r.t) ON l.n = r.n"
    assert spark.sql(f"SELECT k = 'eur' FROM ({query})").collect() == [(True,)]


@pytest.mark.parametrize("value", ["INTERVAL '1' YEAR", "make_interval(1)", "array()", "map()"])
@pytest.mark.parametrize("place", ["payload", "BY", "GROUP BY"])
def test_what_python_cannot_be_handed_is_refused_by_name(spark, value, place):
    relation = f"(SELECT {value} AS x, 1 AS n, {AT} AS t)"
    query = {
        "payload": f"SELECT l.x FROM {relation} l ASOF JOIN {relation} r MATCH_CONDITION (l.t >= r.t) ON l.n = r.n",
        "BY": f"SELECT 1 FROM {relation} DEDUPLICATE WITHIN INTERVAL 1 DAY BY (x) ON TIME t",
        "GROUP BY": f"SELECT x FROM {relation} GROUP BY x, sliding_window(t, '1 day')",
    }[place]
    with pytest.raises(TemporalSqlError, match=r"(COLUMN_TYPE|KEY_TYPE)(.|\n)*\^"):
        spark.sql(query)


def test_columns_that_differ_in_case_only_are_refused_by_name(spark):
    relation = f"(SELECT 1 AS k, 2 AS K, {AT} AS t)"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        for query in (
            f"SELECT k FROM {relation} GROUP BY k, sliding_window(t, '1 day')",
            f"SELECT k FROM {relation} DEDUPLICATE WITHIN INTERVAL 1 DAY BY (K) ON TIME t",
            f"SELECT l.k FROM {relation} l ASOF JOIN {relation} r MATCH_CONDITION (l.t >= r.t) ON l.k = r.K",
        ):
            with pytest.raises(TemporalSqlError, match=r"CASE_SENSITIVE.*`k` and `K`"):
                spark.sql(query)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
