"""What operators give out while nothing comes, where another one reads it: the columns of other rows, and a place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from udtf.aggregates import Aggregate
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.stream import AsOfJoinStream
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.deduplicate.stream import DeduplicateStream
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.operators.window_aggregate.row_by_row import RecordStream
from udtf.operators.window_aggregate.stream import WindowAggregateStream
from udtf.stream.interleave import AT, LANE, in_order

if TYPE_CHECKING:
    from udtf.logic import IdleLogic

STAMP = pa.timestamp("us", "UTC")
LANES = pa.struct({LANE: pa.int32(), AT: pa.int64()})
WINDOWS = WindowAggregateConfig(Window("time", 10, 10), 100, "final", 1, (Aggregate("count"),))
JOIN = AsOfJoinConfig(left_columns=("k", "__event_time"), right_columns=("rate",), grace_us=100, join="left")
LAST = DeduplicateConfig(100, keep="last", n_keys=1, columns=("k", "__event_time"))


def given(order: pa.DataType, *times: int) -> pa.Table:
    keys = pa.array([f"key {time}" for time in times], pa.string())
    orders = [{LANE: 3, AT: n} for n in range(len(times))] if order == LANES else list(range(len(times)))
    stamps = pa.array(times, STAMP)
    columns = {"__k0": keys, "__hash": pa.array([hash(time) for time in times], pa.int64()), "k": keys}
    columns |= {"__time": stamps, "__as_of": stamps, "__event_time": stamps, "__o0": pa.array(orders, order)}
    return pa.table(columns)


def versions(order: pa.DataType) -> pa.Table:
    return given(order, 0).append_column("rate", pa.array([1]))


LOGICS: dict[str, tuple[Any, bool]] = {
    "windows": (lambda: WindowAggregateStream(WINDOWS, 1), False),
    "windows, row by row": (lambda: RecordStream(WINDOWS, 1), False),
    "deduplication": (lambda: DeduplicateStream(LAST, 1), False),
    "join": (lambda: AsOfJoinStream(JOIN, 1), True),
}


@pytest.mark.parametrize("order", [pa.int64(), LANES], ids=["in order", "in lanes"])
@pytest.mark.parametrize("name", LOGICS)
def test_they_have_the_columns_of_all_others_and_come_first_by_time(name: str, order: pa.DataType) -> None:
    make, is_join = LOGICS[name]
    logic: IdleLogic = make()

    def batch(*times: int) -> pa.Table:
        left = given(order, *times)
        inputs, sides = [left], np.zeros(len(times), np.int8)
        if is_join:
            inputs, sides = [left, versions(order)], np.append(np.int8(1), sides)
        return logic.on_batch(inputs, sides).rows

    assert len(batch(35, 27, 31)) == 0
    closed = logic.close_idle(*([given(order), versions(order).slice(0, 0)] if is_join else [given(order)])).rows
    caused = batch(300, 305, 600)
    assert closed.schema == caused.schema
    assert len(closed) == 3
    time = "__event_time" if "__event_time" in closed.column_names else "__time"
    together = in_order(pa.concat_tables([caused, closed.take([2, 0, 1])]), 2, time)
    places = together[time].cast(pa.int64()).to_pylist()
    assert places[:3] == [27, 31, 35]
    assert places[3:] == caused[time].cast(pa.int64()).to_pylist()
