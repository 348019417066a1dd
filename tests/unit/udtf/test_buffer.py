from __future__ import annotations

from decimal import Decimal

from udtf.record import left_row
from udtf.state.buffer import TimeOrderedBuffer, stored_bytes


def filled():
    buffer = TimeOrderedBuffer()
    for number, (key, time) in enumerate([("b", 105), ("a", 105), ("b", 105), ("é", 105), ("z", 105), ("a", 103)]):
        buffer.put(left_row((key,), time, (number,)))
    return buffer


def test_rows_leave_by_time_then_key_bytes_then_arrival():
    assert [row.payload[0] for row in filled().evict_until(105)] == [5, 1, 0, 2, 4, 3]


def test_the_bound_is_inclusive():
    buffer = filled()
    assert buffer.evict_until(102) == []
    assert len(buffer.evict_until(103)) == 1
    assert buffer.rows == 5


def test_null_keys_and_composite_keys_are_ordered():
    buffer = TimeOrderedBuffer()
    for key in [("a", 2), ("a", None), (None, 9), ("a", 1)]:
        buffer.put(left_row(key, 0))
    assert [row.key for row in buffer.evict_until(0)] == [(None, 9), ("a", None), ("a", 1), ("a", 2)]


def test_bytes_are_those_of_the_rows_inside():
    buffer = filled()
    assert buffer.stored_bytes == 5 * (8 + 1 + 8) + (8 + 2 + 8)
    buffer.evict_until(200)
    assert (buffer.rows, buffer.stored_bytes) == (0, 0)
    assert stored_bytes(left_row((True, None), 0, (Decimal(1), [1.5, "x"], {"a": b"12"}))) == 8 + 1 + 16 + 9 + 3


def test_restoring_keeps_the_order():
    buffer, restored = filled(), TimeOrderedBuffer()
    restored.restore_state(buffer.state())
    assert restored.stored_bytes == buffer.stored_bytes
    late = left_row(("b",), 105, (9,))
    for each in (buffer, restored):
        each.put(late)
    assert restored.evict_until(105) == buffer.evict_until(105)
