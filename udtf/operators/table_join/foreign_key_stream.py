"""A join of two live tables by foreign key: two steps, each placed by another key.

First, where a right row is, what an update of it changes, and what each end of a left update tells; then, where a left
row is, updates of the result. Between them rows go in an order that all tasks of the first step have in common. Where
both sides share a sequence it is that one, the right side first, then updates of left rows by their number there, and
what a right row changes by its number here. Else what a right row changes of a left one lies between two updates of
that: no other right row meets it then.

Source: semantics.md 9; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import one_chunk, truth_of
from udtf.columns.batch import is_present
from udtf.columns.records import RecordBacked, keys_in, values_in
from udtf.columns.updates import (
    GONE,
    KIND_BITS,
    NEW,
    OLD,
    ReadUpdates,
    UpdateRows,
    as_payload,
    key_columns,
    numbered,
    numbers_in,
    of_both,
    orders_of,
    side_by_side,
    stamps,
    times_in,
)
from udtf.logic import StreamEmission
from udtf.numba_cache import compiled, inlined
from udtf.operators.table_join import loops, rules
from udtf.operators.table_join.foreign_key import ForeignKeyJoinLogic, LeftUpdate, Part, Pointing, RightUpdate
from udtf.operators.table_join.layout import ORDERS, between
from udtf.operators.table_join.logic import TableJoinConfig
from udtf.record import Key, Update, canonical_key
from udtf.stream.interleave import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

inlined(rules.shows_left, rules.asks_new)
_left_updates = compiled(loops.left_updates, rules)


class _Sent(NamedTuple):
    """A row between the two steps.

    Attributes:
        cause: the place among the rows of both sides of the row that caused it.
        key: of the left row.
        time: of the update, microseconds.
        left: the last update of the left row in this micro-batch, -1 is none.
        is_right: a right row caused it.
        number: of the update, within the micro-batch of this task.
        kind: of the row.
        part: what it tells.
        is_same: of a left update: both ends are one.
    """

    cause: int
    key: Key
    time: int
    left: int
    is_right: bool
    number: int
    kind: int
    part: Part
    is_same: bool = False


class ForeignKeyStream(RecordBacked[ForeignKeyJoinLogic]):
    """The first step, of one task: placed by the keys of right rows.

    Both inputs have `__k0 ..`, by which they meet, the payload (`_l0 ..`, `_r0 ..`) and what rows of updates carry
    along, see `udtf.columns.updates`; of a left update the row before and the row now may be in different tasks.

    Args:
        config: the join.
        schema: of the join's result.
        kept: how many order columns, which both inputs share, the result keeps.
    """

    def __init__(self, config: TableJoinConfig, schema: pa.Schema, kept: int) -> None:
        """Start without state."""
        super().__init__(ForeignKeyJoinLogic(config))
        self.config, self._kept, self._schema = config, kept, between(schema, kept)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = dict(self._logic.metrics)
        places = [np.flatnonzero(sides == side).tolist() for side in (0, 1)]
        given: list[tuple[int, int, LeftUpdate | RightUpdate]] = [
            *self._lefts(inputs[0], places[0]),
            *self._rights(inputs[1], places[1]),
        ]
        given.sort(key=lambda found: found[0])
        sent = list(self._sent(given))
        delta = self.taken([update for _, _, update in given]) if len(sides) else None
        return StreamEmission(self._table(inputs, sides, sent), (), self._counted(before), delta)

    def _sent(self, given: Sequence[tuple[int, int, LeftUpdate | RightUpdate]]) -> Iterator[_Sent]:
        last: dict[Key, int] = {}  # by left key its last update in this micro-batch
        numbers = count()
        for cause, left, update in given:
            if isinstance(update, LeftUpdate):
                last[canonical_key(update.key)] = left
                before, now, is_same = self._logic.on_left(update)
                number = next(numbers)
                for kind, part in ((OLD, before), (NEW, now)):
                    if part is not None:
                        yield _Sent(cause, update.key, update.time, left, False, number, kind, part, is_same)
                continue
            for changed in self._logic.on_right(update):
                before_it, number = last.get(canonical_key(changed.key), -1), next(numbers)
                for kind, row in _rows_of(changed):
                    part = Part(row, has_key=True, right_time=None)
                    yield _Sent(cause, changed.key, update.time, before_it, True, number, kind, part)

    def _lefts(self, table: pa.Table, places: list[int]) -> list[tuple[int, int, LeftUpdate]]:
        """The updates of the left side, each after its place among the rows of both, and its number."""
        read, numbers = ReadUpdates(table), (numbers_in(table) >> KIND_BITS).tolist()
        meets = keys_in(table, self.config.n_keys)
        keys = values_in(table, key_columns(table.column_names))
        payload = values_in(table, self.config.left_columns)
        times = times_in(table).tolist()

        def pointing(row: int) -> Pointing | None:
            return None if row < 0 else Pointing(None if None in meets[row] else meets[row], payload[row])

        return [
            (places[first], numbers[first], LeftUpdate(keys[first], times[first], pointing(old), pointing(new)))
            for first, (old, new, _) in zip(read.first.tolist(), read.rows.tolist(), strict=True)
        ]

    def _rights(self, table: pa.Table, places: list[int]) -> list[tuple[int, int, RightUpdate]]:
        read = ReadUpdates(table)
        meets = keys_in(table, self.config.n_keys)
        payload = values_in(table, self.config.right_columns)
        times = times_in(table).tolist()
        return [
            (places[first], -1, RightUpdate(meets[first], times[first], None if new < 0 else payload[new]))
            for first, new in zip(read.first.tolist(), read.rows[:, NEW].tolist(), strict=True)
        ]

    def _table(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8], sent: Sequence[_Sent]) -> pa.Table:
        schema, kept = self._schema, self._kept
        columns = {}
        for place, name in enumerate((*self.config.left_columns, *self.config.right_columns)):
            values = [None if row.part.row is None else row.part.row[place] for row in sent]
            columns[name] = pa.array(values, schema.field(name).type)
        causes = pa.array(np.argsort(np.argsort(sides, kind="stable"))[[row.cause for row in sent]], pa.int64())
        columns |= {f"__o{n}": of_both(inputs, f"__o{n}").take(causes) for n in range(kept)}
        left, is_right = (
            np.array([row.left for row in sent], np.int64),
            np.array([row.is_right for row in sent], np.bool_),
        )
        numbers, kinds = (np.array(found, np.int64) for found in ([r.number for r in sent], [r.kind for r in sent]))
        by_sequence = (~is_right).astype(np.int64), np.where(is_right, 0, left)
        order = [*(by_sequence if kept else (left, is_right.astype(np.int64))), numbered(numbers, kinds)]
        columns |= {f"__o{kept + n}": pa.array(column) for n, column in enumerate(order)}
        columns |= {"__left": pa.array(left), "__is_right": pa.array(is_right)}
        columns["__event_time"] = stamps(np.array([row.time for row in sent], np.int64))
        for n, name in enumerate(key_columns(schema.names)):
            columns[name] = pa.array([row.key[n] for row in sent], schema.field(name).type)
        columns["__is"] = pa.array([row.part.row is not None for row in sent], pa.bool_())
        columns["__has_key"] = pa.array([row.part.has_key for row in sent], pa.bool_())
        columns["__is_same"] = pa.array([row.is_same for row in sent], pa.bool_())
        columns["__right_time"] = pa.array([row.part.right_time for row in sent], pa.int64())
        return pa.table([columns[name] for name in schema.names], schema=schema)


def _rows_of(update: Update) -> list[tuple[int, tuple[Any, ...] | None]]:
    """The rows that an update goes as, each with its kind."""
    if update.old is None and update.new is None:
        return [(GONE, None)]
    return [(kind, row) for kind, row in ((OLD, update.old), (NEW, update.new)) if row is not None]


class LeftStep:
    """The second step: updates of the result from the rows of all tasks of the first one; it keeps nothing.

    Args:
        config: the join.
        schema: of the result.
        keys: where columns of the result are its key: their place, and which column of the key they are.
        kept: how many order columns, which both inputs share, the result keeps.
    """

    def __init__(
        self, config: TableJoinConfig, schema: pa.Schema, keys: tuple[tuple[int, int], ...], kept: int
    ) -> None:
        self.config, self._schema, self._keys, self._kept = config, schema, keys, kept

    def updates(self, table: pa.Table) -> pa.Table:
        """Answer all rows of some left keys in a micro-batch, in any order, as rows of updates."""
        table = in_order(table, self._kept + ORDERS)
        first, rows = self._together(table)
        is_right = truth_of(one_chunk(table["__is_right"]))[first]
        right_times = one_chunk(table["__right_time"])
        shown, times = np.empty(len(first), np.bool_), times_in(table)[first].copy()
        was, is_now = np.empty(len(first), np.bool_), np.empty(len(first), np.bool_)
        _left_updates(
            self.config.keeps_left, rows, is_right, truth_of(one_chunk(table["__is"])),
            truth_of(one_chunk(table["__has_key"])), truth_of(one_chunk(table["__is_same"])), is_present(right_times),
            pc.fill_null(right_times, 0).to_numpy(zero_copy_only=False), shown, was, is_now, times,
        )  # fmt: skip
        kept = np.flatnonzero(shown)
        return self._rows(table, rows[kept], first[kept], was[kept], is_now[kept], times[kept])

    def _together(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The updates of all rows, see `side_by_side`."""
        is_right, numbers = truth_of(one_chunk(table["__is_right"])), numbers_in(table)
        which = np.where(is_right, numbers >> KIND_BITS, one_chunk(table["__left"]).to_numpy())
        return side_by_side(numbers, is_right, which)

    def _rows(
        self, table: pa.Table, rows: NDArray[np.int64], first: NDArray[np.int64],
        was: NDArray[np.bool_], is_now: NDArray[np.bool_], times: NDArray[np.int64],
    ) -> pa.Table:  # fmt: skip
        schema = self._schema
        sent = UpdateRows(was, is_now, shows_gone=False)
        source = rows[sent.update, sent.kind]
        keys = [one_chunk(table[name]).take(pa.array(first)) for name in key_columns(schema.names)]
        columns = sent.hidden(times, orders_of(table, first, self._kept), keys)
        names = [*self.config.left_columns, *self.config.right_columns]
        payload = [one_chunk(table[name]).take(pa.array(source, mask=sent.kind == GONE)) for name in names]
        columns |= as_payload(names, payload, sent, keys, self._keys)
        return pa.table([columns[name] for name in schema.names], schema=schema)
