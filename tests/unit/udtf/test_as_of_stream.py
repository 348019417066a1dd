"""The AS OF join of live streams: types, many rows at once, and what a host sees of its state."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from udtf.errors import OperatorError
from udtf.operators.as_of_join import stream as as_of_stream_versions
from udtf.operators.as_of_join import stream as as_of_stream_waiting
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import AsOfJoinLogic
from udtf.operators.as_of_join.stream import AsOfJoinStream
from udtf.record import Row

STAMP = pa.timestamp("us", "UTC")
DAY = datetime.date(2024, 1, 1)
VALUES = {
    pa.bool_(): [True, False],
    pa.int8(): [1, -2],
    pa.int16(): [1, -2],
    pa.int32(): [1, -2],
    pa.int64(): [2**63 - 1, -(2**63)],
    pa.float32(): [1.5, float("nan")],
    pa.float64(): [1.5, -0.0],
    pa.string(): ["a", ""],
    pa.large_string(): ["a", "bb"],
    pa.binary(): [b"\x00", b"a"],
    pa.decimal128(38, 2): [Decimal("1.25"), Decimal("-99999999999999999999.75")],
    pa.decimal128(9, 0): [Decimal(1), Decimal(2)],
    pa.date32(): [DAY, DAY.replace(year=1969)],
    pa.timestamp("us"): [datetime.datetime(2024, 1, 1), datetime.datetime(1969, 1, 1)],
    pa.struct({"a": pa.int64(), "b": pa.string()}): [{"a": 1, "b": None}, {"a": None, "b": "x"}],
}
LEFT = AsOfJoinConfig(join="left", with_reason=True, left_columns=("v",), right_columns=("tv",))


def left_table(keys, times, values=None, kind=STAMP):
    return table_of(
        {"__k0": keys, "__as_of": pa.array(times, kind), "v": numbered(times) if values is None else values}
    )


def right_table(keys, times, values=None, kind=STAMP, **more):
    columns = {"__k0": keys, "__time": pa.array(times, kind), "tv": numbered(times) if values is None else values}
    return table_of({**columns, **more})


def numbered(times):
    return pa.array(range(len(times)), pa.int64())


def table_of(columns):
    table = pa.table(columns)
    keys = [repr(key) for key in table["__k0"].to_pylist()]
    hashes = [hash({"-0.0": "0.0"}.get(key, key)) for key in keys]
    return table.append_column("__hash", pa.array(hashes, pa.int64()))


def answers(stream, right, left):
    """All of the table first, then the stream."""
    sides = np.array([1] * len(right) + [0] * len(left), np.int8)
    return stream.on_batch([left, right], sides)


def restored(stream):
    other = AsOfJoinStream(stream.config)
    other.apply(stream.snapshot())
    return other


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_keys_of_every_type(kind):
    values, config = VALUES[kind], LEFT
    keys = pa.array([*values, None], kind)
    stream = AsOfJoinStream(config)
    right = right_table(keys, [1, 1, 1])
    emission = answers(stream, right, left_table(keys, [2, 2, 2]))
    assert emission.rows.to_pydict() == {"v": [0, 1, 2], "tv": [0, 1, None], "__reason": [None, None, "no_key"]}
    assert answers(restored(stream), right.slice(0, 0), left_table(keys, [2, 2, 2])).rows == emission.rows


@pytest.mark.parametrize("kind", [*VALUES, pa.null(), pa.list_(pa.int64())], ids=str)
def test_payload_of_every_type(kind):
    values = [*VALUES.get(kind, [None]), None]
    payload, keys = pa.array(values, kind), pa.array(range(len(values)))
    stream = AsOfJoinStream(LEFT)
    right = right_table(keys, [1] * len(keys), payload)
    rows = answers(stream, right, left_table(pa.array([*keys.to_pylist(), 99]), [2] * (len(keys) + 1))).rows
    assert repr(rows["tv"].to_pylist()) == repr([*payload.to_pylist(), None])
    assert rows["tv"].type == kind
    later = answers(restored(stream), right.slice(0, 0), left_table(keys, [2] * len(keys))).rows
    assert repr(later["tv"].to_pylist()) == repr(payload.to_pylist())


def test_dates_are_midnights():
    right = right_table(["a", "a"], [0, 2], kind=pa.date32())
    rows = answers(AsOfJoinStream(LEFT), right, left_table(["a", "a"], [1, 2], kind=pa.date32())).rows
    assert rows["tv"].to_pylist() == [0, 1]


def test_a_row_without_an_event_time_has_no_place_in_time():
    left = left_table(["a"], [5]).append_column("__event_time", pa.array([None], STAMP))
    emission = answers(AsOfJoinStream(LEFT), right_table(["a"], [1]), left)
    assert emission.rows["__reason"].to_pylist() == ["null_time"]


def test_arrival_of_the_table_is_the_last_tie():
    right = right_table(["a", "a"], [1, 1], __arrival=pa.array([2, 1]))
    assert answers(AsOfJoinStream(LEFT), right, left_table(["a"], [5])).rows["tv"].to_pylist() == [0]


def test_late_rows_say_why():
    config = AsOfJoinConfig(left_columns=("v",), right_columns=("tv",), retention_us=10, name="rates")
    right = right_table(["a", "a", None], [100, 89, 100])
    late = answers(AsOfJoinStream(config), right, left_table(["a", None], [100, None])).late
    facts = ["_reason", "_operator", "_lateness"]
    assert late[1].select(facts).to_pylist() == [
        {"_reason": "expired", "_operator": "rates", "_lateness": 11},
        {"_reason": "null_key", "_operator": "rates", "_lateness": 0},
    ]
    assert late[0].select(facts).to_pylist() == [{"_reason": "null_time", "_operator": "rates", "_lateness": None}]
    assert late[0]["_stream_time"].cast(pa.int64()).to_pylist() == [100]
    assert late[0].schema.field("_stream_time").type == STAMP


def test_a_batch_that_changes_nothing_has_no_delta():
    stream = AsOfJoinStream(LEFT)
    assert answers(stream, right_table(["a"], [1]), left_table(["a"], [5])).delta is not None
    assert answers(stream, right_table(["a"], [1]).slice(0, 0), left_table(["a"], [4])).delta is None


def test_output_without_columns_has_rows():
    config = AsOfJoinConfig(join="left")
    assert len(answers(AsOfJoinStream(config), right_table(["a"], [1]), left_table(["a", "b"], [5, 5])).rows) == 2


def test_forward_needs_grace():
    with pytest.raises(OperatorError, match=r"OPERATOR\.NEEDS_GRACE"):
        AsOfJoinStream(AsOfJoinConfig(direction="forward", tolerance_us=1))


def test_snapshot_leaves_out_what_has_expired():
    stream = AsOfJoinStream(AsOfJoinConfig(right_columns=("tv",), retention_us=10))
    answers(stream, right_table(["a"] * 4, [1, 2, 3, 100]), left_table(["a"], [5]))
    assert stream.snapshot().tables["versions"]["__time"].to_pylist() == [3, 100]


def random_rows(seed, count):
    chance, rows = random.Random(seed), []
    for number in range(count):
        time = number + chance.randint(-30, 30)
        key = (f"customer {chance.randint(0, 40)}",)
        side = chance.choice("LR")
        rows.append(Row(side, key, time, (number,), time, None, (), side == "R" and chance.random() < 0.1))
    return rows


@pytest.mark.parametrize("grace", [None, 20])
@pytest.mark.parametrize("retention", [None, 100])
def test_many_rows_in_many_batches(monkeypatch, grace, retention):
    monkeypatch.setattr(as_of_stream_versions, "FEWEST_ROWS", 50)
    monkeypatch.setattr(as_of_stream_waiting, "FEWEST_ROWS", 50)
    config = AsOfJoinConfig(
        join="left", left_columns=("v",), right_columns=("tv",), grace_us=grace, retention_us=retention
    )
    stream, logic, rows, chance = AsOfJoinStream(config), AsOfJoinLogic(config), random_rows(7, 4000), random.Random(1)
    while rows:
        count = chance.choice([1, 20, 300])
        part, rows = rows[:count], rows[count:]
        lefts, rights = ([row for row in part if row.side == side] for side in "LR")
        left = left_table(
            pa.array([row.key[0] for row in lefts], pa.string()),
            [row.time for row in lefts],
            pa.array([row.payload[0] for row in lefts], pa.int64()),
        )
        right = right_table(
            pa.array([row.key[0] for row in rights], pa.string()),
            [row.time for row in rights],
            pa.array([row.payload[0] for row in rights], pa.int64()),
            __deleted=pa.array([row.is_tombstone for row in rights], pa.bool_()),
        )
        found = stream.on_batch([left, right], np.array([row.side == "R" for row in part], np.int8)).rows
        expected = [change.values for change in logic.on_batch(part).rows]
        assert list(zip(*found.to_pydict().values(), strict=True)) == expected
        if chance.random() < 0.1:
            stream = restored(stream)
