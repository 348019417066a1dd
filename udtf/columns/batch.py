"""Micro-batches of live streams: numbers of a column, what was refused, where output rows come from."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.columns import compiled as column_loops
from udtf.columns.arrays import is_present, lateness_of, micros_of, one_chunk, presence_of, truth_of
from udtf.rules import ACCEPTED, OUTCOMES, UNSET, limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.metrics import Metrics

_OUTCOME_NAMES = pa.array(OUTCOMES, pa.string())


def micros_or(column: pa.Array, instead: int) -> NDArray[np.int64]:
    """A time column in microseconds, with something instead of NULL."""
    values, present = micros_of(column), presence_of(column)
    return np.where(present, values, instead) if len(present) else values


def keys_present(columns: Sequence[pa.Array]) -> NDArray[np.bool_]:
    """Where no key column is NULL."""
    present = is_present(columns[0])
    for column in columns[1:]:
        if column.null_count:
            present = present & presence_of(column)
    return present


def keys_of(table: pa.Table, n_keys: int) -> list[pa.Array]:
    """The key columns."""
    return [one_chunk(table[f"__k{number}"]) for number in range(n_keys)]


def hashes_of(table: pa.Table) -> NDArray[np.int64]:
    """The hash of every key."""
    hashes: NDArray[np.int64] = one_chunk(table["__hash"]).to_numpy()
    return hashes


def flags_of(table: pa.Table) -> NDArray[np.int8]:
    """Of table rows: 2 for a tombstone, plus 1 where the filter over the table is true (6.8)."""
    flags = np.ones(len(table), np.int8)
    if "__pass" in table.column_names:
        flags[~truth_of(one_chunk(table["__pass"]))] = 0
    if "__deleted" in table.column_names:
        flags += 2 * truth_of(one_chunk(table["__deleted"])).astype(np.int8)
    return flags


def puts_before(sides: NDArray[np.int8], is_accepted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each stream row, how many of the accepted table rows came before it."""
    places = np.flatnonzero(sides == 0)
    counts = np.zeros(len(is_accepted) + 1, np.int64)
    np.cumsum(is_accepted, out=counts[1:])
    before: NDArray[np.int64] = counts[places - np.arange(len(places))]
    return before


class Outcomes:
    """What becomes of the rows of one input, and stream time as they come: A, 2.1, 4.1, B9.

    Args:
        table: the rows in the order of arrival.
        times: names of time columns: the first one is the time of a row, which has none where one of them is NULL.
        n_keys: how many key columns it has.

    Attributes:
        times: by row, microseconds; anything where it has none.
        has_time, has_key: by row.
        keys: the key columns.
        outcomes: by row, once it is decided.
        clock: stream time after each row, once it is decided.
    """

    def __init__(self, table: pa.Table, times: Sequence[str], n_keys: int) -> None:
        """Know the rows, and decide nothing."""
        columns = [one_chunk(table[name]) for name in times]
        self._table = table
        self.times, self.has_time = micros_of(columns[0]), is_present(columns[0])
        for column in columns[1:]:
            self.has_time = self.has_time & is_present(column)
        self.keys = keys_of(table, n_keys)
        self.has_key = keys_present(self.keys)
        self.outcomes, self.clock = np.empty(len(table), np.int8), np.empty(len(table), np.int64)

    def decide_left(self, now: int, limits: tuple[int, int]) -> int:
        """Decide on stream rows, which may wait; returns stream time after them."""
        return int(
            column_loops.decide_left(self.times, self.has_time, self.has_key, now, *limits, self.outcomes, self.clock)
        )

    def decide_right(self, now: int, limits: tuple[int, int], admitted: NDArray[np.bool_] | None = None) -> int:
        """Decide on rows of which none waits; returns stream time after them.

        Args:
            now: stream time before them.
            limits: how far ahead of it and how far behind it they may be, microseconds.
            admitted: the rows whose key is one; those without a NULL in it where that is not given.
        """
        has_key = self.has_key if admitted is None else admitted
        return int(
            column_loops.decide_right(self.times, self.has_time, has_key, now, *limits, self.outcomes, self.clock)
        )

    def refused(self, rows: NDArray[np.int64], name: str) -> pa.Table:
        """Some of the rows as late rows of an operator."""
        known = pa.array(self.times, mask=~self.has_time)
        return refused(self._table, rows, self.outcomes, known, self.clock, name)


class Decided:
    """Which rows of an input are accepted where nothing waits: A, 2.1, 4.1, B9.

    Args:
        table: the input.
        time: its time column.
        n_keys: how many key columns it has.
        now: its stream time before.
        max_future_us: refuse rows further ahead of it.
        keeps_null_keys: rows with a NULL key are accepted.
        retention_us: refuse rows further behind it.

    Attributes:
        now: stream time after.
        times: by row, microseconds; anything where it has none.
        is_accepted: by row.
        accepted: the rows.
        has_key: by row.
    """

    def __init__(  # noqa: PLR0913  # each is a rule of its own that may refuse a row
        self,
        table: pa.Table,
        time: str,
        n_keys: int,
        now: int | None,
        max_future_us: int | None,
        keeps_null_keys: bool = False,
        retention_us: int | None = None,
    ) -> None:
        """Decide on every row."""
        self._found = found = Outcomes(table, [time], n_keys)
        self.times, self.has_key = found.times, found.has_key
        admitted = np.ones_like(found.has_key) if keeps_null_keys else found.has_key
        after = found.decide_right(UNSET if now is None else now, (limit(max_future_us), limit(retention_us)), admitted)
        self.now = None if after == UNSET else after
        self.is_accepted = found.outcomes == ACCEPTED
        self.accepted = np.flatnonzero(self.is_accepted)

    def refused(self, name: str) -> pa.Table:
        """The other rows, as late rows of an operator."""
        return self._found.refused(np.flatnonzero(~self.is_accepted), name)


def count_refused(metrics: Metrics, late: Sequence[pa.Table]) -> None:
    """Count late rows by reason."""
    for table in late:
        for reason in table["_reason"].value_counts().to_pylist() if len(table) else []:
            metrics.add(reason["values"], reason["counts"])


def refused(
    table: pa.Table, rows: NDArray[np.int64], outcomes: NDArray[np.int8], times: pa.Array, clock: Any, name: str
) -> pa.Table:
    """The refused rows with the four columns of semantics.md B7.

    Args:
        table: the input.
        rows: which of its rows are refused.
        outcomes: of all rows.
        times: of all rows in microseconds; NULL where they have none.
        clock: stream time when each row came.
        name: of the operator.
    """
    if not len(rows):
        return _nothing_refused(table.schema)
    places = pa.array(rows)
    table, clock, times, outcomes = table.take(places), clock[rows], times.take(places), outcomes[rows]
    unset = clock == UNSET
    unknown = unset | ~is_present(times)
    lateness = lateness_of(clock, times.fill_null(0).to_numpy(zero_copy_only=False))
    late = table.append_column("_reason", _OUTCOME_NAMES.take(pa.array(outcomes)))
    late = late.append_column("_operator", pa.array([name] * len(rows), pa.string()))
    late = late.append_column("_stream_time", pa.array(clock, mask=unset).cast(pa.timestamp("us", "UTC")))
    return late.append_column("_lateness", pa.array(lateness, mask=unknown))


@lru_cache(maxsize=64)
def _nothing_refused(schema: pa.Schema) -> pa.Table:
    """Made once: every micro-batch of every task asks for it."""
    facts = {"_reason": pa.string(), "_operator": pa.string(), "_stream_time": pa.timestamp("us", "UTC")}
    facts["_lateness"] = pa.int64()
    return pa.schema([*schema, *(pa.field(name, kind) for name, kind in facts.items())]).empty_table()


def taken(column: pa.ChunkedArray, more: pa.ChunkedArray | None, rows: NDArray[np.int64]) -> pa.Array:
    """Some rows of a column that may go on in another one; all of them cost nothing."""
    whole = one_chunk(column)
    if more is not None and len(more):
        whole = pa.concat_arrays([whole, one_chunk(more)])
    if len(rows) == len(whole) and np.array_equal(rows, np.arange(len(rows))):
        return whole
    return whole.take(pa.array(rows))


def ordered(left: pa.Table, causes: NDArray[np.int64], count: int) -> tuple[list[Any], list[str]]:
    """The order columns of each output row: those of the stream row that caused it, and its number within the cause."""
    names = [f"__o{number}" for number in range(count)]
    columns = [taken(left[name], None, causes) for name in names]
    places = np.arange(len(causes))
    is_first = np.ones(len(causes), np.bool_)
    is_first[1:] = causes[1:] != causes[:-1]
    firsts = np.maximum.accumulate(np.where(is_first, places, 0)) if len(causes) else places
    return [*columns, pa.array(places - firsts)], [*names, f"__o{count}"]


def uncaused(rows: pa.Table, given: pa.Table, count: int) -> pa.Table:
    """Rows that no row has caused (IDLE TIMEOUT) with order columns: before all that has a cause, by their event times.

    Args:
        rows: in the order of emission, which stays that of equal times, and of all where they do not carry one.
        given: the input whose order columns the rows of others have.
        count: how many; 0 leaves them out.
    """
    if not count:
        return rows
    name = next((name for name in ("__event_time", "__time") if name in rows.column_names), None)
    places = np.arange(len(rows)) if name is None else micros_or(one_chunk(rows[name]), UNSET)
    orders = [pa.nulls(len(rows), given.schema.field(f"__o{number}").type) for number in range(count)]
    names = [*rows.column_names, *(f"__o{number}" for number in range(count + 1))]
    return pa.table([*rows.columns, *orders, pa.array(places)], names=names)


def table_of(columns: Sequence[Any], names: Sequence[str], rows: int) -> pa.Table:
    """A table that keeps its number of rows without columns too."""
    if names:
        return pa.table(list(columns), names=list(names))
    return pa.Table.from_struct_array(pa.array([{}] * rows, pa.struct([])))
