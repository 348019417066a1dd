"""All cases of this folder in every mode that they name. ``make complete`` rewrites what replay and oracle answer.

On Spark the gate runs the cases that `tests/harness/gate.py` has chosen; the marker ``full`` is on all others.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlx.replay.script import read_script
from sqlx.testing.slt import Answer, Case, case_files, complete_file, read_case, records_of, run_case
from tests.harness.gate import GATE, chosen, in_gate, reached, reached_by_chains, reached_in_batch
from tests.harness.slt_live import check_live

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CASES = [read_case(path) for path in case_files(HERE)]


def name_of(case: Case) -> str:
    return f"{case.path.parent.name}/{case.path.stem}"


def in_mode(mode: str) -> pytest.MarkDecorator:
    cases = [case for case in CASES if mode in case.modes or mode in case.not_run]
    gate = in_gate(mode) if mode in ("batch", "live") else frozenset(map(name_of, cases))
    return pytest.mark.parametrize(
        "case", [pytest.param(c, id=name_of(c), marks=[] if name_of(c) in gate else [pytest.mark.full]) for c in cases]
    )


def check(case: Case, mode: str, session: SparkSession | None = None) -> None:
    result = run_case(case, mode, session, {"live": partial(live, spark=session)})
    assert result.outcome != "failed", f"{case.path}: {case.title}\n{result.message}"
    if result.outcome == "skipped":
        pytest.skip(result.message)


def live(case: Case, spark: SparkSession | None) -> Answer:
    assert spark is not None, "this mode has one"
    return check_live(spark, case.script, records_of(case, read_script(case.script)))


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


@in_mode("live")
@pytest.mark.timeout(600)
def test_live(case: Case, spark: SparkSession) -> None:
    check(case, "live", spark)


def test_every_case_says_what_it_shows() -> None:
    assert [case.path.name for case in CASES if not (case.title and case.source)] == []


@pytest.mark.full
def test_the_gate_runs_of_each_option_a_case_on_spark(golden: Callable[[Path, str], None]) -> None:
    found = {}
    for mode, reach, others in (("batch", reached_in_batch, set()), ("live", reached, reached_by_chains())):
        cases = [case for case in CASES if mode in case.modes]
        plain = {name_of(case): case.script for case in cases if "replay" in case.modes and not case.condition}
        unnamed = [name_of(case) for case in cases if name_of(case) not in plain]
        found[mode] = sorted([*chosen(plain, reach, others), *unnamed])
    golden(GATE, json.dumps(found, indent=1) + "\n")
