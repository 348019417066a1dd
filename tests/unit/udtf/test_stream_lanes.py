"""Rows that come in lanes are merged as Kafka Streams chooses among partitions: the smallest head first."""

from __future__ import annotations

import heapq

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from udtf.stream.interleave import interleave, is_lanes, merged

LANES = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=4)


def by_heads(lanes: list[list[int]]) -> list[tuple[int, int]]:
    """Lane and place of the next row, from the heads of all lanes."""
    heads = [(times[0], lane, 0) for lane, times in enumerate(lanes) if times]
    heapq.heapify(heads)
    found = []
    while heads:
        _, lane, place = heapq.heappop(heads)
        found.append((lane, place))
        if place + 1 < len(lanes[lane]):
            heapq.heappush(heads, (lanes[lane][place + 1], lane, place + 1))
    return found


@given(LANES, st.randoms())
def test_the_smallest_head_goes_first(lanes: list[list[int]], random: object) -> None:
    rows = [(lane, place, time) for lane, times in enumerate(lanes) for place, time in enumerate(times)]
    random.shuffle(rows)  # type: ignore[attr-defined]
    lane, place, time = (np.array([row[n] for row in rows], np.int64) for n in range(3))
    found = [rows[n][:2] for n in merged(lane, [place], time)]
    assert found == by_heads(lanes)


def test_an_input_with_lanes_is_arranged_by_its_time() -> None:
    lanes = pa.array([{"lane": 0, "at": 8}, {"lane": 0, "at": 7}, {"lane": 1, "at": 1}])
    table = pa.table({"__o0": lanes, "__event_time": pa.array([1, 5, 3], pa.timestamp("us")), "id": ["b", "a", "c"]})
    assert is_lanes(table["__o0"])
    (arranged,), sides = interleave([table], (1,), common_sequence=False, times=("__event_time",))
    assert arranged["id"].to_pylist() == ["c", "a", "b"]
    assert sides.tolist() == [0, 0, 0]
