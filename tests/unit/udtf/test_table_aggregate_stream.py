"""Compiled groups of a table answer as the record-by-record logic does, in any cut, with restarts between."""

from __future__ import annotations

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
)
TYPES = [[], ["int"], ["bigint"], ["int"], ["boolean"], ["bigint"]]
ORDER = [("__o0", pa.int64()), ("__o1", pa.int64())]
STAMP = pa.timestamp("us", "UTC")
ROWS = st.none() | st.tuples(
    st.sampled_from(["g", "h", None]), st.none() | st.integers(-3, 3), st.none() | st.booleans()
)


def schema(n_keys: int) -> pa.Schema:
    keys = [(f"__k{n}", pa.string()) for n in range(n_keys)]
    results = [(f"__a{n}", pa.float64() if a.function == "avg" else pa.int64()) for n, a in enumerate(AGGREGATES)]
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
    for n, kind in ((1, pa.int32()), (2, pa.int64()), (3, pa.int32())):
        columns[f"__a{n}_0"] = pa.array(values, kind)
    columns |= {"__a4_0": pa.array(flags, pa.bool_()), "__a5_0": pa.array(values, pa.int64())}
    columns["__a5_f"] = pa.array(flags, pa.bool_())
    columns["__event_time"] = pa.array([time for _, time, *_ in found], pa.int64()).cast(STAMP)
    columns["__o0"] = pa.array([number for number, *_ in found], pa.int64())
    columns["__o1"] = pa.array([(number << 22) | kind for number, _, kind, _ in found], pa.int64())
    columns["__u0"] = pa.array([str(number % 3) for number, *_ in found], pa.string())
    columns["__hash"] = pa.array([hash(group) % 1_000 for group in groups] if n_keys else [0] * len(found), pa.int64())
    return pa.table(columns)


@given(
    n_keys=st.integers(0, 1),
    sides=st.lists(st.tuples(st.integers(0, 9), ROWS), max_size=14),
    cuts=st.lists(st.integers(0, 14), max_size=3),
    restarts=st.booleans(),
)
def test_compiled_groups_answer_as_the_logic_does(
    n_keys: int, sides: list[tuple[int, Any]], cuts: list[int], restarts: bool
) -> None:
    current: dict[int, Any] = {}
    updates = []
    for number, (time, row) in enumerate(sides):  # three keys in turn; what a key had is what its next update replaces
        before, current[number % 3] = current.get(number % 3), row
        updates.append((number, time, before, row))
    config, kept = TableAggregateConfig(n_keys, AGGREGATES), 2
    made = (CompiledTableAggregate(config, schema(n_keys), kept), TableAggregateStream(config, schema(n_keys), kept))
    ends = sorted({*(cut for cut in cuts if cut < len(updates)), len(updates)})
    for start, end in zip([0, *ends], ends, strict=False):
        table = rows_of(updates[start:end], n_keys)
        fast, slow = (logic.on_batch([table]) for logic in made)
        assert of_task(fast.rows, 3).to_pylist() == of_task(slow.rows, 3).to_pylist()
        if restarts:
            again = (
                CompiledTableAggregate(config, schema(n_keys), kept),
                TableAggregateStream(config, schema(n_keys), kept),
            )
            for old, new in zip(made, again, strict=True):
                new.apply(old.snapshot())
            made = again


def test_a_sum_that_does_not_fit_says_so() -> None:
    config = TableAggregateConfig(1, AGGREGATES)
    table = rows_of([(0, 0, None, ("g", 1, True)), (1, 0, None, ("g", 1, True))], 1)
    table = table.set_column(table.column_names.index("__a2_0"), "__a2_0", pa.array([2**63 - 1, 1]))
    with pytest.raises(OperatorError, match="ARITHMETIC_OVERFLOW"):
        CompiledTableAggregate(config, schema(1), 2).on_batch([table])


def test_what_is_compiled() -> None:
    assert is_compiled(AGGREGATES, TYPES)
    assert not is_compiled([Aggregate("sum", 1, type="double")], [["double"]])
    assert not is_compiled([Aggregate("count", 1, distinct=True)], [["int"]])
    assert not is_compiled([Aggregate("max", 1)], [["int"]])
