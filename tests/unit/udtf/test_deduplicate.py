"""Deduplication of columns: keys and sequences of every type, options that cannot be, what a table function is told."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from udtf.errors import OperatorError
from udtf.logic import Segment
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.deduplicate.logic import DeduplicateLogic, deduplicate_table
from udtf.operators.deduplicate.stream import DeduplicateStream
from udtf.record import Row, order_key

STAMP = pa.timestamp("us", "UTC")
DAY = dt.date(2024, 1, 1)
#: Values of a type; equal ones are neighbours in the inner tuples.
VALUES = {
    pa.int8(): [(1,), (2,)],
    pa.int64(): [(-(2**63),), (2**63 - 1,)],
    pa.bool_(): [(True,), (False,)],
    pa.string(): [("",), ("ä",), ("äb",)],
    pa.binary(): [(b"",), (b"\x00",), (b"\x00\x01",)],
    pa.date32(): [(DAY,), (DAY + dt.timedelta(1),)],
    STAMP: [(dt.datetime(2024, 1, 1, tzinfo=dt.UTC),), (dt.datetime(1900, 1, 1, tzinfo=dt.UTC),)],
    pa.float64(): [(0.0, -0.0), (math.nan, -math.nan), (1.5,)],
    pa.float32(): [(0.0, -0.0), (1.5,)],
    pa.decimal128(30, 2): [(Decimal("1.00"), Decimal(1)), (Decimal("1e20"),)],
    pa.list_(pa.int32()): [([1, None],), ([1],), ([],)],
    pa.struct([("a", pa.int32()), ("b", pa.string())]): [({"a": 1, "b": "x"},), ({"a": 1, "b": None},)],
    pa.duration("us"): [(dt.timedelta(1),), (dt.timedelta(2),)],
}


def stream_table(keys, kind, hashes, times=None, sequences=None):
    table = {"__k0": pa.array(keys, kind), "__hash": pa.array(hashes, pa.int64())}
    table["__event_time"] = pa.array(range(len(keys)) if times is None else times, STAMP)
    table |= {} if sequences is None else {"__seq": sequences}
    return pa.table({**table, "n": pa.array(range(len(keys)), pa.int64())})


@pytest.mark.parametrize("kind", VALUES, ids=str)
@pytest.mark.parametrize("collide", [False, True])
def test_keys_of_every_type_meet_their_equals_and_no_others(kind, collide):
    """Also where all hashes are one, and the first half of the rows comes from a changelog."""
    groups = [(number, value) for number, equals in enumerate(VALUES[kind]) for value in (*equals, *equals)]
    keys, hashes = [value for _, value in groups] * 2, [0 if collide else number for number, _ in groups] * 2
    table, config = stream_table(keys, kind, hashes), DeduplicateConfig(10**6, columns=("n",))
    first, second = DeduplicateStream(config), DeduplicateStream(config)
    emission = first.on_batch([table.slice(0, len(groups))])
    assert emission.rows.num_rows == len(VALUES[kind])
    second.apply(emission.delta)
    assert second.on_batch([table.slice(len(groups))]).rows.num_rows == 0
    bounded = table.rename_columns(["__k0", "__hash", "__time", "n"])
    assert deduplicate_table(config, bounded).num_rows == len(VALUES[kind])
    assert deduplicate_table(config, bounded.drop_columns(["__hash"])).num_rows == len(VALUES[kind])


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_sequences_of_every_type_tell_the_same_row(kind):
    config = DeduplicateConfig(10**6, columns=("n",), has_sequence=True)
    (other, *_), (first, *_) = VALUES[kind][:2]
    sequences = pa.array([first, first, other, None], kind)
    table = stream_table(["k"] * 4, pa.string(), [7] * 4, sequences=sequences)
    logic = DeduplicateStream(config)
    assert logic.on_batch([table.slice(0, 1)]).rows.num_rows == 1
    again = DeduplicateStream(config)
    again.apply(logic.snapshot())
    assert again.on_batch([table.slice(1)]).rows["n"].to_pylist() == [1]


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_bounded_rows_go_by_sequences_of_every_type(kind):
    values = [first for first, *_ in VALUES[kind]]
    least = min(range(len(values)), key=lambda n: order_key((values[n],)))
    for nulls in ([], [None]):
        sequences = pa.array([*values, *nulls], kind)
        table = stream_table(["k"] * len(sequences), pa.string(), [7] * len(sequences), sequences=sequences)
        config = DeduplicateConfig(10**6, columns=("n",), has_sequence=True)
        found = deduplicate_table(config, table.rename_columns({"__event_time": "__time"}))
        assert found["n"].to_pylist() == [len(values) if nulls else least], "without a sequence it is the first"


def test_the_empty_batch_changes_nothing():
    logic = DeduplicateStream(DeduplicateConfig(5, columns=("n",)))
    emission = logic.on_batch([stream_table([], pa.string(), [])])
    assert (emission.rows.num_rows, emission.delta) == (0, None)
    assert logic.snapshot() == Segment({}, {"stream_time": None, "collided": 0})


def test_order_columns_name_the_cause_and_number_its_rows():
    config = DeduplicateConfig(5, keep="last", columns=("n",))
    table = stream_table(["b", "a", "c", None], pa.string(), [1, 2, 3, 42], times=[0, 0, 100, 101])
    table = table.append_column("__o0", pa.array([10, 20, 30, 40]))
    rows = DeduplicateStream(config, emit_order=1).on_batch([table]).rows
    assert rows.to_pydict() == {"n": [1, 0, 3], "__o0": [30, 30, 40], "__o1": [0, 1, 0]}


def test_times_at_the_ends_of_their_type():
    least, most = -(2**63), 2**63 - 1
    table = stream_table(["k"] * 3, pa.string(), [1] * 3).drop_columns(["__event_time"])
    table = table.append_column("__time", pa.array([least, most, least], pa.int64()).view(STAMP))
    config = DeduplicateConfig(2**62, columns=("n",))
    rows = [Row("L", ("k",), time, (n,)) for n, time in enumerate([least, most, least])]
    assert [change.values for change in DeduplicateLogic(config).on_batch(rows).rows] == [(0,), (1,), (2,)]
    assert DeduplicateStream(config).on_batch([table]).rows["n"].to_pylist() == [0, 1, 2]


def test_compaction_keeps_what_lives():
    config, count = DeduplicateConfig(10, columns=("n",)), 3000
    logic = DeduplicateStream(config)
    for number in range(8):
        keys = [f"{number} {n}" for n in range(count)]
        times = [number * 10**6 + n // 1000 for n in range(count)]
        table = stream_table(keys, pa.string(), np.arange(count) * 7919 + number, times=times)
        assert logic.on_batch([table]).rows.num_rows == count
        assert logic.on_batch([table]).rows.num_rows == 0
    assert logic.stored_bytes < 2**21


@pytest.mark.parametrize(
    "options",
    [
        {"interval_us": -1},
        {"interval_us": 1, "keep": "middle"},
        {"interval_us": 1, "late": "never"},
        {"interval_us": 1, "keep": "last", "late": "forward"},
        {"interval_us": 1, "max_future_us": -1},
    ],
)
def test_options_that_cannot_be_are_refused(options):
    with pytest.raises(OperatorError, match=r"OPERATOR.INVALID_OPTION"):
        DeduplicateConfig(**options)


def test_the_configuration_travels_as_json():
    config = DeduplicateConfig(10, "last", "to", 2, ("a", "b"), has_sequence=True, max_future_us=5)
    assert DeduplicateConfig.from_json(config.to_json()) == config
    with pytest.raises(OperatorError, match="names of DeduplicateConfig"):
        DeduplicateConfig.from_json('{"interval_us": 1, "interval": 2}')
