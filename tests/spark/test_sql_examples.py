"""The stories of sql_examples/ on the real data, each answer checked against DuckDB's own ASOF JOIN."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from sqlx.cli.output import fetch
from sqlx.cli.scripts import is_query, split
from sqlx.demo import ACTS, STORIES, counts
from sqlx.demo_data import prepare, source_folder
from sqlx.jinja import render_file
from tests.oracle.deduplicate import duckdb_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# DuckDB's ASOF JOIN looks for the latest row with values (duckdb#18303): times and keys alone are joined, and the
# weather's values, some of them NULL, are looked up afterwards.
ORACLE = """
CREATE VIEW flights AS
  SELECT *, time_hour + to_minutes(minute) AS scheduled_at FROM '{data}/flights.parquet';
CREATE VIEW weather AS
  SELECT origin, time_hour, visib, CASE WHEN wind_speed < 200 THEN wind_speed END AS wind
  FROM '{data}/weather.parquet';
CREATE VIEW times AS SELECT origin, time_hour FROM weather;
CREATE VIEW joined AS
  SELECT f.*, t.time_hour AS observed_at,
    t.time_hour IS NOT NULL AND f.scheduled_at - t.time_hour <= INTERVAL 2 HOURS AS hit
  FROM flights f ASOF LEFT JOIN times t ON f.origin = t.origin AND f.scheduled_at >= t.time_hour;
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    source = source_folder()
    assert source is not None, "pip install 'sqlx-temporal[demo]'"
    assert len(list(prepare(source, folder))) == 2
    return folder


@pytest.fixture(scope="module")
def oracle(data: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(ORACLE.format(data=data))
    return connection


def answers(spark: SparkSession, name: str, data: Path) -> list[list[dict[str, Any]]]:
    """The rows of each query of a story."""
    found = []
    for statement in split(render_file(STORIES / name, {"data": str(data)}).text, name):
        frame = spark.sql(statement.text)
        if is_query(statement.text):
            found.append([row.asDict() for row in frame.collect()])
    return found


def test_every_file_is_an_act_of_the_demo_or_its_definitions() -> None:
    assert sorted(path.name for path in STORIES.glob("*.sql")) == sorted([*ACTS, "flights.sql"])


def test_as_of_join(spark: SparkSession, data: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    some, outcomes = answers(spark, "as_of_join.sql", data)
    hits, misses = oracle.sql("SELECT count(*) FILTER (hit), count(*) FILTER (NOT hit) FROM joined").fetchall()[0]
    assert outcomes == [
        {"outcome": "joined", "departures": hits},
        {"outcome": "beyond_tolerance", "departures": misses},
    ]
    assert (hits, misses) == (335_803, 973)
    expected = oracle.sql(
        "SELECT concat(carrier, flight), strftime(observed_at, '%H:%M'), visib, round(wind) "
        "FROM joined j JOIN weather w ON w.origin = j.origin AND w.time_hour = j.observed_at "
        "WHERE scheduled_at BETWEEN TIMESTAMPTZ '2013-02-08 20:10:00Z' AND TIMESTAMPTZ '2013-02-08 20:20:00Z' "
        "ORDER BY scheduled_at, 1"
    ).fetchall()
    got = [(r["flight"], f"{r['observed_at']:%H:%M}", r["visibility_miles"], r["wind"]) for r in some]
    assert got == expected
    assert len(got) == 11


def test_delay_by_weather(spark: SparkSession, data: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    (bands,) = answers(spark, "delay_by_weather.sql", data)
    expected = oracle.sql(
        "SELECT 1 + (visib >= 1)::INT + (visib >= 5)::INT AS v, 1 + (wind >= 10)::INT + (wind >= 20)::INT AS w, "
        "count(*), avg(dep_delay), 100 * count(*) FILTER (dep_delay IS NULL) / count(*) "
        "FROM joined j JOIN weather o ON o.origin = j.origin AND o.time_hour = j.observed_at "
        "WHERE hit AND wind IS NOT NULL GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    got = [tuple(row.values()) for row in bands]
    assert [(int(v[0]), int(w[0]), n) for v, w, n, *_ in got] == [row[:3] for row in expected]
    for row, (*_, delay, cancelled) in zip(got, expected, strict=True):
        assert row[3:] == pytest.approx((delay, cancelled), abs=0.051)


def test_known_as_of(spark: SparkSession, data: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    (table,) = answers(spark, "known_as_of.sql", data)
    # Known an hour before is what was observed 80 minutes before: the report comes 20 minutes after the observation.
    expected = oracle.sql(
        "WITH early AS (SELECT *, scheduled_at - INTERVAL 80 MINUTES AS briefed_at FROM joined), "
        "both_ AS (SELECT e.*, t.time_hour AS known FROM early e ASOF JOIN times t "
        "ON e.origin = t.origin AND e.briefed_at >= t.time_hour) "
        "SELECT if(k.visib < 3, 'poor', 'good'), if(a.visib < 3, 'poor', 'good'), count(*), avg(dep_delay) "
        "FROM both_ b JOIN weather a ON a.origin = b.origin AND a.time_hour = b.observed_at "
        "JOIN weather k ON k.origin = b.origin AND k.time_hour = b.known GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    got = [tuple(row.values()) for row in table]
    assert [row[:3] for row in got] == [row[:3] for row in expected]
    assert [row[3] for row in got] == pytest.approx([row[3] for row in expected], abs=0.051)


def test_the_counts_at_the_end_are_those_of_the_join(spark: SparkSession) -> None:
    outcomes = "SELECT * FROM VALUES ('joined', 335803), ('beyond_tolerance', 973) AS t(outcome, departures)"
    assert counts(fetch(spark.sql(outcomes), 20)) == [
        "336,776 departures:",
        "  335,803 joined with the weather at their airport",
        "      973 without a match: beyond_tolerance",
    ]


def test_deduplicate(spark: SparkSession, data: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    morning, (totals,) = answers(spark, "deduplicate.sql", data)
    oracle.execute(
        "CREATE TABLE s AS SELECT tailnum AS k, epoch_us(scheduled_at) AS t, row_number() OVER () AS n FROM flights"
    )
    kept = oracle.sql(
        f"SELECT count(*), count(*) FILTER (k IS NULL) FROM s WHERE n IN ({duckdb_sql(2 * 3600 * 10**6)})"
    )
    assert tuple(totals.values()) == kept.fetchall()[0] == (335_566, 2_512)
    assert [row["dropped"] for row in morning] == ["AA753", "EV4352", "EV4434"]
