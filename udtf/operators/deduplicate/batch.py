"""The bounded deduplication of one task: sorted by arrival, outcomes in one go, filtered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import ints_of, one_chunk, presence_of
from udtf.columns.batch import keys_of
from udtf.columns.keys import Keys
from udtf.operators.deduplicate.stream import (
    Arrivals,
    Outcomes,
    Output,
    Store,
    are_equal,
    ints,
    keyless,
    sequence_codes,
    time_column,
)
from udtf.record import order_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from udtf.operators.deduplicate.config import DeduplicateConfig


def deduplicate_table(config: DeduplicateConfig, rows: pa.Table, is_ordered: bool) -> pa.Table:
    """See `udtf.operators.deduplicate.batch.deduplicate_table`."""
    keys = keys_of(rows, config.n_keys)
    order = np.arange(len(rows)) if is_ordered else _arrival_order(rows)
    arrivals = _arrivals(config, rows, keys, order)
    outcomes = _decide(config, arrivals, keys, order)
    keep = np.zeros(len(rows), np.bool_)
    keep[order[Output(config).forwards(outcomes.codes)]] = True
    if config.keeps_last:  # the groups that are open at the end close with it
        keep[order[outcomes.closed_refs]] = True
    columns = rows.select(list(config.columns))
    return columns if keep.all() else columns.filter(pa.array(keep))


def _arrivals(config: DeduplicateConfig, rows: pa.Table, keys: list[pa.Array], order: NDArray[np.int64]) -> Arrivals:
    time = time_column(rows)
    times = ints(time)
    sequences = sequence_codes(one_chunk(rows["__seq"]))[0][order] if config.has_sequence else np.empty(0, np.int64)
    present, missing = presence_of(time), keyless(keys)
    absent = ~present[order] if len(present) else present
    return Arrivals(
        _ids(rows, keys)[order], times[order], absent, missing[order] if len(missing) else missing, sequences
    )


def _ids(rows: pa.Table, keys: list[pa.Array]) -> NDArray[np.int64]:
    """What tells keys apart: their hashes where they have come along, else a number that is the key, else codes."""
    if "__hash" in rows.column_names:
        return ints(rows["__hash"])
    number = ints_of(keys[0]) if len(keys) == 1 else None
    return Keys(keys).take_own() if number is None else number


def _decide(config: DeduplicateConfig, arrivals: Arrivals, keys: list[pa.Array], order: NDArray[np.int64]) -> Outcomes:
    """Judge by hash, and where two keys share one, by exact codes of the keys."""
    outcomes, store = _decided(config, arrivals)
    met = np.flatnonzero(outcomes.owners >= 0)
    if not are_equal(keys, order[met], order[outcomes.owners[met]]):
        arrivals.ids = Keys(keys).take_own()[order]
        outcomes, store = _decided(config, arrivals)
    if config.keeps_last:
        outcomes.closed_refs = np.concatenate([outcomes.closed_refs, store.entries(store.live())[2]])
    return outcomes


def _decided(config: DeduplicateConfig, arrivals: Arrivals) -> tuple[Outcomes, Store]:
    store = Store(config.interval_us, config.max_future_us, config.keeps_last, config.has_sequence)
    return store.decide(arrivals, 0), store


def _arrival_order(rows: pa.Table) -> NDArray[np.int64]:
    """The rows by `__seq`, without it by `__time`, then by `__arrival0` .., then as they are; NULL first."""
    names = ["__seq" if "__seq" in rows.column_names else "__time"]
    names += [name for name in rows.column_names if name.startswith("__arrival")]
    columns = [one_chunk(rows[name]) for name in names]
    numbers = [ints_of(column) for column in columns]
    if len(numbers) == 1 and numbers[0] is not None and not columns[0].null_count:
        return np.argsort(numbers[0], kind="stable")
    ranks = [rank for column, number in zip(columns, numbers, strict=True) for rank in _ranks(column, number)]
    return np.lexsort(ranks[::-1]).astype(np.int64, copy=False)


def _ranks(column: pa.Array, numbers: NDArray[np.int64] | None) -> list[NDArray[np.int64]]:
    """Numbers that order as the column does; those of rows without a value first."""
    if pa.types.is_nested(column.type):
        keys = [order_key((value,)) for value in column.to_pylist()]
        places = {key: place for place, key in enumerate(sorted(set(keys)))}
        return [np.array([places[key] for key in keys], np.int64)]
    if numbers is None:
        order = pc.sort_indices(column).to_numpy()
        codes = sequence_codes(column)[0][order]
        numbers = np.empty(len(order), np.int64)
        numbers[order] = np.cumsum(np.concatenate([[0], codes[1:] != codes[:-1]])) if len(order) else order
    present = presence_of(column)
    return [present.astype(np.int64), numbers] if len(present) else [numbers]
