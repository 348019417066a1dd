"""Wrong BACKFILL clauses, each with its whole error; what only a session finds is in tests/spark/test_backfill.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlx.errors import RunError, TemporalSqlError
from sqlx.sql.definitions import parse_streaming
from sqlx.sql.tokens import tokenize
from tests.harness.refusals import check_refusals

FOUND_BY_A_SESSION = {
    "BACKFILL.HISTORY": {"name": "orders", "reason": "it has no column `ts`"},
    "BACKFILL.SOURCE": {"reason": "the query reads `a`, `b`"},
    "BACKFILL.UNTIL": {"reason": "it is NULL"},
}


def error_of(text: str) -> str:
    try:
        parse_streaming(text, tokenize(text))
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_clauses_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(Path(__file__).with_name("backfill.txt"), error_of, golden)


@pytest.mark.parametrize("condition", FOUND_BY_A_SESSION)
def test_what_a_session_finds_has_a_message_and_a_hint(condition: str) -> None:
    message = str(RunError(condition, **FOUND_BY_A_SESSION[condition]))
    assert message.startswith(f"[{condition}] ")
    assert "{" not in message
    assert "\nHINT: " in message
