"""Every wrong live query of ``live.txt`` with its whole error, as Spark's front end finds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlx.errors import TemporalSqlError
from sqlx.lower_stream import check_late
from tests.harness.live_binder import live

CASES = Path(__file__).with_name("live.txt")
STATEMENT, CASE = "\n----\n", "\n====\n"


def error_of(text: str) -> str:
    try:
        check_late(live(text))
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_live_queries_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    cases = [case.split(STATEMENT)[0] for case in CASES.read_text(encoding="utf-8").rstrip("\n").split(CASE)]
    found = [error_of(case) for case in cases]
    assert [case for case, error in zip(cases, found, strict=True) if error == "no error"] == []
    golden(CASES, CASE.join(f"{case}{STATEMENT}{error}" for case, error in zip(cases, found, strict=True)) + "\n")
