"""Rows of updates: which are the same, and what a result shows of them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from udtf.columns.updates import CHANGE_TYPES, ReadUpdates, equals, exact_changes, upserts
from udtf.spark.updates import changes

NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.int32(), 1, 2),
        (pa.string(), "a", "b"),
        (pa.binary(), b"a", b"b"),
        (pa.bool_(), True, False),
        (pa.float64(), NAN, 1.0),
        (pa.decimal128(10, 2), Decimal("1.00"), Decimal("1.01")),
        (pa.date32(), dt.date(2026, 1, 1), dt.date(2026, 1, 2)),
        (pa.timestamp("us", "UTC"), 1, 2),
        (pa.duration("us"), 1, 2),
        (pa.list_(pa.float64()), [NAN, -0.0], [NAN, 1.0]),
        (pa.struct([("a", pa.int32())]), {"a": 1}, {"a": None}),
        (pa.map_(pa.string(), pa.int32()), [("a", 1)], [("a", 2)]),
    ],
    ids=str,
)
def test_values_of_every_type_are_compared_as_spark_does(kind: pa.DataType, one: Any, other: Any) -> None:
    columns = pa.array([one, one, None, None], kind), pa.array([one, other, one, None], kind)
    assert equals(*columns).tolist() == [True, False, False, True]


def test_nothing_but_null_is_the_same_and_zero_has_no_sign() -> None:
    assert equals(pa.nulls(2), pa.nulls(2)).tolist() == [True, True]
    assert equals(pa.array([-0.0]), pa.array([0.0])).tolist() == [True]


def rows_of(*updates: tuple[Any, Any]) -> pa.Table:
    """Updates (value before, value now) of one key each; neither is nothing but a key."""
    rows: list[tuple[str, Any, int]] = []
    for number, (old, new) in enumerate(updates):
        sides = [(0, old), (1, new)] if (old, new) != (None, None) else [(2, "")]
        rows += [(f"k{number}", value or None, (number << 22) | kind) for kind, value in sides if value is not None]
    keys, values, numbers = zip(*rows, strict=True)
    return pa.table({"k": keys, "v": pa.array(values, pa.string()), "__o0": pa.array(numbers, pa.int64())})


UPDATES = rows_of((None, "a"), ("a", "b"), ("b", "b"), ("b", None), (None, None))


def test_an_upsert_says_one_thing_of_each_update() -> None:
    source, kind, is_kept = upserts(ReadUpdates(UPDATES))
    assert [CHANGE_TYPES[n] for n in kind] == ["insert", "update_after", "update_after", "delete", "delete"]
    assert UPDATES["v"].take(source).to_pylist() == ["a", "b", "b", "b", None]
    assert is_kept.tolist() == [True, True, True, False, False]


def test_a_changelog_says_what_really_changed() -> None:
    source, kind, _ = exact_changes(ReadUpdates(UPDATES), [UPDATES["k"], UPDATES["v"]])
    assert [CHANGE_TYPES[n] for n in kind] == ["insert", "update_before", "update_after", "delete"]
    assert UPDATES["v"].take(source).to_pylist() == ["a", "a", "b", "b"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("shape", ["upsert", "changelog"])
def test_an_update_may_be_cut_by_the_batches_that_spark_makes(shape: str, size: int) -> None:
    whole = pa.Table.from_batches(changes(shape, 2, (0,), UPDATES.to_batches()))
    cut = pa.Table.from_batches(changes(shape, 2, (0,), UPDATES.to_batches(max_chunksize=size)))
    assert cut.to_pylist() == whole.to_pylist()
    if shape == "upsert":
        assert whole.to_pylist()[-2:] == [
            {"k": "k3", "v": None, "_change_type": "delete"},
            {"k": "k4", "v": None, "_change_type": "delete"},
        ]
