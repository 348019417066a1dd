"""The stories of sql_examples/ on the real data, each answer checked against DuckDB's own ASOF JOIN."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from sqlx.cli.demo import (
    ACTS,
    CHANGES,
    FINAL,
    STORIES,
    counts,
    draw,
    live_totals,
    prepare,
    replay_rows,
    source_folder,
    updates,
    window_counts,
    write_replay,
    write_tables,
)
from sqlx.cli.jinja import render_file
from sqlx.cli.output import fetch
from sqlx.cli.scripts import is_query, split
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
CREATE TABLE joined AS
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
    for statement in split(render_file(STORIES / name, {"data": str(data), "files": "1"}).text, name):
        frame = spark.sql(statement.text)
        if is_query(statement.text):
            found.append([row.asDict() for row in frame.collect()])
    return found


def test_every_file_is_an_act_of_the_demo_or_its_definitions_or_takes_longer() -> None:
    definitions = [
        "flights.sql",
        "live/flights.sql",
        "live/as_of_join.sql",
        "windows/flights.sql",
        "tables/flights.sql",
    ]
    files = [path.relative_to(STORIES).as_posix() for path in STORIES.rglob("*.sql")]
    files = [file for file in files if not file.startswith("dbt/")]  # a project of its own: test_dbt.py
    takes_longer = ["tables/delay_to_the_west.sql"]
    assert sorted(files) == sorted([*ACTS, *definitions, *takes_longer])


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


@pytest.mark.full
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


@pytest.mark.full
def test_known_as_of(spark: SparkSession, data: Path, oracle: duckdb.DuckDBPyConnection) -> None:
    (table,) = answers(spark, "known_as_of.sql", data)
    # Known an hour before is what was observed 80 minutes before: the report comes 20 minutes after the observation.
    expected = oracle.sql(
        "WITH early AS (SELECT *, scheduled_at - INTERVAL 80 MINUTES AS briefed_at FROM joined), "
        "both_ AS MATERIALIZED (SELECT e.*, t.time_hour AS known FROM early e ASOF JOIN times t "
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


@pytest.mark.full
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


HOUR_US = 3600 * 10**6
Arrivals = Iterable[tuple[Any, ...]]


@pytest.fixture
def two_months(spark: SparkSession, data: Path) -> Iterator[Path]:
    """The replay's files of January and February: two micro-batches."""
    write_replay(data)
    for path in data.glob("live/*/*.parquet"):
        if path.stem > "2013-02":
            path.unlink()
    yield data
    spark.sql("DROP VIEW IF EXISTS compared")  # first: it reads the table
    for table in ("departures_live", "hourly_final", "hourly_changes", "late_departures"):
        spark.sql(f"DROP TABLE IF EXISTS {table}")


def heard(data: Path, tasks: dict[str, int]) -> dict[int, list[tuple[Any, ...]]]:
    """Per task what arrives, in order; a report comes before a departure of the same time."""
    rows = duckdb.sql(
        "SELECT epoch_us(heard_at), 1, origin, flight, epoch_us(scheduled_at) "
        f"FROM '{data}/live/flights/*.parquet' UNION ALL "
        f"SELECT epoch_us(known_at), 0, origin, NULL, epoch_us(observed_at) FROM '{data}/live/weather/*.parquet' "
        "ORDER BY 1, 2"
    ).fetchall()
    return {task: [row for row in rows if tasks[row[2]] == task] for task in set(tasks.values())}


def joined_live(arrivals: Arrivals, grace_us: int, tolerance_us: int) -> Iterator[tuple[str, int, int | None, bool]]:
    """Flight, time, the report that it finds, and whether it was late: record by record, as the rules say."""
    reports: dict[str, list[int]] = {}
    waiting: list[tuple[int, str, str]] = []
    stream_time = -1

    def found(origin: str, at: int) -> int | None:
        known = reports.get(origin, [])
        last = known[bisect_right(known, at) - 1] if bisect_right(known, at) else None
        return last if last is not None and at - last <= tolerance_us else None

    for _, is_flight, origin, flight, at in arrivals:
        if not is_flight:
            insort(reports.setdefault(origin, []), at)
        elif at < stream_time - grace_us:
            yield flight, at, found(origin, at), True
        else:
            heappush(waiting, (at, origin, flight))
            stream_time = max(stream_time, at)
        while waiting and waiting[0][0] <= stream_time - grace_us:
            time, place, name = heappop(waiting)
            yield name, time, found(place, time), False


@pytest.mark.full
def test_the_live_answer_is_that_of_each_record_in_turn(spark: SparkSession, two_months: Path) -> None:
    rows = replay_rows(two_months)
    some, verdicts = answers(spark, "live/compare.sql", two_months)
    micros = "flight, unix_micros(scheduled_at), unix_micros(observed_at)"
    got = sorted(tuple(row) for row in spark.sql(f"SELECT {micros} FROM departures_live").collect())
    origins = spark.sql("SELECT DISTINCT origin, pmod(xxhash64(origin), 16) FROM flights").collect()
    by_task = heard(two_months, dict(origins))
    expected = [row for arrivals in by_task.values() for row in joined_live(arrivals, HOUR_US, 2 * HOUR_US)]
    assert got == sorted(row[:3] for row in expected)

    totals, counted = live_totals(spark), {row["verdict"]: row["departures"] for row in verdicts}
    assert (totals.rows, totals.batches) == (rows, 2)
    assert totals.sum("late") == sum(row[3] for row in expected)
    assert counted.pop("waiting for the grace period to pass") == totals.sum("buffered_rows")
    assert sum(counted.values()) == len(expected)
    assert set(counted) <= {"equal", "different: the report came after the grace period", "different"}
    assert all(row["observed_at_batch"] != row["observed_at_live"] for row in some)


Hours = dict[tuple[str, int], list[int]]


def hourly(data: Path, tasks: dict[str, int], grace_us: int) -> tuple[Hours, set[tuple[str, int]], int]:
    """The delays of each airport and hour, which hours are final, and how many departures were late: one by one."""
    rows = duckdb.sql(
        "SELECT epoch_us(heard_at), origin, epoch_us(scheduled_at), delay_minutes "
        f"FROM read_parquet('{data}/live/flights/*.parquet', filename=true, file_row_number=true) "
        "WHERE delay_minutes IS NOT NULL ORDER BY filename, file_row_number"
    ).fetchall()
    hours: Hours = {}
    stream_time = dict.fromkeys(tasks.values(), -1)
    late = 0
    for _, origin, at, delay in sorted(rows, key=lambda row: row[0]):
        task, hour = tasks[origin], at // HOUR_US * HOUR_US
        stream_time[task] = max(stream_time[task], at)
        if hour + HOUR_US > stream_time[task] - grace_us:
            hours.setdefault((origin, hour), []).append(delay)
        else:
            late += 1
    final = {key for key in hours if key[1] + HOUR_US <= stream_time[tasks[key[0]]] - grace_us}
    return hours, final, late


@pytest.mark.full
def test_final_hours_and_updates_are_those_of_each_departure_in_turn(spark: SparkSession, two_months: Path) -> None:
    worst, accounts = answers(spark, "windows/final.sql", two_months)
    final_totals = live_totals(spark)
    day, verdicts = answers(spark, "windows/changes.sql", two_months)
    change_totals = live_totals(spark)
    origins = spark.sql("SELECT DISTINCT origin, pmod(xxhash64(origin), 16) FROM flights").collect()
    hours, final, late = hourly(two_months, dict(origins), 3 * HOUR_US)

    expected = sorted((*key, len(hours[key]), sum(hours[key]) / len(hours[key])) for key in final)
    columns = "origin, unix_micros(hour), departures, mean_delay"
    got = [tuple(row) for row in spark.sql(f"SELECT {columns} FROM hourly_final ORDER BY 1, 2").collect()]
    assert got == [(*row[:3], pytest.approx(row[3])) for row in expected]
    counted = sum(row[2] for row in expected)
    total = sum(len(delays) for delays in hours.values())
    assert [row["n"] for row in accounts] == [counted, late, total - counted]
    assert len(worst) == 5
    assert {row["verdict"]: (row["hours"], row["departures"]) for row in verdicts} == {
        "equal": (len(final), counted),
        "still open: on change only": (len(hours) - len(final), total - counted),
    }
    assert day == []  # March is not there
    assert (final_totals.sum("emitted"), final_totals.sum("late")) == (len(final), late)
    assert change_totals.sum("emitted") == total
    assert window_counts(final_totals, change_totals)[1].split()[0] == f"{len(final):,}"


def test_a_day_is_drawn(spark: SparkSession, tmp_path: Path) -> None:
    hour = "TIMESTAMP '2013-03-08T15:00:00Z'"
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW {CHANGES} AS SELECT 'EWR' AS origin, {hour} AS hour, n AS departures, "
        f"n * 10D AS mean_delay, {hour} + make_dt_interval(0, 0, 40 * n) AS heard_at FROM VALUES (1), (2) AS t(n)"
    )
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW {FINAL} AS "
        f"SELECT 'EWR' AS origin, {hour} AS hour, 2 AS departures, 20D AS mean_delay"
    )
    try:
        found = [(one.hour, round(one.known, 2), one.departures) for one in updates(spark, CHANGES, "heard_at")]
        picture = draw(spark, tmp_path / "a/b.png")
    finally:
        for view in (CHANGES, FINAL):
            spark.catalog.dropTempView(view)
    assert found == [(10, 10.67, 1), (10, 11.33, 2)]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
@pytest.mark.parametrize("story", ["delay_per_model", "delay_to_the_west"])
def test_tables_that_change_add_up_to_the_batch_answer(spark: SparkSession, data: Path, story: str) -> None:
    source = source_folder()
    assert source is not None
    write_tables(source, data)
    *_, verdicts = answers(spark, f"tables/{story}.sql", data)
    spark.sql(f"DROP TABLE {story}")
    (only,) = verdicts
    assert only["verdict"] == "equal"
    where = "AND tzone = 'America/Los_Angeles'" if story == "delay_to_the_west" else ""
    last = f"""
        SELECT count(*) FROM (
          SELECT arg_max(struct_pack(tail, dest, delay := delay_minutes), heard_at) AS flight
          FROM '{data}/tables/jfk_departures/*.parquet' GROUP BY flight
        ) JOIN '{data}/tables/planes/*.parquet' p ON flight.tail = p.tail
          LEFT JOIN '{data}/tables/airports/*.parquet' a ON flight.dest = a.faa
        WHERE flight.delay IS NOT NULL {where}"""
    assert duckdb.sql(last).fetchall() == [(only["flights"],)]
