from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks import as_of_stream
from benchmarks.as_of_join import Plan, run
from benchmarks.data import CASES
from benchmarks.stream_data import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    assert len(results.ways) == 4
    assert results.ways[case.name, as_of_stream.OURS].state_rows > 0
