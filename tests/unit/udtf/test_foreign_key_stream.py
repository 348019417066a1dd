"""The two steps of a live join by foreign key answer as the record-by-record logic does, on any number of tasks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from udtf.columns.updates import ReadUpdates, of_task
from udtf.operators.table_changes.logic import TableChangesConfig
from udtf.operators.table_changes.stream import TableChangesStream
from udtf.operators.table_join.foreign_key import ForeignKeyJoinLogic, LeftUpdate, Pointing, RightUpdate
from udtf.operators.table_join.foreign_key_stream import ForeignKeyStream, LeftStep
from udtf.operators.table_join.logic import TableJoinConfig
from udtf.record import Update
from udtf.stream.interleave import interleave

STAMP = pa.timestamp("us", "UTC")
#: (side, key, what it points to, value or None for a deletion, time): in order of arrival.
RECORDS = st.lists(
    st.tuples(
        st.sampled_from("LLR"), st.integers(0, 2), st.none() | st.integers(0, 2), st.none() | st.integers(0, 9),
        st.integers(0, 20),
    ),
    max_size=16,
)  # fmt: skip


def schema() -> pa.Schema:
    hidden = [("__event_time", STAMP), ("__o0", pa.int64()), ("__o1", pa.int64()), ("__u0", pa.int64())]
    return pa.schema([("_l0", pa.int64()), ("_r0", pa.int64()), *hidden])


def updates_of(records: list[Any]) -> list[tuple[int, LeftUpdate | RightUpdate]]:
    """With the row before of each left update, and the number of each."""
    current: dict[int, Pointing | None] = {}
    found: list[tuple[int, LeftUpdate | RightUpdate]] = []
    for number, (side, key, points, value, time) in enumerate(records):
        if side == "R":
            found.append((number, RightUpdate((key,), time, None if value is None else (value,))))
            continue
        new = None if value is None else Pointing(None if points is None else (points,), (value,))
        found.append((number, LeftUpdate((key,), time, current.get(key), new)))
        current[key] = new
    return found


def sent(updates: list[tuple[int, LeftUpdate | RightUpdate]], side: str) -> pa.Table:
    """The rows of one side, as the operators in front of the join send them."""
    rows: list[tuple[Any, ...]] = []
    for number, update in updates:
        if isinstance(update, LeftUpdate) and side == "L":
            ends = [(kind, end) for kind, end in enumerate((update.old, update.new)) if end is not None]
            rows += [
                (number, kind, end.meets and end.meets[0], end.row[0], update.key[0], update.time) for kind, end in ends
            ]
            rows += [] if ends else [(number, 2, None, None, update.key[0], update.time)]
        if isinstance(update, RightUpdate) and side == "R":
            kind, value = (1, update.row[0]) if update.row else (2, None)
            rows.append((number, kind, update.key[0], value, update.key[0], update.time))
    numbers, kinds, meets, values, keys, times = zip(*rows, strict=True) if rows else ((),) * 6
    return pa.table({
        "__k0": pa.array(meets, pa.int64()),
        "__hash": pa.array([(key or 0) % 2 for key in meets], pa.int64()),
        "_l0" if side == "L" else "_r0": pa.array(values, pa.int64()),
        "__event_time": pa.array(times, pa.int64()).cast(STAMP),
        "__o0": pa.array(numbers, pa.int64()),
        "__o1": pa.array([(n << 22) | kind for n, kind in zip(numbers, kinds, strict=True)], pa.int64()),
        "__u0": pa.array(keys, pa.int64()),
    })  # fmt: skip


def read(table: pa.Table) -> list[Update]:
    """Updates of the result, without what a deletion shows."""
    rows, times = table.to_pylist(), table["__event_time"].cast(pa.int64()).to_pylist()
    found = []
    for first, (old, new, _) in zip(ReadUpdates(table).first.tolist(), ReadUpdates(table).rows.tolist(), strict=True):
        sides = [None if n < 0 else (rows[n]["_l0"], rows[n]["_r0"]) for n in (old, new)]
        found.append(Update((rows[first]["__u0"],), times[first], *sides))
    return found


@given(
    records=RECORDS,
    join=st.sampled_from(["inner", "left"]),
    tasks=st.integers(1, 3),
    cuts=st.lists(st.integers(0, 16), max_size=3),
    kept=st.booleans(),
    restarts=st.sampled_from(["", "snapshot", "deltas"]),
    packs=st.booleans(),
)
def test_two_steps_answer_as_the_logic_does(
    records: list[Any], join: Any, tasks: int, cuts: list[int], kept: bool, restarts: str, packs: bool
) -> None:
    config = TableJoinConfig(join, 1, ("_l0",), ("_r0",), is_foreign=True)
    logic, updates = ForeignKeyJoinLogic(config), updates_of(records)
    steps = [ForeignKeyStream(config, schema(), int(kept), [pa.int64()]) for _ in range(tasks)]
    second = LeftStep(config, schema(), (), int(kept))
    shown: list[dict[Any, Any]] = [{}, {}]
    deltas: list[list[Any]] = [[] for _ in steps]
    ends = sorted({*(cut for cut in cuts if cut < len(updates)), len(updates)})
    for start, end in zip([0, *ends], ends, strict=False):
        batch = updates[start:end]
        if not kept:  # without a sequence both sides of a micro-batch interleave by event time
            batch = by_time(batch)
        wanted = logic.on_batch([update for _, update in batch]).updates
        for step in steps if packs else ():  # as when most rows of the state were replaced
            step._right._next_pack = step._left._next_pack = 0
        got = answered(steps, second, batch, tasks, kept, deltas)
        if kept:
            assert got == wanted
        for key in range(3):
            of_key = [[u for u in found if u.key == (key,)] for found in (got, wanted)]
            if tasks == 1:
                assert of_key[0] == of_key[1]
            for before, after in pairwise(of_key[0]):  # what goes was there
                assert before.new == after.old
        shown = [dict(row) | {u.key: u.new for u in found} for row, found in zip(shown, (got, wanted), strict=True)]
        assert rows_in(shown[0]) == rows_in(shown[1])
        if restarts:
            again = [ForeignKeyStream(config, schema(), int(kept), [pa.int64()]) for _ in range(tasks)]
            for old, new, changed in zip(steps, again, deltas, strict=True):
                restored(new, changed if restarts == "deltas" else [old.snapshot()])
            steps = again


def restored(step: ForeignKeyStream, segments: list[Any]) -> ForeignKeyStream:
    for segment in segments:
        step.apply(segment)
    return step


@given(
    records=RECORDS,
    join=st.sampled_from(["inner", "left"]),
    cuts=st.lists(st.integers(0, 16), max_size=3),
    versioned=st.booleans(),
    kept=st.booleans(),
    restarts=st.sampled_from(["", "snapshot", "deltas"]),
)
def test_a_join_that_keeps_its_right_table_answers_as_one_behind_it(
    records: list[Any], join: Any, cuts: list[int], versioned: bool, kept: bool, restarts: str
) -> None:
    config = TableJoinConfig(join, 1, ("_l0",), ("_r0",), is_foreign=True)
    definition = TableChangesConfig(1, 25, "t", versioned, 8 if versioned else None, True)
    payload = pa.schema([field for field in schema() if field.name != "_l0"])
    behind = TableChangesStream(definition, payload, (), int(kept))
    reference = ForeignKeyStream(config, schema(), int(kept), [pa.int64()])
    step = ForeignKeyStream(config, schema(), int(kept), [pa.int64()], definition)
    updates, deltas = updates_of(records), list[Any]()
    ends = sorted({*(cut for cut in cuts if cut < len(updates)), len(updates)})
    for start, end in zip([0, *ends], ends, strict=False):
        left, given_rows = sent(updates[start:end], "L"), raw(updates[start:end])
        sent_on = behind.on_batch([given_rows]).rows
        right = sent_on.append_column("__k0", sent_on["__u0"])
        right = right.append_column("__hash", pa.array([key % 2 for key in right["__u0"].to_pylist()], pa.int64()))
        times = "__event_time", "__event_time"
        wanted = reference.on_batch(*interleave([left, right], (2, 2), kept, times))
        found = step.on_batch(*interleave([left, given_rows], (2, 1), kept, (times[0], "__time")))
        assert found.rows == wanted.rows
        deltas += [found.delta] if found.delta is not None else []
        if restarts:
            again = ForeignKeyStream(config, schema(), int(kept), [pa.int64()], definition)
            step = restored(again, deltas if restarts == "deltas" else [step.snapshot()])


def raw(updates: list[tuple[int, LeftUpdate | RightUpdate]]) -> pa.Table:
    """The rows of the right side's definition."""
    own = [(number, update) for number, update in updates if isinstance(update, RightUpdate)]
    keys = [update.key[0] for _, update in own]
    return pa.table({
        "__k0": pa.array(keys, pa.int64()),
        "__hash": pa.array([key % 2 for key in keys], pa.int64()),
        "_r0": pa.array([update.row[0] if update.row else None for _, update in own], pa.int64()),
        "__time": pa.array([update.time for _, update in own], pa.int64()).cast(STAMP),
        "__deleted": pa.array([update.row is None for _, update in own], pa.bool_()),
        "__o0": pa.array([number for number, _ in own], pa.int64()),
    })  # fmt: skip


def rows_in(shown: dict[Any, Any]) -> dict[Any, Any]:
    return {key: row for key, row in shown.items() if row is not None}


def by_time(batch: list[Any]) -> list[Any]:
    """As one task would take them: heads by the greatest time so far, the right side first."""
    sides: dict[bool, list[Any]] = {True: [], False: []}
    greatest = {True: -1, False: -1}
    for number, update in batch:
        is_left = isinstance(update, LeftUpdate)
        greatest[is_left] = max(greatest[is_left], update.time)
        sides[is_left].append((greatest[is_left], is_left, number, update))
    return [(number, update) for *_, number, update in sorted([*sides[True], *sides[False]], key=lambda one: one[:3])]


def answered(
    steps: list[ForeignKeyStream], second: LeftStep, batch: list[Any], tasks: int, kept: bool, deltas: list[list[Any]]
) -> list[Update]:
    sides = [sent(sorted(batch, key=lambda one: one[0]), side) for side in "LR"]
    found = []
    for task, step in enumerate(steps):
        own = [
            side.filter(pa.array([(key or 0) % tasks == task for key in side["__k0"].to_pylist()], pa.bool_()))
            for side in sides
        ]
        if any(map(len, own)):
            arranged, order = interleave(own, (2, 2), kept, ("__event_time", "__event_time"))
            emission = step.on_batch(arranged, order)
            found.append(of_task(emission.rows, task))
            deltas[task] += [emission.delta] if emission.delta is not None else []
    if not found:
        return []
    rows = second.updates(pa.concat_tables(found))
    assert np.all(np.diff(rows["__o1"].to_numpy()) > 0)
    return read(rows)
