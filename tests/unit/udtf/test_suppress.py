"""Suppression: what waits, in which order it leaves, limits, and what cannot be configured."""

from __future__ import annotations

import pytest

from udtf.errors import OperatorError
from udtf.operators.suppress.logic import SuppressConfig, SuppressLogic
from udtf.record import Update


def update(key, time, old, new):
    key = key if isinstance(key, tuple) else (key,)
    return Update(key, time, None if old is None else (*key, old), None if new is None else (*key, new))


def test_what_leaves_goes_from_the_row_before_the_first_to_the_last():
    logic = SuppressLogic(SuppressConfig(5))
    held = [update("a", 10, 0, 1), update("a", 12, 1, 2), update("a", 11, 2, 3)]
    assert logic.on_batch(held).updates == []
    assert logic.on_batch([update("b", 15, None, 1)]).updates == [update("a", 11, 0, 3)]
    assert logic.on_batch([update("a", 16, 3, None), update("z", 30, None, 1)]).updates == [
        update("b", 15, None, 1),
        update("a", 16, 3, None),
    ]


def test_order_is_time_then_key_then_window():
    windows = [("b", 1, 9), ("a", 5, 6), ("a", 1, 9), (None, 7, 8)]
    updates = [update(key, 10, None, 1) for key in windows]
    by_start, by_end = (SuppressLogic(SuppressConfig(5, by_window=kind)) for kind in ("time", "session"))
    left = [u.key for u in by_start.on_batch([*updates, update(("z", 0, 1), 15, None, 1)]).updates]
    assert left == [(None, 7, 8), ("a", 1, 9), ("a", 5, 6), ("b", 1, 9)]
    left = [u.key for u in by_end.on_batch([*updates, update(("z", 0, 1), 15, None, 1)]).updates]
    assert left == [(None, 7, 8), ("a", 5, 6), ("a", 1, 9), ("b", 1, 9)]


def test_a_full_buffer_gives_the_oldest_out_early():
    logic = SuppressLogic(SuppressConfig(100, max_rows=1))
    emission = logic.on_batch([update("a", 3, None, 1), update("b", 2, None, 1)])
    assert emission.updates == [update("b", 2, None, 1)]
    names = ("evicted_early", "emitted", "buffered_rows", "suppression_buffer_count_max", "records")
    assert [emission.metrics[name] for name in names] == [1, 1, 1, 2, 2]


def test_no_rows_allowed_lets_everything_through():
    logic = SuppressLogic(SuppressConfig(100, max_rows=0))
    assert len(logic.on_batch([update("a", 3, None, 1), update("a", 2, 1, 2)]).updates) == 2


def test_bytes_are_those_of_key_and_values_and_eight():
    logic = SuppressLogic(SuppressConfig(100, values=(1,)))
    logic.on_batch([update("a", 1, None, "xyz"), update("b", 1, "gone", None)])
    assert logic.metrics["buffered_bytes"] == (8 + 1 + 3) + (8 + 1)
    logic.on_batch([update("a", 1, "xyz", "x")])
    assert logic.metrics["buffered_bytes"] == (8 + 1 + 1) + (8 + 1)
    assert logic.metrics["suppression_buffer_size_max"] == 21
    names = ("puts", "count_total", "size_total")
    assert [logic.metrics[f"suppression_buffer_{name}"] for name in names] == [3, 1 + 2 + 2, 12 + 21 + 19]


@pytest.mark.parametrize(
    ("limit", "raised", "text"),
    [
        ({"max_rows": 2}, {"max_rows": 3}, "holds 3/2 rows"),
        ({"max_bytes": 40}, {"max_bytes": 60}, "holds 51/40 bytes"),
    ],
)
def test_a_full_buffer_fails_as_it_was_before_the_update(limit, raised, text):
    config = SuppressConfig(5, when_full="fail", values=(1,), name="every", **limit)
    logic = SuppressLogic(config)
    updates = [update("a", 1, None, 1), update("b", 6, None, 1), update("c", 6, None, 1), update("d", 6, None, 1)]
    with pytest.raises(OperatorError, match=rf"\[OPERATOR.BUFFER_FULL\] every {text}.*checkpoint") as error:
        logic.on_batch(updates)
    assert error.value.emission.updates == updates[:1]
    assert error.value.emission.metrics["records"] == 3
    again = SuppressLogic(SuppressConfig(5, when_full="fail", values=(1,), name="every", **raised))
    again.restore(logic.snapshot())
    assert again.on_batch([*updates[3:], update("z", 11, None, 1)]).updates == updates[1:]


def test_time_makes_room_before_a_limit_is_looked_at():
    logic = SuppressLogic(SuppressConfig(5, max_rows=1, when_full="fail"))
    assert len(logic.on_batch([update("a", 1, None, 1), update("b", 6, None, 1)]).updates) == 1


def test_what_spills_stays_and_is_counted():
    logic = SuppressLogic(SuppressConfig(5, max_rows=1, when_full="spill"))
    emission = logic.on_batch([update(key, 1, None, 1) for key in "abc"])
    assert (emission.updates, emission.metrics["spilled_rows"]) == ([], 2)


def test_an_update_without_a_time_is_refused():
    logic = SuppressLogic(SuppressConfig(0))
    emission = logic.on_batch([update("a", None, None, 1)])
    assert (emission.updates, emission.metrics["null_time"]) == ([], 1)


def test_idle_gives_all_out_in_order_and_only_once():
    logic = SuppressLogic(SuppressConfig(5))
    logic.on_batch([update("b", 1, None, 1), update("a", 1, None, 1)])
    emission = logic.close_idle()
    assert [u.key for u in emission.updates] == [("a",), ("b",)]
    assert emission.metrics["idle_closed"] == 2
    assert logic.close_idle().updates == []


@pytest.mark.parametrize(
    "options",
    [{"wait_us": -1}, {"when_full": "stop"}, {"by_window": "sliding"}, {"max_rows": -1}, {"max_bytes": -1}],
)
def test_options_that_cannot_be(options):
    with pytest.raises(OperatorError, match=next(iter(options))):
        SuppressConfig(**{"wait_us": 1, **options})
