"""Updates of a table as rows that plain SQL can be run over: the row before, the row now, or nothing but the key.

The last order column `__o<n>` says which update a row is of and what it is of it: from the highest bits on a number
that grows along the emission, the task that sent it (the host puts it in), and the kind. So the rows of an update stand
side by side in this order, those of one key in the order of its updates, and no two updates of a micro-batch have one
number.

Columns of such rows: the payload, `__event_time`, `__o0 ..`, and the key as `__u0 ..`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import as_type, micros_of, one_chunk
from udtf.columns.names import is_order, is_row_key
from udtf.record import canonical_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from udtf.record import Update

#: Kinds of rows, in the order in which those of an update stand.
OLD, NEW, GONE = 0, 1, 2
KIND_BITS: Final = 2
TASK_BITS: Final = 20
_KINDS: Final = (1 << KIND_BITS) - 1
_STAMP: Final = pa.timestamp("us", "UTC")


def order_columns(names: Sequence[str]) -> list[str]:
    """Those of some columns that say how rows are ordered, the first first."""
    return [name for name in names if is_order(name)]


def key_columns(names: Sequence[str]) -> list[str]:
    """Those of some columns that are the key of the row that an update is of."""
    return [name for name in names if is_row_key(name)]


def payload_columns(names: Sequence[str]) -> list[str]:
    """Those of some columns that an update shows."""
    return [name for name in names if not name.startswith(("__event_time", "__o", "__u"))]


def orders_of(table: pa.Table, causes: Sequence[int] | NDArray[np.int64], kept: int) -> list[pa.Array]:
    """The first order columns of the rows that caused each update."""
    rows = pa.array(causes, pa.int64())
    return [one_chunk(table[f"__o{n}"]).take(rows) for n in range(kept)]


def rows_by_place(sides: NDArray[np.int8]) -> NDArray[np.int64]:
    """Of each place in the order of arrival its row, of both inputs, the left one's rows first."""
    return np.argsort(np.argsort(sides, kind="stable"), kind="stable")


def orders_of_both(inputs: Sequence[pa.Table], causes: Sequence[int] | NDArray[np.int64], kept: int) -> list[pa.Array]:
    """`orders_of` for rows of two inputs, the left one's rows first."""
    rows = pa.array(causes, pa.int64())
    return [of_both(inputs, f"__o{n}").take(rows) for n in range(kept)]


def of_both(inputs: Sequence[pa.Table], name: str) -> pa.Array:
    """A column of two inputs, the left one's rows first."""
    return pa.concat_arrays([one_chunk(table[name]) for table in inputs])


def as_payload(
    names: Sequence[str],
    columns: Sequence[pa.Array],
    rows: UpdateRows,
    keys: Sequence[pa.Array],
    key_at: Iterable[tuple[int, int]],
) -> dict[str, pa.Array]:
    """The payload of rows: where they are nothing but a key, the columns that are of it show it.

    Args:
        names: of the columns.
        columns: of each row.
        rows: what they are of.
        keys: of each update the columns of its key.
        key_at: where payload columns are of the key: their place, and which column of the key they are.
    """
    found = dict(zip(names, columns, strict=True))
    is_gone = rows.kind == GONE
    if is_gone.any():
        for place, number in key_at:
            name = names[place]
            key = as_type(keys[number].take(pa.array(rows.update)), found[name].type)
            found[name] = pc.if_else(pa.array(is_gone), key, found[name])
    return found


def numbered(update: NDArray[np.int64], kind: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last order column of rows, before the task is put in."""
    return (update << (TASK_BITS + KIND_BITS)) | kind


class UpdateRows:
    """Which rows updates go as.

    Args:
        was: whether there was a row before each.
        is_now: whether there is one now.
        shows_gone: each goes with its key alone, too; else only those of which there was no row and is none.

    Attributes:
        update: of each row the update that it is of.
        kind: of each row.
    """

    def __init__(self, was: NDArray[np.bool_], is_now: NDArray[np.bool_], shows_gone: bool) -> None:
        gone = np.ones_like(was) if shows_gone else ~(was | is_now)
        places = np.flatnonzero(np.stack([was, is_now, gone], axis=1))
        self.update, self.kind = places // 3, places % 3

    def hidden(
        self, times: NDArray[np.int64], orders: Sequence[pa.Array], keys: Sequence[pa.Array]
    ) -> dict[str, pa.Array]:
        """What the rows carry along.

        Args:
            times: of each update, microseconds.
            orders: of each update the order that is kept; none: the greatest time so far.
            keys: of each update the columns of its key.
        """
        rows = pa.array(self.update)
        kept = [order.take(rows) for order in orders] or [pa.array(np.maximum.accumulate(times)[self.update])]
        number = numbered(self.update, self.kind)
        columns = {"__event_time": stamps(times[self.update])}
        columns |= {f"__o{n}": column for n, column in enumerate([*kept, pa.array(number)])}
        return columns | {f"__u{n}": key.take(rows) for n, key in enumerate(keys)}


def stamps(times: NDArray[np.int64]) -> pa.Array:
    """Microseconds as timestamps."""
    return pa.array(times).cast(_STAMP)


def of_task(table: pa.Table, task: int) -> pa.Table:
    """Rows of updates with the task that sends them."""
    name = order_columns(table.column_names)[-1]
    column = one_chunk(table[name]).to_numpy() | (task << KIND_BITS)
    return table.set_column(table.column_names.index(name), name, pa.array(column))


def as_rows(updates: Sequence[Update], schema: pa.Schema, orders: Sequence[pa.Array]) -> pa.Table:
    """Updates of record-by-record logic as rows.

    Args:
        updates: in the order of emission; a deleted row shows what is `gone`.
        schema: of the rows.
        orders: of each update the order that is kept, see `UpdateRows.hidden`.
    """
    was = np.fromiter((u.old is not None for u in updates), np.bool_, len(updates))
    is_now = np.fromiter((u.new is not None for u in updates), np.bool_, len(updates))
    times = np.fromiter((u.time for u in updates), np.int64, len(updates))
    rows = UpdateRows(was, is_now, shows_gone=False)
    columns: dict[str, Any] = {}
    places = zip(rows.update.tolist(), rows.kind.tolist(), strict=True)
    shown = [(updates[n].old, updates[n].new, updates[n].gone)[kind] for n, kind in places]
    for place, name in enumerate(payload_columns(schema.names)):
        columns[name] = pa.array([None if row is None else row[place] for row in shown], schema.field(name).type)
    names = key_columns(schema.names)
    keys = [pa.array([u.key[n] for u in updates], schema.field(name).type) for n, name in enumerate(names)]
    columns |= rows.hidden(times, orders, keys)
    return pa.table([columns[name] for name in schema.names], schema=schema)


class ReadUpdates:
    """Rows of updates, in their order, put together again.

    Args:
        table: the rows.

    Attributes:
        rows: per update the places of its rows, one column a kind; -1 where there is none of it.
        first: per update the place of its first row.
    """

    def __init__(self, table: pa.Table) -> None:
        numbers = numbers_in(table)
        self.first, self.rows = side_by_side(numbers, numbers >> KIND_BITS)

    def __len__(self) -> int:
        """How many updates there are."""
        return len(self.first)

    def without_last(self) -> ReadUpdates:
        """All updates but the last one."""
        found = copy(self)
        found.first, found.rows = self.first[:-1], self.rows[:-1]
        return found


def side_by_side(
    numbers: NDArray[np.int64], *ids: NDArray[np.int64] | NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The updates of rows that stand side by side.

    Args:
        numbers: of each row the last order column.
        ids: of each row what all rows of its update have in common, and no other row beside them.

    Returns:
        per update its first row, and its rows of each kind, -1 where there is none.
    """
    begins = np.ones(len(numbers), np.bool_)
    begins[1:] = np.any([one[1:] != one[:-1] for one in ids], axis=0)
    first = np.flatnonzero(begins)
    rows = np.full((len(first), 3), -1, np.int64)
    rows[np.cumsum(begins) - 1, numbers & _KINDS] = np.arange(len(numbers))
    return first, rows


#: What a change of a result can be, by its code.
CHANGE_TYPES: Final = ("insert", "update_before", "update_after", "delete")
_INSERT, _BEFORE, _AFTER, _DELETE = range(4)


def upserts(read: ReadUpdates) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """One change an update: the row that it shows, its type, and whether it shows more of it than the key."""
    old, new, gone = read.rows.T
    is_now = new >= 0
    source = np.where(is_now, new, np.where(gone >= 0, gone, old))
    return source, np.where(is_now, np.where(old >= 0, _AFTER, _INSERT), _DELETE), is_now


def exact_changes(
    read: ReadUpdates, columns: Sequence[pa.ChunkedArray]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """What really changed, as `upserts`: the pair of an update, the row that a deletion removes, or nothing."""
    old, new, _ = read.rows.T
    was, is_now = old >= 0, new >= 0
    both = np.flatnonzero(was & is_now)
    is_same = np.zeros(len(read), np.bool_)
    is_same[both] = True
    for column in columns:
        whole = one_chunk(column)
        is_same[both] &= equals(whole.take(pa.array(old[both])), whole.take(pa.array(new[both])))
    places = np.flatnonzero(np.stack([was & ~is_same, is_now & ~is_same], axis=1))
    update, is_after = places // 2, places % 2 == 1
    kind = np.where(is_after, np.where(was[update], _AFTER, _INSERT), np.where(is_now[update], _BEFORE, _DELETE))
    return np.where(is_after, new[update], old[update]), kind, np.ones(len(places), np.bool_)


def equals(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Where two columns of one type are the same as Spark has it: NULL equals NULL, NaN NaN, -0.0 0.0."""
    if pa.types.is_nested(one.type) or pa.types.is_null(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([canonical_key((a,)) == canonical_key((b,)) for a, b in pairs], np.bool_)
    same = pc.fill_null(pc.equal(one, other), False)
    same = pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other)))
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False))
    found: NDArray[np.bool_] = same.to_numpy(zero_copy_only=False)
    return found


def numbers_in(table: pa.Table) -> NDArray[np.int64]:
    """The last order column: which update each row is of, and which row of it."""
    numbers: NDArray[np.int64] = one_chunk(table[order_columns(table.column_names)[-1]]).to_numpy()
    return numbers


def times_in(table: pa.Table) -> NDArray[np.int64]:
    """The event times of rows of updates, microseconds."""
    return micros_of(one_chunk(table["__event_time"]))
