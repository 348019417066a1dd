"""Live tables and their joins by primary key answer as the record-by-record logics do, in any cut, with restarts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from udtf.columns.updates import ReadUpdates
from udtf.operators.table_changes.logic import TableChangesConfig, TableChangesLogic
from udtf.operators.table_changes.stream import TableChangesStream
from udtf.operators.table_join.logic import SideUpdate, TableJoinConfig, TableJoinLogic
from udtf.operators.table_join.stream import TableJoinStream
from udtf.record import Row, Update
from udtf.stream.interleave import interleave

STAMP = pa.timestamp("us", "UTC")
KEYS, TIMES = st.none() | st.sampled_from(["p", "q", "r"]), st.none() | st.integers(0, 30)
ROWS = st.lists(st.tuples(KEYS, TIMES, st.integers(0, 3), st.booleans()), max_size=14)
CUTS = st.lists(st.integers(0, 14), max_size=3)


def hidden(orders: int) -> list[tuple[str, Any]]:
    return [("__event_time", STAMP), *((f"__o{n}", pa.int64()) for n in range(orders)), ("__u0", pa.string())]


def pieces(rows: list[Any], cuts: list[int]) -> list[list[tuple[int, Any]]]:
    numbered = list(enumerate(rows))
    ends = sorted({*(cut for cut in cuts if cut < len(rows)), len(rows)})
    return [numbered[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def read(table: pa.Table, payload: list[str]) -> list[Update]:
    rows, times = table.select(payload).to_pylist(), table["__event_time"].cast(pa.int64()).to_pylist()
    keys, found = table["__u0"].to_pylist(), []
    updates = ReadUpdates(table)
    for first, places in zip(updates.first.tolist(), updates.rows.tolist(), strict=True):
        sides = [None if n < 0 else tuple(rows[n].values()) for n in places[:2]]
        found.append(Update((keys[first],), times[first], *sides))
    return found


@given(rows=ROWS, cuts=CUTS, versioned=st.booleans(), latest=st.booleans(), restarts=st.booleans())
def test_a_table_changes_as_its_logic_says(
    rows: list[Any], cuts: list[int], versioned: bool, latest: bool, restarts: bool
) -> None:
    config = TableChangesConfig(1, 25, "t", versioned, 8 if versioned else None, latest)
    schema = pa.schema([("_l0", pa.string()), ("_l1", pa.int64()), *hidden(2)])
    logic, stream = TableChangesLogic(config), TableChangesStream(config, schema, (0,), 1)
    for batch in pieces(rows, cuts):
        keys, times, values, gone = zip(*(row for _, row in batch), strict=True) if batch else ((),) * 4
        table = pa.table({
            "__k0": pa.array(keys, pa.string()),
            "__hash": pa.array([sum(map(ord, key or "")) for key in keys], pa.int64()),
            "__time": pa.array(times, pa.int64()).cast(STAMP),
            "__deleted": pa.array(gone, pa.bool_()),
            "_l0": pa.array(keys, pa.string()),
            "_l1": pa.array(values, pa.int64()),
            "__o0": pa.array([number for number, _ in batch], pa.int64()),
        })  # fmt: skip
        given_rows = [
            Row("R", (key,), time, (key, value), event_time=time, is_tombstone=is_gone)
            for key, time, value, is_gone in zip(keys, times, values, gone, strict=True)
        ]
        wanted, found = logic.on_batch(given_rows), stream.on_batch([table])
        assert read(found.rows, ["_l0", "_l1"]) == wanted.updates
        assert found.late[0]["_reason"].to_pylist() == [late.reason for late in wanted.late]
        assert found.metrics.get("out_of_order", 0) == wanted.metrics.get("out_of_order", 0)
        if restarts:
            again = TableChangesStream(config, schema, (0,), 1)
            again.apply(stream.snapshot())
            stream = again


@given(
    rows=st.lists(
        st.tuples(st.sampled_from("LR"), KEYS, st.integers(0, 30), st.none() | st.integers(0, 3)), max_size=14
    ),
    cuts=CUTS,
    join=st.sampled_from(["inner", "left", "full"]),
    restarts=st.sampled_from(["", "snapshot", "deltas"]),
)
def test_a_join_by_primary_key_answers_as_its_logic_does(
    rows: list[Any], cuts: list[int], join: Any, restarts: str
) -> None:
    config = TableJoinConfig(join, 1, ("_l0",), ("_r0",))
    schema = pa.schema([("_l0", pa.int64()), ("_r0", pa.int64()), *hidden(2)])
    logic, stream = TableJoinLogic(config), TableJoinStream(config, schema, (), 1)
    deltas: list[Any] = []
    for batch in pieces(rows, cuts):
        tables = [side_rows(batch, side) for side in "LR"]
        arranged, sides = interleave(tables, (2, 2), True, ("__event_time", "__event_time"))
        found = stream.on_batch(arranged, sides)
        updates = [
            SideUpdate(s, time, (key,), None if value is None else (value,)) for _, (s, key, time, value) in batch
        ]
        assert read(found.rows, ["_l0", "_r0"]) == logic.on_batch(updates).updates
        deltas += [found.delta] if found.delta is not None else []
        if restarts:
            again = TableJoinStream(config, schema, (), 1)
            for segment in deltas if restarts == "deltas" else [stream.snapshot()]:
                again.apply(segment)
            stream = again


def side_rows(batch: list[tuple[int, Any]], side: str) -> pa.Table:
    """The rows of one side, as the operators in front of the join send them."""
    own = [(number, key, time, value) for number, (of, key, time, value) in batch if of == side]
    numbers, keys, times, values = zip(*own, strict=True) if own else ((),) * 4
    kinds = [2 if value is None else 1 for value in values]
    return pa.table({
        "__k0": pa.array(keys, pa.string()),
        "__hash": pa.array([sum(map(ord, key or "")) for key in keys], pa.int64()),
        "_l0" if side == "L" else "_r0": pa.array(values, pa.int64()),
        "__event_time": pa.array(times, pa.int64()).cast(STAMP),
        "__o0": pa.array(numbers, pa.int64()),
        "__o1": pa.array([(n << 22) | kind for n, kind in zip(numbers, kinds, strict=True)], pa.int64()),
        "__u0": pa.array(keys, pa.string()),
    })  # fmt: skip


@given(
    rows=st.lists(st.tuples(st.sampled_from("LR"), KEYS, TIMES, st.none() | st.integers(0, 3)), max_size=14),
    cuts=CUTS,
    join=st.sampled_from(["inner", "left", "full"]),
    versioned=st.tuples(st.booleans(), st.booleans()),
    keeps=st.tuples(st.booleans(), st.booleans()),
    by_sequence=st.booleans(),
    restarts=st.sampled_from(["", "snapshot", "deltas"]),
)
def test_a_join_that_keeps_its_tables_answers_as_one_behind_them(
    rows: list[Any], cuts: list[int], join: Any, versioned: tuple[bool, bool], keeps: tuple[bool, bool],
    by_sequence: bool, restarts: str,
) -> None:  # fmt: skip
    config = TableJoinConfig(join, 1, ("_l0",), ("_r0",))
    kept = int(by_sequence)
    schema = pa.schema([("_l0", pa.int64()), ("_r0", pa.int64()), *hidden(2)])
    tables = [
        TableChangesConfig(1, 25, "t", is_versioned, 8 if is_versioned else None, True) for is_versioned in versioned
    ]
    own = tuple(table if is_kept else None for table, is_kept in zip(tables, keeps, strict=True))

    def new_tables() -> list[TableChangesStream]:
        payloads = (pa.schema([(name, pa.int64()), *hidden(kept + 1 + (not kept))]) for name in ("_l0", "_r0"))
        return [TableChangesStream(table, payload, (), kept) for table, payload in zip(tables, payloads, strict=True)]

    def inputs_of(batch: list[tuple[int, Any]], in_front: list[TableChangesStream], keeps: Any) -> list[pa.Table]:
        found = []
        for side, table, is_kept in zip("LR", in_front, keeps, strict=True):
            raw = raw_rows(batch, side)
            found.append(raw if is_kept else as_input(table.on_batch([raw]).rows))
        return found

    def answers(stream: TableJoinStream, inputs: list[pa.Table], keeps: Any) -> Any:
        orders = tuple(1 if is_kept else 2 for is_kept in keeps)
        times = tuple("__time" if is_kept else "__event_time" for is_kept in keeps)
        return stream.on_batch(*interleave(inputs, orders, by_sequence, times))

    reference, behind = TableJoinStream(config, schema, (), kept), new_tables()
    stream, in_front = TableJoinStream(config, schema, (), kept, own), new_tables()
    deltas: list[Any] = []
    for batch in pieces(rows, cuts):
        wanted = answers(reference, inputs_of(batch, behind, (False, False)), (False, False))
        found = answers(stream, inputs_of(batch, in_front, keeps), keeps)
        assert read(found.rows, ["_l0", "_r0"]) == read(wanted.rows, ["_l0", "_r0"])
        if by_sequence:
            assert found.rows["__o0"] == wanted.rows["__o0"]
        deltas += [found.delta] if found.delta is not None else []
        if restarts:
            again = TableJoinStream(config, schema, (), kept, own)
            for segment in deltas if restarts == "deltas" else [stream.snapshot()]:
                again.apply(segment)
            stream = again


def raw_rows(batch: list[tuple[int, Any]], side: str) -> pa.Table:
    """The rows of one side's definition."""
    own = [(number, key, time, value) for number, (of, key, time, value) in batch if of == side]
    numbers, keys, times, values = zip(*own, strict=True) if own else ((),) * 4
    return pa.table({
        "__k0": pa.array(keys, pa.string()),
        "__hash": pa.array([sum(map(ord, key or "")) for key in keys], pa.int64()),
        "_l0" if side == "L" else "_r0": pa.array(values, pa.int64()),
        "__time": pa.array(times, pa.int64()).cast(STAMP),
        "__deleted": pa.array([value is None for value in values], pa.bool_()),
        "__o0": pa.array(numbers, pa.int64()),
    })  # fmt: skip


def as_input(updates: pa.Table) -> pa.Table:
    """What a table sent, as its join is given it: by the table's key."""
    keys = updates["__u0"]
    hashes = pa.array([sum(map(ord, key or "")) for key in keys.to_pylist()], pa.int64())
    return updates.append_column("__k0", keys).append_column("__hash", hashes)
