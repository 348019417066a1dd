"""The worked examples, runs of Kafka Streams itself, in our SQL: a push per record, any split, any restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.driver import Change, ReplayDriver
from tests.harness.slt_live import check_live
from udtf.state import NOT_PUT, VersionedStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = json.loads(Path(__file__).with_name("data").joinpath("worked_examples.json").read_text(encoding="utf-8"))[
    "cases"
]
JOINS = [case for case in CASES if case["op"]["kind"] == "stream_table_join"]
DEDUPLICATIONS = [case for case in CASES if case["op"]["kind"] == "dedup"]
STORES = [case for case in CASES if case["op"]["kind"] == "versioned_store"]
US_PER_MS = 1000
COLUMNS = "(k STRING, v STRING, ts TIMESTAMP)"


def script_of(op: dict[str, Any]) -> str:
    left = "LEFT " if op["join"] == "left" else ""
    table = f"{COLUMNS} KEYS (k) TIMESTAMP BY ts APPLY AS DELETE WHEN v IS NULL"
    join = f"FROM STREAM s {left}JOIN t ON s.k = t.k"
    kind, retention, grace = "UPSERT", "", ""
    if op["table"]["versioned"]:
        kind, retention = "VERSIONED", f"HISTORY RETENTION INTERVAL '{op['table']['retention']}' MILLISECOND"
        grace = f"GRACE PERIOD INTERVAL '{op['grace']}' MILLISECOND" if op.get("grace") is not None else ""
        join = f"FROM STREAM s {left}JOIN t AS OF s.ts ON s.k = t.k {grace}"
    return f"""
        CREATE STREAM s {COLUMNS} TIMESTAMP BY ts;
        CREATE {kind} TABLE t {table} {retention};
        SELECT s.k, s.v AS sv, t.v AS tv {join}"""


def records(case: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The records; a null value on a stream does not exist in SQL (semantics.md A), so such a record is left out."""
    named = {"S": "s", "T": "t"}
    rows = [(named[topic], {"k": key, "v": value, "ts": ts * US_PER_MS}) for topic, key, value, ts in case["input"]]
    return [(name, row) for name, row in rows if not (name == "s" and row["v"] is None)]


def expected(case: dict[str, Any]) -> list[list[tuple[Any, str, int]]]:
    """Per record that is left the rows ``(key, "(stream,table)", time)``."""
    outputs = list(case["output"])
    if case.get("error"):  # a NULL key under grace kills the library's task; ours answers as without grace (B2)
        at = case["error"]["at"]
        _, key, value, ts = case["input"][at]
        outputs[at : at + 1] = [[[key, f"({value},null)", ts]]]
    kept = [not (topic == "S" and value is None) for topic, _, value, _ in case["input"]]
    return [[tuple(row) for row in rows] for rows, keep in zip(outputs, kept, strict=True) if keep]


def shown(changes: list[Change]) -> list[tuple[Any, str, int]]:
    assert all(change.op == "insert" for change in changes)
    rows = [(change.row, change.time) for change in changes]
    return [(r["k"], f"({r['sv']},{r['tv'] or 'null'})", round(t.timestamp() * 1000)) for r, t in rows if t is not None]


@pytest.mark.parametrize("case", JOINS, ids=lambda case: case["id"])
def test_each_record_has_its_answer(case: dict[str, Any]) -> None:
    driver = ReplayDriver(script_of(case["op"]))
    assert [shown(driver.push([record])) for record in records(case)] == expected(case)


@pytest.mark.parametrize("case", JOINS, ids=lambda case: case["id"])
@given(data=st.data())
def test_cuts_and_restarts_are_invisible(case: dict[str, Any], data: st.DataObject) -> None:
    driver, rest, got = ReplayDriver(script_of(case["op"])), records(case), []
    while rest:
        count = data.draw(st.integers(0, len(rest)), "rows of the micro-batch")
        got += shown(driver.push(rest[:count]))
        rest = rest[max(count, 0) :]
        if data.draw(st.booleans(), "restart"):
            driver.restart()
        if not count:
            got += shown(driver.push(rest[:1]))
            rest = rest[1:]
    assert got == [row for rows in expected(case) for row in rows]


BY = {"key": "k", "key_value": "k, id", "id": "id"}


def deduplication(op: dict[str, Any]) -> str:
    return f"""
        CREATE STREAM s (k STRING, id STRING, v STRING, ts TIMESTAMP, off BIGINT) TIMESTAMP BY ts SEQUENCE BY off;
        SELECT k, v, ts FROM STREAM s DEDUPLICATE WITHIN INTERVAL '{op["interval"]}' MILLISECOND BY ({BY[op["by"]]})"""


def identified(case: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The records with the id in front of the value's bar, and their offsets; "" and null have no id."""
    found = []
    for n, (_, key, value, ts, *offset) in enumerate(case["input"]):
        sequence = n if not offset else offset[0] and int(offset[0])
        row = {"k": key, "id": (value or "").split("|")[0] or None, "v": value, "ts": ts * US_PER_MS, "off": sequence}
        found.append(("s", row))
    return found


def kept(changes: list[Change]) -> list[list[Any]]:
    return [[c.row["k"], c.row["v"], round(c.time.timestamp() * 1000)] for c in changes if c.time is not None]


@pytest.mark.parametrize("case", DEDUPLICATIONS, ids=lambda case: case["id"])
def test_each_duplicate_is_dropped(case: dict[str, Any]) -> None:
    driver = ReplayDriver(deduplication(case["op"]))
    assert [kept(driver.push([record])) for record in identified(case)] == case["output"]


@pytest.mark.parametrize("case", DEDUPLICATIONS, ids=lambda case: case["id"])
@given(data=st.data())
def test_cuts_and_restarts_hide_no_duplicate(case: dict[str, Any], data: st.DataObject) -> None:
    driver, rest, got = ReplayDriver(deduplication(case["op"])), identified(case), []
    while rest:
        count = data.draw(st.integers(1, len(rest)), "rows of the micro-batch")
        got += kept(driver.push(rest[:count]))
        rest = rest[count:]
        if data.draw(st.booleans(), "restart"):
            driver.restart()
    assert got == [row for rows in case["output"] for row in rows]


def answer(store: VersionedStore, verb: str, key: str, value: str | None, ts: int) -> list[str | None]:
    """The row that the library printed for one call."""
    if verb == "PUT":
        return [key, str(store.put(key, value, ts)), ts]
    found = store.get(key) if verb == "GET" else (store.get_as_of if verb == "GETASOF" else store.delete)(key, ts)
    return [key, None if found is None else f"{found[0]}@{found[1]}@", ts]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("case", STORES, ids=lambda case: case["id"])
def test_each_call_of_the_store_has_its_answer(case: dict[str, Any], restarts: bool) -> None:
    store, got = VersionedStore(history_retention_us=case["op"]["retention"]), []
    for verb, key, value, ts in case["input"]:
        got.append([answer(store, verb, key, value, ts)])
        if restarts:
            store = VersionedStore(history_retention_us=case["op"]["retention"], snapshot=store.snapshot())
    ideal = case.get("ideal_differs") or {}
    assert got == [ideal.get(str(n), rows) for n, rows in enumerate(case["output"])]


def test_a_refused_put_says_so() -> None:
    store = VersionedStore(history_retention_us=10)
    assert [store.put("k", "new", 100), store.put("k", "old", 89)] == [-1, NOT_PUT]


LIVE = [(c["id"], script_of(c["op"]), records(c)) for c in JOINS]
LIVE += [(c["id"], deduplication(c["op"]), identified(c)) for c in DEDUPLICATIONS]


@pytest.mark.full  # the gate runs cases of tests/semantics that reach the same
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("script", "given"), [pytest.param(*rest, id=name) for name, *rest in LIVE])
def test_live_on_spark_is_replay(spark: SparkSession, script: str, given: list[tuple[str, dict[str, Any]]]) -> None:
    check_live(spark, script, given)
