"""The worked examples of reads of tables in our SQL, and such reads against a few lines that follow the rules.

Source: semantics.md 2.1, 4, 5, B9, B12.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.errors import TemporalSqlError
from sqlx.replay.driver import ReplayDriver
from tests.oracle.tables import Table, Update
from tests.test_worked_windows import CASES, changed, cut

#: A table that is not materialised does not exist here (B12).
READS = [c for c in CASES if c["op"]["kind"] == "table_ops" and not c["id"].endswith("unmaterialized")]
RETENTION_MS = 100


def read(is_versioned: bool, condition: str = "v NOT LIKE '%x'", emit: str = "EMIT CHANGES") -> str:
    kind = "VERSIONED" if is_versioned else "UPSERT"
    retention = f"HISTORY RETENTION INTERVAL '{RETENTION_MS}' MILLISECOND" if is_versioned else ""
    return f"""
        CREATE {kind} TABLE t (k STRING, v STRING, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts
            APPLY AS DELETE WHEN v IS NULL {retention};
        SELECT k, v FROM t WHERE {condition} {emit}"""


@pytest.mark.parametrize("case", READS, ids=lambda case: case["id"])
@given(data=st.data())
def test_reads_of_a_table(case: dict[str, Any], data: st.DataObject) -> None:
    script, rows = read(case["op"]["table"]["versioned"]), case["input"]
    pushed = [("t", {"k": key, "v": value, "ts": ts * 1000}) for _, key, value, ts in rows]
    one_by_one = ReplayDriver(script)
    assert [changed(one_by_one.push([row])) for row in pushed] == [list(map(tuple, out)) for out in case["output"]]
    got = [row for changes in cut(ReplayDriver(script), pushed, data) for row in changed(changes)]
    assert got == [tuple(row) for out in case["output"] for row in out]


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.sampled_from(["v", "w", "vx", None]),
        st.integers(0, 2 * RETENTION_MS) | st.integers(0, 9) | st.none(),
    ),
    max_size=20,
)


def updates(rows: list[Any], is_versioned: bool) -> tuple[list[Update | None], dict[str, Any]]:
    """What each record does to a table by its rules (None: refused), and the table in the end."""
    table = Table(RETENTION_MS if is_versioned else None)
    sent = [table.put(*row) for row in rows]
    return sent, {key: stored.row for key in table.versions if (stored := table.current(key)) is not None}


def passing(value: Any) -> Any:
    return None if value is None or value.endswith("x") else value


@given(ROWS, st.booleans(), st.data())
def test_updates_follow_the_rules_however_they_are_cut(
    rows: list[Any], is_versioned: bool, data: st.DataObject
) -> None:
    pushed = [("t", {"k": k, "v": v, "ts": None if ts is None else ts * 1000}) for k, v, ts in rows]
    driver = ReplayDriver(read(is_versioned))
    got = [row for changes in cut(driver, pushed, data) for row in changed(changes)]
    sent, _ = updates(rows, is_versioned)
    shown = [(u.key, passing(u.new), u.time, passing(u.old)) for u in sent if u is not None]
    # 5.2 and 5.4: nothing of a versioned table is dropped
    assert got == [(key, new, ts) for key, new, ts, old in shown if is_versioned or old is not None or new is not None]
    assert len(driver.late) == sent.count(None)


@given(ROWS, st.booleans(), st.data())
def test_a_changelog_sums_up_to_the_table(rows: list[Any], is_versioned: bool, data: st.DataObject) -> None:
    pushed = [("t", {"k": k, "v": v, "ts": None if ts is None else ts * 1000}) for k, v, ts in rows]
    driver, table = ReplayDriver(read(is_versioned, emit="EMIT CHANGES AS CHANGELOG")), {}
    for changes in cut(driver, pushed, data):
        for change in changes:
            key, value = change.row["k"], change.row["v"]
            if change.op in ("update_before", "delete"):
                assert table.pop(key) == value
            else:
                assert key not in table
                table[key] = value
    _, final = updates(rows, is_versioned)
    assert table == {key: value for key, value in final.items() if passing(value) is not None}


def test_a_key_that_is_not_selected_is_refused_for_versioned_tables_too() -> None:
    with pytest.raises(TemporalSqlError, match=r"EMIT\.KEY_NOT_SELECTED"):
        ReplayDriver(read(is_versioned=True).replace("SELECT k, v", "SELECT v"))


def test_the_default_retention_is_said_once() -> None:
    script = read(is_versioned=True).replace(f"HISTORY RETENTION INTERVAL '{RETENTION_MS}' MILLISECOND", "")
    assert ReplayDriver(script).notes == ("`t` keeps its history for 1 day: HISTORY RETENTION was not given.",)


DERIVED = "CREATE UPSERT TABLE d KEYS (k) TIMESTAMP BY ts AS SELECT k, v, ts FROM t WHERE v NOT LIKE '%x';"


@given(ROWS, st.data())
def test_updates_of_a_derived_table_follow_the_rules(rows: list[Any], data: st.DataObject) -> None:
    pushed = [("t", {"k": k, "v": v, "ts": None if ts is None else ts * 1000}) for k, v, ts in rows]
    driver = ReplayDriver(read(is_versioned=False).partition("SELECT")[0] + DERIVED + "SELECT k, v FROM d EMIT CHANGES")
    got = [row for changes in cut(driver, pushed, data) for row in changed(changes)]
    sent, _ = updates(rows, is_versioned=False)
    shown = [(u.key, passing(u.new), u.time, passing(u.old)) for u in sent if u is not None]
    assert got == [(key, new, ts) for key, new, ts, old in shown if old is not None or new is not None]
    assert len(driver.late) == sent.count(None)
