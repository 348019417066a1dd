"""Joins, groups and waits of tables against a reference of a few lines: each record, any micro-batches, any restarts.

Source: semantics.md 2, 4, 8, 9, 10, 15, B10, B11.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.driver import Change, ReplayDriver
from tests.oracle.tables import Answer, Record, Table, counted, grouped, joined, joined_by_foreign_key, waiting
from tests.test_worked_table_joins import WORDS, by_primary_key, definition
from tests.test_worked_windows import cut, millis, suppress_clause

RETENTION = 15
KEYS = st.sampled_from(["a", "b", "ä", None])
VALUES = st.sampled_from(["v", "w", None])
TIMES = st.integers(0, 40) | st.integers(0, 8) | st.none()
KIND = st.sampled_from(["inner", "left", "outer"])
VERSIONED = st.booleans()
ROW = "k STRING, f STRING, v STRING"
GROUPED = "k STRING, g STRING, v STRING"


def tables(one: bool, other: bool) -> str:
    """The definitions of the left and the right table of a join."""
    return defined("l", one, ROW) + defined("r", other, ROW)


def defined(name: str, is_versioned: bool, columns: str) -> str:
    return definition(name, {"versioned": is_versioned, "retention": RETENTION}, columns)


def every(limit: int, most: int | None) -> str:
    limits = {"time": limit} if most is None else {"time": limit, "max_records": most}
    return suppress_clause({"suppress": limits})


def table(is_versioned: bool) -> Table:
    return Table(RETENTION if is_versioned else None)


def pushed(records: list[Record], column: str = "f") -> list[tuple[str, dict[str, Any]]]:
    """A row is `(foreign key or group, value)`, or a value alone."""
    rows = []
    for name, key, row, time in records:
        of, value = row if isinstance(row, tuple) else (None, row)
        rows.append((name, {"k": key, column: of, "v": value, "ts": None if time is None else time * 1000}))
    return rows


def shown(changes: list[Change], columns: int) -> list[tuple[str, Any, Any, int]]:
    """As `(operation, key, row, time)`; of a deletion only the key is left."""
    found = []
    for change in changes:
        key, *values = change.row.values()
        assert change.op != "delete" or values == [None] * len(values)
        row = tuple(values) if columns > 1 else values[0]
        found.append((change.op, key, None if change.op == "delete" else row, millis(change.time)))
    return found


def named(answers: list[list[Answer]]) -> list[list[tuple[str, Any, Any, int]]]:
    """The answers, and what each of them is to one who has seen those before it."""
    known: set[Any] = set()
    out = []
    for found in answers:
        changes = []
        for key, row, time in found:
            op = "delete" if row is None else "update_after" if key in known else "insert"
            known = known - {key} if row is None else known | {key}
            changes.append((op, key, row, time))
        out.append(changes)
    return out


def check(script: str, rows: list[Any], answers: list[list[Answer]], columns: int, data: st.DataObject) -> None:
    expected = named(answers)
    driver = ReplayDriver(script)
    assert [shown(driver.push([row]), columns) for row in rows] == expected
    got = [change for changes in cut(ReplayDriver(script), rows, data) for change in shown(changes, columns)]
    assert got == [change for found in expected for change in found]


def records(rows: st.SearchStrategy[Any], names: tuple[str, ...]) -> st.SearchStrategy[list[Record]]:
    return st.lists(st.tuples(st.sampled_from(names), KEYS, rows, TIMES), min_size=1, max_size=24)


PAIRS = st.tuples(st.sampled_from(["a", "b", "ä", None]), st.sampled_from(["v", "w"])) | st.none()
NUMBERS = st.tuples(st.sampled_from(["g", "h", None]), st.sampled_from(["1", "2", "3"])) | st.none()


@given(KIND, VERSIONED, VERSIONED, records(VALUES, ("l", "r")), st.data())
def test_a_join_by_primary_key(kind: str, one: bool, other: bool, rows: list[Record], data: st.DataObject) -> None:
    script = tables(one, other) + by_primary_key(kind, "EMIT CHANGES")
    check(script, pushed(rows), joined(kind, table(one), table(other), rows), 2, data)


@given(st.sampled_from(["inner", "left"]), VERSIONED, VERSIONED, st.data())
def test_a_join_by_foreign_key(kind: str, one: bool, other: bool, data: st.DataObject) -> None:
    left = st.tuples(st.just("l"), st.sampled_from(["p", "q", "é", None]), PAIRS, TIMES)
    rows = data.draw(st.lists(left | st.tuples(st.just("r"), KEYS, VALUES, TIMES), min_size=1, max_size=24))
    query = f"SELECT l.k, l.v AS a, r.v AS b FROM l {WORDS[kind]} r ON l.f = r.k EMIT CHANGES"
    answers = joined_by_foreign_key(kind, table(one), table(other), rows)
    check(tables(one, other) + query, pushed(rows), answers, 2, data)


FOLDS = {
    "count(*)": len,
    "sum(CAST(v AS INT))": lambda values: sum(map(int, values)),
    "max(v)": max,
    "array_sort(collect_list(v))": sorted,
    "count(DISTINCT v)": lambda values: len(set(values)),
}


@given(st.sampled_from(list(FOLDS)), VERSIONED, records(NUMBERS, ("t",)), st.data())
def test_groups_of_a_table(call: str, is_versioned: bool, rows: list[Record], data: st.DataObject) -> None:
    script = defined("t", is_versioned, GROUPED) + f"SELECT g, {call} AS n FROM t GROUP BY g EMIT CHANGES"
    check(script, pushed(rows, "g"), grouped(FOLDS[call], table(is_versioned), rows), 1, data)


OF_KEYS = {
    "count(*)": len,
    "count(k)": lambda keys: sum(key is not None for key in keys),
    "array_sort(collect_list(k))": lambda keys: sorted(key for key in keys if key is not None),
}
BY_KEY = "SELECT k, count(*) AS n FROM s GROUP BY k"
BY_WINDOW = (
    "SELECT k, window.end AS until, count(*) AS n FROM s GROUP BY k, window(ts, '10 milliseconds') "
    "GRACE PERIOD INTERVAL 1 DAY"
)


@given(st.sampled_from(list(OF_KEYS)), st.booleans(), st.integers(1, 4), st.booleans(), st.data())
def test_groups_of_groups_of_a_stream(
    call: str, has_windows: bool, most: int, is_defined: bool, data: st.DataObject
) -> None:
    rows = data.draw(records(VALUES, ("s",)))
    groups = BY_WINDOW if has_windows else BY_KEY
    groups = (
        groups.replace(" GRACE", f" HAVING count(*) <= {most} GRACE") if has_windows else f"{groups} HAVING n <= {most}"
    )
    script = "CREATE STREAM s (k STRING, f STRING, v STRING, ts TIMESTAMP) TIMESTAMP BY ts;"
    source = f"({groups})"
    if is_defined:
        keys = "k, until" if has_windows else "k"
        groups = groups.replace(" FROM", ", max(ts) AS at FROM")
        script, source = f"{script} CREATE UPSERT TABLE d KEYS ({keys}) TIMESTAMP BY at AS {groups};", "d"
        rows = [row for row in rows if row[1] is not None]  # a definition's KEYS are not NULL
    of = (lambda key, time: (key, time // 10)) if has_windows else (lambda key, time: (key,))
    answers = grouped(OF_KEYS[call], Table(), counted(of, most, rows))
    check(f"{script} SELECT n, {call} AS m FROM {source} GROUP BY n EMIT CHANGES", pushed(rows), answers, 1, data)


@given(st.integers(0, 12), st.none() | st.integers(0, 2), records(VALUES, ("t",)), st.data())
def test_updates_wait(limit: int, most: int | None, rows: list[Record], data: st.DataObject) -> None:
    query = f"SELECT k, v FROM t {every(limit, most)}"
    updates = [Table().put(key, row, time) for _, key, row, time in rows]
    answers = [[] if update is None else [(update.key, update.new, update.time)] for update in updates]
    check(defined("t", False, ROW) + query, pushed(rows), waiting(limit, most, answers), 1, data)


@given(st.integers(0, 12), st.none() | st.integers(0, 2), VERSIONED, records(NUMBERS, ("t",)), st.data())
def test_updates_of_groups_wait(
    limit: int, most: int | None, is_versioned: bool, rows: list[Record], data: st.DataObject
) -> None:
    query = f"SELECT g, count(*) AS n FROM t GROUP BY g {every(limit, most)}"
    answers = waiting(limit, most, grouped(len, table(is_versioned), rows))
    check(defined("t", is_versioned, GROUPED) + query, pushed(rows, "g"), answers, 1, data)


@given(KIND, VERSIONED, VERSIONED, st.integers(0, 12), records(VALUES, ("l", "r")), st.data())
def test_updates_of_a_join_wait(
    kind: str, one: bool, other: bool, limit: int, rows: list[Record], data: st.DataObject
) -> None:
    script = tables(one, other) + by_primary_key(kind, every(limit, None))
    answers = waiting(limit, None, joined(kind, table(one), table(other), rows))
    check(script, pushed(rows), answers, 2, data)
