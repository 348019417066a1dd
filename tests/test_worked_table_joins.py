"""Joins and aggregations of tables: the worked examples in our SQL, and sums of changes against DuckDB.

Source: semantics.md 8, 9, 10, B10, B11.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.errors import TemporalSqlError
from sqlx.replay.driver import Change, ReplayDriver
from tests.harness.examples import examples
from tests.test_worked_windows import CASES, cut, millis

JOINS = [c for c in CASES if c["op"]["kind"] == "table_table_join"]
FOREIGN = [c for c in CASES if c["op"]["kind"] == "fk_join"]
GROUPS = [c for c in CASES if c["op"]["kind"] == "table_agg"]
WORDS = {"inner": "JOIN", "left": "LEFT JOIN", "outer": "FULL JOIN"}


def definition(name: str, table: dict[str, Any], columns: str) -> str:
    kind = "VERSIONED" if table["versioned"] else "UPSERT"
    retention = f"HISTORY RETENTION INTERVAL '{table['retention']}' MILLISECOND" if table["versioned"] else ""
    return f"""CREATE {kind} TABLE {name} ({columns}, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts
        APPLY AS DELETE WHEN v IS NULL {retention};
        """


def by_primary_key(kind: str, emit: str) -> str:
    """A join of two tables `l` and `r`."""
    key = "coalesce(l.k, r.k)" if kind == "outer" else "l.k"
    return f"SELECT {key} AS k, l.v AS a, r.v AS b FROM l {WORDS[kind]} r ON l.k = r.k {emit}"


def changes_as_shown(changes: list[Change]) -> list[tuple[Any, ...]]:
    """Changes as the examples write them: `(left,right)`, nothing for a deletion."""
    return [(c.row["k"], None if c.op == "delete" else shown(c.row), millis(c.time)) for c in changes]


def shown(row: dict[str, Any]) -> str:
    if "b" not in row:
        return str(row["a"])
    return f"({row['a'] or 'null'},{row['b'] or 'null'})"


def check(case: dict[str, Any], script: str, rows: list[Any], data: st.DataObject) -> None:
    """Each record by itself, and in any micro-batches with restarts between them."""
    expected = [list(map(tuple, out)) for out in case["output"]]
    one_by_one = ReplayDriver(script)
    assert [changes_as_shown(one_by_one.push([row])) for row in rows] == expected
    got = [row for changes in cut(ReplayDriver(script), rows, data) for row in changes_as_shown(changes)]
    assert got == [row for out in expected for row in out]


@pytest.mark.parametrize("case", JOINS, ids=lambda case: case["id"])
@given(data=st.data())
@examples(4)
def test_joins_by_primary_key(case: dict[str, Any], data: st.DataObject) -> None:
    op = case["op"]
    tables = definition("l", op["left"], "k STRING, v STRING") + definition("r", op["right"], "k STRING, v STRING")
    query = by_primary_key(op["join"], "EMIT CHANGES")
    rows = [(side.lower(), {"k": k, "v": v, "ts": ts * 1000}) for side, k, v, ts in case["input"]]
    check(case, tables + query, rows, data)


@pytest.mark.parametrize("case", FOREIGN, ids=lambda case: case["id"])
@given(data=st.data())
@examples(4)
def test_joins_by_foreign_key(case: dict[str, Any], data: st.DataObject) -> None:
    op = case["op"]
    tables = definition("l", op["left"], "k STRING, f STRING, v STRING")
    tables += definition("r", op["right"], "k STRING, v STRING")
    query = f"SELECT l.k, l.v AS a, r.v AS b FROM l {WORDS[op['join']]} r ON l.f = r.k EMIT CHANGES"
    rows = []
    for side, k, v, ts in case["input"]:
        foreign = {"f": v.partition("|")[0] or None if v is not None else None} if side == "L" else {}
        rows.append((side.lower(), {"k": k, "v": v, "ts": ts * 1000} | foreign))
    check(case, tables + query, rows, data)


@pytest.mark.parametrize("case", GROUPS, ids=lambda case: case["id"])
@given(data=st.data())
@examples(4)
def test_groups_of_a_table(case: dict[str, Any], data: st.DataObject) -> None:
    """A group without rows is deleted (B11), where the library shows what nothing adds up to."""
    op = case["op"]
    call = {"count": "count(*)", "sum": "sum(CAST(v AS INT))", "collect": "max(v)"}
    table = definition("t", op["table"], "k STRING, g STRING, v STRING")
    query = f"SELECT g AS k, {call[op['agg']]} AS a FROM t GROUP BY g EMIT CHANGES"
    empty = {"count": "0", "sum": "0", "collect": ""}[op["agg"]]
    output = [[(k, None if v == empty else v, ts) for k, v, ts in out] for out in case["output"]]
    rows = []
    for _, k, v, ts in case["input"]:
        group, _, value = (v or "").partition(":")
        rows.append(("t", {"k": k, "g": group or None, "v": value or None, "ts": ts * 1000}))
    check({**case, "output": output}, table + query, rows, data)


# what sums of changes are: DuckDB over the current rows

TABLES = {
    "a": "k STRING, f STRING, g STRING, v INT",
    "b": "k STRING, f STRING, g STRING, v INT",
    "c": "k STRING, f STRING, g STRING, v INT",
}
QUERIES = [
    "SELECT o.k, count(o.x) AS x, sum(c.v) AS y FROM"
    " (SELECT coalesce(lower(a.k), b.k) AS k, a.k AS x FROM a FULL JOIN b USING (k)) o"
    " JOIN c ON o.k = c.k GROUP BY o.k",
    "SELECT o.i AS k, count(o.j) AS x, sum(c.v) AS y FROM (SELECT a.k AS i, b.k AS j FROM a FULL JOIN b ON a.k = b.k) o"
    " LEFT JOIN c ON o.i = c.k GROUP BY o.i",
    "SELECT a.*, b.v AS y FROM (SELECT * EXCEPT (ts, f) FROM a) a LEFT JOIN b ON a.k = b.k",
    "SELECT * FROM (SELECT k, v AS x FROM a) a JOIN (SELECT k, v AS y FROM b) b USING (k)",
    "SELECT * FROM (SELECT k, v AS x FROM a) a FULL JOIN (SELECT k, v AS y FROM b) b USING (k)",
    "SELECT * FROM (SELECT k, v AS x FROM a) a FULL JOIN (SELECT k AS o, v AS y FROM b) b ON a.k = b.o",
    "SELECT p.*, q.v AS w FROM (SELECT k, f, v FROM a) p LEFT JOIN b q ON p.f = q.k AND q.v = p.v",
    "SELECT k, x, y FROM (SELECT k, a.v AS x, c.v AS y FROM a FULL JOIN c USING (k)) o WHERE x IS NULL OR y > 1",
    "SELECT o.k, o.x AS x, b.v AS y FROM (SELECT k, a.v AS x FROM a FULL JOIN c USING (k)) o JOIN b ON o.k = b.k",
    "SELECT g AS k, sum(n) AS x, count(*) AS y FROM (SELECT b.g, a.k, a.v AS n FROM a JOIN b ON a.f = b.k) GROUP BY g",
    "SELECT a.k, a.v AS x, b.v AS y FROM a JOIN b ON a.k = b.k",
    "SELECT a.k, a.v AS x, b.v AS y FROM a LEFT JOIN b ON a.k = b.k WHERE b.v > 1 OR a.v < 2",
    "SELECT coalesce(a.k, b.k) AS k, a.v AS x, b.v AS y FROM a FULL JOIN b ON a.k = b.k",
    "SELECT k, a.v AS x, b.v AS y FROM a FULL JOIN b USING (k)",
    "SELECT k, a.v AS x, b.g AS y FROM a JOIN b USING (k) LEFT JOIN c USING (k) WHERE c.v IS NULL OR c.v > 1",
    "SELECT a.k, a.v AS x, b.v AS y FROM a LEFT JOIN b ON a.k = b.k AND b.v > 1",
    "SELECT a.k, a.v AS x, b.v AS y FROM a JOIN b ON a.k = b.k AND b.v > a.v",
    "SELECT a.k, b.g AS x, b.v AS y FROM a JOIN b ON a.f = b.k",
    "SELECT a.k, b.k AS x, b.v + a.v AS y FROM a LEFT JOIN b ON a.f = b.k",
    "SELECT a.k, b.k AS x, c.v AS y FROM a LEFT JOIN b ON a.f = b.k LEFT JOIN c ON b.f = c.k",
    "SELECT a.k, b.v AS x, c.v AS y FROM a JOIN b ON a.k = b.k JOIN c ON a.f = c.k",
    "SELECT a.k, b.v AS x, c.v AS y FROM a JOIN b ON a.f = b.k JOIN c ON a.k = c.k",
    "SELECT o.k, o.v AS x, b.v AS y FROM (SELECT k, v FROM a WHERE v > 1) o LEFT JOIN b ON o.k = b.k",
    "WITH big AS (SELECT k, v AS w FROM b WHERE v > 1) SELECT a.k, v AS x, w AS y FROM a LEFT JOIN big ON a.f = big.k",
    "SELECT o.k, o.v AS x, o.v AS y FROM a AS o JOIN a AS p ON o.f = p.k",
    "SELECT g AS k, count(*) AS x, sum(v) AS y FROM a GROUP BY g",
    "SELECT g AS k, min(v) AS x, max(v) AS y FROM a WHERE v > 0 GROUP BY g HAVING count(*) > 1",
    "SELECT g AS k, count(DISTINCT v) AS x, count(*) FILTER (WHERE v > 1) AS y FROM a GROUP BY g",
    "SELECT b.g AS k, count(*) AS x, sum(a.v) AS y FROM a JOIN b ON a.f = b.k GROUP BY b.g",
    "SELECT b.g AS k, count(*) AS x, sum(a.v) AS y FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.g",
    "SELECT n AS k, count(*) AS x, min(g) AS y FROM (SELECT g, count(*) AS n FROM a GROUP BY g) GROUP BY n",
    "SELECT s.g AS k, s.n AS x, b.v AS y FROM (SELECT g, count(*) AS n FROM a GROUP BY g) s JOIN b ON s.g = b.k",
    "SELECT g AS k, x, y FROM (SELECT a.g, b.v AS x, b.k AS y, a.k AS k FROM a JOIN b ON a.k = b.k) o"
    " WHERE false GROUP BY g, x, y",
    "SELECT count(*) AS k, sum(v) AS x, max(v) AS y FROM a",
]
UPDATES = st.lists(
    st.tuples(
        st.sampled_from(list(TABLES)),
        st.sampled_from(["p", "q", "r"]),
        st.sampled_from(["p", "q", None]),
        st.sampled_from(["p", "h", None]),
        st.none() | st.integers(0, 3),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=14,
)


def current(updates: list[Any], versioned: set[str]) -> dict[str, dict[str, Any]]:
    """The rows that each table shows: the last of a key, or the last of its greatest time."""
    latest: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
    for name, key, *rest, time in updates:
        if name not in versioned or key not in latest[name] or time >= latest[name][key][-1]:
            latest[name][key] = (key, *rest, time)
    return {name: {k: row for k, row in rows.items() if row[3] is not None} for name, rows in latest.items()}


def expected(query: str, updates: list[Any], versioned: set[str]) -> list[Any]:
    with duckdb.connect() as connection:
        for name, rows in current(updates, versioned).items():
            connection.execute(f"CREATE TABLE {name} (k VARCHAR, f VARCHAR, g VARCHAR, v INT, ts INT)")
            for row in rows.values():
                connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?)", row)
        return sorted(connection.execute(query).fetchall(), key=str)


def summed_up(script: str, updates: list[Any], data: st.DataObject) -> list[tuple[Any, ...]]:
    """The rows that are left when a changelog is applied, in any cut."""
    driver, rows = ReplayDriver(script), list[tuple[Any, ...]]()
    pushed = [(name, {"k": k, "f": f, "g": g, "v": v, "ts": ts * 1000}) for name, k, f, g, v, ts in updates]
    for changes in cut(driver, pushed, data):
        for change in changes:
            values = tuple(change.row.values())
            if change.op in ("update_before", "delete"):
                rows.remove(values)  # what goes was there
            else:
                rows.append(values)
    return rows


@pytest.mark.parametrize("query", QUERIES)
@given(updates=UPDATES, versioned=st.sets(st.sampled_from(list(TABLES))), data=st.data())
@examples(6)
def test_a_changelog_sums_up_to_the_query_over_current_rows(
    query: str, updates: list[Any], versioned: set[str], data: st.DataObject
) -> None:
    tables = {n: {"versioned": n in versioned, "retention": 1000} for n in TABLES}
    script = "".join(definition(name, tables[name], columns) for name, columns in TABLES.items())
    rows = summed_up(f"{script}{query} EMIT CHANGES AS CHANGELOG", updates, data)
    is_empty = not rows and "GROUP BY" not in query and "count(*) AS k" in query
    assert is_empty or sorted(rows, key=str) == expected(query, updates, versioned)


#: Tables that are derived from tables: their KEYS, and their query.
DERIVED = [
    ("k", "SELECT k, g, v, ts FROM a WHERE v > 1", "SELECT k, v AS x, g AS y FROM d"),
    ("k", "SELECT * FROM a", "SELECT d.k, d.v AS x, b.v AS y FROM d LEFT JOIN b ON d.f = b.k"),
    ("k", "SELECT a.k, a.ts, b.v, b.g FROM a LEFT JOIN b ON a.k = b.k", "SELECT k, v AS x, g AS y FROM d"),
    ("k", "SELECT a.k, a.ts, b.v, b.g FROM a JOIN b ON a.f = b.k WHERE b.v > 0",
     "SELECT g AS k, count(*) AS x, sum(v) AS y FROM d GROUP BY g"),
    ("g", "SELECT g, count(*) AS n, max(ts) AS ts FROM a GROUP BY g", "SELECT d.g AS k, n AS x, b.v AS y FROM d JOIN b"
     " ON d.g = b.k"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "derived", "query"), DERIVED)
@given(updates=UPDATES, versioned=st.sets(st.sampled_from(["b", "c"])), as_is=st.booleans(), data=st.data())
@examples(8)
def test_a_table_that_is_derived_from_tables_sums_up_to_its_query(
    keys: str, derived: str, query: str, updates: list[Any], versioned: set[str], as_is: bool, data: st.DataObject
) -> None:
    """In its place stands a view in DuckDB; a filter of a versioned table is versioned where it is made so."""
    is_versioned = as_is and " JOIN " not in derived and "GROUP" not in derived
    versioned = versioned | ({"a"} if is_versioned else set())
    tables = {n: {"versioned": n in versioned, "retention": 1000} for n in TABLES}
    script = "".join(definition(name, tables[name], columns) for name, columns in TABLES.items())
    kind = "VERSIONED" if is_versioned else "UPSERT"
    script += f"CREATE {kind} TABLE d KEYS ({keys}) TIMESTAMP BY ts AS {derived};"
    timed = [u for u in updates if u[3] is not None or "GROUP" not in derived]  # its KEYS may not be NULL
    rows = summed_up(f"{script}{query} EMIT CHANGES AS CHANGELOG", timed, data)
    assert sorted(rows, key=str) == expected(f"WITH d AS ({derived}) {query}", timed, versioned)


@pytest.mark.parametrize(
    ("keys", "derived"), [("g", "SELECT * FROM a"), ("k", "SELECT g AS k, ts FROM a"), ("k, g", "SELECT * FROM a")]
)
def test_a_derived_table_has_the_key_of_its_query(keys: str, derived: str) -> None:
    script = definition("a", {"versioned": False}, TABLES["a"])
    script += f"CREATE UPSERT TABLE d KEYS ({keys}) TIMESTAMP BY ts AS {derived};"
    with pytest.raises(TemporalSqlError) as refused:
        ReplayDriver(f"{script}SELECT * FROM d EMIT CHANGES")
    assert refused.value.condition in ("DEFINITION.DERIVED_KEYS", "EMIT.KEY_NOT_SELECTED")
    assert refused.value.span is not None


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT a.v FROM a JOIN b ON a.k = b.k", "EMIT.KEY_NOT_SELECTED"),
        ("SELECT a.k FROM a JOIN b ON a.k = b.f", "KEYED_JOIN.KEYS_NOT_COVERED"),
        ("SELECT a.k FROM a JOIN b", "KEYED_JOIN.KEYS_NOT_COVERED"),
        ("SELECT a.k FROM a JOIN b ON a.k = b.kk", "BIND.UNKNOWN_COLUMN"),
        ("SELECT a.k FROM a JOIN b ON a.v = b.ts", "KEYED_JOIN.KEYS_NOT_COVERED"),
        ("SELECT coalesce(a.k, b.k) AS k FROM a FULL JOIN b ON a.f = b.k", "TABLE_JOIN.FULL_FOREIGN"),
        ("SELECT coalesce(a.k, b.k) AS k FROM a FULL JOIN b ON a.k = b.k AND a.v > 1", "TABLE_JOIN.FULL_CONDITION"),
        ("SELECT window, count(*) FROM a GROUP BY window(ts, '1 hour')", "TABLE.WINDOW"),
        ("SELECT g, count(*) AS n FROM a GROUP BY g EMIT FINAL", "EMIT.FINAL_NO_WINDOW"),
        ("SELECT count(*) AS n FROM a GROUP BY g", "EMIT.KEY_NOT_SELECTED"),
    ],
)
def test_what_cannot_be_kept_up_to_date_is_refused_with_a_caret(query: str, condition: str) -> None:
    tables = {"versioned": False}
    script = "".join(definition(name, tables, columns) for name, columns in TABLES.items())
    with pytest.raises(TemporalSqlError) as refused:
        ReplayDriver(script + query)
    assert refused.value.getCondition() == condition, str(refused.value)
    assert "^" in str(refused.value)


@pytest.mark.parametrize("tasks", [1, 3])
def test_updates_of_a_join_may_wait(tasks: int) -> None:
    """`EMIT EVERY` goes by the key of the result, which by foreign key is that of the left side."""
    tables = "".join(definition(name, {"versioned": False}, columns) for name, columns in TABLES.items())
    query = "SELECT a.k, b.v AS x FROM a LEFT JOIN b ON a.f = b.k EMIT EVERY INTERVAL 10 SECONDS PER KEY"
    driver = ReplayDriver(tables + query, tasks=tasks)
    found = []
    for second, (name, row) in enumerate([
        ("a", {"k": "p", "f": "q", "v": 1}),
        ("b", {"k": "q", "v": 7}),
        ("b", {"k": "q", "v": 8}),
        ("a", {"k": "p", "f": "q", "v": 2}),
    ]):  # fmt: skip
        found += driver.push([(name, {**row, "ts": second * 5_000_000})])
    assert [(change.op, *change.row.values()) for change in found] == [("insert", "p", 8)]


def test_a_list_of_column_names_renames_a_table() -> None:
    table = definition("a", {"versioned": False}, TABLES["a"])
    driver = ReplayDriver(f"{table}SELECT t.id, t.amount FROM a AS t (id, x, y, amount, at) EMIT CHANGES")
    (change,) = driver.push([("a", {"k": "p", "v": 3, "ts": 0})])
    assert change.row == {"id": "p", "amount": 3}
    with pytest.raises(TemporalSqlError, match=r"KEYED_JOIN\.COLUMN_LIST") as refused:
        ReplayDriver(f"{table}SELECT t.id FROM a AS t (id, x)")
    assert "^^^^^" in str(refused.value)
