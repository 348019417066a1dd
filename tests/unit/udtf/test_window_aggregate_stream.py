"""What the compiled aggregation of live streams gives out, column by column, and which aggregations are compiled."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from udtf.errors import OperatorError
from udtf.operators.window_aggregate.config import (
    Aggregate,
    Window,
    WindowAggregateConfig,
    arrow_type,
    is_compiled,
    reasons,
)
from udtf.operators.window_aggregate.row_by_row import RecordStream
from udtf.operators.window_aggregate.stream import WindowAggregateStream

SUM = (Aggregate("count"), Aggregate("sum", 1))
TUMBLING = Window("time", 10, 10)
STREAMS = pytest.mark.parametrize("stream", [WindowAggregateStream, RecordStream])


def rows(*records):
    """Rows (key, time, value)."""
    keys, times, values = zip(*records, strict=True)
    table = {"__k0": pa.array(keys, pa.string()), "__time": pa.array(times, pa.timestamp("us", "UTC"))}
    table |= {"__hash": pa.array([hash(key) >> 1 for key in keys]), "__a1_0": pa.array(values, pa.int64())}
    return pa.table({**table, "__o0": range(len(keys)), "_l0": keys, "_l1": values})


@STREAMS
def test_finals_have_key_bounds_aggregates_time_and_order(stream):
    config = WindowAggregateConfig(TUMBLING, 5, "final", 1, SUM)
    emission = stream(config, 1).on_batch([rows(("b", 101, 1), ("a", 109, 2), (None, 102, None), ("a", 115, 4))])
    assert emission.rows.to_pylist() == [
        {"__k0": key, "__ws": 100, "__we": 110, "__a0": 1, "__a1": total, "__time": time, "__o0": 3, "__o1": n}
        for n, (key, total, time) in enumerate([(None, None, 102), ("a", 2, 109), ("b", 1, 101)])
    ]
    assert emission.metrics["emitted"] == 3
    assert emission.metrics["buffered_rows"] == 1


@STREAMS
def test_late_rows_have_their_payload_and_why(stream):
    config = WindowAggregateConfig(TUMBLING, 5, "final", 1, SUM, name="totals")
    late = stream(config).on_batch([rows(("b", 115, 1), ("a", 109, 2), ("a", None, 3))]).late[0]
    assert late.column_names == ["_l0", "_l1", "_reason", "_operator", "_stream_time", "_lateness"]
    assert late["_reason"].to_pylist() == ["late", "null_time"]
    assert late["_lateness"].to_pylist() == [6, None]
    assert late["_operator"].to_pylist() == ["totals"] * 2


@STREAMS
def test_updates_have_the_row_before(stream):
    config = WindowAggregateConfig(Window("session", 5), 5, "changes", 1, SUM)
    found = stream(config).on_batch([rows(("a", 100, 1), ("a", 103, 2))]).rows
    assert found.column_names == ["__k0", "__ws", "__we", "__a0", "__a1", "__was", "__is", "__b0", "__b1", "__time"]
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        ("a", 100, 105, 1, 1, False, True, None, None, 100),
        ("a", 100, 105, None, None, True, False, 1, 1, 100),
        ("a", 100, 108, 2, 3, False, True, None, None, 103),
    ]


def test_a_delta_holds_what_changed_and_is_still_open():
    config = WindowAggregateConfig(TUMBLING, 0, "final", 1, SUM)
    stream = WindowAggregateStream(config)
    stream.on_batch([rows(("a", 101, 1), ("b", 102, 1))])
    delta = stream.on_batch([rows(("a", 103, 1))]).delta
    assert delta.tables["windows"]["__k0"].to_pylist() == ["a"]
    delta = stream.on_batch([rows(("c", 104, 1), ("c", 110, 1))]).delta
    assert delta.tables["windows"]["__ws"].to_pylist() == [110]
    assert stream.snapshot().tables["windows"]["__k0"].to_pylist() == ["c"]
    assert stream.on_batch([rows(("z", 1, 1)).slice(0, 0)]).delta is None


@STREAMS
def test_a_sum_that_does_not_fit_fails(stream):
    config = WindowAggregateConfig(TUMBLING, 0, "final", 1, SUM)
    with pytest.raises(OperatorError, match="ARITHMETIC_OVERFLOW"):
        stream(config).on_batch([rows(("a", 1, 2**63 - 1), ("a", 2, 1))])


def test_the_state_of_windows_that_close_is_used_again():
    config = WindowAggregateConfig(TUMBLING, 0, "final", 1, SUM)
    stream = WindowAggregateStream(config)
    for time in range(0, 100_000, 10_000):
        stream.on_batch([rows(*((f"{time}, {n}", time + n % 10, n) for n in range(2_000)))])
    few = WindowAggregateStream(config)
    few.on_batch([rows(*((f"{n}", n % 10, n) for n in range(2_000)))])
    assert stream.stored_bytes < 6 * few.stored_bytes


def test_what_is_compiled_depends_on_windows_functions_and_types():
    def why(*aggregates, window=TUMBLING, types=(), keys=()):
        return reasons(WindowAggregateConfig(window, aggregates=aggregates), types, keys)

    assert why(*SUM, Aggregate("avg", 1, type="decimal(14,6)"), types=[[], [pa.int32()], [pa.decimal128(10, 2)]]) == []
    assert why(window=Window("sliding", 5)) == ["sliding windows"]
    assert why(Aggregate("max", 1, type="string")) == ["max as string"]
    assert why(Aggregate("count", 1, distinct=True)) == ["count distinct as bigint"]
    assert why(Aggregate("sum", 1, type="decimal(38,2)")) == ["sum as decimal(38,2)"]
    assert why(Aggregate("avg", 1, type="double"), types=[[pa.string()]]) == ["avg of string as double"]
    assert why(keys=[pa.month_day_nano_interval()]) == ["key of type month_day_nano_interval"]
    assert is_compiled(WindowAggregateConfig(aggregates=(Aggregate("stddev", 1, type="double"),)))


def test_to_plan_does_not_import_numba():
    code = "import udtf.operators.window_aggregate.config, sys; print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_types_are_known_by_their_names():
    assert arrow_type("map<string,array<bigint>>") == pa.map_(pa.string(), pa.list_(pa.int64()))
    with pytest.raises(OperatorError, match="INVALID_OPTION"):
        arrow_type("interval")
