"""Every wrong definition of ``ddl.txt`` with its whole error: condition, line, carets, hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from catalog.definitions import Definition, Drop
from catalog.entries import Column, Entry
from catalog.planner import Planner
from sqlx.errors import TemporalSqlError
from sqlx.sql.definitions import carets, parse_definition
from tests.harness.refusals import check_refusals
from tests.unit.catalog.fake_session import FakeSession

CASES = Path(__file__).with_name("ddl.txt")
RATES = Entry("versioned", "rates", (Column("ts", "timestamp"),), "`t`", "ts", keys=("id",))


def error_of(text: str) -> str:
    planner = Planner(FakeSession(RATES))
    try:
        statement = parse_definition(text)
        with carets(text):
            if isinstance(statement, Definition):
                planner.create(statement)
            if isinstance(statement, Drop):
                planner.drop(statement)
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_definitions_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)
