from __future__ import annotations

import pytest

from sqlx.errors import TemporalParseError
from sqlx.sql.cursor import Cursor
from sqlx.sql.tokens import tokenize


def cursor(text: str, index: int = 0) -> Cursor:
    return Cursor(text, tokenize(text), index)


@pytest.mark.parametrize(
    "expression",
    [
        "o.ts",
        "ts",
        "o.ts + INTERVAL '1' DAY",
        "o.ts - INTERVAL 1 DAY 2 HOURS",
        "INTERVAL '1 02' DAY TO HOUR + o.ts",
        "INTERVAL -1 DAY + ts",
        "TIMESTAMP '2020-01-01 00:00:00'",
        "date_trunc('day', o.ts)",
        "CASE WHEN a THEN b ELSE CASE x WHEN 1 THEN 2 END END",
        "CAST(a AS TIMESTAMP)",
        "a::decimal(10, 2)",
        "a.b[1].c",
        "m['k']:x.y",
        "NOT a AND NOT b",
        "-1 * +2",
        "a IS NULL",
        "a IS NOT DISTINCT FROM b",
        "a NOT IN (1, 2)",
        "a BETWEEN 1 AND 2",
        "a LIKE 'x' ESCAPE '!'",
        "(SELECT max(ts) FROM t)",
        "a COLLATE UTF8_LCASE",
        "transform(xs, x -> x + 1)",
        "? + :p",
        "ts AT TIME ZONE 'UTC'",
        "`as`.`of`",
        "a || 'b' <=> c",
        "a::int < 3 AND b::map<string, array<int>>['k'][0] > c::decimal(10, 2)",
    ],
)
@pytest.mark.parametrize(
    "following", ["", " ON a = b", " alias", " EXCLUSIVE", ", b", ") x", " TOLERANCE INTERVAL 1 DAY", " WHERE x"]
)
def test_an_expression_ends_where_two_operands_stand_side_by_side(expression: str, following: str) -> None:
    text = expression + following
    assert cursor(text).skip_expression().of(text) == expression


@pytest.mark.parametrize("text", ["", ")", ", a", "a +", "NOT", "a AND", "CASE WHEN a THEN b", "(a", "f("])
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(TemporalParseError, match=r"PARSE\.EXPECTED"):
        cursor(text).skip_expression()


def test_a_cursor_never_leaves_its_tokens() -> None:
    at = cursor("a b")
    at.step(5)
    assert (at.index, at.done, at.peek(), at.word(), at.symbol(), at.last_end) == (2, True, None, "", "", 3)
    assert at.span_from(2).pair == (3, 3)


def test_a_refusal_shows_what_closes_the_group() -> None:
    text = "(a)"
    inner = Cursor(text, tokenize(text), 2, 2)
    with pytest.raises(TemporalParseError, match=r"Expected a name, found `\)`"):
        inner.expect_name("a name")


def test_a_group_that_is_never_closed_is_refused_at_the_end() -> None:
    with pytest.raises(TemporalParseError, match=r"Expected `\)`, found the end of the text"):
        cursor("(a, (b)").closing()
