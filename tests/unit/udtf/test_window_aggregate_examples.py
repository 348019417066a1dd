"""The worked examples, runs of Kafka Streams itself, through the logics: each record has its answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from udtf.aggregates import Aggregate
from udtf.errors import OperatorError
from udtf.operators.suppress.logic import SuppressConfig, SuppressLogic
from udtf.operators.table_changes.logic import TableChangesConfig, TableChangesLogic
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.record import Row, Update

DATA = Path(__file__).parents[2] / "data" / "worked_examples.json"
CASES = {case["id"]: case for case in json.loads(DATA.read_text(encoding="utf-8"))["cases"]}
WINDOWED = [name for name, case in CASES.items() if case["op"]["kind"] == "window_agg"]
SUPPRESSED = [name for name, case in CASES.items() if case["op"]["kind"] == "suppress"]
US_PER_MS = 1000
#: Null keys are a group (B10), a null value on a stream counts (A), windows may start before 1970 (B1).
OTHERWISE = {
    "tumbling-null-value-update": {
        2: [[None, "1", 140, 140, 150]],
        3: [],  # stream time is 140
        4: [],
    },
    "tumbling-null-value-close": {2: [["a", "2", 101, 100, 110]], 4: []},
    "sliding-null-value-update": {
        1: [["a", "1", 140, 130, 140]],
        2: [],
    },
    "sliding-null-value-close": {
        1: [["a", "1", 100, 90, 100]],
        3: [["a", "1", 140, 130, 140]],
    },
    "sliding-early-update": {
        0: [["a", "1", 3, -7, 3]],
        1: [["a", "1", 1, -9, 1], ["a", "2", 3, -7, 3], ["a", "1", 3, 2, 12]],
        2: [["a", "3", 7, -3, 7], ["a", "2", 7, 2, 12], ["a", "1", 7, 4, 14]],
        3: [["a", "4", 7, -3, 7], ["a", "3", 7, 2, 12], ["a", "2", 7, 4, 14]],
        # Stream time 12, grace 5: [-7,3] and [-9,1] are closed, [-10,0] never opens.
        5: [["a", "5", 7, -3, 7], ["a", "4", 7, 1, 11]],
    },
    "hopping-early-update": {
        0: [["a", "1", 1, -8, 2], ["a", "1", 1, -4, 6], ["a", "1", 1, 0, 10]],
        1: [["a", "2", 5, -4, 6], ["a", "2", 5, 0, 10], ["a", "1", 5, 4, 14]],
    },
    "hopping-early-close": {1: [["a", "1", 1, -8, 2]], 2: [["a", "2", 5, -4, 6]]},
    "sliding-early-close": {
        2: [["a", "1", 1, -9, 1]],
        4: [["a", "2", 3, -7, 3]],
        7: [
            ["a", "5", 7, -3, 7],
            ["a", "5", 11, 1, 11],
            ["a", "5", 12, 2, 12],
            ["a", "4", 12, 4, 14],
            ["a", "2", 12, 8, 18],
            ["a", "1", 12, 12, 22],
        ],
    },
    # The definition of 13.5: [95,105] was open when 95 came, and holds it.
    "sliding-late-copy-update": {3: [["a", "2", 100, 95, 105]]},
    "sliding-late-copy-close": {
        4: [["a", "2", 100, 95, 105], ["a", "1", 100, 96, 106], ["b", "1", 108, 98, 108]],
    },
    # There is no clock of the wall between a window's end and its final result.
    "emit-interval-default": {
        3: [["a", "1", 100, 100, 110]],
        4: [["a", "2", 115, 110, 120], ["b", "1", 112, 110, 120]],
        5: [["a", "1", 200, 200, 210]],
    },
}
#: Bytes are those of key and value, and 8 for the time (B5), as the KIP has it and not as the library counts.
OF_BYTES = {
    "kip328-byte-limit": {1: [], 2: [("A", "y" * 2000, 1)]},
    # A's wait began at 0, as B's does: the tie goes by the key (15.1, 15.3).
    "kip328-byte-limit-late": {1: [], 2: [("A", "y" * 2000, 1)]},
}


def scale_of(op):
    """A right window starts one unit of time after a row: sliding cases have a millisecond for one microsecond."""
    return 1 if op["window"]["type"] == "sliding" else US_PER_MS


def final_case(name):
    """Finals go out as the library has them on close, where it differs from suppress (B3)."""
    sibling = name.replace("-suppress", "-close")
    return sibling if name.startswith(("sliding", "session")) and sibling in CASES else name


def expected_of(name):
    case = CASES[final_case(name)]
    differs = {int(n): rows for n, rows in (case.get("ideal_differs") or {}).items()}
    differs |= OTHERWISE.get(name.replace("-suppress", "-close"), {})
    if "default-retention" in name and name.startswith("session"):  # as with a long retention (14.9)
        case, differs = CASES[final_case(name).replace("-default-retention", "")], {}
    kept = [differs.get(n, rows) for n, rows in enumerate(case["output"])]
    return [[tuple(row) for row in (sorted(rows, key=lambda r: r[3]) if "-update" in name else rows)] for rows in kept]


def config_of(op):
    window, scale = op["window"], scale_of(op)
    kind = window["type"] if window["type"] in ("session", "sliding") else "time"
    size = window["gap" if kind == "session" else "size"] * scale
    slide = window.get("advance", window.get("size", 0)) * scale if kind == "time" else 0
    emit = "changes" if op["emit"] == "update" or op.get("filter_max") else "final"
    return WindowAggregateConfig(Window(kind, size, slide), window["grace"] * scale, emit, 1, (Aggregate("count"),))


def shown(key, count, time, config, scale):
    """As the library prints a row: milliseconds, and a session without its gap."""
    name, start, end = key
    end -= config.window.size_us if config.window.kind == "session" else 0
    return name, None if count is None else str(count), time // scale, start // scale, end // scale


def sent(emission, config, scale):
    changes = [shown(c.values[:3], c.values[3], c.time, config, scale) for c in emission.rows]
    return changes + [shown(u.key, u.new[3] if u.new else None, u.time, config, scale) for u in emission.updates]


def push(name, restarts):
    op, got = CASES[name]["op"], []
    config, scale = config_of(op), scale_of(op)
    logic = WindowAggregateLogic(config)
    limit = op.get("then_time_limit")
    suppress = SuppressLogic(SuppressConfig((limit or 0) * scale, by_window="time", values=(3,)))
    for _, key, _, ms in CASES[name]["input"]:
        emission = logic.on_batch([Row("L", (key,), ms * scale, event_time=ms * scale)])
        got.append(sent(emission if limit is None else suppress.on_batch(emission.updates), config, scale))
        if restarts:
            states, logic, suppress = (
                (logic.snapshot(), suppress.snapshot()),
                WindowAggregateLogic(config),
                SuppressLogic(suppress.config),
            )
            logic.restore(states[0])
            suppress.restore(states[1])
    return got


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", [name for name in WINDOWED if "filter_max" not in CASES[name]["op"]])
def test_each_record_of_a_windowed_aggregation_has_its_answer(name, restarts):
    assert push(name, restarts) == expected_of(name)


@pytest.mark.parametrize("name", [name for name in WINDOWED if "filter_max" in CASES[name]["op"]])
def test_a_filter_over_final_results_shows_no_tombstone(name):
    """The filter is applied to finals: what fails it is never shown (15.12)."""
    case = CASES[name]
    config = config_of({**case["op"], "filter_max": None})
    logic, got = WindowAggregateLogic(config), []
    for _, key, _, ms in case["input"]:
        rows = sent(logic.on_batch([Row("L", (key,), ms * US_PER_MS)]), config, US_PER_MS)
        got.append([list(row) for row in rows if int(row[1]) <= case["op"]["filter_max"]])
    assert got == case["output"]


def suppressed(op):
    options, when_full = op["suppress"], {"shutdown": "fail"}
    return SuppressConfig(
        options["time"] * US_PER_MS,
        options.get("max_records"),
        options.get("max_bytes"),
        when_full.get(options.get("when_full"), options.get("when_full", "emit")),
        values=(1,),
    )


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", SUPPRESSED)
def test_each_update_of_a_suppressed_table_has_its_answer(name, restarts):
    case, got = CASES[name], []
    table, logic = TableChangesLogic(TableChangesConfig()), SuppressLogic(suppressed(case["op"]))
    failing = case["error"]["at"] if "error" in case else None
    for number, (_, key, value, ms) in enumerate(case["input"]):
        time = ms * US_PER_MS
        row = Row("R", (key,), time, (key, value), event_time=time, is_tombstone=value is None)
        updates = table.on_batch([row]).updates
        if number == failing:
            with pytest.raises(OperatorError, match=r"\[OPERATOR.BUFFER_FULL\] suppress holds 3/2 rows"):
                logic.on_batch(updates)
            break
        got.append([answer(update) for update in logic.on_batch(updates).updates])
        if restarts:
            state, logic = logic.snapshot(), SuppressLogic(logic.config)
            logic.restore(state)
    differs = OF_BYTES.get(name, {})
    assert got == [differs.get(n, [tuple(row) for row in rows]) for n, rows in enumerate(case["output"])]


def answer(update: Update):
    return update.key[0], update.new[1] if update.new else None, update.time // US_PER_MS
