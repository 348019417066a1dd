"""Makers of the logics of live operators, as they travel to workers: what they need is imported when one is made.

Spark unpickles an operator in its driver's helper process too, once a query, where no row is ever answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udtf.logic import StreamLogic
    from udtf.operators.as_of_config import AsOfJoinConfig
    from udtf.operators.deduplicate import DeduplicateConfig
    from udtf.operators.suppress import SuppressConfig
    from udtf.operators.table_changes import TableChangesConfig
    from udtf.operators.table_lookup import TableLookupConfig
    from udtf.operators.window_aggregate_config import WindowAggregateConfig


def as_of_join(config: AsOfJoinConfig, emit_order: int) -> StreamLogic:
    """An empty AS OF join."""
    from udtf.operators.as_of_stream import AsOfJoinStream  # numba costs a second to import

    return AsOfJoinStream(config, emit_order)


def table_lookup(config: TableLookupConfig, emit_order: int) -> StreamLogic:
    """An empty look-up."""
    from udtf.operators.table_lookup_stream import TableLookupStream

    return TableLookupStream(config, emit_order)


def deduplicate(config: DeduplicateConfig, emit_order: int) -> StreamLogic:
    """An empty deduplication."""
    from udtf.operators.deduplicate_stream import DeduplicateStream

    return DeduplicateStream(config, emit_order)


def window_aggregate(
    config: WindowAggregateConfig, is_compiled: bool, emit_order: int, copies: Mapping[str, str]
) -> StreamLogic:
    """An empty aggregation: compiled where all of it can be, else row by row.

    Args:
        config: the aggregation.
        is_compiled: whether all of it can be compiled.
        emit_order: how many order columns the output ends in.
        copies: columns that do not travel, and the one that each is.
    """
    from udtf.stream.copies import WithCopies

    if is_compiled:
        from udtf.operators.window_aggregate_stream import WindowAggregateStream

        return WithCopies(WindowAggregateStream(config, emit_order), copies)
    from udtf.operators.window_aggregate_stream_rows import RecordStream

    return WithCopies(RecordStream(config, emit_order), copies)


def table_changes(config: TableChangesConfig, emit_order: int) -> StreamLogic:
    """The updates of an empty table."""
    from udtf.operators.table_changes_stream import TableChangesStream

    return TableChangesStream(config, emit_order)


def suppress(config: SuppressConfig, n_keys: int) -> StreamLogic:
    """A suppression in which nothing waits."""
    from udtf.operators.suppress_stream import SuppressStream

    return SuppressStream(config, n_keys)
