"""Windowed aggregation: windows of a time, late rows and metrics, filters, limits, idle, what the engine computes."""

from __future__ import annotations

import math

import pytest

from udtf.aggregates import Aggregate
from udtf.errors import OperatorError
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.operators.window_aggregate.logic import WindowAggregateLogic, cumulate_bounds, time_bounds
from udtf.record import Change, LateRow, Row, Update

COUNT = (Aggregate("count"),)
TUMBLING = Window("time", 10, 10)


def row(key, time, *payload):
    return Row("L", (key,), time, payload, event_time=time)


def logic_of(window=TUMBLING, grace=0, emit="final", aggregates=COUNT, evaluate=None, **more):
    return WindowAggregateLogic(WindowAggregateConfig(window, grace, emit, 1, aggregates, **more), evaluate)


def values(emission):
    return [change.values for change in emission.rows]


def test_starts_are_multiples_of_the_slide_also_before_1970():
    assert time_bounds(Window("time", 10, 10), -1) == [(-10, 0)]
    assert time_bounds(Window("time", 10, 4, 1), 9) == [(1, 11), (5, 15), (9, 19)]
    assert cumulate_bounds(Window("cumulate", 10, 5), -6) == [(-10, -5), (-10, 0)]
    assert cumulate_bounds(Window("cumulate", 10, 4, 3), 12) == [(3, 13)]


def test_cumulating_windows_grow_from_one_start():
    logic = logic_of(Window("cumulate", 10, 5), emit="changes")
    assert [update.new for update in logic.on_batch([row("a", 1), row("a", 7)]).updates] == [
        ("a", 0, 5, 1),
        ("a", 0, 10, 1),
        ("a", 0, 10, 2),
    ]
    final = logic_of(Window("cumulate", 10, 5))
    assert values(final.on_batch([row("a", 1), row("a", 7), row("b", 20)])) == [("a", 0, 5, 1), ("a", 0, 10, 2)]


def test_updates_name_the_row_before_and_the_row_now():
    logic = logic_of(grace=5, emit="changes")
    assert logic.on_batch([row("a", 3), row("a", 1)]).updates == [
        Update(("a", 0, 10), 3, None, ("a", 0, 10, 1)),
        Update(("a", 0, 10), 3, ("a", 0, 10, 1), ("a", 0, 10, 2)),
    ]


def test_groups_without_windows_are_never_late():
    logic = logic_of(Window(), emit="changes")
    emission = logic.on_batch([row("a", 100), row("a", 1)])
    assert [update[:4] for update in emission.updates] == [
        (("a",), 100, None, ("a", 1)),
        (("a",), 100, ("a", 1), ("a", 2)),
    ]
    assert (emission.metrics["late"], emission.metrics["record_lateness_max"]) == (0, 99)
    assert logic.close_idle().rows == []


def test_a_session_that_bridges_two_takes_their_rows_in_the_order_of_their_starts():
    logic = logic_of(Window("session", 5), 20, "changes", (Aggregate("collect_list", 1),))
    updates = logic.on_batch([row("a", 10, "x"), row("a", 2, "y"), row("a", 6, "z"), row("a", 6, "w")]).updates[2:]
    assert updates == [
        Update(("a", 2, 7), 2, ("a", 2, 7, ["y"]), None),
        Update(("a", 10, 15), 10, ("a", 10, 15, ["x"]), None),
        Update(("a", 2, 15), 10, None, ("a", 2, 15, ["y", "x", "z"])),
        Update(("a", 2, 15), 10, ("a", 2, 15, ["y", "x", "z"]), None),
        Update(("a", 2, 15), 10, None, ("a", 2, 15, ["y", "x", "z", "w"])),
    ]


def test_a_session_of_one_point_in_time_is_updated_in_its_place():
    logic = logic_of(Window("session", 5), emit="changes")
    assert logic.on_batch([row("a", 1), row("a", 1)]).updates[1:] == [
        Update(("a", 1, 6), 1, ("a", 1, 6, 1), ("a", 1, 6, 2)),
    ]


def test_finals_leave_by_end_start_and_key():
    logic = logic_of(Window("time", 10, 5), 30)
    rows = [row("b", 5), row("a", 12), row(None, 7), row("a", 5), row("z", 100)]
    assert values(logic.on_batch(rows)) == [
        (None, 0, 10, 1),
        ("a", 0, 10, 1),
        ("b", 0, 10, 1),
        (None, 5, 15, 1),
        ("a", 5, 15, 2),
        ("b", 5, 15, 1),
        ("a", 10, 20, 1),
    ]


def test_late_rows_are_counted_as_a_row_and_per_window():
    logic = logic_of(Window("time", 10, 5), emit="changes")
    emission = logic.on_batch([row("a", 17), row("a", 3), row("a", 11)])
    assert emission.late == [LateRow(row("a", 3), "late", "window_aggregate", 17, 14)]
    assert [update.key[1:] for update in emission.updates] == [(10, 20), (15, 25), (10, 20)]
    names = ("records", "late", "late_record_drop", "expired_window_record_drop", "emitted", "record_lateness_total")
    assert [emission.metrics[name] for name in names] == [3, 1, 1, 3, 3, 14 + 6]


def test_rows_without_a_time_and_outliers_are_refused():
    logic = logic_of(max_future_us=10)
    emission = logic.on_batch([row("a", None), row("a", 5), row("a", 16), row("a", 15)])
    assert [(late.reason, late.stream_time, late.lateness) for late in emission.late] == [
        ("null_time", None, None),
        ("future", 5, -11),
    ]
    assert values(emission) == [("a", 0, 10, 1)]
    assert (emission.metrics["null_time"], emission.metrics["future"], emission.metrics["records"]) == (1, 1, 4)


def test_filters_lie_behind_their_arguments_and_what_follows_is_only_carried():
    aggregates = (Aggregate("sum", 1, has_filter=True), Aggregate("count", 2), Aggregate("count", has_filter=True))
    logic = logic_of(Window(), emit="changes", aggregates=aggregates)
    rows = [row("a", 1, 5, True, 1, None, None, "more"), row("a", 2, 7, None, 1, 2, True, "more")]
    assert logic.on_batch(rows).updates[-1].new == ("a", 5, 1, 1)


def test_keys_meet_their_equals_and_are_shown_as_they_came():
    logic = logic_of()
    logic.on_batch([row(math.nan, 1), row(-0.0, 1)])
    state, logic = logic.snapshot(), logic_of()
    logic.restore(state)
    emission = logic.on_batch([row(float("nan"), 2), row(0.0, 3), row(None, 10)])
    assert str(values(emission)) == "[(-0.0, 0, 10, 2), (nan, 0, 10, 2)]"


def test_the_engine_computes_what_only_it_knows():
    aggregates = (Aggregate("count"), Aggregate("rows", 1, type="double"))
    logic = logic_of(aggregates=aggregates, evaluate=lambda number, rows: (number, sorted(rows)[len(rows) // 2][0]))
    assert values(logic.on_batch([row("a", n, n) for n in (1, 3, 2)] + [row("a", 10, 0)])) == [("a", 0, 10, 3, (1, 2))]
    with pytest.raises(OperatorError, match="evaluate"):
        logic_of(aggregates=aggregates)


def test_a_sliding_window_made_later_holds_what_came_before_in_the_order_of_arrival():
    logic = logic_of(Window("sliding", 10), 100, "changes", (Aggregate("collect_list", 1),))
    updates = logic.on_batch([row("a", 20, "x"), row("a", 24, "y"), row("a", 15, "z")]).updates
    assert [update.new for update in updates[-4:]] == [
        ("a", 5, 15, ["z"]),
        ("a", 10, 20, ["x", "z"]),
        ("a", 14, 24, ["x", "y", "z"]),
        ("a", 16, 26, ["x", "y"]),
    ]


def test_a_sliding_window_is_open_at_exactly_its_end_and_grace():
    logic = logic_of(Window("sliding", 10), 5, "changes")
    emission = logic.on_batch([row("a", 100), row("b", 105), row("a", 90), row("b", 106), row("a", 90)])
    assert [update.new for update in emission.updates if update.key[0] == "a"] == [
        ("a", 90, 100, 1),
        ("a", 90, 100, 2),
        ("a", 91, 101, 1),
    ]
    assert [late.row.time for late in emission.late] == [90]
    assert emission.metrics["expired_window_record_drop"] == 2  # [80, 90], twice


def test_a_row_whose_windows_are_closed_may_still_open_the_one_after_it():
    logic = logic_of(Window("sliding", 5), 0, "changes")
    logic.on_batch([row("a", 0), row("b", 6)])
    assert [update.new for update in logic.on_batch([row("a", 3)]).updates] == [("a", 1, 6, 1)]


def test_state_of_sliding_windows_is_bounded_by_size_and_grace():
    logic, sizes = logic_of(Window("sliding", 10), 5, "changes"), []
    for time in range(0, 2000, 2):
        logic.on_batch([row(str(time % 7), time)])
        sizes.append(len(logic.snapshot()))
    assert max(sizes[500:]) <= 1.2 * max(sizes[:500])


@pytest.mark.parametrize(
    ("limit", "text"), [({"max_rows": 2}, "holds 3/2 rows"), ({"max_bytes": 80}, "holds 99/80 bytes")]
)
def test_a_full_buffer_fails_as_it_was_before_the_row(limit, text):
    logic = logic_of(name="hourly", **limit)
    rows = [row("a", 1), row("a", 12), row("b", 13), row("c", 14), row("d", 20)]
    with pytest.raises(OperatorError, match=rf"\[OPERATOR.BUFFER_FULL\] hourly {text}.*checkpoint") as error:
        logic.on_batch(rows)
    assert error.value.emission.rows == [Change("insert", 1, ("a", 0, 10, 1))]
    assert error.value.emission.metrics["records"] == logic.metrics["records"] == 3
    again = logic_of(name="hourly")
    again.restore(logic.snapshot())
    assert values(again.on_batch(rows[3:])) == [(key, 10, 20, 1) for key in "abc"]


def test_windows_that_close_make_room_before_a_limit_is_looked_at():
    logic = logic_of(max_rows=1)
    assert values(logic.on_batch([row("a", 1), row("a", 10)])) == [("a", 0, 10, 1)]
    assert logic.metrics["suppression_buffer_count_max"] == 2
    assert [logic.metrics[f"suppression_buffer_{name}"] for name in ("puts", "count_total")] == [2, 1 + 2]


def test_what_spills_stays_and_is_counted():
    logic = logic_of(max_rows=1, when_full="spill")
    emission = logic.on_batch([row(key, 1) for key in "abc"])
    assert [emission.metrics[name] for name in ("spilled_rows", "buffered_rows", "buffered_bytes")] == [2, 3, 99]


@pytest.mark.parametrize(
    ("window", "now"),
    [(TUMBLING, 10 + 5), (Window("sliding", 10), 11 + 5 + 1), (Window("session", 10), 1 + 10 + 5 + 1)],
)
def test_idle_moves_stream_time_just_far_enough(window, now):
    logic = logic_of(window, 5)
    logic.on_batch([row("a", 0), row("a", 1)])
    emission = logic.close_idle()
    assert emission.metrics["idle_closed"] == len(emission.rows) > 0
    assert emission.metrics["buffered_rows"] == 0
    assert logic.on_batch([row("a", -100)]).late[0].stream_time == now
    assert logic.close_idle().rows == []


def test_updates_have_nothing_to_close():
    logic = logic_of(emit="changes")
    logic.on_batch([row("a", 0)])
    assert logic.close_idle().rows == logic.close_idle().updates == []
    assert logic.on_batch([row("a", 1)]).updates[0].new == ("a", 0, 10, 2)
