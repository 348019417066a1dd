"""Every wrong live query of ``live.txt`` with its whole error, as Spark's front end finds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlx.errors import TemporalSqlError
from sqlx.spark.stream import check_late
from tests.harness.live_binder import live
from tests.harness.refusals import check_refusals

CASES = Path(__file__).with_name("live.txt")


def error_of(text: str) -> str:
    try:
        plan = live(text)
        check_late(plan, [node.name for node in plan.operators()])
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_live_queries_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)
