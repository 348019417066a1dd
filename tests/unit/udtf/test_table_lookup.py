from __future__ import annotations

import pytest

from udtf.errors import OperatorError
from udtf.operators.table_lookup.logic import TableLookupConfig, TableLookupLogic
from udtf.record import left_row, right_row

LEFT = TableLookupConfig(join="left", left_columns=("v",), right_columns=("tv",))
INNER = TableLookupConfig(left_columns=("v",), right_columns=("tv",))


def answers(config, *rows):
    logic, found = TableLookupLogic(config), []
    for row in rows:
        found += [change.values for change in logic.on_batch([row]).rows]
        state, logic = logic.snapshot(), TableLookupLogic(config)
        logic.restore(state)
    return found, logic


def test_the_row_there_now_is_found_whatever_its_time():
    rows = [
        left_row(("k",), 5, (0,)),
        right_row(("k",), 20, ("new",)),
        right_row(("k",), 10, ("older, but later",)),
        left_row(("k",), 5, (1,)),
        right_row(("k",), 3, None),
        left_row(("k",), 50, (2,)),
    ]
    assert answers(LEFT, *rows)[0] == [(0, None), (1, "older, but later"), (2, None)]
    assert answers(INNER, *rows)[0] == [(1, "older, but later")]


def test_a_filter_is_tested_on_the_current_row():
    rows = [right_row(("k",), 1, ("a",)), right_row(("k",), 1, ("b",), passes=False), left_row(("k",), 1, (1,))]
    assert answers(LEFT, *rows)[0] == [(1, None)]


def test_null_keys():
    rows = [right_row((None,), 1, ("a",)), left_row((None,), 1, (1,))]
    found, logic = answers(LEFT, *rows)
    assert (found, logic.metrics["null_key"]) == ([(1, None)], 1)
    found, logic = answers(INNER, *rows)
    assert (found, logic.metrics["null_key"]) == ([], 2)


def test_refused_rows_say_why():
    config = TableLookupConfig(left_max_future_us=10, right_max_future_us=10, name="lookup")
    rows = [right_row(("k",), None, ()), right_row(("k",), 1, ()), right_row(("k",), 12, ()), left_row(("k",), None)]
    late = TableLookupLogic(config).on_batch(rows).late
    assert [(row.reason, row.operator, row.stream_time, row.lateness) for row in late] == [
        ("null_time", "lookup", None, None),
        ("future", "lookup", 1, -11),
        ("null_time", "lookup", None, None),
    ]


def test_an_invalid_join_is_named():
    with pytest.raises(OperatorError, match="'inner' or 'left'"):
        TableLookupConfig(join="full")
