"""EMIT CORRECTIONS: in whatever order rows arrive, the changes add up to the answer over all rows, which DuckDB gives.

Source: KIP-914; the law of the house.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlx.testing import ReplayDriver

DEFINITIONS = """
CREATE STREAM s (ts TIMESTAMP, k STRING, f INT, v INT) TIMESTAMP BY ts;
CREATE VERSIONED TABLE r (ts TIMESTAMP, k STRING, w INT) KEYS (k) TIMESTAMP BY ts
  APPLY AS DELETE WHEN w IS NULL HISTORY RETENTION INTERVAL 1 DAY;
CREATE VERSIONED TABLE q (ts TIMESTAMP, f INT, w INT) KEYS (f) TIMESTAMP BY ts
  APPLY AS DELETE WHEN w IS NULL HISTORY RETENTION INTERVAL 1 DAY;
CREATE VERSIONED TABLE g (ts TIMESTAMP, w INT, name STRING) KEYS (w) TIMESTAMP BY ts
  APPLY AS DELETE WHEN name IS NULL HISTORY RETENTION INTERVAL 1 DAY;
"""
#: A query with corrections, and what it is over all rows; `rv`, `qv` are AS OF joins of `s`, `gn` the current `g`.
QUERIES = {
    "left": ("SELECT s.v, r.w FROM s LEFT JOIN r AS OF s.ts ON s.k = r.k", "SELECT v, rw FROM rv"),
    "inner": (
        "SELECT s.v, r.w FROM s JOIN r AS OF s.ts ON s.k = r.k AND r.w > 1 WHERE s.v <> 2",
        "SELECT v, rw FROM rv WHERE rw > 1 AND v <> 2",
    ),
    "condition": (
        "SELECT s.v, r.w FROM s LEFT JOIN r AS OF s.ts ON s.k = r.k AND r.w > s.v",
        "SELECT v, CASE WHEN rw > v THEN rw END FROM rv",
    ),
    "tolerance": (
        "SELECT s.v, r.w FROM s LEFT JOIN r AS OF s.ts TOLERANCE INTERVAL 3 MILLISECONDS ON s.k = r.k",
        "SELECT v, CASE WHEN ts - rts <= INTERVAL 3 MILLISECONDS THEN rw END FROM rv",
    ),
    "reason": (
        "SELECT s.v, r.w, match_reason FROM s LEFT JOIN r AS OF s.ts TOLERANCE INTERVAL 5 MILLISECONDS WITH REASON"
        " ON s.k = r.k AND r.w > 1",
        "SELECT v, CASE WHEN reason IS NULL THEN rw END, reason FROM reasons",
    ),
    "forward": (
        "SELECT s.v, r.w, match_reason FROM s LEFT JOIN r AS OF s.ts EXCLUSIVE DIRECTION FORWARD"
        " TOLERANCE INTERVAL 3 MILLISECONDS WITH REASON ON s.k = r.k",
        "SELECT v, CASE WHEN reason IS NULL THEN rw END, reason FROM ahead",
    ),
    "nearest": (
        "SELECT s.v, r.w FROM s JOIN r AS OF s.ts DIRECTION NEAREST TOLERANCE INTERVAL 2 MILLISECONDS ON s.k = r.k",
        "SELECT v, rw FROM nearest WHERE rw IS NOT NULL",
    ),
    "ahead_after_another": (
        "SELECT s.v, q.w, r.w AS x FROM s LEFT JOIN q AS OF s.ts ON s.f = q.f"
        " LEFT JOIN r AS OF s.ts DIRECTION NEAREST TOLERANCE INTERVAL 2 MILLISECONDS ON s.k = r.k",
        "SELECT n.v, q.w, n.rw FROM nearest n ASOF LEFT JOIN q ON n.f = q.f AND n.ts >= q.ts",
    ),
    "two": (
        "SELECT s.v, r.w, q.w AS x FROM s LEFT JOIN r AS OF s.ts ON s.k = r.k JOIN q AS OF s.ts ON s.f = q.f",
        "SELECT v, rw, qw FROM qv WHERE qw IS NOT NULL",
    ),
    "groups": (
        "SELECT r.w, count(*) AS n, sum(s.v) AS total, max(s.v) AS most"
        " FROM s JOIN r AS OF s.ts ON s.k = r.k GROUP BY r.w",
        "SELECT rw, count(*), sum(v), max(v) FROM rv WHERE rw IS NOT NULL GROUP BY rw",
    ),
    "chain": (
        "SELECT g.name, count(*) AS n, sum(x.v) AS total"
        " FROM (SELECT s.v, r.w FROM s LEFT JOIN r AS OF s.ts ON s.k = r.k) x LEFT JOIN g ON x.w = g.w GROUP BY g.name",
        "SELECT name, count(*), sum(v) FROM rv LEFT JOIN gn ON rv.rw = gn.w GROUP BY name",
    ),
    "deep": (
        "SELECT n, count(*) AS c FROM (SELECT r.w, g.name, count(*) AS n FROM s LEFT JOIN r AS OF s.ts ON s.k = r.k"
        " LEFT JOIN q AS OF s.ts ON s.f = q.f JOIN g ON q.w = g.w GROUP BY r.w, g.name) GROUP BY n",
        "SELECT n, count(*)"
        " FROM (SELECT rw, name, count(*) AS n FROM qv JOIN gn ON qv.qw = gn.w GROUP BY ALL) GROUP BY n",
    ),
    "mixed": (
        "SELECT s.v, r.w, g.name, q.w AS x FROM s LEFT JOIN r AS OF s.ts ON s.k = r.k LEFT JOIN g ON r.w = g.w"
        " JOIN q AS OF s.ts ON s.f = q.f",
        "SELECT v, rw, name, qw FROM qv LEFT JOIN gn ON qv.rw = gn.w WHERE qw IS NOT NULL",
    ),
    "tables": (
        "SELECT r.k, r.w, g.name FROM r JOIN g ON r.w = g.w",
        "SELECT k, w, name"
        " FROM (SELECT k, arg_max(struct_pack(w := w), ts).w AS w FROM r GROUP BY k) JOIN gn USING (w)",
    ),
}
_VIEWS = """
CREATE TABLE s (ts TIMESTAMP, k VARCHAR, f INT, v INT); CREATE TABLE r (ts TIMESTAMP, k VARCHAR, w INT);
CREATE TABLE q (ts TIMESTAMP, f INT, w INT); CREATE TABLE g (ts TIMESTAMP, w INT, name VARCHAR);
CREATE VIEW gn AS SELECT * FROM (SELECT w, arg_max(struct_pack(n := name), ts).n AS name FROM g WHERE w IS NOT NULL
  GROUP BY w) WHERE name IS NOT NULL;
CREATE VIEW rv AS SELECT s.*, r.w AS rw, r.ts AS rts FROM s ASOF LEFT JOIN r ON s.k = r.k AND s.ts >= r.ts;
CREATE VIEW reasons AS SELECT v, rw, CASE
  WHEN k IS NULL OR k NOT IN (SELECT k FROM r) THEN 'no_key' WHEN rts IS NULL THEN 'before_first'
  WHEN rw IS NULL THEN 'tombstone' WHEN ts - rts > INTERVAL 5 MILLISECONDS THEN 'beyond_tolerance'
  WHEN rw <= 1 THEN 'condition' END AS reason FROM rv;
CREATE VIEW ahead AS SELECT v, r.w AS rw, CASE
  WHEN s.k IS NULL OR s.k NOT IN (SELECT k FROM r) THEN 'no_key' WHEN r.ts IS NULL THEN 'after_last'
  WHEN r.w IS NULL THEN 'tombstone' WHEN r.ts - s.ts > INTERVAL 3 MILLISECONDS THEN 'beyond_tolerance' END AS reason
  FROM s ASOF LEFT JOIN r ON s.k = r.k AND s.ts < r.ts;
CREATE VIEW nearest AS SELECT s.*, (SELECT CASE WHEN distance <= 2000 THEN w END FROM (
  SELECT w, abs(epoch_us(r.ts) - epoch_us(s.ts)) AS distance, r.ts FROM r WHERE r.k = s.k
  ORDER BY distance, r.ts LIMIT 1)) AS rw FROM s;
CREATE VIEW qv AS SELECT rv.*, q.w AS qw FROM rv ASOF LEFT JOIN q ON rv.f = q.f AND rv.ts >= q.ts;
"""
KEYS = {"r": "k", "q": "f", "g": "w"}

Record = tuple[str, dict[str, Any]]
times = st.integers(0, 12).map(lambda ms: ms * 1000)
some = st.integers(1, 3)
rows = st.fixed_dictionaries({"ts": times, "k": st.sampled_from(["a", "b", None]), "f": some, "v": some})


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """Rows of all inputs in any order; no two versions of a key have one time: the order must not decide."""
    found: list[Record] = [("s", row) for row in draw(st.lists(rows, max_size=8))]
    value = st.one_of(st.none(), some)
    for name, key in KEYS.items():
        keys = st.sampled_from(["a", "b"]) if key == "k" else some
        shown = st.sampled_from(["x", "y", None]) if name == "g" else value
        column = "name" if name == "g" else "w"
        versions = st.tuples(times, keys, shown)
        drawn = draw(st.lists(versions, max_size=7, unique_by=lambda version: version[:2]))
        found += [(name, {"ts": time, key: at, column: what}) for time, at, what in drawn]
    return draw(st.permutations(found))


def expected(query: str, arrived: list[Record]) -> Counter[tuple[Any, ...]]:
    """What DuckDB says of all rows."""
    with duckdb.connect() as oracle:
        oracle.execute(_VIEWS)
        for name, row in arrived:
            values = [f"make_timestamp({v})" if c == "ts" else "NULL" if v is None else repr(v) for c, v in row.items()]
            oracle.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({', '.join(values)})")
        return Counter(oracle.execute(query).fetchall())


def summed(changes: list[Any]) -> Counter[tuple[Any, ...]]:
    """What changes add up to; a row that is taken back must be there."""
    table: Counter[tuple[Any, ...]] = Counter()
    for change in changes:
        row = tuple(change.row.values())
        if change.op in ("delete", "update_before"):
            assert table[row] > 0, f"{row} is taken back, and was never given"
            table[row] -= 1
        else:
            table[row] += 1
    return +table


def pushed(script: str, arrived: list[Record], restarts: set[int]) -> list[Any]:
    """The changes that a script gives, restarted before some of the rows."""
    driver = ReplayDriver(f"{script} EMIT CORRECTIONS")
    changes = []
    for number, record in enumerate(arrived):
        if number in restarts:
            driver.restart()
        changes += driver.push([record])
    return changes


def check(name: str, arrived: list[Record], restarts: set[int]) -> None:
    query, over_all = QUERIES[name]
    assert summed(pushed(DEFINITIONS + query, arrived, restarts)) == expected(over_all, arrived)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=1000 if os.environ.get("SQLX_ALL_ORDERS") else 10)
@given(arrived=records(), restarts=st.sets(st.integers(0, 30), max_size=2))
def test_any_order_of_arrival_adds_up_to_the_answer(name: str, arrived: list[Record], restarts: set[int]) -> None:
    check(name, arrived, restarts)


@given(
    arrived=records(),
    restarts=st.sets(st.integers(0, 30), max_size=2),
    options=st.sampled_from(
        ["", "EXCLUSIVE", "TOLERANCE {}", "DIRECTION FORWARD TOLERANCE {}", "DIRECTION NEAREST TOLERANCE {}"]
    ),
    kind=st.sampled_from(["", "LEFT"]),
    limits_ms=st.tuples(st.integers(0, 6), st.integers(0, 4)),
)
def test_what_is_taken_back_was_given_whatever_the_retention_drops(
    arrived: list[Record], restarts: set[int], options: str, kind: str, limits_ms: tuple[int, int]
) -> None:
    retention, tolerance = (f"INTERVAL {limit} MILLISECONDS" for limit in limits_ms)
    definitions = DEFINITIONS.replace("INTERVAL 1 DAY", retention)
    join = f"{kind} JOIN r AS OF s.ts {options.format(tolerance)} WITH REASON ON s.k = r.k"
    summed(pushed(f"{definitions}SELECT s.v, r.w, match_reason FROM s {join}", arrived, restarts))
