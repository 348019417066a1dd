"""The worked examples of aggregation, windows and suppression in our SQL: a push per record, any split, any restart."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.errors import TemporalSqlError
from sqlx.replay.driver import Change, ReplayDriver
from tests.harness.examples import examples

CASES = json.loads(Path(__file__).with_name("data").joinpath("worked_examples.json").read_text(encoding="utf-8"))[
    "cases"
]
#: Byte limits count our own bytes (B5); windows that would start before 1970 do (B1).
OURS = ("kip328-byte-limit", "kip328-byte-limit-late", "kip328-byte-limit-late-2", "kip328-big-record")
WINDOWS = [c for c in CASES if c["op"]["kind"] == "window_agg"]
SUPPRESSIONS = [c for c in CASES if c["op"]["kind"] == "suppress" and c["id"] not in OURS]
Row = tuple[Any, ...]


def suppress_clause(op: dict[str, Any]) -> str:
    limits = op["suppress"]
    full = {"emit": "EMIT EARLY", "shutdown": "FAIL"}[limits.get("when_full", "emit")]
    buffer = f" BUFFER MAX {limits['max_records']} ROWS WHEN FULL {full}" if "max_records" in limits else ""
    buffer = f" BUFFER MAX {limits['max_bytes']} BYTES WHEN FULL {full}" if "max_bytes" in limits else buffer
    return f"EMIT EVERY INTERVAL '{limits['time']}' MILLISECOND PER KEY{buffer}"


def suppression(op: dict[str, Any]) -> str:
    return f"""
        CREATE UPSERT TABLE t (k STRING, v STRING, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts
            APPLY AS DELETE WHEN v IS NULL;
        SELECT k, v FROM t {suppress_clause(op)}"""


def changed(changes: list[Change]) -> list[Row]:
    return [(c.row["k"], c.row["v"], millis(c.time)) for c in changes]


def millis(time: dt.datetime | None) -> int:
    assert time is not None
    return round(time.timestamp() * 1000)


@pytest.mark.parametrize("case", SUPPRESSIONS, ids=lambda case: case["id"])
def test_each_update_waits_its_time(case: dict[str, Any]) -> None:
    driver = ReplayDriver(suppression(case["op"]))
    got = []
    for _, key, value, ts in case["input"][: len(case["output"])]:
        got.append(changed(driver.push([("t", {"k": key, "v": value, "ts": ts * 1000})])))
    assert got == [[tuple(row) for row in rows] for rows in case["output"]]
    if case.get("error"):
        _, key, value, ts = case["input"][case["error"]["at"]]
        with pytest.raises(TemporalSqlError, match="holds 3/2 rows"):
            driver.push([("t", {"k": key, "v": value, "ts": ts * 1000})])


@pytest.mark.parametrize("case", [c for c in SUPPRESSIONS if not c.get("error")], ids=lambda case: case["id"])
@examples(6)
@given(data=st.data())
def test_cuts_and_restarts_change_no_wait(case: dict[str, Any], data: st.DataObject) -> None:
    driver = ReplayDriver(suppression(case["op"]))
    rows = [("t", {"k": key, "v": value, "ts": ts * 1000}) for _, key, value, ts in case["input"]]
    got = [row for changes in cut(driver, rows, data) for row in changed(changes)]
    assert got == [tuple(row) for rows in case["output"] for row in rows]


def cut(driver: ReplayDriver, rows: list[Any], data: st.DataObject) -> list[list[Change]]:
    """The changes per micro-batch, with restarts between them."""
    found = []
    while rows:
        count = data.draw(st.integers(1, len(rows)), "rows of the micro-batch")
        found.append(driver.push(rows[:count]))
        rows = rows[count:]
        if data.draw(st.booleans(), "restart"):
            driver.restart()
    return found


# windows


def windowed(op: dict[str, Any], unit: str = "milliseconds") -> str:
    window = op["window"]
    size, grace = window.get("size", window.get("gap")), window.get("grace", 0)
    function = {"session": "session_window", "sliding": "sliding_window"}.get(window["type"], "window")
    slide = f", '{window['advance']} {unit}'" if window["type"] == "hopping" else ""
    having = f"HAVING count(*) <= {op['filter_max']}" if "filter_max" in op else ""
    emit = {"update": "EMIT CHANGES", "suppress": "EMIT FINAL", "close": "EMIT FINAL"}[op["emit"]]
    if "then_time_limit" in op:
        emit = f"EMIT EVERY INTERVAL '{op['then_time_limit']}' {unit} PER KEY"
    limits = op.get("suppress") or {}
    emit += f" BUFFER MAX {limits['max_records']} ROWS WHEN FULL FAIL" if "max_records" in limits else ""
    aggregate = {"count": "count(*)", "sum": "sum(CAST(v AS BIGINT))", "max": "max(v)"}[op["agg"]]
    return f"""
        CREATE STREAM s (k STRING, v STRING, ts TIMESTAMP) TIMESTAMP BY ts;
        SELECT k, {function}.start AS ws, {function}.end AS we, {aggregate} AS n FROM STREAM s
        GROUP BY k, {function}(ts, '{size} {unit}'{slide})
        GRACE PERIOD INTERVAL '{grace}' {unit} {having} {emit}"""


def scale(op: dict[str, Any]) -> tuple[str, int]:
    """Sliding windows begin one unit of time after a record, a microsecond here: their cases are run in those."""
    return ("microseconds", 1) if op["window"]["type"] == "sliding" else ("milliseconds", 1000)


def wanted(case: dict[str, Any], n: int) -> list[Row] | None:
    """The rows for one record by sections A and B of semantics.md; None where they differ in more than a row."""
    op, rows = case["op"], case["output"][n]
    if case["id"].startswith("sliding-late-copy"):  # 13.5: by definition that window holds two rows
        rows = [["a", "2", 100, 95, 105] if row == ["a", "1", 100, 95, 105] else row for row in rows]
    rows = (case.get("ideal_differs") or {}).get(str(n), rows)
    gap = op["window"].get("gap", 0)
    shown = [(k, None if v is None else int(v), ts, start, end + gap) for k, v, ts, start, end in rows or []]
    return sorted(shown, key=lambda row: row[3]) if op["window"]["type"] == "sliding" else shown


def updated(changes: list[Change], unit_us: int, *, by_start: bool) -> list[Row]:
    rows = [
        (
            c.row["k"],
            c.row["n"],
            micros(c.time) // unit_us,
            micros(c.row["ws"]) // unit_us,
            micros(c.row["we"]) // unit_us,
        )
        for c in changes
    ]
    return sorted(rows, key=lambda row: row[3]) if by_start else rows


def micros(time: dt.datetime | None) -> int:
    assert time is not None
    return (time - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def is_ours(case: dict[str, Any]) -> bool:
    """Whether the run shows what semantics.md asks of us: not where it has NULL keys or values, windows cut at 1970,
    or final results that are sent twice (B1, B3, B10, 13.3)."""
    op = case["op"]
    window = op["window"]
    early = min(ts for _, _, _, ts in case["input"]) < window.get("size", 0)
    nulls = any(key is None or value is None for _, key, value, _ in case["input"])
    twice = op["emit"] == "suppress" and window["type"] in ("session", "sliding")
    return not (early or nulls or twice) and "emit_interval" not in op


@pytest.mark.parametrize("case", [c for c in WINDOWS if is_ours(c)], ids=lambda case: case["id"])
def test_each_record_updates_its_windows(case: dict[str, Any]) -> None:
    unit, unit_us = scale(case["op"])
    driver = ReplayDriver(windowed(case["op"], unit))
    by_start = case["op"]["window"]["type"] == "sliding" and case["op"]["emit"] == "update"
    for n, (_, key, value, ts) in enumerate(case["input"]):
        if n >= len(case["output"]):
            with pytest.raises(TemporalSqlError, match="BUFFER MAX"):
                driver.push([("s", {"k": key, "v": value, "ts": ts * unit_us})])
            break
        got = updated(driver.push([("s", {"k": key, "v": value, "ts": ts * unit_us})]), unit_us, by_start=by_start)
        rows = wanted(case, n)
        if case["op"]["emit"] != "update":
            rows = sorted(rows or [], key=lambda r: (r[4], r[3], r[0]))
        assert got == rows, (n, key, ts)


@pytest.mark.parametrize("case", [c for c in WINDOWS if not c.get("error")], ids=lambda case: case["id"])
@examples(6)
@given(data=st.data())
def test_cuts_and_restarts_change_no_window(case: dict[str, Any], data: st.DataObject) -> None:
    unit, unit_us = scale(case["op"])
    rows = [("s", {"k": key, "v": value, "ts": ts * unit_us}) for _, key, value, ts in case["input"]]
    whole = ReplayDriver(windowed(case["op"], unit)).push(rows)
    parts = cut(ReplayDriver(windowed(case["op"], unit)), rows, data)
    assert [change for part in parts for change in part] == whole


@pytest.mark.parametrize("case", [c for c in WINDOWS if c["op"]["emit"] != "update"], ids=lambda case: case["id"])
def test_each_window_is_final_once(case: dict[str, Any]) -> None:
    if case.get("error"):
        return
    unit, unit_us = scale(case["op"])
    rows = [("s", {"k": key, "v": value, "ts": ts * unit_us}) for _, key, value, ts in case["input"]]
    finals = ReplayDriver(windowed(case["op"], unit)).push(rows)
    names = [(c.row["k"], c.row["ws"], c.row["we"]) for c in finals]
    assert len(names) == len(set(names))


def test_the_window_of_a_query_has_one_name_whichever_function_made_it() -> None:
    driver = ReplayDriver("""
        CREATE STREAM s (k STRING, ts TIMESTAMP) TIMESTAMP BY ts;
        SELECT k, window.start AS ws, window.end AS we, count(*) AS n FROM STREAM s
        GROUP BY k, session_window(ts, '10 microseconds') EMIT FINAL""")
    finals = driver.push([("s", {"k": "a", "ts": ts}) for ts in (100, 105, 150)])
    assert updated(finals, 1, by_start=False) == [("a", 2, 105, 100, 115)]
