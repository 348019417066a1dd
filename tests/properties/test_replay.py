"""Laws of replay: cuts, restarts and tasks are invisible, and the answers are those of twenty lines of Python."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.driver import Change, ReplayDriver

Record = tuple[str, dict[str, Any]]
KEYS = st.sampled_from(["a", "b", "é", None])
TIMES = st.integers(0, 30)
VALUES = st.one_of(st.none(), st.integers(0, 9))


@dataclass(frozen=True)
class Join:
    """One random join: times are microseconds, None is a clause that is not there."""

    left: bool
    exclusive: bool
    reason: bool
    tolerance: int | None
    retention: int
    grace: int | None
    filtered: bool

    @property
    def script(self) -> str:
        def clause(text: str, value: object) -> str:
            return text.replace("{}", str(value)) if value is not None and value is not False else ""

        table = "(SELECT * FROM t WHERE v <> 5)" if self.filtered else "t"
        return f"""
            CREATE STREAM s (k STRING, n INT, ts TIMESTAMP) TIMESTAMP BY ts;
            CREATE VERSIONED TABLE t (k STRING, v INT, ts TIMESTAMP) KEYS (k) TIMESTAMP BY ts
              APPLY AS DELETE WHEN v IS NULL HISTORY RETENTION INTERVAL '{self.retention}' MICROSECONDS;
            SELECT s.n, r.v {clause(", match_reason AS why", self.reason)}
            FROM s {clause("LEFT", self.left)} JOIN {table} AS OF s.ts {clause("EXCLUSIVE", self.exclusive)} AS r
            ON s.k = r.k
            {clause("TOLERANCE INTERVAL '{}' MICROSECONDS", self.tolerance)}
            {clause("GRACE PERIOD INTERVAL '{}' MICROSECONDS", self.grace)} {clause("WITH REASON", self.reason)}"""


def some_joins(count: int) -> list[Join]:
    """Joins of all kinds; not all there are, since compiling one takes longer than running it."""
    choice = Random(20261121).choice
    found = []
    for _ in range(count):
        retention = choice([0, 5, 20])
        found.append(
            Join(
                left=choice([True, True, False]),
                exclusive=choice([True, False, False]),
                reason=choice([True, False]),
                tolerance=choice([None, None, 0, 4]),
                retention=retention,
                grace=choice([grace for grace in (None, None, 0, 3, 5) if grace is None or grace <= retention]),
                filtered=choice([True, False, False]),
            )
        )
    return found


JOINS = st.sampled_from(some_joins(40))


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    rows: list[Record] = []
    for number in range(draw(st.integers(0, 14))):
        key, time = draw(KEYS), draw(TIMES)
        if draw(st.booleans()):
            rows.append(("t", {"k": key, "v": draw(VALUES), "ts": time}))
        else:
            rows.append(("s", {"k": key, "n": number, "ts": time}))
    return rows


def reference(join: Join, rows: list[Record]) -> list[tuple[Any, ...]]:  # noqa: C901  # the rules, one after the other
    """Semantics.md 2, 6, 7 and C, with a list of versions and a list of waiting rows."""
    versions: dict[tuple[str, int], Any] = {}
    table_time, stream_time = -(10**9), -(10**9)
    waiting: list[tuple[int, str, int, int]] = []
    out: list[tuple[Any, ...]] = []

    def answer(time: int, key: str | None, n: int) -> None:
        own = sorted((at, v) for (k, at), v in versions.items() if k == key)
        seen = [(at, v) for at, v in own if (at < time if join.exclusive else at <= time)]
        found, why = None, None
        if not own:
            why = "no_key"
        elif time < table_time - join.retention and seen[-1:] != own[-1:]:
            why = "beyond_retention"
        elif not seen:
            why = "before_first"
        elif seen[-1][1] is None:
            why = "tombstone"
        elif join.tolerance is not None and time - seen[-1][0] > join.tolerance:
            why = "beyond_tolerance"
        elif join.filtered and seen[-1][1] == 5:
            why = "condition"
        else:
            found = seen[-1][1]
        if join.left or why is None:
            out.append((time, n, found, why) if join.reason else (time, n, found))

    for name, row in rows:
        key, time = row["k"], row["ts"]
        if name == "t":
            if key is not None and time >= table_time - join.retention:
                versions[key, time], table_time = row["v"], max(table_time, time)
        elif key is None or join.grace is None or time < stream_time - join.grace:
            if key is not None or join.left:
                answer(time, key, row["n"])
        else:
            stream_time = max(stream_time, time)
            waiting = sorted([*waiting, (time, key.encode(), row["n"], key)])  # type: ignore[list-item]
            for due in [w for w in waiting if w[0] <= stream_time - join.grace]:
                waiting.remove(due)
                answer(due[0], due[3], due[2])  # type: ignore[arg-type]
    return out


def shown(changes: list[Change]) -> list[tuple[Any, ...]]:
    return [(round(c.time.timestamp() * 10**6), *c.row.values()) for c in changes if c.time is not None]


def one_by_one(join: Join, rows: list[Record], tasks: int = 1) -> tuple[list[tuple[Any, ...]], ReplayDriver]:
    driver = ReplayDriver(join.script, tasks=tasks)
    return [change for row in rows for change in shown(driver.push([row]))], driver


@given(JOINS, records())
def test_replay_answers_as_the_reference(join: Join, rows: list[Record]) -> None:
    assert one_by_one(join, rows)[0] == reference(join, rows)


@given(JOINS, records(), st.data())
def test_cuts_and_restarts_are_invisible(join: Join, rows: list[Record], data: st.DataObject) -> None:
    expected, plain = one_by_one(join, rows)
    driver, got, at = ReplayDriver(join.script), [], 0
    while at < len(rows):
        size = data.draw(st.integers(0, len(rows) - at), "micro-batch") or 1
        got += shown(driver.push(rows[at : at + size]))
        at += size
        if data.draw(st.booleans(), "restart"):
            driver.restart()
        if data.draw(st.booleans(), "empty micro-batch"):
            assert driver.push([]) == []
    assert got == expected
    assert (driver.metrics, driver.late) == (plain.metrics, plain.late)


@given(JOINS, records(), st.integers(2, 5))
def test_tasks_are_invisible_where_nothing_is_late_or_expired(join: Join, rows: list[Record], tasks: int) -> None:
    expected, single = one_by_one(join, rows)
    got, several = one_by_one(join, rows, tasks)
    if not single.depends_on_tasks and not several.depends_on_tasks:
        assert got == expected
        assert several.metrics == single.metrics


@given(JOINS, records())
def test_every_record_is_counted_once(join: Join, rows: list[Record]) -> None:
    driver = one_by_one(join, rows)[1]
    metrics, refused = driver.metrics, [("s" if "n" in row else "t", row["_reason"]) for row in driver.late]
    answered = metrics["matched"] + metrics["unmatched"] + metrics["buffered_rows"]
    assert answered + sum(name == "s" for name, _ in refused) == sum(name == "s" for name, _ in rows)
    null_keys = sum(row["k"] is None and (name == "t" or not join.left) for name, row in rows)
    assert metrics["null_key"] == null_keys == sum(reason == "null_key" for _, reason in refused)
    assert metrics["expired"] == len(refused) - null_keys
