"""Random records through Kafka Streams itself and through replay: the same answers, record by record.

What semantics.md decides otherwise is not drawn: NULL values of a stream, NULL groups (B10), final results that the
library sends twice (B3), a deletion at the time of another row of its key (2.8), rows that a sliding window refuses
(13.5). Of sessions that have closed ours are kept for two gaps, the library's for the day of its retention: times are
drawn so that this does not show.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.errors import TemporalSqlError
from sqlx.replay.driver import Change, ReplayDriver
from tests.harness.examples import examples
from tests.harness.kafka_streams import KafkaStreams, Row, needs_javac
from tests.test_worked_table_joins import WORDS, by_primary_key, definition
from tests.test_worked_windows import micros, suppress_clause

pytestmark = [pytest.mark.full, needs_javac]

Case = tuple[dict[str, Any], list[tuple[str, str | None, str | None, int]]]
COLUMNS = "k STRING, v STRING"
NAMES = {"S": "s", "T": "t", "L": "l", "R": "r"}
PLAIN = st.builds("{}{}{}".format, st.sampled_from(["v", "w", "z"]), st.integers(0, 9), st.sampled_from(["", "x"]))
GROUPED = st.builds("{}:{}".format, st.sampled_from(["g", "h", "i"]), PLAIN)
FOREIGN = st.builds("{}|{}".format, st.sampled_from(["f", "g", "h", ""]), PLAIN)
TABLES = st.one_of(
    st.just({"versioned": False}),
    st.builds(lambda retention: {"versioned": True, "retention": retention}, st.sampled_from([0, 5, 10, 30, 100])),
)
LIMITS = st.fixed_dictionaries({"max_records": st.integers(0, 3), "when_full": st.sampled_from(["emit", "shutdown"])})
WAITS = st.none() | st.builds(
    lambda time, limit: {"time": time} | limit, st.sampled_from([0, 2, 5, 10, 20]), st.just({}) | LIMITS
)
STEPS = st.lists(st.sampled_from(["filter", "map"]), max_size=2)


@st.composite
def records(draw: st.DrawFn, topics: dict[str, st.SearchStrategy[str]], keys: str = "abc", nulls: bool = True) -> Any:
    """Records whose time goes on, some late; deletions are at odd times, and other rows of tables at even ones."""
    found, now, spread = [], 100, draw(st.sampled_from([3, 10, 30]))
    key = st.sampled_from([*keys] * 5 + [None] * nulls)
    for _ in range(draw(st.integers(3, 25))):
        now += draw(st.sampled_from([0, 0, 1, 1, 2, 3, 5, spread, 40]))
        time = max(100, now - draw(st.sampled_from([0, 0, 0, 1, 2]) | st.integers(0, spread)))
        topic = draw(st.sampled_from(sorted(topics)))
        if topic == "S":
            found.append((topic, draw(key), draw(topics[topic]), time))
        elif draw(st.integers(0, 3)):
            found.append((topic, draw(key), draw(topics[topic]), time & ~1))
        else:
            found.append((topic, draw(key), None, time | 1))
    return found


# the cases


@st.composite
def stream_table_joins(draw: st.DrawFn) -> Case:
    op = {"kind": "stream_table_join", "join": draw(st.sampled_from(["inner", "left"])), "table": draw(TABLES)}
    op["steps"] = draw(STEPS)
    if op["table"]["versioned"] and draw(st.booleans()):
        op["grace"] = draw(st.integers(0, op["table"]["retention"]))
    has_nulls = op["join"] == "inner" or "grace" not in op  # a NULL key of a left join with grace kills the library
    return op, draw(records({"S": PLAIN, "T": PLAIN}, nulls=has_nulls))


@st.composite
def joins_by_primary_key(draw: st.DrawFn) -> Case:
    op = {"kind": "table_table_join", "join": draw(st.sampled_from(list(WORDS))), "suppress": draw(WAITS)}
    return op | {"left": draw(TABLES), "right": draw(TABLES)}, draw(records({"L": PLAIN, "R": PLAIN}))


@st.composite
def joins_by_foreign_key(draw: st.DrawFn) -> Case:
    op = {"kind": "fk_join", "join": draw(st.sampled_from(["inner", "left"])), "suppress": draw(WAITS)}
    return op | {"left": draw(TABLES), "right": draw(TABLES)}, draw(records({"L": FOREIGN, "R": PLAIN}, "fghab"))


@st.composite
def reads_of_tables(draw: st.DrawFn) -> Case:
    op = {"kind": "table_ops", "table": draw(TABLES), "steps": draw(STEPS)}
    waits = None if op["table"]["versioned"] else draw(WAITS)  # 15.13
    return op | {"suppress": waits}, draw(records({"T": PLAIN}))


@st.composite
def groups_of_tables(draw: st.DrawFn) -> Case:
    steps = draw(st.sampled_from([[], ["filter"]]))
    op = {"kind": "table_agg", "table": draw(TABLES), "steps": steps, "suppress": draw(WAITS)}
    return op, draw(records({"T": GROUPED}))


@st.composite
def groups_of_joins(draw: st.DrawFn) -> Case:
    op = {"kind": "join_agg", "join": draw(st.sampled_from(["inner", "left"])), "suppress": draw(WAITS)}
    return op | {"left": draw(TABLES), "right": draw(TABLES)}, draw(records({"L": GROUPED, "R": PLAIN}))


@st.composite
def groups_of_streams(draw: st.DrawFn) -> Case:
    return {"kind": "stream_agg"}, draw(records({"S": PLAIN}, nulls=False))


@st.composite
def windows(draw: st.DrawFn, kind: str) -> Case:
    size, grace = draw(st.sampled_from([1, 3, 10, 12])), draw(st.sampled_from([0, 0, 2, 5, 10]))
    window = {"type": kind, "grace": grace, "gap" if kind == "session" else "size": size}
    window |= {"advance": draw(st.integers(1, size))} if kind == "hopping" else {}
    op = {"kind": "window_agg", "window": window, "emit": draw(st.sampled_from(["update", "final"]))}
    if op["emit"] == "update" and kind != "sliding":  # the order of those of one record is the library's own (13.4)
        op["then_time_limit"] = draw(st.none() | st.sampled_from([0, 5, 20]))
    rows, now = draw(records({"S": PLAIN}, nulls=False)), 0
    if kind == "sliding":
        for n, (*row, time) in enumerate(rows):
            now = max(now, time)
            rows[n] = (*row, max(time, now - grace))
    return op, rows


CASES = {
    "stream-table joins": stream_table_joins(),
    "joins by primary key": joins_by_primary_key(),
    "joins by foreign key": joins_by_foreign_key(),
    "reads of tables": reads_of_tables(),
    "groups of tables": groups_of_tables(),
    "groups of joins": groups_of_joins(),
    "groups of streams": groups_of_streams(),
    **{f"{kind} windows": windows(kind) for kind in ("tumbling", "hopping", "sliding", "session")},
}

# the same in our SQL


def stepped(steps: list[str]) -> str:
    """Filters and projections over `t`."""
    relation = "t"
    for step in steps:
        select = "SELECT k, concat('m:', v) AS v" if step == "map" else "SELECT *"
        where = "WHERE v NOT LIKE '%x'" if step == "filter" else ""
        relation = f"({select} FROM {relation} AS q {where})"
    return relation


def emit(op: dict[str, Any]) -> str:
    return "EMIT CHANGES" if op.get("suppress") is None else suppress_clause(op)


STREAM = f"CREATE STREAM s ({COLUMNS}, ts TIMESTAMP) TIMESTAMP BY ts;\n"


def of_stream_table_join(op: dict[str, Any]) -> str:
    as_of = "AS OF s.ts" if op["table"]["versioned"] else ""
    grace = f"GRACE PERIOD INTERVAL '{op['grace']}' MILLISECOND" if "grace" in op else ""
    join = f"{WORDS[op['join']]} {stepped(op['steps'])} {as_of} AS t ON s.k = t.k {grace}"
    return f"{STREAM}{definition('t', op['table'], COLUMNS)}SELECT s.k, s.v AS a, t.v AS b FROM STREAM s {join}"


def of_join(op: dict[str, Any]) -> str:
    tables = definition("l", op["left"], COLUMNS) + definition("r", op["right"], COLUMNS)
    return tables + by_primary_key(op["join"], emit(op))


def of_foreign_key_join(op: dict[str, Any]) -> str:
    query = f"SELECT l.k, l.v AS a, r.v AS b FROM l {WORDS[op['join']]} r ON l.f = r.k {emit(op)}"
    return definition("l", op["left"], f"{COLUMNS}, f STRING") + definition("r", op["right"], COLUMNS) + query


def of_read(op: dict[str, Any]) -> str:
    return definition("t", op["table"], COLUMNS) + f"SELECT k, v AS a FROM {stepped(op['steps'])} AS t {emit(op)}"


def of_groups(op: dict[str, Any]) -> str:
    groups = f"SELECT g AS k, array_sort(collect_list(v)) AS a FROM {stepped(op['steps'])} AS t GROUP BY g {emit(op)}"
    return definition("t", op["table"], f"{COLUMNS}, g STRING") + groups


def of_joined_groups(op: dict[str, Any]) -> str:
    joined = (
        f"SELECT l.k, l.g, concat(l.v, ',', coalesce(r.v, 'null'), ')') AS v FROM l {WORDS[op['join']]} r ON l.k = r.k"
    )
    groups = f"SELECT g AS k, array_sort(collect_list(v)) AS a FROM ({joined}) GROUP BY g {emit(op)}"
    return definition("l", op["left"], f"{COLUMNS}, g STRING") + definition("r", op["right"], COLUMNS) + groups


def of_stream(op: dict[str, Any]) -> str:
    return f"{STREAM}SELECT k, array_sort(collect_list(v)) AS a FROM STREAM s GROUP BY k EMIT CHANGES"


def unit_of(op: dict[str, Any]) -> tuple[str, int]:
    """Sliding windows begin one unit of time after a record, which is a microsecond here."""
    return ("MICROSECONDS", 1) if op.get("window", {}).get("type") == "sliding" else ("MILLISECONDS", 1000)


def of_windows(op: dict[str, Any]) -> str:
    window, (unit, _) = op["window"], unit_of(op)
    function = {"session": "session_window", "sliding": "sliding_window"}.get(window["type"], "window")
    lengths = [window.get("size") or window["gap"], *([window["advance"]] if "advance" in window else [])]
    call = f"{function}({', '.join(['ts', *(repr(f'{length} {unit}') for length in lengths)])})"
    emitted = "EMIT FINAL" if op["emit"] == "final" else "EMIT CHANGES"
    limit = op.get("then_time_limit")
    emitted = emitted if limit is None else f"EMIT EVERY INTERVAL '{limit}' {unit} PER KEY"
    return f"""{STREAM}
        SELECT k, {function}.start AS ws, {function}.end AS we, array_sort(collect_list(v)) AS a FROM STREAM s
        GROUP BY k, {call} GRACE PERIOD INTERVAL '{window["grace"]}' {unit} {emitted}"""


SCRIPTS = {
    "stream_table_join": of_stream_table_join,
    "table_table_join": of_join,
    "fk_join": of_foreign_key_join,
    "table_ops": of_read,
    "table_agg": of_groups,
    "join_agg": of_joined_groups,
    "stream_agg": of_stream,
    "window_agg": of_windows,
}


def pushed(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records as rows: values "group:value" and "foreign key|value" are two columns."""
    op, rows = case
    for topic, key, value, time in rows:
        row: dict[str, Any] = {"k": key, "v": value, "ts": time * unit_of(op)[1]}
        if op["kind"] == "fk_join" and topic == "L":
            row["f"] = (value or "").partition("|")[0] or None
        if op["kind"] in ("table_agg", "join_agg") and topic in "TL":
            row["g"], _, row["v"] = (None, None, None) if value is None else value.partition(":")
        yield NAMES[topic], row


def shown(op: dict[str, Any], change: Change) -> Row:
    """A change as the library prints it."""
    row, unit_us = change.row, unit_of(op)[1]

    def number(time: dt.datetime | None) -> int:
        return micros(time) // unit_us

    key, value = row["k"], row["a"]
    if "ws" in row:
        key = f"{key}@{number(row['ws'])},{number(row['we']) - op['window'].get('gap', 0)}"
    if "b" in row:
        value = f"({value or 'null'},{row['b'] or 'null'})"
    elif isinstance(value, list):
        value = " ".join(value)
    return key, None if change.op == "delete" else value, number(change.time)


def answered(case: Case, restarts: list[bool]) -> list[list[Row]]:
    """What replay sends out for each record; where one does not fit into a buffer, those before it."""
    op, found = case[0], []
    driver = ReplayDriver(SCRIPTS[op["kind"]](op))
    for record, restart in zip(pushed(case), restarts, strict=True):
        try:
            found.append([shown(op, change) for change in driver.push([record])])
        except TemporalSqlError:  # a full buffer: nothing else is refused
            break
        if restart:
            driver.restart()
    return found


def comparable(op: dict[str, Any], rows: list[Row]) -> list[Row]:
    """The library's rows as semantics.md has them: a group without rows is deleted (B11); finals by end, start, key
    (B13); the updates of sliding windows in any order, and one that is sent twice once (13.4)."""
    if op["kind"] in ("table_agg", "join_agg"):
        return [(key, value or None, time) for key, value, time in rows]
    if op["kind"] != "window_agg" or (op["emit"] == "update" and op["window"]["type"] != "sliding"):
        return rows

    def bounds(row: Row) -> tuple[int, int, str]:
        key, _, span = str(row[0]).partition("@")
        start, end = map(int, span.split(","))
        return end, start, key

    return sorted(set(rows) if op["emit"] == "update" else rows, key=bounds)


@pytest.fixture(scope="module")
def kafka_streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaStreams]:
    library = KafkaStreams(tmp_path_factory.mktemp("kafka_streams"))
    yield library
    library.stop()


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@examples(50)
def test_replay_answers_as_kafka_streams(kafka_streams: KafkaStreams, name: str, data: st.DataObject) -> None:
    case = data.draw(CASES[name], "case")
    op, rows = case
    restarts = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)), "restarts")
    expected = kafka_streams.answer(op, rows)
    found = answered(case, restarts)
    assert [comparable(op, rows) for rows in found] == [comparable(op, rows) for rows in expected.output]
    assert expected.failure is None or "exceeded its max capacity" in expected.failure
    assert (expected.failure is not None) == (len(found) < len(rows))
