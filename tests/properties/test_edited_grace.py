"""Laws of windows whose grace period is another one from some row on: what has closed stays closed, all else obeys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.properties.test_window_aggregate_stream import (
    AGGREGATES,
    ONLY_BY_RECORD,
    SLIDING,
    WINDOWS,
    answers_of,
    cases,
    late_of,
    new_stream,
    plain,
    small_rooms,  # noqa: F401  # a fixture
    table_of,
)
from udtf.aggregates import Aggregate
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.operators.window_aggregate.row_by_row import RecordStream
from udtf.record import Row

GRACES = st.lists(st.integers(0, 12), min_size=5, max_size=5)
CLOSING = WINDOWS.filter(lambda window: window.kind != "none")


def edited(config, graces, cuts):
    """The configuration of each micro-batch."""
    return [replace(config, grace_us=grace) for grace in graces[: len(cuts) + 1]]


def by_record(configs, rows, cuts):
    """Record by record; each configuration goes on from the state of the one before."""
    logic, answers, late, number = WindowAggregateLogic(configs[0]), [], [], 0
    for config, start, end in zip(configs, [0, *cuts], [*cuts, len(rows)], strict=True):
        state, logic = logic.snapshot(), WindowAggregateLogic(config)
        logic.restore(state)
        for key, time, payload in rows[start:end]:
            emission = logic.on_batch([Row("L", key, time, (*payload, number), event_time=time)])
            answers += [(number, when, *map(plain, values)) for _, when, values in emission.rows]
            for update in emission.updates:
                old, new = (None if row is None else tuple(map(plain, row)) for row in (update.old, update.new))
                answers.append((number, update.time, tuple(map(plain, update.key)), old, new))
            late += [(row.row.payload[-1], row.reason, row.stream_time, row.lateness) for row in emission.late]
            number += 1
    return answers, late


def by_batch(make, configs, table, cuts, from_snapshot):
    """The same of a stream logic, from a snapshot or from all deltas."""
    answers, late, log = [], [], []
    for config, start, end in zip(configs, [0, *cuts], [*cuts, len(table)], strict=True):
        logic = make(config)
        for segment in log:
            logic.apply(segment)
        emission = logic.on_batch([table.slice(start, end - start)], np.zeros(end - start, np.int8))
        answers += answers_of(config, emission.rows)
        late += late_of(emission.late[0])
        log = [logic.snapshot()] if from_snapshot else log + [emission.delta] * (emission.delta is not None)
    return answers, late


#: A session that the shorter grace period has closed, and a row of it that comes first after the edit.
CLOSED_BY_EDIT = (
    WindowAggregateConfig(Window("session", 1), 0, "final", 1, ()),
    ([pa.bool_()], []),
    [((True,), 0, ()), ((True,), 2, ()), ((True,), 0, ())],
    [2],
)


@given(cases(windows=CLOSING), GRACES, st.booleans(), st.none() | st.integers(0, 4))
@example(case=CLOSED_BY_EDIT, graces=[1, 0, 0, 0, 0], from_snapshot=False, spill_beyond=None)
def test_compiled_windows_go_on_as_record_by_record(case, graces, from_snapshot, spill_beyond):
    config, types, rows, cuts = case
    spills = {"emit": "final", "when_full": "spill", "max_rows": spill_beyond} if spill_beyond is not None else {}
    configs = edited(replace(config, **spills), graces, cuts)
    table = table_of(config, types, rows, "exact")
    assert by_batch(new_stream, configs, table, cuts, from_snapshot) == by_record(configs, rows, cuts)


@given(cases(AGGREGATES | ONLY_BY_RECORD, CLOSING | SLIDING), GRACES)
def test_what_is_not_compiled_does_so_too(case, graces):
    config, types, rows, cuts = case
    configs, table = edited(config, graces, cuts), table_of(config, types, rows, "exact")
    found = by_batch(lambda config: RecordStream(config, 1), configs, table, cuts, True)
    assert found == by_record(configs, rows, cuts)


@st.composite
def counted(draw):
    """A length of windows; rows (key, time) and the grace period when each comes."""
    size = draw(st.integers(1, 6))
    pieces = draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), min_size=2, max_size=5))
    graces = [grace for grace, rows in pieces for _ in range(rows)]
    row = st.tuples(st.sampled_from("ab"), st.integers(-12, 4))
    drawn = draw(st.lists(row, min_size=len(graces), max_size=len(graces)))
    return size, [(key, time + 2 * n) for n, (key, time) in enumerate(drawn)], graces


def finals_of(size, rows, graces):
    """Of tumbling windows: what some moment's grace period has closed is closed for good."""
    is_open, finals, now, closed_until = {}, [], rows[0][1] if rows else 0, -(10**6)
    for (key, time), grace in zip(rows, graces, strict=True):
        start, now = time // size * size, max(now, time)
        closed_until = max(closed_until, now - grace)
        if start + size > closed_until:
            is_open[start, key] = is_open.get((start, key), 0) + 1
        closing = sorted((start, key) for start, key in is_open if start + size <= closed_until)
        finals += [(start, key, is_open.pop((start, key))) for start, key in closing]
    return finals


@given(counted())
def test_each_window_is_given_out_once(case):
    size, rows, graces = case
    config = WindowAggregateConfig(Window("time", size, size), 0, "final", 1, (Aggregate("count"),))
    changes = [n for n in range(1, len(rows)) if graces[n] != graces[n - 1]]
    configs = [replace(config, grace_us=graces[n]) for n in [0, *changes]] if rows else [config]
    whole = [((key,), time, ()) for key, time in rows]
    answers, _ = by_record(configs, whole, changes)
    found = [(start, key, count) for _, _, key, start, _, count in answers]
    assert found == finals_of(size, rows, graces)
    assert len({(start, key) for start, key, _ in found}) == len(found), "a window was given out twice"
