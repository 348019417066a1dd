"""Every wrong join of ``replay_joins.txt`` with its whole error: condition, line, carets, hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlx.errors import TemporalSqlError
from sqlx.replay.driver import ReplayDriver
from tests.harness.refusals import check_refusals

CASES = Path(__file__).with_name("replay_joins.txt")
DEFINITIONS = """
CREATE STREAM orders (id INT, ccy STRING, flag BOOLEAN, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE VERSIONED TABLE rates (ccy STRING, rate DATE, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts
  HISTORY RETENTION INTERVAL '1' HOUR;
CREATE VERSIONED TABLE fees (ccy STRING, since DATE, ts TIMESTAMP) KEYS (ccy, since) TIMESTAMP BY ts;
CREATE VERSIONED TABLE spans (ccy STRING, rate INT, since TIMESTAMP, ts TIMESTAMP) FROM SCD2 TABLE dim
  KEYS (ccy) VALID (since, ts);
CREATE UPSERT TABLE current (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts;
"""


def error_of(query: str) -> str:
    try:
        ReplayDriver(DEFINITIONS + query)
    except TemporalSqlError as error:
        return "\n".join(line.rstrip() for line in error.getMessage().splitlines())
    return "no error"


def test_wrong_joins_say_what_is_wrong_where(golden: Callable[[Path, str], None]) -> None:
    check_refusals(CASES, error_of, golden)
