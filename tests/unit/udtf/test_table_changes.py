"""An UPSERT table as updates: the last by arrival wins, tombstones, what is refused, restarts."""

from __future__ import annotations

import math

from udtf.operators.table_changes.logic import TableChangesConfig, TableChangesLogic
from udtf.record import Row, Update


def row(key, value, time):
    return Row("R", (key,), time, (key, value), event_time=time, is_tombstone=value is None)


def test_the_last_by_arrival_wins_and_has_its_own_time():
    logic = TableChangesLogic(TableChangesConfig())
    emission = logic.on_batch([row("a", 1, 10), row("a", 2, 5), row("a", None, 7), row("a", None, 8), row("a", 3, 9)])
    assert emission.updates == [
        Update(("a",), 10, None, ("a", 1)),
        Update(("a",), 5, ("a", 1), ("a", 2)),
        Update(("a",), 7, ("a", 2), None),
        Update(("a",), 8, None, None),
        Update(("a",), 9, None, ("a", 3)),
    ]
    assert emission.metrics["records"] == emission.metrics["emitted"] == 5


def test_what_is_refused_says_why_and_moves_nothing():
    logic = TableChangesLogic(TableChangesConfig(max_future_us=10))
    emission = logic.on_batch([row(None, 1, 5), row("a", 1, None), row("a", 1, 5), row("a", 2, 16), row("a", 3, 15)])
    assert [(late.reason, late.stream_time, late.lateness) for late in emission.late] == [
        ("null_key", None, None),
        ("null_time", None, None),
        ("future", 5, -11),
    ]
    assert [update.new for update in emission.updates] == [("a", 1), ("a", 3)]
    assert [emission.metrics[name] for name in ("null_key", "null_time", "future")] == [1, 1, 1]


def test_a_restart_is_invisible_also_to_a_key_that_is_nan():
    first, second = TableChangesLogic(TableChangesConfig()), TableChangesLogic(TableChangesConfig())
    first.on_batch([row(math.nan, 1, 5)])
    second.restore(first.snapshot())
    assert second.on_batch([row(float("nan"), 2, 6)]).updates[0].old[1] == 1
    assert second.metrics["records"] == 2
