"""What Spark compares otherwise than workers do, and what it cannot hand to them: refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from catalog.entries import Column
from sqlx.bind.comparison import check_carried, check_case, check_collation
from sqlx.errors import UnsupportedError
from sqlx.testing import ReplayDriver

TEXT, PLACE = "SELECT x FROM s", (7, 8)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: check_collation(TEXT, PLACE, "x", "array<string collate UTF8_LCASE>"),
            "[UNSUPPORTED.COLLATION] `x` is ARRAY<STRING COLLATE UTF8_LCASE>: ",
        ),
        (
            lambda: check_carried(TEXT, PLACE, [("n", "int"), ("x", "interval year to month")]),
            "[UNSUPPORTED.COLUMN_TYPE] `x` is INTERVAL YEAR TO MONTH, ",
        ),
        (
            lambda: check_carried(TEXT, PLACE, [("x", "struct<`a`:map<void,void>>")]),
            "[UNSUPPORTED.COLUMN_TYPE] `x` is STRUCT<`A`:MAP<VOID,VOID>>, ",
        ),
        (
            lambda: check_case(TEXT, PLACE, [Column("x", "int"), Column("y", "int"), Column("X", "int")]),
            "[UNSUPPORTED.CASE_SENSITIVE] `x` and `X` differ in case only",
        ),
    ],
)
def test_it_is_refused_where_it_stands(check: Callable[[], None], message: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        check()
    assert str(caught.value).startswith(message)
    assert "LINE 1: SELECT x FROM s\n               ^" in str(caught.value)


@pytest.mark.parametrize("kind", ["string", "string collate UTF8_BINARY", "array<string>", "struct<`collate`:int>"])
def test_what_is_compared_by_bytes_is_not(kind: str) -> None:
    check_collation(TEXT, PLACE, "x", kind)


@pytest.mark.parametrize("kind", ["interval day to second", "interval hour", "void", "array<int>", "map<int,void>"])
def test_what_arrow_has_is_carried(kind: str) -> None:
    check_carried(TEXT, PLACE, [("x", kind)])


def test_replay_refuses_a_collation_where_it_is_declared() -> None:
    script = "CREATE STREAM s (k STRING COLLATE UNICODE_CI, ts TIMESTAMP) TIMESTAMP BY ts; SELECT k FROM s"
    with pytest.raises(UnsupportedError, match=r"UNSUPPORTED\.COLLATION.*UNICODE_CI"):
        ReplayDriver(script)
