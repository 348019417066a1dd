"""AS OF joins with corrections, live: the compiled join answers as its logic does, in any cut, with restarts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.udtf.test_table_streams import STAMP, pieces
from udtf.columns.updates import ReadUpdates
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.corrected_join.logic import CorrectedJoinLogic
from udtf.operators.corrected_join.stream import CorrectedJoinStream
from udtf.record import Row, Update
from udtf.stream.interleave import interleave

KEYS, TIMES = st.none() | st.sampled_from(["p", "q"]), st.none() | st.integers(0, 30)
#: Side, key, time, value (a version without one deletes its key), and whether the filter over the table is true.
ROWS = st.lists(
    st.tuples(st.sampled_from("LR"), KEYS, TIMES, st.none() | st.integers(0, 2), st.booleans(), st.integers(0, 2)),
    max_size=20,
)


def make_config(join: str, *, reason: bool, ties: bool, **more: Any) -> AsOfJoinConfig:
    return AsOfJoinConfig(
        join=join, with_reason=reason, left_columns=("_l0",), right_columns=("_r0",),
        ties=(("asc", "first"),) if ties else (), **more,
    )  # fmt: skip


def schema_of(config: AsOfJoinConfig) -> pa.Schema:
    shown = [("_l0", pa.int64()), ("_r0", pa.int64())] + ([("__reason", pa.string())] if config.with_reason else [])
    hidden = [("__event_time", STAMP), ("__o0", pa.int64()), ("__o1", pa.int64())]
    return pa.schema([*shown, *hidden, ("__u0", pa.string()), ("__u1", pa.int64())])


def side_rows(batch: list[tuple[int, Any]], side: str, config: AsOfJoinConfig) -> pa.Table:
    own = [(number, *row) for number, (of, *row) in batch if of == side]
    numbers, keys, times, values, passes, ties = zip(*own, strict=True) if own else ((),) * 6
    stamps = pa.array(times, pa.int64()).cast(STAMP)
    columns = {
        "__k0": pa.array(keys, pa.string()),
        "__hash": pa.array([sum(map(ord, key or "")) for key in keys], pa.int64()),
        "__o0": pa.array(numbers, pa.int64()),
    }
    if side == "L":
        return pa.table(columns | {"__as_of": stamps, "__event_time": stamps, "_l0": pa.array(values, pa.int64())})
    columns |= {"__tie0": pa.array(ties, pa.int64())} if config.ties else {}
    deleted = pa.array([value is None for value in values], pa.bool_())
    columns |= {"__time": stamps, "__deleted": deleted, "__pass": pa.array(passes, pa.bool_())}
    return pa.table(columns | {"_r0": pa.array(values, pa.int64())})


def as_row(config: AsOfJoinConfig, row: Any) -> Row:
    side, key, time, value, passes, tie = row
    if side == "L":
        return Row("L", (key,), time, (value,), event_time=time)
    gone = value is None
    ties = (tie,) if config.ties else ()
    return Row("R", (key,), time, (value,), event_time=time, ties=ties, is_tombstone=gone, passes=passes)


def read(table: pa.Table, config: AsOfJoinConfig) -> list[Update]:
    names = ["_l0", "_r0", *(["__reason"] if config.with_reason else [])]
    rows, times = table.select(names).to_pylist(), table["__event_time"].cast(pa.int64()).to_pylist()
    keys = list(zip(table["__u0"].to_pylist(), table["__u1"].to_pylist(), strict=True))
    updates, found = ReadUpdates(table), []
    for first, places in zip(updates.first.tolist(), updates.rows.tolist(), strict=True):
        sides = [None if n < 0 else tuple(rows[n].values()) for n in places[:2]]
        found.append(Update(keys[first], times[first], *sides))
    return found


@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 20), max_size=4),
    join=st.sampled_from(["inner", "left"]),
    direction=st.sampled_from(["backward", "forward", "nearest"]),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    limits=st.tuples(*[st.none() | st.integers(0, 12)] * 3),
    restarts=st.sampled_from(["", "snapshot", "deltas"]),
)
@example(
    rows=[("R", "p", 1, 0, True, 0), ("L", "p", 5, 1, True, 0), ("R", "p", 3, 1, True, 0), ("R", "p", 2, 2, True, 0)],
    cuts=[2], join="left", direction="backward", flags=(False, False, False), limits=(None, None, None),
    restarts="snapshot",
)  # fmt: skip
def test_a_corrected_join_answers_as_its_logic_does(
    rows: list[Any], cuts: list[int], join: str, direction: str, flags: Any, limits: Any, restarts: str
) -> None:
    (reason, ties, exclusive), (retention, tolerance, future) = flags, limits
    tolerance = 5 if tolerance is None and direction != "backward" else tolerance
    config = make_config(
        join, direction=direction, reason=reason, ties=ties, exclusive=exclusive, retention_us=retention,
        tolerance_us=tolerance, left_max_future_us=future,
    )  # fmt: skip
    logic, stream = CorrectedJoinLogic(config), CorrectedJoinStream(config, schema_of(config), 1)
    deltas: list[Any] = []
    for batch in pieces(rows, cuts):
        tables = [side_rows(batch, side, config) for side in "LR"]
        arranged, sides = interleave(tables, (1, 1), True, ("__event_time", "__time"))
        found = stream.on_batch(arranged, sides)
        wanted = logic.on_batch([as_row(config, row) for _, row in batch])
        assert read(found.rows, config) == wanted.updates
        late = [late.reason for side in "LR" for late in wanted.late if late.row.side == side]
        assert [reason for table in found.late for reason in table["_reason"].to_pylist()] == late
        for name in ("matched", "unmatched", "corrected", "expired", "null_key", "null_time", "future"):
            assert found.metrics.get(name, 0) == wanted.metrics.get(name, 0), name
        deltas += [found.delta] if found.delta is not None else []
        if restarts:
            again = CorrectedJoinStream(config, schema_of(config), 1)
            for segment in deltas if restarts == "deltas" else [stream.snapshot()]:
                again.apply(segment)
            stream = again


def test_what_no_version_can_change_any_more_is_forgotten() -> None:
    config = make_config("left", reason=False, ties=False, retention_us=10)
    stream = CorrectedJoinStream(config, schema_of(config), 1)
    rows = [("L", "p", time, 1, True, 0) for time in range(50)] + [("R", "p", 45, 1, True, 0)]
    arranged, sides = interleave(
        [side_rows(list(enumerate(rows)), side, config) for side in "LR"], (1, 1), True, ("__event_time", "__time")
    )
    stream.on_batch(arranged, sides)
    assert stream.snapshot().tables["left"]["__as_of"].to_pylist() == list(range(35, 50))
    assert logic_rows(config, rows) == 15


def logic_rows(config: AsOfJoinConfig, rows: list[Any]) -> int:
    logic = CorrectedJoinLogic(config)
    logic.on_batch([as_row(config, row) for row in rows])
    return logic.rows
