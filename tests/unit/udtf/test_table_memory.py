"""What live tables, their joins and groups keep is bounded by what is current, whatever went by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from udtf.aggregates import Aggregate
from udtf.columns.hashes import spark_hashes
from udtf.logic import StreamLogic
from udtf.operators.table_aggregate.compiled_stream import CompiledTableAggregate
from udtf.operators.table_aggregate.logic import TableAggregateConfig
from udtf.operators.table_changes.logic import TableChangesConfig
from udtf.operators.table_changes.stream import TableChangesStream
from udtf.operators.table_join.foreign_key_stream import ForeignKeyStream
from udtf.operators.table_join.logic import TableJoinConfig
from udtf.operators.table_join.stream import TableJoinStream
from udtf.stream.interleave import interleave
from udtf.table import TableConfig

STAMP = pa.timestamp("us", "UTC")
LIVE, NEW_ONES, BATCHES = 400, 100, 120  # keys that are there, keys that come and go in a micro-batch, micro-batches
FEWEST_BYTES = 1 << 17  # hash tables of no key
UPSERT, VERSIONED = TableConfig(), TableConfig(is_versioned=True, retention_us=2 * NEW_ONES)


def hidden(*keys: pa.DataType) -> list[Any]:
    named = [(f"__u{n}", kind) for n, kind in enumerate(keys)]
    return [("__event_time", STAMP), ("__o0", pa.int64()), ("__o1", pa.int64()), *named]


def rows(batch: int, name: str) -> pa.Table:
    """Rows of a definition: all keys that are there are updated twice, the oldest ones are deleted."""
    first = batch * NEW_ONES
    keys = np.concatenate([*[np.arange(first, first + LIVE)] * 2, np.arange(first - NEW_ONES, first)])
    times = np.arange(len(keys)) // len(keys) + first
    found = pa.table({
        "__k0": keys,
        "__time": pa.array(times).cast(STAMP),
        "__deleted": keys < first,
        name: pa.array([f"value {batch} of key {key}" for key in keys]),
        "__o0": np.arange(len(keys)) + batch * len(keys),
    })  # fmt: skip
    return found.append_column("__hash", pa.array(spark_hashes([found["__k0"].combine_chunks()])))


def as_updates(updates: pa.Table, key: pa.Array) -> pa.Table:
    """Updates as the input of an operator that is placed by another key."""
    return updates.append_column("__k0", key).append_column("__hash", pa.array(spark_hashes([key])))


def changes(table: TableConfig) -> TableChangesStream:
    schema = pa.schema([("_l0", pa.string()), *hidden(pa.int64())])
    config = TableChangesConfig(is_versioned=table.is_versioned, retention_us=table.retention_us, is_latest_only=True)
    return TableChangesStream(config, schema, (), 0)


def primary(table: TableConfig) -> TableJoinStream:
    schema = pa.schema([("_l0", pa.string()), ("_r0", pa.string()), *hidden(pa.int64())])
    return TableJoinStream(TableJoinConfig("full", 1, ("_l0",), ("_r0",)), schema, (), 0, (table, table))


def foreign(table: TableConfig) -> ForeignKeyStream:
    schema = pa.schema([("_l0", pa.string()), ("_r0", pa.string()), *hidden(pa.int64())])
    return ForeignKeyStream(TableJoinConfig("left", 1, ("_l0",), ("_r0",)), schema, 0, [pa.int64()], table)


def groups(table: TableConfig) -> CompiledTableAggregate:
    del table
    aggregates = Aggregate("count"), Aggregate("max", 1), Aggregate("count", 1, distinct=True)
    results = [(f"__a{n}", pa.int64()) for n in range(len(aggregates))]
    schema = pa.schema([("__k0", pa.int64()), *results, *hidden(pa.int64())])
    types = [[], [pa.int64()], [pa.int64()]]
    return CompiledTableAggregate(TableAggregateConfig(n_keys=1, aggregates=aggregates), schema, 0, types)


def taken(make: Callable[[TableConfig], StreamLogic], table: TableConfig) -> Iterator[StreamLogic]:
    """A logic after each micro-batch."""
    logic, in_front = make(table), changes(table)
    for batch in range(1, BATCHES):
        left, right = rows(batch, "_l0"), rows(batch, "_r0")
        inputs, times = [left, right], ("__time", "__time")
        if make is changes:
            inputs = [left]
        elif make is not primary:
            updates = in_front.on_batch([left], np.zeros(len(left), np.int8)).rows
            own = updates["__u0"].combine_chunks().to_numpy()
            # Left rows point to right ones, every third to none that was ever there; groups are few.
            points = np.where(own % 3 == 0, -own, own) if make is foreign else own % 7
            arguments = pa.array(own)  # of the groups, values come and go as keys do
            updates = updates.append_column("__a1_0", arguments).append_column("__a2_0", arguments)
            inputs = [as_updates(updates, pa.array(points)), right][: 2 if make is foreign else 1]
            times = ("__event_time", "__time")
        logic.on_batch(*interleave(inputs, (1,) * len(inputs), False, times))
        if batch % 10 == 0:  # as the changelog is compacted
            logic.snapshot()
        yield logic


@pytest.mark.parametrize("table", [UPSERT, VERSIONED], ids=["upsert", "versioned"])
@pytest.mark.parametrize("make", [changes, primary, foreign, groups])
def test_state_is_bounded_by_what_is_current(make: Any, table: TableConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (
        "columns.current",
        "operators.table_join.foreign_key_stream",
        "operators.table_aggregate.compiled_aggregates",
    )
    for module in (f"udtf.{name}" for name in modules):
        monkeypatch.setattr(f"{module}.FEWEST_ROWS", 1 << 10)
    sizes = []
    for logic in taken(make, table):
        sizes.append(logic.stored_bytes)
    again = make(table)
    again.apply(logic.snapshot())
    assert max(sizes) < 6 * again.stored_bytes + FEWEST_BYTES
    middle, end = sizes[BATCHES // 3 : 2 * BATCHES // 3], sizes[2 * BATCHES // 3 :]
    assert max(end) < 1.2 * max(middle)
