"""A real operator through blobs, interleaving and its changelog: as if all rows had come in one micro-batch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.stream import AsOfJoinStream
from udtf.stream import log as log_module
from udtf.stream.blobs import pack, unpack
from udtf.stream.cache import StateCache
from udtf.stream.log import MemoryLog
from udtf.stream.spec import StreamSpec
from udtf.stream.task import TaskRunner

TIME = pa.timestamp("us", "UTC")
CONFIG = AsOfJoinConfig(join="left", with_reason=True, left_columns=("__o0", "_l0"), right_columns=("_r0",))
COMMON = [("__k0", pa.string()), ("__o0", pa.int64()), ("__hash", pa.int64())]
LEFT = pa.schema([*COMMON, ("__as_of", TIME), ("__event_time", TIME), ("_l0", pa.decimal128(9, 2))])
RIGHT = pa.schema([*COMMON, ("__time", TIME), ("__deleted", pa.bool_()), ("_r0", pa.struct([("a", pa.int32())]))])
TASKS = 2

#: Side, key, event time, deleted.
ROW = st.tuples(
    st.integers(0, 1), st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(0, 30)), st.booleans()
)


def inputs(rows: list[Any], start: int) -> list[pa.Table]:
    left, right = [], []
    for place, (side, key, time, deleted) in enumerate(rows, start):
        common = {"__k0": key, "__o0": place, "__hash": {"a": 7, "b": 8, None: 42}[key]}
        if side == 0:
            left.append({**common, "__as_of": time, "__event_time": time, "_l0": place})
        else:
            right.append({**common, "__time": time, "__deleted": deleted, "_r0": {"a": place}})
    return [pa.Table.from_pylist(left[::-1], LEFT), pa.Table.from_pylist(right, RIGHT)]


def run(config: AsOfJoinConfig, pieces: list[list[Any]], cache_bytes: int) -> tuple[list[Any], list[Any], int]:
    """Rows and late rows of both tasks, and how often a state came from its changelog."""
    spec = StreamSpec(
        "join", partial(AsOfJoinStream, config), "f", TASKS, (1, 1), common_sequence=True, cache_bytes=cache_bytes
    )
    logs, cache = [MemoryLog() for _ in range(TASKS)], StateCache()
    answers: list[Any] = [[] for _ in range(TASKS)]
    late: list[Any] = [[] for _ in range(TASKS * 2)]
    start = restored = 0
    for piece in pieces:
        packed = [list(pack(table.to_batches(), TASKS)) for table in inputs(piece, start)]
        start += len(piece)
        for task, log in enumerate(logs):
            blobs = [[blob for number, blob in side if number == task] for side in packed]
            if not any(blobs):
                continue
            tables = [unpack(*pair) for pair in zip(blobs, (LEFT, RIGHT), strict=True)]
            emission = TaskRunner(spec, "q", cache).run(task, log, tables)
            answers[task] += emission.rows.to_pylist()
            for side, refused in enumerate(emission.late):
                late[task * 2 + side] += refused.to_pylist()
            restored += emission.metrics.get("restored_snapshot", 0)
    return answers, late, restored


@given(
    rows=st.lists(ROW, min_size=1, max_size=30),
    places=st.lists(st.integers(0, 30), max_size=5),
    grace=st.sampled_from([None, 0, 5]),
    retention=st.sampled_from([None, 8]),
    most_deltas=st.sampled_from([0, 1, 256]),
)
def test_a_join_restored_from_its_changelog_each_time_answers_the_same(
    rows: list[Any], places: list[int], grace: int | None, retention: int | None, most_deltas: int
) -> None:
    config = replace(CONFIG, grace_us=grace, retention_us=retention)
    ends = sorted({min(place, len(rows)) for place in places} | {0, len(rows)})
    pieces = [rows[start:end] for start, end in pairwise(ends)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_module, "_MOST_DELTAS", most_deltas)
        cut = run(config, pieces, cache_bytes=0)
    assert cut[:2] == run(config, [rows], cache_bytes=1 << 20)[:2]
