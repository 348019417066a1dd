"""Laws of the AS OF join of live streams: it answers record by record, in any cut, restored at any point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udtf.operators.as_of_join import stream as as_of_stream_versions
from udtf.operators.as_of_join import stream as as_of_stream_waiting
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import AsOfJoinLogic
from udtf.operators.as_of_join.stream import AsOfJoinStream
from udtf.operators.table_lookup import stream as table_lookup_state
from udtf.record import Row, canonical_key

STAMP = pa.timestamp("us", "UTC")
TIMES = st.integers(-10, 40)
KEY_PARTS = {
    "strings": (pa.string(), st.sampled_from(["a", "b", "é", None])),
    "ints": (pa.int32(), st.sampled_from([0, 1, -7, None])),
    "floats": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1.5, None])),
    "structs": (pa.struct({"a": pa.int64()}), st.sampled_from([{"a": 1}, {"a": 2}, {"a": None}, None])),
}
KEYS = st.lists(st.sampled_from(sorted(KEY_PARTS)), min_size=1, max_size=2)
TIES = {
    "ints": (pa.int64(), st.none() | st.integers(0, 3)),
    "strings": (pa.string(), st.sampled_from(["", "a", "b", None])),
}
GAUGES = ("state_rows", "state_bytes", "max_event_time")
LIMITS = st.none() | st.integers(0, 30)


@pytest.fixture(autouse=True, scope="module")
def tidy_often():
    """What is not needed goes when there are a few rows, not tens of thousands."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (as_of_stream_versions, as_of_stream_waiting, table_lookup_state):
            patch.setattr(module, "FEWEST_ROWS", 3)
        yield


@st.composite
def configs(draw):
    direction = draw(st.sampled_from(["backward", "backward", "forward", "nearest"]))
    waits = direction != "backward"
    return AsOfJoinConfig(
        join=draw(st.sampled_from(["inner", "left"])),
        direction=direction,
        exclusive=draw(st.booleans()),
        tolerance_us=draw(st.integers(0, 15) if waits else st.none() | st.integers(0, 15)),
        has_known=draw(st.booleans()),
        ties=draw(st.sampled_from([(), (), (("asc", "first"),), (("desc", "last"), ("asc", "last"))])),
        with_reason=draw(st.booleans()),
        grace_us=draw(st.integers(0, 12) if waits else st.none() | st.integers(0, 12)),
        retention_us=draw(LIMITS),
        left_max_future_us=draw(st.none() | st.none() | LIMITS),
        right_max_future_us=draw(st.none() | st.none() | LIMITS),
        left_columns=("v", "word"),
        right_columns=("tv", "name"),
    )


class Case:
    """Rows of both sides, as records and as tables."""

    def __init__(self, config, rows, keys, ties, same_hash, has_flags):
        self.config, self.rows, self.keys, self.ties = config, rows, keys, ties
        self.same_hash, self.has_flags = same_hash, has_flags

    def __repr__(self):
        return f"{self.config}, {self.rows}, keys={self.keys}, ties={self.ties}, same_hash={self.same_hash}"

    def left(self, rows):
        columns = self._common(rows)
        columns["__as_of"] = pa.array([row.time for row in rows], STAMP)
        columns["__event_time"] = columns["__as_of"]
        columns["__known"] = pa.array([row.sequence for row in rows], STAMP)
        columns["v"] = pa.array([row.payload[0] for row in rows], pa.int64())
        columns["word"] = pa.array([row.payload[1] for row in rows], pa.string())
        return pa.table(columns)

    def right(self, rows):
        columns = self._common(rows)
        columns["__time"] = pa.array([row.time for row in rows], STAMP)
        columns["__seq"] = pa.array([row.sequence for row in rows], STAMP)
        for at, kind in enumerate(self.ties):
            columns[f"__tie{at}"] = pa.array([row.ties[at] for row in rows], TIES[kind][0])
        if self.has_flags:
            columns["__deleted"] = pa.array([row.is_tombstone or None for row in rows], pa.bool_())
            columns["__pass"] = pa.array([row.passes or None for row in rows], pa.bool_())
        columns["tv"] = pa.array([row.payload[0] for row in rows], pa.int64())
        columns["name"] = pa.array([row.payload[1] for row in rows], pa.string())
        return pa.table(columns)

    def _common(self, rows):
        columns = {
            f"__k{at}": pa.array([row.key[at] for row in rows], KEY_PARTS[kind][0]) for at, kind in enumerate(self.keys)
        }
        columns["__o0"] = pa.array([row.payload[0] for row in rows], pa.int64())
        hashes = [0 if self.same_hash else hash(repr(canonical_key(row.key)).replace("-0.0", "0.0")) for row in rows]
        columns["__hash"] = pa.array(hashes, pa.int64())
        return columns


@st.composite
def cases(draw):
    keys = draw(KEYS)
    config = replace(draw(configs()), n_keys=len(keys))
    ties = [draw(st.sampled_from(sorted(TIES))) for _ in config.ties]
    has_flags, rows = draw(st.booleans()), []
    for number in range(draw(st.integers(0, 30))):
        key = tuple(draw(KEY_PARTS[kind][1]) for kind in keys)
        time = draw(st.none() | TIMES if draw(st.integers(0, 5)) == 0 else TIMES)
        known = draw(TIMES | st.none()) if config.has_known else None
        payload = (number, draw(st.sampled_from(["", "x", "word", None])))
        if draw(st.booleans()):
            rows.append(Row("L", key, time, payload, event_time=time, sequence=known))
        else:
            flags = (draw(st.integers(0, 3)) == 0, draw(st.integers(0, 3)) > 0) if has_flags else (False, True)
            values = tuple(draw(TIES[kind][1]) for kind in ties)
            rows.append(Row("R", key, time, payload, time, known, values, *flags))
    return Case(config, rows, keys, ties, draw(st.booleans()), has_flags)


def parts_of(data, rows):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    return [rows[start:end] for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def micro_batch(case, rows):
    sides = np.array([row.side == "R" for row in rows], np.int8)
    lefts, rights = ([row for row in rows if row.side == side] for side in "LR")
    return [case.left(lefts), case.right(rights)], sides


def expected_of(emission):
    late = {side: [] for side in "LR"}
    for row, *facts in emission.late:
        late[row.side].append((row.payload[0], *facts))
    metrics = {name: value for name, value in emission.metrics.items() if value}
    return [change.values for change in emission.rows], late["L"], late["R"], metrics


def found_of(emission):
    rows = list(zip(*(column.to_pylist() for column in emission.rows.columns), strict=True))
    names = ("_reason", "_operator", "_stream_time", "_lateness")
    late = []
    for table in emission.late:
        table = table.set_column(
            table.column_names.index("_stream_time"), "_stream_time", table["_stream_time"].cast(pa.int64())
        )
        late.append(list(zip(*(table[name].to_pylist() for name in ("__o0", *names)), strict=True)))
    metrics = {name: value for name, value in emission.metrics.items() if value and name not in GAUGES}
    return rows, *late, metrics


@given(st.data(), cases())
def test_micro_batches_answer_record_by_record(data, case):
    logic, stream = AsOfJoinLogic(case.config), AsOfJoinStream(case.config)
    for rows in parts_of(data, case.rows):
        assert found_of(stream.on_batch(*micro_batch(case, rows))) == expected_of(logic.on_batch(rows))


def answer_across_restarts(data, case, logic, new_stream):
    """Micro-batches answer record by record, also from what was restored of snapshots and deltas."""
    stream, segments = new_stream(), []
    for rows in parts_of(data, case.rows):
        emission = stream.on_batch(*micro_batch(case, rows))
        assert found_of(emission) == expected_of(logic.on_batch(rows))
        segments += [] if emission.delta is None else [emission.delta]
        if data.draw(st.booleans()):
            segments = [stream.snapshot()]
        if data.draw(st.booleans()):
            stream = new_stream()
            for segment in segments:
                stream.apply(segment)


@given(st.data(), cases())
def test_changelog_restores_what_was(data, case):
    answer_across_restarts(data, case, AsOfJoinLogic(case.config), lambda: AsOfJoinStream(case.config))


@given(st.data(), cases())
def test_what_waits_is_answered_when_nothing_comes_and_stays_answered(data, case):
    logic, stream, segments = AsOfJoinLogic(case.config), AsOfJoinStream(case.config), []
    for rows in parts_of(data, case.rows):
        emission = stream.on_batch(*micro_batch(case, rows))
        assert found_of(emission) == expected_of(logic.on_batch(rows))
        segments += [] if emission.delta is None else [emission.delta]
        if data.draw(st.booleans()):
            closed, expected = stream.close_idle(*micro_batch(case, [])[0]), logic.close_idle()
            assert closed.rows.to_pylist() == [
                dict(zip(closed.rows.column_names, change.values, strict=True)) for change in expected.rows
            ]
            counted = {name: value for name, value in closed.metrics.items() if value and name not in GAUGES}
            assert counted == {name: value for name, value in expected.metrics.items() if value}
            assert stream.close_idle(*micro_batch(case, [])[0]).delta is None  # once is all
            segments += [] if closed.delta is None else [closed.delta]
        if data.draw(st.booleans()):
            segments = [stream.snapshot()]
        if data.draw(st.booleans()):
            stream = AsOfJoinStream(case.config)
            for segment in segments:
                stream.apply(segment)


@given(cases(), st.sampled_from(["left", "inner"]))
def test_order_of_output_is_that_of_causes(case, join):
    case.config = replace(case.config, join=join)
    emission = AsOfJoinStream(case.config, emit_order=1).on_batch(*micro_batch(case, case.rows))
    causes, numbers = emission.rows["__o0"].to_pylist(), emission.rows["__o1"].to_pylist()
    assert causes == sorted(causes)
    assert [number == 0 for number in numbers] == [at == 0 or causes[at] != causes[at - 1] for at in range(len(causes))]
    plain = AsOfJoinStream(case.config).on_batch(*micro_batch(case, case.rows))
    assert emission.rows.drop_columns(["__o0", "__o1"]) == plain.rows
