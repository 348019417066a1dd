"""The AS OF join record by record: worked examples of the library, and the rules that are ours (B, C)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from udtf.errors import OperatorError, StateError
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import AsOfJoinLogic
from udtf.operators.table_lookup.logic import TableLookupConfig, TableLookupLogic
from udtf.record import Row, left_row, right_row

EXAMPLES = json.loads(Path(__file__).parents[2].joinpath("data", "worked_examples.json").read_text())
CASES = [case for case in EXAMPLES["cases"] if case["op"]["kind"] == "stream_table_join" and not case.get("error")]
COLUMNS = {"left_columns": ("v",), "right_columns": ("tv",)}
LEFT = AsOfJoinConfig(join="left", with_reason=True, **COLUMNS)


def logic_of(op):
    columns = {"left_columns": ("k", "v"), "right_columns": ("tv",), "join": op["join"]}
    table = op["table"]
    if not table["versioned"]:
        return TableLookupLogic(TableLookupConfig(**columns))
    return AsOfJoinLogic(AsOfJoinConfig(retention_us=table["retention"], grace_us=op.get("grace"), **columns))


def row_of(topic, key, value, time):
    if topic == "S":
        return left_row((key,), time, (key, value))
    return right_row((key,), time, None if value is None else (value,))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_worked_examples(case):
    logic, differs = logic_of(case["op"]), case.get("ideal_differs") or {}
    for number, (step, rows) in enumerate(zip(case["input"], case["output"], strict=True)):
        if step[0] == "S" and step[2] is None:  # a stream's row always counts here (A)
            continue
        changes = logic.on_batch([row_of(*step)]).rows
        found = [[c.values[0], f"({c.values[1]},{c.values[2] or 'null'})", c.time] for c in changes]
        assert found == (differs.get(str(number)) or rows), step


def run(config, *rows):
    logic = AsOfJoinLogic(config)
    return logic.on_batch(rows), logic


def last_of(config, *rows):
    return run(config, *rows)[0].rows[-1].values


A = right_row(("k",), 10, ("a",))
B = right_row(("k",), 20, ("b",))


@pytest.mark.parametrize(
    ("config", "row", "answer"),
    [
        (LEFT, left_row(("k",), 15, (1,)), (1, "a", None)),
        (LEFT, left_row(("k",), None, (1,)), (1, None, "null_time")),
        (LEFT, left_row((None,), 15, (1,)), (1, None, "no_key")),
        (LEFT, left_row(("x",), 15, (1,)), (1, None, "no_key")),
        (LEFT, left_row(("k",), 9, (1,)), (1, None, "before_first")),
        (replace(LEFT, exclusive=True), left_row(("k",), 10, (1,)), (1, None, "before_first")),
        (replace(LEFT, exclusive=True), left_row(("k",), 20, (1,)), (1, "a", None)),
        (replace(LEFT, tolerance_us=4), left_row(("k",), 15, (1,)), (1, None, "beyond_tolerance")),
        (replace(LEFT, tolerance_us=5), left_row(("k",), 15, (1,)), (1, "a", None)),
        (replace(LEFT, retention_us=4), left_row(("k",), 15, (1,)), (1, None, "beyond_retention")),
        (replace(LEFT, retention_us=5), left_row(("k",), 15, (1,)), (1, "a", None)),
        (replace(LEFT, retention_us=0), left_row(("k",), 99, (1,)), (1, "b", None)),
    ],
)
def test_reasons(config, row, answer):
    assert last_of(config, A, B, row) == answer


@pytest.mark.parametrize(
    ("direction", "as_of", "answer"),
    [
        ("forward", 11, ("b", None)),
        ("forward", 10, ("a", None)),
        ("forward", 21, (None, "after_last")),
        ("forward", 5, (None, "beyond_tolerance")),
        ("nearest", 15, ("a", None)),  # a tie goes backward
        ("nearest", 16, ("b", None)),
        ("nearest", 26, (None, "beyond_tolerance")),
    ],
)
def test_directions_wait_for_tolerance_and_grace(direction, as_of, answer):
    config = replace(LEFT, direction=direction, tolerance_us=5 if direction == "nearest" else 9, grace_us=3)
    if answer[1] == "beyond_tolerance" and direction == "forward":
        config = replace(config, tolerance_us=4)
    logic = AsOfJoinLogic(config)
    wait_us = config.tolerance_us + 3
    rows = [left_row(("k",), as_of, (1,)), A, B, left_row(("z",), as_of + wait_us - 1, (2,))]
    assert logic.on_batch(rows).rows == []
    rows = logic.on_batch([left_row(("z",), as_of + wait_us, (3,))]).rows
    assert [row.values for row in rows] == [(1, *answer)]


@pytest.mark.parametrize(
    ("config", "answer"),
    [(LEFT, (1, None, "tombstone")), (replace(LEFT, tolerance_us=1), (1, None, "tombstone"))],
)
def test_a_tombstone_is_no_match_and_nothing_older_is(config, answer):
    assert last_of(config, A, right_row(("k",), 12, None), left_row(("k",), 15, (1,))) == answer


def test_a_filter_is_tested_on_the_picked_version_only():
    filtered = B._replace(passes=False)
    assert last_of(LEFT, A, filtered, left_row(("k",), 25, (1,))) == (1, None, "condition")


def test_ties_go_to_arrival_or_to_the_order_given():
    same = [right_row(("k",), 10, (value,), ties=(value,)) for value in (3, None, 5, 1)]
    row = left_row(("k",), 10, (0,))
    assert last_of(LEFT, *[version._replace(ties=()) for version in same], row) == (0, 1, None)
    assert last_of(replace(LEFT, ties=(("asc", "first"),)), *same, row) == (0, 5, None)
    assert last_of(replace(LEFT, ties=(("asc", "last"),)), *same, row) == (0, None, None)
    assert last_of(replace(LEFT, ties=(("desc", "first"),)), *same, row) == (0, 1, None)


def test_known_as_of_sees_what_was_known_then():
    config = replace(LEFT, has_known=True, retention_us=100)
    first, second = (right_row(("k",), 10, (name,), sequence=seq) for name, seq in (("old", 11), ("new", 50)))
    unknown = right_row(("k",), 12, ("never",), sequence=None)
    rows = [first, second, unknown]
    for known, answer in [(49, ("old", None)), (50, ("new", None)), (10, (None, "no_key")), (None, (None, "no_key"))]:
        assert last_of(config, *rows, left_row(("k",), 20, (1,), known=known)) == (1, *answer)


def test_refused_rows_say_why():
    config = AsOfJoinConfig(retention_us=10, right_max_future_us=100, left_max_future_us=50, name="j", **COLUMNS)
    rows = [
        right_row(("k",), 100, ("a",)),
        right_row(("k",), 89, ("late",)),
        right_row((None,), 100, ("b",)),
        right_row(("k",), None, ("c",)),
        right_row(("k",), 201, ("d",)),
        left_row(("k",), 100, (1,)),
        left_row((None,), 100, (2,)),
        left_row(("k",), None, (3,)),
        left_row(("k",), 151, (4,)),
    ]
    emission, logic = run(config, *rows)
    assert [(late.reason, late.operator, late.stream_time, late.lateness) for late in emission.late] == [
        ("expired", "j", 100, 11),
        ("null_key", "j", 100, 0),
        ("null_time", "j", 100, None),
        ("future", "j", 100, -101),
        ("null_key", "j", 100, 0),
        ("null_time", "j", 100, None),
        ("future", "j", 100, -51),
    ]
    assert [row.values for row in emission.rows] == [(1, "a")]
    counted = {"expired": 1, "null_key": 2, "null_time": 2, "future": 2, "matched": 1}
    assert {name: logic.metrics[name] for name in counted} == counted
    assert {name: emission.metrics[name] for name in counted} == counted


def test_a_late_row_is_joined_at_once_and_counted():
    config = replace(LEFT, grace_us=10)
    emission, logic = run(config, A, left_row(("k",), 100, (1,)), left_row(("k",), 89, (2,)))
    assert [row.values for row in emission.rows] == [(2, "a", None)]
    assert emission.late == []
    assert (logic.metrics["late"], logic.metrics["buffered_rows"], logic.metrics["buffered_bytes"]) == (1, 1, 17)


def test_a_result_has_the_time_of_the_stream_row():
    row = Row("L", ("k",), 15, (1,), event_time=99)
    assert run(LEFT, A, row)[0].rows[0].time == 99


def test_nan_keys_match_also_after_a_restart():
    logic = AsOfJoinLogic(LEFT)
    logic.on_batch([right_row((float("nan"), -0.0), 10, ("a",))])
    copy = AsOfJoinLogic(LEFT)
    copy.restore(logic.snapshot())
    assert copy.on_batch([left_row((float("nan"), 0.0), 10, (1,))]).rows[0].values == (1, "a", None)


def test_a_configuration_travels_as_json():
    config = replace(LEFT, ties=(("asc", "last"),), tolerance_us=5)
    assert AsOfJoinConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "options", [{"join": "full"}, {"direction": "up"}, {"tolerance_us": -1}, {"grace_us": -1}, {"retention_us": -1}]
)
def test_an_invalid_option_is_named(options):
    with pytest.raises(OperatorError, match=next(iter(options))):
        AsOfJoinConfig(**options)


def test_an_unknown_option_is_named():
    with pytest.raises(OperatorError, match="joyn"):
        AsOfJoinConfig.from_json('{"joyn": "left"}')


@pytest.mark.parametrize("config", [{"direction": "forward"}, {"direction": "nearest", "tolerance_us": 1}])
def test_looking_ahead_needs_tolerance_and_grace(config):
    with pytest.raises(OperatorError, match=r"\[OPERATOR.NEEDS_GRACE\]"):
        AsOfJoinLogic(AsOfJoinConfig(**config))


def test_a_snapshot_of_another_operator_is_an_error():
    with pytest.raises(StateError, match=r"\[STATE.SNAPSHOT_KIND\]"):
        AsOfJoinLogic(LEFT).restore(TableLookupLogic(TableLookupConfig()).snapshot())
