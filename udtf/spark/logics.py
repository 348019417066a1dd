"""Makers of the logics of live operators, as they travel to workers: what they need is imported when one is made.

Spark unpickles an operator in its driver's helper process too, once a query, where no row is ever answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from udtf.logic import StreamLogic
    from udtf.operators.as_of_join.config import AsOfJoinConfig
    from udtf.operators.deduplicate.config import DeduplicateConfig
    from udtf.operators.suppress.logic import SuppressConfig
    from udtf.operators.table_aggregate.logic import TableAggregateConfig
    from udtf.operators.table_changes.logic import TableChangesConfig
    from udtf.operators.table_join.logic import TableJoinConfig
    from udtf.operators.table_lookup.logic import TableLookupConfig
    from udtf.operators.window_aggregate.config import WindowAggregateConfig
    from udtf.table import TableConfig


def with_copies(make_logic: Callable[[], StreamLogic], layouts: Sequence[Mapping[str, str]]) -> StreamLogic:
    """An empty logic of inputs in which some columns did not travel, being others; see `WithCopies`."""
    from udtf.stream.copies import WithCopies

    return WithCopies(make_logic(), layouts)


def as_of_join(config: AsOfJoinConfig, emit_order: int) -> StreamLogic:
    """An empty AS OF join."""
    from udtf.operators.as_of_join.stream import AsOfJoinStream  # numba costs a second to import

    return AsOfJoinStream(config, emit_order)


def corrected_join(config: AsOfJoinConfig, schema: pa.Schema, kept: int, is_changed: bool) -> StreamLogic:
    """An empty AS OF join with corrections: compiled, where its left rows are not corrected themselves."""
    if is_changed:
        from udtf.operators.corrected_join.changed_rows import ChangedRowsJoin

        return ChangedRowsJoin(config, schema, kept)
    from udtf.operators.corrected_join.stream import CorrectedJoinStream

    return CorrectedJoinStream(config, schema, kept)


def table_lookup(config: TableLookupConfig, emit_order: int) -> StreamLogic:
    """An empty look-up."""
    from udtf.operators.table_lookup.stream import TableLookupStream

    return TableLookupStream(config, emit_order)


def deduplicate(config: DeduplicateConfig, emit_order: int) -> StreamLogic:
    """An empty deduplication."""
    from udtf.operators.deduplicate.stream import DeduplicateStream

    return DeduplicateStream(config, emit_order)


def window_aggregate(config: WindowAggregateConfig, is_compiled: bool, emit_order: int) -> StreamLogic:
    """An empty aggregation: compiled where all of it can be, else row by row."""
    if is_compiled:
        from udtf.operators.window_aggregate.stream import WindowAggregateStream

        return WindowAggregateStream(config, emit_order)
    from udtf.operators.window_aggregate.row_by_row import RecordStream

    return RecordStream(config, emit_order)


def group_updates(
    config: WindowAggregateConfig, is_compiled: bool, schema: pa.Schema, kept: int, bounds: tuple[str, ...]
) -> StreamLogic:
    """An empty aggregation whose results change; see `window_aggregate`."""
    from udtf.operators.window_aggregate.updates import GroupUpdates

    return GroupUpdates(window_aggregate(config, is_compiled, kept), schema, kept, bounds)


def table_changes(config: TableChangesConfig, schema: pa.Schema, keys: tuple[int, ...], kept: int) -> StreamLogic:
    """The updates of an empty table."""
    from udtf.operators.table_changes.stream import TableChangesStream

    return TableChangesStream(config, schema, keys, kept)


def table_join(
    config: TableJoinConfig,
    schema: pa.Schema,
    keys: tuple[tuple[int, int], ...],
    kept: int,
    tables: tuple[TableConfig | None, TableConfig | None],
) -> StreamLogic:
    """A join of two empty tables, which keeps those that are given."""
    from udtf.operators.table_join.stream import TableJoinStream

    return TableJoinStream(config, schema, keys, kept, tables)


def foreign_key_join(
    config: TableJoinConfig, schema: pa.Schema, kept: int, meets: Sequence[pa.DataType], table: TableConfig | None
) -> StreamLogic:
    """The first step of a join of two empty tables by foreign key, which keeps the right one where it is given."""
    from udtf.operators.table_join.foreign_key_stream import ForeignKeyStream

    return ForeignKeyStream(config, schema, kept, meets, table)


def table_aggregate(
    config: TableAggregateConfig, schema: pa.Schema, kept: int, compiled: Sequence[Sequence[pa.DataType]] | None
) -> StreamLogic:
    """An aggregation of an empty table: compiled, with the types of all arguments, or update by update."""
    if compiled is not None:
        from udtf.operators.table_aggregate.compiled_stream import CompiledTableAggregate

        return CompiledTableAggregate(config, schema, kept, compiled)
    from udtf.operators.table_aggregate.stream import TableAggregateStream

    return TableAggregateStream(config, schema, kept)


def suppress(config: SuppressConfig, n_keys: int) -> StreamLogic:
    """A suppression in which nothing waits."""
    from udtf.operators.suppress.logic import SuppressStream

    return SuppressStream(config, n_keys)
