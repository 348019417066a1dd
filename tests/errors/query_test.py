"""Every wrong query of ``query.txt`` with its whole error: condition, line, carets, hint. `--complete` rewrites it.

A case that begins with LIVE is compiled for live rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException

from sqlx.errors import TemporalSqlError
from tests.harness.fake_binder import compiled
from tests.harness.refusals import check_refusals

CASES = Path(__file__).with_name("query.txt")


def error_of(case: str) -> str:
    text = case.removeprefix("LIVE ")
    try:
        compiled(text, streaming=text != case)
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_queries_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    # A line that ends in \r has a Windows line end.
    check_refusals(CASES, lambda case: error_of(case.replace("\\r\n", "\r\n")), golden)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("SELECT 1 FROM orders o JOIN rates r AS OF o.ts", ParseException),
        ("SELECT 1 FROM orders o JOIN rates r AS OF o.tz ON o.k = r.k", AnalysisException),
    ],
)
def test_an_error_is_spark_s_kind_of_exception_with_its_parts(text: str, kind: type[Exception]) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        compiled(text)
    error = refused.value
    assert isinstance(error, kind)
    assert error.getCondition() == error.getErrorClass() == error.condition
    assert error.getSqlState() == error.sqlstate
    assert str(error).startswith(f"[{error.getCondition()}] ")
    assert error.getMessageParameters() == error.parameters


@pytest.mark.parametrize("nested", ["o.k > 0", "o.k IN (SELECT x.k FROM orders x)"])
def test_a_statement_that_is_too_deep_is_refused_where_it_is_deepest(nested: str) -> None:
    text = f"SELECT 1 FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k WHERE {'(' * 3000}{nested}{')' * 3000}"
    with pytest.raises(ParseException, match=r"\[PARSE.TOO_DEEP\]") as refused:
        compiled(text)
    assert "300" in str(refused.value)
    assert "^" in str(refused.value)
