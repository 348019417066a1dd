from __future__ import annotations

import pytest

from sqlx.errors import TemporalParseError
from sqlx.sql.intervals import parse_interval
from sqlx.sql.tokens import tokenize

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND


def read(text: str, **options: bool) -> int:
    value, behind = parse_interval(tokenize(text), 0, "GRACE PERIOD", text, **options)
    assert behind == len(tokenize(text))
    return value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INTERVAL '10' MINUTE", 10 * MINUTE),
        ("INTERVAL '10' MINUTES", 10 * MINUTE),
        ("interval 10 minutes", 10 * MINUTE),
        ('INTERVAL "10" MINUTES', 10 * MINUTE),
        ("INTERVAL 0 SECONDS", 0),
        ("INTERVAL 1.5 SECONDS", 1_500_000),
        ("INTERVAL '.25' SECOND", 250_000),
        ("INTERVAL .25 SECOND", 250_000),
        ("INTERVAL '0.0000019' SECOND", 1),
        ("INTERVAL 7 MICROSECONDS", 7),
        ("INTERVAL 7 MILLISECOND", 7_000),
        ("INTERVAL 2 WEEKS", 14 * DAY),
        ("INTERVAL 1 DAY 2 HOURS", DAY + 2 * HOUR),
        ("INTERVAL 1 DAY '2' HOURS 3 MINUTES", DAY + 2 * HOUR + 3 * MINUTE),
        ("INTERVAL 1 DAY -2 HOURS", DAY - 2 * HOUR),
        ("INTERVAL '1 hour 30 minutes'", 90 * MINUTE),
        ("INTERVAL 'interval 1 HOUR -30 minutes'", 30 * MINUTE),
        ("INTERVAL '1.5 seconds'", 1_500_000),
        ("INTERVAL '1 02' DAY TO HOUR", DAY + 2 * HOUR),
        ("INTERVAL '1 02:03' DAY TO MINUTE", DAY + 2 * HOUR + 3 * MINUTE),
        ("INTERVAL '1 02:03:04.5' DAY TO SECOND", DAY + 2 * HOUR + 3 * MINUTE + 4_500_000),
        ("INTERVAL '36:03' HOUR TO MINUTE", 36 * HOUR + 3 * MINUTE),
        ("INTERVAL '36:03:04' HOUR TO SECOND", 36 * HOUR + 3 * MINUTE + 4 * SECOND),
        ("INTERVAL '90:04.000001' MINUTE TO SECOND", 90 * MINUTE + 4 * SECOND + 1),
        ("- INTERVAL -5 SECONDS", 5 * SECOND),
        ("+INTERVAL '+5' SECONDS", 5 * SECOND),
    ],
)
def test_fixed_lengths_are_read_in_microseconds(text: str, expected: int) -> None:
    assert read(text) == expected


def test_reading_stops_behind_the_interval() -> None:
    text = "TOLERANCE INTERVAL 1 DAY 2 HOURS ON x = 1"
    assert parse_interval(tokenize(text), 1, "TOLERANCE", text) == (DAY + 2 * HOUR, 6)
    text = "TOLERANCE INTERVAL '1 hour' ON x = 1"
    assert parse_interval(tokenize(text), 1, "TOLERANCE", text) == (HOUR, 3)


@pytest.mark.parametrize(
    "text",
    [
        "-INTERVAL '1' DAY",
        "INTERVAL -1 DAY",
        "INTERVAL '-1' DAY",
        "INTERVAL '-1 00:00' DAY TO MINUTE",
        "INTERVAL '-1 day'",
    ],
)
def test_below_zero_only_where_the_clause_allows_it(text: str) -> None:
    assert read(text, allow_negative=True) == -DAY
    with pytest.raises(TemporalParseError, match=r"GRACE PERIOD may not be below zero, found `"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        "INTERVAL 1 MONTH",
        "INTERVAL '1' YEAR",
        "INTERVAL '1-2' YEAR TO MONTH",
        "INTERVAL '3 months'",
        "INTERVAL 1 DAY 2 MONTHS",
    ],
)
def test_months_have_no_fixed_length(text: str) -> None:
    with pytest.raises(TemporalParseError) as caught:
        read(text)
    assert caught.value.getCondition() == "PARSE.INTERVAL_MONTHS"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10 MINUTES", "`10`"),
        ("INTERVAL", "`INTERVAL`"),
        ("", "the end of the text"),
        ("INTERVAL 5", "`INTERVAL 5`"),
        ("INTERVAL five MINUTES", "`INTERVAL five`"),
        ("INTERVAL 5 parsecs", "`INTERVAL 5 parsecs`"),
        ("INTERVAL 1L DAY", "`INTERVAL 1L`"),
        ("INTERVAL 1.5 DAYS", "`INTERVAL 1.5 DAYS`"),
        ("INTERVAL 'x' DAY", "`INTERVAL 'x' DAY`"),
        ("INTERVAL ''", "`INTERVAL ''`"),
        ("INTERVAL '5'", "`INTERVAL '5'`"),
        ("INTERVAL '1 parsec'", "`INTERVAL '1 parsec'`"),
        ("INTERVAL '1 25' DAY TO HOUR", "`INTERVAL '1 25' DAY TO HOUR`"),
        ("INTERVAL '1' DAY TO WEEK", "`INTERVAL '1' DAY TO WEEK`"),
        ("INTERVAL 999999999999 WEEKS", "`INTERVAL 999999999999 WEEKS`"),
    ],
)
def test_other_text_is_no_interval(text: str, found: str) -> None:
    with pytest.raises(TemporalParseError) as caught:
        read(text)
    assert caught.value.getCondition() == "PARSE.INTERVAL"
    assert caught.value.getMessageParameters()["found"] == found


def test_the_caret_stands_under_the_interval() -> None:
    text = "SELECT *\nFROM o JOIN r AS OF ts ON true TOLERANCE INTERVAL 1 MONTH"
    with pytest.raises(TemporalParseError) as caught:
        parse_interval(tokenize(text), 12, "TOLERANCE", text)
    assert caught.value.getMessage().splitlines()[1:3] == [
        "LINE 2: FROM o JOIN r AS OF ts ON true TOLERANCE INTERVAL 1 MONTH",
        "                                                 ^^^^^^^^^^^^^^^^",
    ]
