"""Compiled groups of a table answer as the record-by-record logic does, in any cut, with restarts between."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udtf.aggregates import Aggregate
from udtf.columns.updates import of_task
from udtf.errors import OperatorError
from udtf.operators.table_aggregate.compiled_stream import CompiledTableAggregate
from udtf.operators.table_aggregate.logic import TableAggregateConfig, is_compiled
from udtf.operators.table_aggregate.stream import TableAggregateStream

AGGREGATES = (
    Aggregate("count"),
    Aggregate("count", 1),
    Aggregate("sum", 1),
    Aggregate("avg", 1, type="double"),
    Aggregate("count_if", 1),
    Aggregate("sum", 1, has_filter=True),
    Aggregate("sum", 1, type="double"),
    Aggregate("avg", 1, type="double"),
    Aggregate("sum", 1, type="decimal(28,3)"),
    Aggregate("avg", 1, type="decimal(22,7)"),
    Aggregate("max", 1, type="double"),
    Aggregate("min", 1, type="float"),
    Aggregate("max", 1, type="timestamp"),
    Aggregate("min", 1, type="decimal(18,3)"),
    Aggregate("count", 2, distinct=True),
    Aggregate("sum", 1, distinct=True, has_filter=True, type="double"),
    Aggregate("max", 1, distinct=True, type="date"),
)
STAMP = pa.timestamp("us", "UTC")
DECIMAL = pa.decimal128(18, 3)
#: Per aggregate the types of its arguments, as Spark and as Arrow names them; the result's type.
TYPES = [
    [], ["int"], ["bigint"], ["int"], ["boolean"], ["bigint"], ["double"], ["float"], ["decimal(18,3)"],
    ["decimal(18,3)"], ["double"], ["float"], ["timestamp"], ["decimal(18,3)"], ["string", "double"], ["double"],
    ["date"],
]  # fmt: skip
ARROW = {
    "int": pa.int32(), "bigint": pa.int64(), "boolean": pa.bool_(), "double": pa.float64(), "float": pa.float32(),
    "decimal(18,3)": DECIMAL, "timestamp": STAMP, "string": pa.string(), "date": pa.date32(),
    "decimal(28,3)": pa.decimal128(28, 3), "decimal(22,7)": pa.decimal128(22, 7),
}  # fmt: skip
ARGUMENTS = [[ARROW[name] for name in names] for names in TYPES]
ORDER = [("__o0", pa.int64()), ("__o1", pa.int64())]
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 1e308, -1e308, 5e-324, -3e-320, 1.5, 1e-5]) | st.floats()
DECIMALS = st.integers(-(10**18) + 1, 10**18 - 1) | st.integers(-1500, 1500)
ROWS = st.none() | st.tuples(
    st.sampled_from(["g", "h", None]), st.none() | st.integers(-3, 3), st.none() | st.booleans(),
    st.none() | FLOATS, st.none() | DECIMALS,
)  # fmt: skip


def schema(n_keys: int) -> pa.Schema:
    keys = [(f"__k{n}", pa.string()) for n in range(n_keys)]
    results = [(f"__a{n}", ARROW[a.type]) for n, a in enumerate(AGGREGATES)]
    hidden = [("__event_time", STAMP), *ORDER, ("__o2", pa.int64()), *((f"__u{n}", pa.string()) for n in range(n_keys))]
    return pa.schema([*keys, *results, *hidden])


def rows_of(updates: list[tuple[int, int, Any, Any]], n_keys: int) -> pa.Table:
    """Updates (number, time, row before, row now) as an operator in front of the groups sends them."""
    found = [
        (number, time, kind, row)
        for number, time, *sides in updates
        for kind, row in enumerate(sides)
        if row is not None
    ]
    groups = [row[0] for *_, row in found]
    values, flags = [row[1] for *_, row in found], [row[2] for *_, row in found]
    columns: dict[str, Any] = {f"__k{n}": pa.array(groups, pa.string()) for n in range(n_keys)}
    floats = [row[3] for *_, row in found]
    longs = [None if row[4] is None else Decimal(row[4]).scaleb(-3) for *_, row in found]
    given = {"boolean": flags, "double": floats, "float": floats, "decimal(18,3)": longs, "string": groups}
    for n, names in enumerate(TYPES):
        for m, name in enumerate(names):
            columns[f"__a{n}_{m}"] = _column(given.get(name, values), name)
        columns |= {f"__a{n}_f": pa.array(flags, pa.bool_())} if AGGREGATES[n].has_filter else {}
    columns["__event_time"] = pa.array([time for _, time, *_ in found], pa.int64()).cast(STAMP)
    columns["__o0"] = pa.array([number for number, *_ in found], pa.int64())
    columns["__o1"] = pa.array([(number << 22) | kind for number, _, kind, _ in found], pa.int64())
    columns["__u0"] = pa.array([str(number % 3) for number, *_ in found], pa.string())
    columns["__hash"] = pa.array([hash(group) % 1_000 for group in groups] if n_keys else [0] * len(found), pa.int64())
    return pa.table(columns)


def _column(values: list[Any], name: str) -> pa.Array:
    if name == "float":
        return pa.array(values, pa.float64()).cast(pa.float32())
    return pa.array(values, pa.int32() if name == "date" else ARROW[name]).cast(ARROW[name])


@given(
    n_keys=st.integers(0, 1),
    sides=st.lists(st.tuples(st.integers(0, 9), ROWS), max_size=14),
    cuts=st.lists(st.integers(0, 14), max_size=3),
    restarts=st.sampled_from(["", "snapshot", "deltas"]),
    packs=st.booleans(),
)
def test_compiled_groups_answer_as_the_logic_does(
    n_keys: int, sides: list[tuple[int, Any]], cuts: list[int], restarts: str, packs: bool
) -> None:
    current: dict[int, Any] = {}
    updates = []
    for number, (time, row) in enumerate(sides):  # three keys in turn; what a key had is what its next update replaces
        before, current[number % 3] = current.get(number % 3), row
        updates.append((number, time, before, row))
    config, kept = TableAggregateConfig(n_keys, AGGREGATES), 2
    made = new(config, kept)
    deltas: list[Any] = []
    ends = sorted({*(cut for cut in cuts if cut < len(updates)), len(updates)})
    for start, end in zip([0, *ends], ends, strict=False):
        table = rows_of(updates[start:end], n_keys)
        for _, values in made[0]._values() if packs else ():  # as when most values have gone
            values._next_pack = 0
        fast, slow = (logic.on_batch([table]) for logic in made)
        assert repr(of_task(fast.rows, 3).to_pylist()) == repr(of_task(slow.rows, 3).to_pylist())  # NaN is no equal
        deltas += [fast.delta] if fast.delta is not None else []
        if restarts:
            again = new(config, kept)
            for number, (old, logic) in enumerate(zip(made, again, strict=True)):
                for segment in deltas if number == 0 and restarts == "deltas" else [old.snapshot()]:
                    logic.apply(segment)
            made = again


def new(config: TableAggregateConfig, kept: int) -> tuple[CompiledTableAggregate, TableAggregateStream]:
    shape = schema(config.n_keys)
    return CompiledTableAggregate(config, shape, kept, ARGUMENTS), TableAggregateStream(config, shape, kept)


def test_a_sum_that_does_not_fit_says_so() -> None:
    config = TableAggregateConfig(1, AGGREGATES)
    table = rows_of([(number, 0, None, ("g", 1, True, None, None)) for number in range(2)], 1)
    table = table.set_column(table.column_names.index("__a2_0"), "__a2_0", pa.array([2**63 - 1, 1]))
    with pytest.raises(OperatorError, match="ARITHMETIC_OVERFLOW"):
        new(config, 2)[0].on_batch([table])


def test_what_is_compiled() -> None:
    assert is_compiled(AGGREGATES, TYPES)
    assert not is_compiled([Aggregate("sum", 1, type="decimal(38,2)")], [["decimal(28,2)"]])
    assert not is_compiled([Aggregate("count", 1, distinct=True)], [["array<int>"]])
    assert not is_compiled([Aggregate("max", 1, type="string")], [["string"]])
    assert not is_compiled([Aggregate("collect_list", 1)], [["int"]])
