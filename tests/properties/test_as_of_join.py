"""Laws of the AS OF join: the reference, cuts, restarts, and that all executors give one answer."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle.as_of_join import duckdb_sql, reference
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import AsOfJoinLogic, join_tables
from udtf.record import Row, left_row, right_row

KEYS = st.sampled_from(["a", "b", None])
TIMES = st.integers(-10, 40)
STREAM = st.tuples(st.just("L"), KEYS, TIMES, st.integers(0, 99))
TABLE = st.tuples(st.just("R"), KEYS, TIMES, st.none() | st.integers(100, 199))
INPUTS = st.lists(STREAM | TABLE, max_size=40)
COLUMNS = {"left_columns": ("v",), "right_columns": ("tv",)}


def rows_of(records) -> list[Row]:
    return [
        left_row((key,), time, (value,)) if side == "L" else right_row((key,), time, value and (value,))
        for side, key, time, value in records
    ]


def answers_of(logic, rows, cuts=(), restarts=False):
    answers = []
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        answers += [change.values for change in logic.on_batch(rows[start:end]).rows]
        if restarts:
            state, logic = logic.snapshot(), AsOfJoinLogic(logic.config)
            logic.restore(state)
    return answers, logic


@given(INPUTS, st.sampled_from(["inner", "left"]), st.integers(0, 30), st.none() | st.integers(0, 12))
def test_record_by_record_is_the_reference(records, join, retention, grace):
    config = AsOfJoinConfig(join=join, retention_us=retention, grace_us=grace, **COLUMNS)
    answers, _ = answers_of(AsOfJoinLogic(config), rows_of(records))
    assert answers == reference(records, left=join == "left", retention=retention, grace=grace)


@st.composite
def configs(draw):
    direction = draw(st.sampled_from(["backward", "forward", "nearest"]))
    waits = direction != "backward"
    return AsOfJoinConfig(
        join=draw(st.sampled_from(["inner", "left"])),
        direction=direction,
        exclusive=draw(st.booleans()),
        tolerance_us=draw(st.integers(0, 15) if waits else st.none() | st.integers(0, 15)),
        has_known=draw(st.booleans()),
        ties=draw(st.sampled_from([(), (("asc", "first"),), (("desc", "last"),)])),
        with_reason=True,
        grace_us=draw(st.integers(0, 12) if waits else st.none() | st.integers(0, 12)),
        retention_us=draw(st.none() | st.integers(0, 30)),
        **COLUMNS,
    )


@st.composite
def full_rows(draw, config):
    rows = []
    for number in range(draw(st.integers(0, 25))):
        key, time = (draw(KEYS),), draw(TIMES | st.none())
        sequence = draw(TIMES | st.none()) if config.has_known else None
        if draw(st.booleans()):
            rows.append(Row("L", key, time, (number,), event_time=time, sequence=sequence))
        else:
            ties = tuple(draw(st.none() | st.integers(0, 3)) for _ in config.ties)
            is_tombstone, passes = draw(st.integers(0, 3)) == 0, draw(st.integers(0, 3)) > 0
            rows.append(Row("R", key, time, (number,), time, sequence, ties, is_tombstone, passes))
    return rows


@given(st.data(), configs())
def test_cuts_and_restarts_change_nothing(data, config):
    rows = data.draw(full_rows(config))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    whole, cut = AsOfJoinLogic(config), AsOfJoinLogic(config)
    expected, _ = answers_of(whole, rows)
    answers, cut = answers_of(cut, rows, cuts, restarts=True)
    assert answers == expected
    assert dict(cut.metrics) == dict(whole.metrics)


@given(st.data(), configs())
def test_expiring_never_changes_an_answer(data, config):
    rows = data.draw(full_rows(config))
    expected, _ = answers_of(AsOfJoinLogic(config), rows)
    hoarder = AsOfJoinLogic(config)
    hoarder._store._expire = lambda: None
    assert answers_of(hoarder, rows)[0] == expected


@given(st.data(), configs())
def test_batch_is_record_by_record_when_the_table_comes_first(data, config):
    config = replace(config, retention_us=None)
    rows = data.draw(full_rows(config))
    table_first = sorted(rows, key=lambda row: row.side, reverse=True)
    flush = Row("L", ("z",), 10**6, (-1,), event_time=10**6, sequence=0)
    answers, _ = answers_of(AsOfJoinLogic(config), [*table_first, flush])
    expected = tables_answer(config, rows)
    assert sorted(row for row in map(repr, answers) if "-1" not in row) == sorted(map(repr, expected))


def tables_answer(config, rows):
    left, right = tables_of(config, rows)
    return [tuple(row.values()) for row in join_tables(config, left, right).to_pylist()]


def tables_of(config, rows):
    stamp = pa.timestamp("us")
    lefts, rights = [row for row in rows if row.side == "L"], [row for row in rows if row.side == "R"]
    left = {"__k0": pa.array([row.key[0] for row in lefts], pa.string())}
    left["__as_of"] = pa.array([row.time for row in lefts], stamp)
    left["__known"] = pa.array([row.sequence for row in lefts], stamp)
    left["v"] = pa.array([row.payload[0] for row in lefts], pa.int64())
    right = {"__k0": pa.array([row.key[0] for row in rights], pa.string())}
    right["__time"] = pa.array([row.time for row in rights], stamp)
    right["__seq"] = pa.array([row.sequence for row in rights], stamp)
    right |= {f"__tie{at}": pa.array([row.ties[at] for row in rights], pa.int64()) for at in range(len(config.ties))}
    right["__deleted"] = pa.array([row.is_tombstone for row in rights], pa.bool_())
    right["__pass"] = pa.array([row.passes for row in rights], pa.bool_())
    right["tv"] = pa.array([row.payload[0] for row in rights], pa.int64())
    return pa.table(left), pa.table(right)


@given(st.data(), configs())
def test_batch_is_duckdb(data, config):
    rows = data.draw(full_rows(config))
    left, right = tables_of(config, rows)
    answers = join_tables(config, left, right).select(["v", "tv"]).to_pylist()
    sql = duckdb_sql(
        join=config.join,
        direction=config.direction,
        exclusive=config.exclusive,
        tolerance_us=config.tolerance_us,
        keys=1,
        known=config.has_known,
        ties={(): "", (("asc", "first"),): "r.tie DESC NULLS LAST,", (("desc", "last"),): "r.tie ASC NULLS FIRST,"}[
            config.ties
        ],
    )
    connection = duckdb.connect()
    connection.register("l", numbers(left, ["__k0", "__as_of", "__known", "v"], ["k0", "as_of", "known", "id"]))
    right = right.append_column("tie", right["__tie0"] if config.ties else pa.nulls(len(right)))
    columns = ["__k0", "__time", "__seq", "tie", "__deleted", "__pass", "tv", "tv"]
    names = ["k0", "time", "seq", "tie", "deleted", "pass", "arrival", "id"]
    connection.register("r", numbers(right, columns, names))
    assert [tuple(row.values()) for row in answers] == connection.execute(sql).fetchall()


def numbers(table, columns, names):
    arrays = [
        table[name].cast(pa.int64()) if pa.types.is_timestamp(table[name].type) else table[name] for name in columns
    ]
    return pa.table(arrays, names=names)
