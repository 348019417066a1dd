"""Rows packed by task, and their order: sorted by arrival, interleaved as a merge of queues would."""

from __future__ import annotations

import itertools
import math
from collections import deque
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from udtf.spark.tasks import murmur3, slots
from udtf.stream import blobs
from udtf.stream.blobs import bytes_at, pack, to_blobs, unpack
from udtf.stream.interleave import interleave, order_codes

TIME = st.one_of(st.none(), st.integers(-3, 6))
TIMES = ("__event_time", "__time")


def merged(left: list[int | None], right: list[int | None]) -> list[int]:
    """The reference: two queues; the smaller head first, no time at once, the table (right) first on a tie."""
    queues, sides = (deque(left), deque(right)), []
    while queues[0] or queues[1]:
        heads = [-math.inf if queue[0] is None else queue[0] for queue in queues if queue]
        side = (1 if heads[1] <= heads[0] else 0) if len(heads) == 2 else (0 if queues[0] else 1)
        queues[side].popleft()
        sides.append(side)
    return sides


def table(name: str, times: list[int | None], order: list[Any] | None = None) -> pa.Table:
    order = list(range(len(times))) if order is None else order
    columns = {name: pa.array(times, pa.timestamp("us", "UTC")), "__o0": pa.array(order, pa.int64())}
    return pa.table({**columns, "at": list(range(len(times)))})


@given(st.lists(TIME, max_size=12), st.lists(TIME, max_size=12))
def test_without_a_common_sequence_heads_go_by_event_time(left: list[int | None], right: list[int | None]) -> None:
    tables, sides = interleave([table(TIMES[0], left), table(TIMES[1], right)], (1, 1), False, TIMES)
    assert sides.tolist() == merged(left, right)
    assert [one["at"].to_pylist() for one in tables] == [list(range(len(left))), list(range(len(right)))]


@given(st.lists(TIME, max_size=12), st.lists(TIME, max_size=12))
def test_a_common_sequence_orders_all(left: list[int | None], right: list[int | None]) -> None:
    inputs = [table(name, order, order) for name, order in zip(TIMES, (left, right), strict=True)]
    tables, sides = interleave(inputs, (1, 1), True, TIMES)
    by_sequence = [
        sorted((-math.inf if value is None else value, -side) for value in values)
        for side, values in enumerate((left, right))
    ]
    assert sides.tolist() == [-side for _, side in sorted(by_sequence[0] + by_sequence[1])]
    for one, values in zip(tables, (left, right), strict=True):
        assert one["at"].to_pylist() == sorted(
            range(len(values)), key=lambda at: (values[at] is not None, values[at] or 0)
        )


@pytest.mark.parametrize(
    ("kind", "ascending"),
    [
        (pa.int64(), [None, -(2**63), -(2**63) + 1, 0, 2**63 - 1]),
        (pa.uint64(), [None, 0, 2**64 - 1]),
        (pa.float64(), [None, -math.inf, -1.5, 0.0, 2.0, math.inf, math.nan]),
        (pa.string(), [None, "", "a", "aa", "b", "é", "😀"]),
        (pa.binary(), [None, b"", b"\x00", b"\xff"]),
        (pa.bool_(), [None, False, True]),
        (pa.date32(), [None, date(1969, 1, 1), date(2020, 1, 1)]),
        (pa.decimal128(38, 2), [None, Decimal("-1.00"), Decimal("0.01"), Decimal("99999999999999999999.00")]),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), [None, {"a": None, "b": "z"}, {"a": 1, "b": "a"}]),
        (pa.dictionary(pa.int32(), pa.string()), [None, "a", "b"]),
    ],
)
def test_order_of_every_type_is_sparks(kind: pa.DataType, ascending: list[Any]) -> None:
    codes = order_codes(pa.chunked_array([pa.array(ascending * 2, kind)]))
    half = codes[: len(ascending)]
    assert np.all(np.diff(half) > 0)
    assert half.tolist() == codes[len(ascending) :].tolist()


def test_zeros_are_equal() -> None:
    assert len(set(order_codes(pa.chunked_array([[0.0, -0.0]])).tolist())) == 1


def test_several_order_columns_decide_one_after_the_other() -> None:
    rows = {"__o0": [2, 1, 1, None], "__o1": ["a", "b", "a", "z"], "at": [0, 1, 2, 3]}
    (one,), sides = interleave([pa.table(rows)], (2,), False, ("at",))
    assert one["at"].to_pylist() == [3, 2, 1, 0]
    assert sides.tolist() == [0] * 4


ROWS = st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["f1", "f2"])), max_size=40)


@given(ROWS, st.integers(1, 7), st.integers(1, 5), st.integers(1, 6))
def test_packed_rows_come_back_by_task_in_order(rows: list[Any], tasks: int, cut: int, most_rows: int) -> None:
    schema = pa.schema([("__hash", pa.int64()), ("__o0", pa.string()), ("at", pa.int32())])
    data = pa.table([[row[0] for row in rows], [row[1] for row in rows], list(range(len(rows)))], schema=schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blobs, "_CHUNK_ROWS", most_rows)
        patch.setattr(blobs, "_WORTH_ENCODING", 2)
        packed = list(pack(data.to_batches(max_chunksize=cut), tasks))
    for task in range(tasks):
        (found,), _ = interleave(
            [unpack((blob for number, blob in packed if number == task), schema)], (0,), False, ("at",)
        )
        assert found.schema == schema
        assert found.to_pylist() == [row for row in data.to_pylist() if row["__hash"] % tasks == task]


PATHS = st.lists(st.tuples(st.sampled_from([None, "", "a", "aa", "ab", "b" * 9]), st.integers(1, 9)), max_size=9)


@example([("aa", 1), ("ab", 1)], [], 1, 1)
@example([("a", 1), ("aa", 1)], [], 1, 1)
@example([("", 1), ("a", 1)], [], 1, 1)
@example([("a", 3), ("b", 1)], [2], 1, 1)
@given(PATHS, st.lists(st.integers(1, 12)), st.integers(1, 3), st.integers(0, 3))
def test_packed_paths_are_those_of_their_rows(
    runs: list[tuple[str | None, int]], cuts: list[int], tasks: int, worth: int
) -> None:
    """Batches of one file and of several, slices of larger ones: a path seen once for all rows is in all of them."""
    paths = [path for path, n_rows in runs for _ in range(n_rows)]
    data = pa.record_batch({"__hash": list(range(len(paths))), "__o0": pa.array(paths, pa.string())})
    starts = [0, *itertools.accumulate(cuts)]
    batches = [data.slice(start, n_rows) for start, n_rows in zip(starts, [*cuts, len(paths)], strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blobs, "_WORTH_ENCODING", worth)
        packed = list(pack(batches, tasks))
    found = [row for _, blob in packed for row in unpack([blob], data.schema).to_pylist()]
    assert sorted(found, key=itemgetter("__hash")) == data.to_pylist()


def test_order_columns_end_where_the_rows_are_sorted_if_nobody_reads_them() -> None:
    given = table(TIMES[0], [5, 6, 7], [3, 1, 2])
    for common_sequence, inputs in ((False, [given]), (True, [given, table(TIMES[1], [5], [2])])):
        kept, sides = interleave(inputs, (1, 1), common_sequence, TIMES)
        found, same = interleave(inputs, (1, 1), common_sequence, TIMES, keeps_order=False)
        assert found == [rows.drop_columns("__o0") for rows in kept]
        assert sides.tolist() == same.tolist()
        assert found[0]["at"].to_pylist() == [1, 2, 0]


def test_large_emissions_are_several_blobs() -> None:
    data = pa.table({"a": list(range(1000))})
    packed = list(to_blobs(data, most_bytes=1000))
    assert len(packed) == 8
    assert unpack(packed, data.schema).equals(data)
    assert list(to_blobs(data.slice(0, 0))) == []


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()], ids=str)
def test_bytes_are_read_where_they_are(kind: pa.DataType) -> None:
    column = pa.array([b"first", b"", b"\x00second", b"last"], kind)
    for part in (column, column.slice(1, 2), column.slice(3)):
        assert [bytes_at(part, row).to_pybytes() for row in range(len(part))] == part.to_pylist()
    data = column.buffers()[2]
    assert bytes_at(column, 2).address == data.address + 5, "a copy"


@pytest.mark.parametrize("tasks", [1, 2, 7, 16, 64])
def test_slots_spread_tasks_evenly_over_any_divisor(tasks: int) -> None:
    assert [murmur3(slot) % tasks for slot in slots(tasks)] == list(range(tasks))
