from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks.as_of_join import Plan, run
from benchmarks.data import CASES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_all_ways_to_join_as_of_give_one_answer(spark: SparkSession, tmp_path: Path) -> None:
    cases = tuple(case.scaled(5_000) for case in CASES if case.name == "hot key")
    plan = Plan(cases, runs=1, warm=0, data=tmp_path, native_cut_off_s=60)
    results = run(spark, plan, Console(quiet=True))
    answers = {found.answer for way, found in results.ways["hot key"].items() if way != "scan + write"}
    assert len(answers) == 1
    assert [found.note for found in results.ways["hot key"].values() if found.note] == []
