"""Wrong statements of VERIFY, each with its whole error; what only a session finds is in tests/spark/test_verify.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqlx.errors import RunError, TemporalSqlError
from sqlx.sql.tokens import tokenize
from sqlx.sql.verification import parse_verification
from tests.harness.refusals import check_refusals

FOUND_BY_A_SESSION = {
    "VERIFY.NOT_RECORDED": {"name": "plain"},
    "VERIFY.READS_NOTHING": {},
    "VERIFY.SAME_NAME": {"name": "orders"},
    "VERIFY.TOO_MANY_ROWS": {"name": "orders", "most": "200,000", "setting": "sqlx.verify.rows"},
    "VERIFY.TYPE": {"name": "orders", "column": "v", "type": "VARIANT"},
}


def error_of(text: str) -> str:
    try:
        parse_verification(text, tokenize(text))
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_statements_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(Path(__file__).with_name("verify.txt"), error_of, golden)


@pytest.mark.parametrize("condition", FOUND_BY_A_SESSION)
def test_what_a_session_finds_has_a_message_and_a_hint(condition: str) -> None:
    message = str(RunError(condition, **FOUND_BY_A_SESSION[condition]))
    assert message.startswith(f"[{condition}] ")
    assert "{" not in message
    assert "\nHINT: " in message
