"""All cases of this folder in every mode that they name. ``make complete`` rewrites what replay and oracle answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlx.testing.slt import Case, case_files, complete_file, read_case, run_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CASES = [read_case(path) for path in case_files(HERE)]


def in_mode(mode: str) -> pytest.MarkDecorator:
    cases = [case for case in CASES if mode in case.modes or mode in case.not_run]
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.path.parent.name}/{case.path.stem}")


def check(case: Case, mode: str, session: SparkSession | None = None) -> None:
    result = run_case(case, mode, session)
    assert result.outcome != "failed", f"{case.path}: {case.title}\n{result.message}"
    if result.outcome == "skipped":
        pytest.skip(result.message)


@in_mode("replay")
def test_replay(case: Case, complete: bool) -> None:
    if complete:
        complete_file(case)
        case = read_case(case.path)
    check(case, "replay")


@in_mode("oracle")
def test_oracle(case: Case) -> None:
    check(case, "oracle")


@in_mode("batch")
def test_batch(case: Case, spark: SparkSession) -> None:
    check(case, "batch", spark)


def test_every_case_says_what_it_shows() -> None:
    assert [case.path.name for case in CASES if not (case.title and case.source)] == []
