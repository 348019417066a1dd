from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks import as_of_stream, deduplicate_stream, rescale, window_aggregate
from benchmarks.as_of_join import Plan, run
from benchmarks.data import CASES
from benchmarks.live_join import JoinFiles
from benchmarks.stream_data import SMALL
from benchmarks.window_aggregate import Part
from benchmarks.window_aggregate_spill import BEYOND, SESSIONS, TUMBLING, cells, measure_spill
from tests.harness.releases import since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.full  # `make test-all`


def test_all_ways_to_join_as_of_give_one_answer(spark: SparkSession, tmp_path: Path) -> None:
    cases = tuple(case.scaled(5_000) for case in CASES if case.name == "hot key")
    plan = Plan(cases, runs=1, warm=0, data=tmp_path, native_cut_off_s=60)
    results = run(spark, plan, Console(quiet=True))
    answers = {found.answer for way, found in results.ways["hot key"].items() if way != "scan + write"}
    assert len(answers) == 1
    assert [found.note for found in results.ways["hot key"].values() if found.note] == []


def test_the_live_join_gives_the_answer_of_the_bounded_one(spark: SparkSession, tmp_path: Path) -> None:
    case = replace(SMALL.scaled(10), batches=3)
    results, _ = as_of_stream.run(spark, as_of_stream.Plan((case,), 1, tmp_path), Console(quiet=True))
    assert [found.note for found in results.ways.values() if found.note] == []
    assert len(results.ways) == len(as_of_stream.WAYS[case.name])
    assert results.ways[case.name, as_of_stream.OURS].state_rows > 0


def test_live_deduplication_gives_the_rows_of_duckdb(spark: SparkSession, tmp_path: Path) -> None:
    case = replace(deduplicate_stream.SMALL.scaled(10), batches=4)
    results = deduplicate_stream.run(spark, (case,), tmp_path, tmp_path, 1, Console(quiet=True))
    assert [found.note for found in results.ways.values() if found.note] == []
    ours = results.ways[case.name, deduplicate_stream.OURS]
    assert ours.state_rows > 0
    assert len(ours.states) == len(ours.seconds) == 2
    assert len(results.ways) == 3


def test_windows_are_the_same_by_all_ways(spark: SparkSession, tmp_path: Path) -> None:
    case = replace(window_aggregate.CASE.scaled(500), batches=4)
    kinds = (window_aggregate.TUMBLING, window_aggregate.SLIDING)
    plan = window_aggregate.Plan(case, tmp_path, kinds, (Part.STREAM, Part.BATCH), rounds=1, warm=0, runs=1)
    found = window_aggregate.run(plan, lambda: spark, Console(quiet=True))
    assert [one.note for one in (*found.live.ways.values(), *found.batch.ways.values()) if one.note] == []
    ways = ("Spark's own", "ours", "ours, in Spark's state store")
    assert list(found.live.ways) == [("tumbling", way) for way in ways]
    assert [way for kind, way in found.batch.ways if kind == "tumbling"] == ["DuckDB", "Polars", "Spark's own", "ours"]
    assert [way for kind, way in found.batch.ways if kind == "sliding"] == ["DuckDB", "ours"]


def test_spilled_windows_give_the_rows_of_those_in_memory() -> None:
    runs = measure_spill(limit=200)
    assert [line[-1] for line in cells(runs)] == ["", "equal", "", "", "equal", ""]
    assert all(runs[windows, BEYOND].spilled_rows > 0 for windows in (SESSIONS, TUMBLING))


@pytest.mark.parametrize(
    "backend", ["changelog", pytest.param("store", marks=since((4, 2), "offline repartition of state"))]
)
def test_tasks_that_move_lose_no_row(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    try:
        found = rescale.measure(spark, backend, JoinFiles(tmp_path, keys=500, rows=100), 1, Console(quiet=True))
    finally:
        spark.conf.unset("sqlx.state_backend")
    assert (list(found.pauses), found.wrong) == (["2 to 16", "16 to 2"], 0)
