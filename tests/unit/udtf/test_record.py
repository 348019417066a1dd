from __future__ import annotations

import math
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from udtf.record import canonical_key, left_row, order_key, right_row, ties_key


def test_any_null_column_makes_a_null_key():
    assert left_row(("a", None), 1).has_null_key
    assert not left_row(("a", 0), 1).has_null_key


def test_a_row_without_payload_columns_is_no_tombstone():
    assert not right_row(("a",), 1, ()).is_tombstone
    assert right_row(("a",), 1, None).is_tombstone


def test_keys_are_equal_as_spark_says():
    assert canonical_key((float("nan"),)) == canonical_key((-float("nan"),))
    assert canonical_key((0.0,)) == canonical_key((-0.0,))
    assert hash(canonical_key(([1, {"a": [2]}], bytearray(b"x")))) == hash(canonical_key(([1, {"a": [2]}], b"x")))


def test_order_is_null_first_and_nan_last():
    values = [math.nan, None, math.inf, -math.inf, 0.0]
    assert repr(sorted(values, key=lambda value: order_key((value,)))) == "[None, -inf, 0.0, inf, nan]"
    assert sorted([[2], [1, None], [1]], key=lambda value: order_key((value,))) == [[1], [1, None], [2]]
    assert order_key(({"a": 1},)) < order_key(({"a": 2},))


@given(st.lists(st.text()))
def test_strings_order_by_their_utf8_bytes(texts):
    assert sorted(texts, key=lambda text: order_key((text,))) == sorted(texts, key=str.encode)


def test_ties_follow_direction_and_nulls():
    values = [Decimal(1), None, Decimal(3)]

    def order(direction, nulls):
        return sorted(values, key=lambda value: ties_key((value,), [(direction, nulls)]))

    assert order("asc", "first") == [None, 1, 3]
    assert order("asc", "last") == [1, 3, None]
    assert order("desc", "first") == [None, 3, 1]
    assert order("desc", "last") == [3, 1, None]
