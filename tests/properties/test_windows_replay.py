"""Laws of windows and EMIT as SQL, through replay: how the ways of emitting go together, and with DuckDB."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.driver import ReplayDriver
from tests.harness.examples import examples
from tests.oracle.tables import waiting
from tests.oracle.window_aggregate import duckdb_sql, reference

STREAM = "CREATE STREAM s (k STRING, ts TIMESTAMP, v INT) TIMESTAMP BY ts;"
#: How a window is written; and kind, size and slide as the oracle has them.
WINDOWS = {
    "tumbling": ("window", "'10 microseconds'", ("time", 10, 10, 0)),
    "hopping": ("window", "'10 microseconds', '4 microseconds'", ("time", 10, 4, 0)),
    "session": ("session_window", "'10 microseconds'", ("session", 10, 0, 0)),
    "sliding": ("sliding_window", "'10 microseconds'", None),
}
KINDS = sorted(WINDOWS)
ORACLES = sorted(name for name, window in WINDOWS.items() if window[2] is not None)
KEYS = st.sampled_from(["a", "b", None])
RECORDS = st.lists(st.tuples(KEYS, st.integers(-10, 60), st.none() | st.integers(0, 5)), max_size=25)
GRACES = st.sampled_from([0, 20])  # few texts: each is compiled once
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NEVER_LATE = 1000
IDLE = " IDLE TIMEOUT INTERVAL '1' SECOND"


def script(kind, emit, grace=NEVER_LATE, having=""):
    """Windows of a kind, or groups without one."""
    if kind == "none":
        return f"{STREAM} SELECT k, count(*) AS c, sum(v) AS total FROM s GROUP BY k {having} {emit}"
    name, arguments, _ = WINDOWS[kind]
    return f"""{STREAM}
        SELECT k, {name}.start AS ws, {name}.end AS we, count(*) AS c, sum(v) AS total FROM s
        GROUP BY k, {name}(ts, {arguments}) GRACE PERIOD INTERVAL '{grace}' MICROSECONDS {having} {emit}"""


def rows_of(records):
    return [("s", {"k": key, "ts": time, "v": value}) for key, time, value in records]


def shown(change):
    """A row with its bounds as microseconds."""
    return tuple(
        (v - EPOCH) // dt.timedelta(microseconds=1) if isinstance(v, dt.datetime) else v for v in change.row.values()
    )


def closed(text, records, tasks=1):
    """All changes, when at last nothing has come for a second."""
    driver = ReplayDriver(text, tasks)
    return driver.push(rows_of(records)) + driver.advance_processing_time(1000)


def upserted(changes, keys):
    """The table that upserts make: the first columns are its keys."""
    table = {}
    for change in changes:
        row = shown(change)
        if change.op == "delete":
            assert set(row[keys:]) <= {None}
            table.pop(row[:keys], None)
        else:
            assert (change.op == "update_after") == (row[:keys] in table)
            table[row[:keys]] = row
    return Counter(table.values())


def summed(changes):
    """The table that a changelog makes: what is taken away has been there."""
    table = Counter()
    for change in changes:
        if change.op in ("insert", "update_after"):
            table[shown(change)] += 1
        else:
            assert table[shown(change)] > 0
            table[shown(change)] -= 1
    return +table


@pytest.mark.parametrize("kind", ORACLES)
@examples(6)
@given(records=RECORDS, tasks=st.integers(1, 3))
def test_finals_are_what_duckdb_answers(kind, records, tasks):
    finals = closed(script(kind, f"EMIT FINAL{IDLE}"), records, tasks)
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE s (k TEXT, t BIGINT, v INT)")
        for record in records:
            connection.execute("INSERT INTO s VALUES (?, ?, ?)", record)
        expected = connection.execute(duckdb_sql(*WINDOWS[kind][2])).fetchall()
    assert Counter(shown(change) for change in finals) == Counter(expected)
    assert {change.op for change in finals} <= {"insert"}


@pytest.mark.parametrize("kind", KINDS)
@examples(6)
@given(records=RECORDS, grace=GRACES)
def test_the_last_change_of_a_window_is_its_final_row(kind, records, grace):
    finals = closed(script(kind, f"EMIT FINAL{IDLE}", grace), records)
    changes = closed(script(kind, "EMIT CHANGES", grace), records)
    sent, last = Counter(shown(change) for change in finals), upserted(changes, 3)
    assert sent >= last
    # What else went out are sessions that a row which came later than the grace made longer.
    deleted = {shown(change)[:3] for change in changes if change.op == "delete"}
    assert {row[:3] for row in sent - last} <= (deleted if kind == "session" else set())


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@examples(6)
@given(records=RECORDS, query=st.sampled_from([(0, ""), (5, "HAVING sum(v) BETWEEN 2 AND 6")]))
def test_a_changelog_sums_up_to_the_upserted_table(kind, records, query):
    grace, having = query
    keys = 1 if kind == "none" else 3
    upserts = closed(script(kind, "EMIT CHANGES AS UPSERT", grace, having), records)
    changelog = closed(script(kind, "EMIT CHANGES AS CHANGELOG", grace, having), records)
    assert summed(changelog) == upserted(upserts, keys)


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@examples(5)
@given(records=RECORDS, waits=st.sampled_from([(0, 3), (7, 1), (40, 100)]))
def test_what_waits_leaves_nothing_out(kind, records, waits):
    """EMIT EVERY and a full buffer change when updates go out, and how many, but not where they lead."""
    wait, limit = waits
    every = f"EMIT EVERY INTERVAL '{wait}' MICROSECONDS PER KEY"
    full = f"BUFFER MAX {limit} ROWS WHEN FULL EMIT EARLY{IDLE}"
    expected = summed(closed(script(kind, "EMIT CHANGES AS CHANGELOG"), records))
    assert summed(closed(script(kind, f"{every} AS CHANGELOG {full}"), records)) == expected
    waited = closed(script(kind, f"{every} {full}"), records)
    assert len(waited) <= len(closed(script(kind, "EMIT CHANGES"), records))
    table = {}
    for change in waited:
        key = shown(change)[: 1 if kind == "none" else 3]
        table = {**table, key: shown(change)} if change.op != "delete" else {k: v for k, v in table.items() if k != key}
    assert Counter(table.values()) == expected


@pytest.mark.parametrize("kind", ORACLES)
@examples(8)
@given(records=RECORDS, grace=GRACES, waits=st.sampled_from([(0, None), (7, None), (7, 1), (40, 2)]))
def test_updates_of_windows_wait_by_their_own_time(kind, records, grace, waits):
    """Each window is an entry, which leaves by the time of its first update and not by its start (15.11)."""
    wait, most = waits
    full = "" if most is None else f" BUFFER MAX {most} ROWS WHEN FULL EMIT EARLY"
    driver = ReplayDriver(script(kind, f"EMIT EVERY INTERVAL '{wait}' MICROSECONDS PER KEY{full}", grace))
    updates = reference(records, *WINDOWS[kind][2], grace, "changes")
    answers = [[(name, new and new[:5], time) for name, time, _, new in sent] for sent in updates]
    gone = [
        [(*name, None, None) if row is None else row for name, row, _ in out] for out in waiting(wait, most, answers)
    ]
    assert [[shown(change) for change in driver.push([row])] for row in rows_of(records)] == gone


@pytest.mark.parametrize(
    "emit", ["EMIT FINAL", "EMIT CHANGES AS CHANGELOG", "EMIT EVERY INTERVAL '7' MICROSECONDS PER KEY"]
)
@pytest.mark.parametrize("kind", KINDS)
@examples(5)
@given(records=RECORDS, data=st.data())
def test_cuts_and_restarts_change_nothing(kind, emit, records, data):
    text = script(kind, emit, 5)
    whole, driver = ReplayDriver(text), ReplayDriver(text)
    expected, found, rows = whole.push(rows_of(records)), [], rows_of(records)
    while rows:
        count = data.draw(st.integers(1, len(rows)), "rows of the micro-batch")
        found += driver.push(rows[:count])
        rows = rows[count:]
        if data.draw(st.booleans(), "restart"):
            driver.restart()
    assert (found, driver.late) == (expected, whole.late)
    assert driver.metrics == whole.metrics


@pytest.mark.parametrize("kind", [*KINDS, "none"])
@examples(5)
@given(records=RECORDS, tasks=st.integers(2, 4))
def test_tasks_change_no_updates(kind, records, tasks):
    """As long as nothing is late: each key's changes are the same, and in the same order over all keys."""
    text = script(kind, "EMIT CHANGES")
    assert closed(text, records, tasks) == closed(text, records)
