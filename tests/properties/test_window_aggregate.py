"""Laws of windowed aggregation: the reference, cuts, restarts, finals exactly once, and the SQL answer."""

from __future__ import annotations

import itertools
from collections import Counter

import duckdb
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.oracle.window_aggregate import duckdb_sql, reference
from udtf.aggregates import Aggregate
from udtf.errors import OperatorError
from udtf.operators.suppress.logic import SuppressConfig, SuppressLogic
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.record import Row

KEYS = st.sampled_from(["a", "a", "a", "b", None])  # mostly one, so that windows meet
TIMES = st.integers(-8, 25)
VALUES = st.none() | st.integers(-5, 5)
RECORDS = st.lists(st.tuples(KEYS, TIMES, VALUES), max_size=25)
# Rows that come nearly in order are late by a little, as a grace is for.
STEPS = st.lists(st.tuples(KEYS, st.integers(-12, 6), VALUES), max_size=25)
AGGREGATES = (Aggregate("count"), Aggregate("sum", 1), Aggregate("collect_list", 1, type="array<bigint>"))
KINDS = ["time", "cumulate", "session", "sliding", "none"]


@st.composite
def histories(draw):
    """Records anywhere, or nearly in order."""
    if draw(st.booleans()):
        return draw(RECORDS)
    now, records = 0, []
    for key, step, value in draw(STEPS):
        records.append((key, now + step, value))
        now = max(now, now + step)
    return records


@st.composite
def windows(draw, kinds=tuple(KINDS)):
    kind = draw(st.sampled_from(kinds))
    size = 0 if kind == "none" else draw(st.integers(1, 8))
    slides = kind in ("time", "cumulate")
    return Window(kind, size, draw(st.integers(1, size)) if slides else 0, draw(st.integers(-3, 14)) if slides else 0)


def config_of(window, emit, grace, **more):
    return WindowAggregateConfig(window, grace, emit, 1, AGGREGATES, **more)


def rows_of(records):
    return [Row("L", (key,), time, (value, value, n), event_time=time) for n, (key, time, value) in enumerate(records)]


def run(logic, rows, cuts=(), restarts=False):
    """All that goes out, and the metrics but those that are zero."""
    rows_out, updates, late = [], [], []
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        emission = logic.on_batch(rows[start:end])
        rows_out, updates, late = rows_out + emission.rows, updates + emission.updates, late + emission.late
        if restarts:
            state, logic = logic.snapshot(), WindowAggregateLogic(logic.config)
            logic.restore(state)
    return rows_out, updates, late, {name: value for name, value in logic.metrics.items() if value}


def cut_places(data, rows):
    return sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))


@pytest.mark.parametrize(("kind", "emit"), [("none", "changes"), *itertools.product(KINDS[:4], ["changes", "final"])])
@given(st.data(), histories(), st.integers(0, 6))
def test_record_by_record_is_the_reference(kind, emit, data, records, grace):
    window = data.draw(windows((kind,)))
    logic, got = WindowAggregateLogic(config_of(window, emit, grace)), []
    for row in rows_of(records):
        emission = logic.on_batch([row])
        got.append([(c.time, c.values) for c in emission.rows] + [tuple(update[:4]) for update in emission.updates])
    parts = (window.kind, window.size_us, window.slide_us, window.offset_us)
    assert got == reference(records, *parts, grace, emit)


@given(st.data(), histories(), windows(), st.sampled_from(["changes", "final"]), st.integers(0, 6))
def test_cuts_and_restarts_change_nothing(data, records, window, emit, grace):
    assume((window.kind, emit) != ("none", "final"))
    config = config_of(window, emit, grace, max_future_us=data.draw(st.none() | st.integers(0, 30)))
    rows = [row._replace(time=data.draw(st.sampled_from([row.time] * 5 + [None]))) for row in rows_of(records)]
    assert run(WindowAggregateLogic(config), rows, cut_places(data, rows), True) == run(
        WindowAggregateLogic(config), rows
    )


@given(histories(), windows(tuple(KINDS[:4])), st.integers(0, 6))
def test_finals_go_out_exactly_once(records, window, grace):
    logic = WindowAggregateLogic(config_of(window, "final", grace))
    emitted = run(logic, rows_of(records))[0] + logic.close_idle().rows + logic.close_idle().rows
    assert max(Counter(change.values[:3] for change in emitted).values(), default=1) == 1
    # What comes after an idle close finds stream time so far on that nothing goes out again.
    again = run(logic, rows_of(records))[0] + logic.close_idle().rows
    assert not {change.values[:3] for change in again} & {change.values[:3] for change in emitted}
    assert logic.metrics["buffered_rows"] == logic.metrics["buffered_bytes"] == 0


@given(histories(), windows(tuple(KINDS[:4])), st.integers(0, 6))
def test_the_last_update_of_each_window_is_its_final(records, window, grace):
    """Windows count the same, whichever way they are shown; a row that is later than the grace may join a session that
    went out, and then the longer one does, too."""
    final, changes = (WindowAggregateLogic(config_of(window, emit, grace)) for emit in ("final", "changes"))
    shown, merged = {}, {}
    for update in run(changes, rows_of(records))[1]:
        assert shown.get(update.key) == update.old or update.old is None
        shown.pop(update.key, None)
        shown |= {} if update.new is None else {update.key: update.new}
        merged |= {update.key: update.old} if update.new is None else {}
    emitted = run(final, rows_of(records))[0] + final.close_idle().rows
    finals = {change.values[:3]: change.values for change in emitted}
    assert {key: values for key, values in finals.items() if key in shown} == shown
    assert all(merged[key] == values for key, values in finals.items() if key not in shown)


@given(histories(), windows(("time", "session")))
def test_a_complete_close_is_duckdb(records, window):
    logic = WindowAggregateLogic(config_of(window, "final", 200))
    emitted = run(logic, rows_of(records))[0] + logic.close_idle().rows
    keys, times, values = zip(*records, strict=True) if records else ((), (), ())
    types = {"k": pa.array(keys, pa.string()), "t": pa.array(times, pa.int64()), "v": pa.array(values, pa.int64())}
    connection = duckdb.connect()
    connection.register("s", pa.table(types))
    sql = duckdb_sql(window.kind, window.size_us, window.slide_us, window.offset_us)
    assert Counter(change.values[:5] for change in emitted) == Counter(connection.execute(sql).fetchall())


@given(st.data(), histories(), windows(tuple(KINDS[:4])), st.integers(0, 6), st.sampled_from(["max_rows", "max_bytes"]))
def test_a_raised_limit_goes_on_as_if_there_had_been_none(data, records, window, grace, limit):
    """After every failure the limit is raised and the rows that were not taken come again."""
    rows = rows_of(records)
    free = WindowAggregateLogic(config_of(window, "final", grace))
    logic, rest, got = WindowAggregateLogic(config_of(window, "final", grace, **{limit: 1})), rows, []
    size = 1
    while rest:
        count = data.draw(st.integers(1, len(rest)))
        try:
            emission, taken = logic.on_batch(rest[:count]), count
        except OperatorError as error:
            emission, taken = error.emission, error.emission.metrics.get("records", 0)
            size *= 2
            state, logic = logic.snapshot(), WindowAggregateLogic(config_of(window, "final", grace, **{limit: size}))
            logic.restore(state)
        got, rest = got + emission.rows, rest[taken:]
    expected = run(free, rows)
    assert got == expected[0]
    assert {name: value for name, value in logic.metrics.items() if value} == expected[3]


@given(st.data(), histories(), st.integers(0, 20), st.sampled_from(["emit", "spill"]), st.none() | st.integers(0, 3))
def test_suppressed_updates_do_not_depend_on_cuts_and_restarts(data, records, wait, when_full, max_rows):
    updates = run(WindowAggregateLogic(config_of(Window("session", 5), "changes", 5)), rows_of(records))[1]
    config = SuppressConfig(wait, max_rows, when_full=when_full, by_window="session", values=(3, 4, 5))
    whole, pieces, got = SuppressLogic(config), SuppressLogic(config), []
    cuts = cut_places(data, updates)
    for start, end in zip([0, *cuts], [*cuts, len(updates)], strict=True):
        got += pieces.on_batch(updates[start:end]).updates
        state, pieces = pieces.snapshot(), SuppressLogic(config)
        pieces.restore(state)
    assert got + pieces.close_idle().updates == whole.on_batch(updates).updates + whole.close_idle().updates
    assert dict(pieces.metrics) == dict(whole.metrics)


@given(histories(), st.integers(0, 20), st.none() | st.integers(0, 3))
def test_suppressed_updates_sum_up_to_the_table(records, wait, max_rows):
    """Each goes on from the row that was shown last, and at the end all is shown."""
    updates = run(WindowAggregateLogic(config_of(Window("time", 5, 5), "changes", 5)), rows_of(records))[1]
    logic, shown = SuppressLogic(SuppressConfig(wait, max_rows, by_window="time")), {}
    for update in logic.on_batch(updates).updates + logic.close_idle().updates:
        assert update.old == shown.get(update.key)
        shown[update.key] = update.new
    assert shown == {update.key: update.new for update in updates}
