"""Answers of AS OF joins through spark.sql, against DuckDB on the same random tables."""

from __future__ import annotations

import random
from dataclasses import replace

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from tests.oracle.duckdb_batch import TIES, Options, answer_sql, native_sql
from udtf.spark import batch

KEYS = ["a", "b", "c", None]
LEFT = {"id": pa.int32(), "k": pa.string(), "t": pa.int64(), "known": pa.int64()}
RIGHT = {"k": pa.string(), "t": pa.int64(), "seq": pa.int64(), "n": pa.int32(), "v": pa.int32(), "gone": pa.bool_()}
WAYS = {"mapped": {}, "shuffled": {"sqlx.as_of.mapped_bytes": "0"}}


def made(columns, rows):
    return pa.table({name: pa.array([row[n] for row in rows], type) for n, (name, type) in enumerate(columns.items())})


def random_tables():
    dice = random.Random(20)
    lefts = [(n, dice.choice(["only left", *KEYS]), dice.choice([None, *range(45)] * 3),
              dice.choice([None, *range(50)])) for n in range(150)]  # fmt: skip
    sequence = list(range(60))
    dice.shuffle(sequence)
    rights = [(dice.choice(["only right", *KEYS]), dice.choice([None, *range(5, 40)]), sequence[n], n,
               dice.choice([None, 1, 2, 3]), dice.random() < 0.15) for n in range(60)]  # fmt: skip
    return made(LEFT, lefts), made(RIGHT, rights)


@pytest.fixture(scope="module")
def tables(spark):
    """The tables in Spark (times as timestamps) and in DuckDB (times as numbers)."""
    left, right = random_tables()
    spark.createDataFrame(left).createOrReplaceTempView("l_numbers")
    spark.createDataFrame(right).coalesce(1).createOrReplaceTempView("r_numbers")
    view, seconds = "CREATE OR REPLACE TEMP VIEW", "timestamp_seconds(t) AS t"
    spark.sql(f"{view} l AS SELECT id, k, {seconds}, timestamp_seconds(known) AS known FROM l_numbers")
    spark.sql(f"{view} r_rows AS SELECT k, {seconds}, timestamp_seconds(seq) AS seq, n, v, gone FROM r_numbers")
    definition = "FROM r_rows KEYS (k) TIMESTAMP BY t {} APPLY AS DELETE WHEN gone"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VERSIONED TABLE arrived {definition.format('')}")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VERSIONED TABLE sequenced {definition.format('SEQUENCE BY seq')}")
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    return connection


@pytest.fixture(params=WAYS)
def way(spark, request):
    for name, value in WAYS[request.param].items():
        spark.conf.set(name, value)
    yield request.param
    for name in WAYS[request.param]:
        spark.conf.unset(name)


def ordered(rows):
    return sorted((tuple(row) for row in rows), key=repr)


def join_sql(options, items="l.id, r.n, why", table=None):
    clauses = [
        "EXCLUSIVE" if options.exclusive else "",
        "ON l.k = r.k",
        options.condition and f"AND {options.condition}",
    ]
    clauses += [f"DIRECTION {options.direction}" if options.direction != "BACKWARD" else ""]
    clauses += ["" if options.tolerance is None else f"TOLERANCE INTERVAL {options.tolerance} SECONDS"]
    clauses += [options.ties and f"TIES BY {options.ties}", "KNOWN AS OF l.known" if options.known else ""]
    table = table or ("sequenced r" if options.sequence else "arrived r")
    return f"SELECT {items} FROM l {options.join} JOIN {table} AS OF l.t {' '.join(clauses)} WITH REASON AS why"


def random_options():
    dice = random.Random(7)
    found = []
    for number in range(14):
        sequence = number % 2 == 1
        found.append(
            Options(
                join=dice.choice(["LEFT", "LEFT", "INNER"]),
                direction=["BACKWARD", "FORWARD", "NEAREST"][number % 3],
                exclusive=dice.random() < 0.3,
                tolerance=dice.choice([None, None, 0, 3]),
                sequence=sequence,
                known=sequence and dice.random() < 0.6,
                ties=dice.choice(list(TIES)),
                condition=dice.choice(["", "", "r.v > 1"]),
            )
        )
    return found


@pytest.mark.parametrize("options", random_options(), ids=str)
def test_all_options_answer_as_the_correlated_query(spark, tables, options):
    expected = ordered(tables.execute(answer_sql(options)).fetchall())
    for settings in WAYS.values():
        for name, value in settings.items():
            spark.conf.set(name, value)
        found = ordered(spark.sql(join_sql(options)).collect())
        for name in settings:
            spark.conf.unset(name)
        if options.direction == "NEAREST":  # which side has no version is not said in one word there
            assert [row[:2] for row in found] == [row[:2] for row in expected]
            assert [row[2] is None for row in found] == [row[2] is None for row in expected]
        else:
            assert found == expected


def test_the_reasons_above_are_all_there(tables):
    options = Options(tolerance=3, condition="r.v > 1")
    reasons = {row[2] for row in tables.execute(answer_sql(options)).fetchall()}
    reasons |= {row[2] for row in tables.execute(answer_sql(replace(options, direction="FORWARD"))).fetchall()}
    named = {"null_time", "no_key", "before_first", "after_last", "tombstone", "beyond_tolerance", "condition"}
    assert reasons == {None, *named}


@pytest.mark.parametrize("comparison", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("join", ["LEFT", "INNER"])
def test_duckdbs_own_asof_join(spark, tables, join, comparison):
    tables.execute("CREATE OR REPLACE TEMP TABLE all_r AS SELECT * FROM r")
    unique = "SELECT DISTINCT ON (k, t) * FROM all_r WHERE k IS NOT NULL AND t IS NOT NULL ORDER BY k, t, n DESC"
    expected = ordered(tables.execute(f"WITH r AS ({unique}) {native_sql(join, comparison)}").fetchall())
    both_orders_of_the_words = {
        "INNER": f"l ASOF JOIN r_rows r MATCH_CONDITION (l.t {comparison} r.t) ON l.k = r.k",
        "LEFT": f"l ASOF LEFT JOIN r_rows r ON l.k = r.k AND l.t {comparison} r.t",
    }
    found = spark.sql(f"SELECT l.id, r.n FROM {both_orders_of_the_words[join]}")
    assert ordered(found.collect()) == expected


SPELLINGS = [
    "l LEFT JOIN arrived r AS OF l.t ON l.k = r.k",
    "l LEFT JOIN arrived AS OF l.t AS r USING (k)",
    "l LEFT JOIN arrived FOR SYSTEM_TIME AS OF l.t AS r ON r.k = l.k",
    "l LEFT ASOF JOIN arrived r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k",
    "l LEFT ASOF JOIN arrived r MATCH_CONDITION (r.t <= l.t) USING (k)",
    "l ASOF LEFT JOIN arrived r ON l.k = r.k AND l.t >= r.t",
    "l LEFT JOIN (SELECT * FROM arrived) r AS OF l.t ON l.k = r.k",
    "l LEFT ASOF JOIN (SELECT k, n, t AS u FROM arrived) r MATCH_CONDITION (l.t >= r.u) ON l.k = r.k",
    "l LEFT JOIN (SELECT k AS key, n FROM arrived AS x) r AS OF l.t INCLUSIVE ON l.k = r.key",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_all_spellings_give_the_same_rows(spark, tables, spelling):
    expected = ordered(row[:2] for row in tables.execute(answer_sql(Options())).fetchall())
    assert ordered(spark.sql(f"SELECT l.id, r.n FROM {spelling}").collect()) == expected


ANY = {
    "an AS OF join": "(SELECT r.k, l.t, r.n FROM l JOIN arrived r AS OF l.t ON l.k = r.k WHERE l.t IS NOT NULL)",
    "as of one time": "arrived TIMESTAMP AS OF '1970-01-01 00:00:30'",
    "history": "history(arrived)",
    "current rows": "(SELECT k, max(t) AS t, max(n) AS n FROM arrived GROUP BY k)",
}


@pytest.mark.parametrize("relation", ANY)
def test_any_relation_is_what_it_shows_by_itself(spark, tables, relation):
    shown = ANY[relation].removeprefix("(").removesuffix(")") if ANY[relation][0] == "(" else f"FROM {ANY[relation]}"
    rows = spark.sql(shown)
    spark.createDataFrame(rows.collect(), rows.schema).createOrReplaceTempView("any_rows")
    query = "SELECT l.id, r.n FROM l ASOF LEFT JOIN {} AS r MATCH_CONDITION (l.t >= r.t) ON l.k = r.k"
    found, expected = (ordered(spark.sql(query.format(name)).collect()) for name in (ANY[relation], "any_rows"))
    assert found == expected
    assert any(n is not None for _, n in found)
    spark.catalog.dropTempView("any_rows")


@pytest.mark.parametrize("relation", ["subquery", "cte", "view", "temporary view"])
def test_filters_and_projections_over_the_table_are_tested_on_the_picked_version(spark, tables, relation):
    options = Options(condition="r.v > 1")
    expected = ordered(tables.execute(answer_sql(options)).fetchall())
    query, name = "SELECT k, n, v * 1 AS v2 FROM arrived WHERE v > 1", "f"
    prefix = f"WITH f AS ({query}) " if relation == "cte" else ""
    if relation == "subquery":
        name = f"({query})"
    if "view" in relation:
        query = query if relation != "view" else query.replace("arrived", "permanent")
        if relation == "view":
            spark.sql("CREATE VERSIONED TABLE permanent (k STRING, t TIMESTAMP, n INT, v INT, gone BOOLEAN) KEYS (k) "
                      "TIMESTAMP BY t APPLY AS DELETE WHEN gone")  # fmt: skip
            spark.sql("INSERT INTO permanent SELECT k, t, n, v, gone FROM r_rows")
        spark.sql(f"CREATE OR REPLACE {'TEMP ' if relation != 'view' else ''}VIEW f AS {query}")
    try:
        text = prefix + join_sql(replace(options, condition=""), table=f"{name} r")
        assert ordered(spark.sql(text).collect()) == expected
    finally:
        spark.catalog.dropTempView("f")
        if relation == "view":
            spark.sql("DROP VIEW f")
            spark.sql("DROP VERSIONED TABLE permanent")


@pytest.mark.parametrize("partitions", [1, 7])
def test_shuffle_partitions_change_nothing(spark, tables, way, partitions):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    options = Options(tolerance=5, sequence=True, known=True)
    try:
        text = join_sql(options).replace("FROM l ", "FROM (SELECT /*+ REPARTITION(3) */ * FROM l) l ")
        assert ordered(spark.sql(text).collect()) == ordered(tables.execute(answer_sql(options)).fetchall())
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)


def test_a_hot_key_is_split_and_answers_the_same(spark, tables, monkeypatch):
    found, split = [], batch.split_hot_keys
    monkeypatch.setattr(batch, "is_worth_sampling", lambda _: True)
    monkeypatch.setattr(batch, "estimated_bytes", lambda _: 1)
    monkeypatch.setattr(batch, "number_of_tasks", lambda *_: 16)
    monkeypatch.setattr(batch, "split_hot_keys", lambda *args: found.extend(split(*args)) or found)
    spark.conf.set("sqlx.as_of.mapped_bytes", "0")
    try:
        answer = ordered(spark.sql(join_sql(Options())).collect())
    finally:
        spark.conf.unset("sqlx.as_of.mapped_bytes")
    assert answer == ordered(tables.execute(answer_sql(Options())).fetchall())
    assert found


def test_a_right_side_larger_than_its_estimate_is_shuffled(spark, monkeypatch):
    def too_large(*_):
        message = "Total size of serialized results is bigger than spark.driver.maxResultSize"
        raise PySparkException(message)

    query = "SELECT l.id, r.id AS rid FROM range(3) l ASOF LEFT JOIN range(2) r MATCH_CONDITION (l.id >= r.id)"
    monkeypatch.setattr("sqlx.spark.batch.batch.as_of_join_mapped", too_large)
    assert sorted(map(tuple, spark.sql(query).collect())) == [(0, 0), (1, 1), (2, 1)]
