"""A join of two live tables by foreign key: two steps, each placed by another key.

First, where a right row is, what an update of it changes, and what each end of a left update tells; then, where a left
row is, updates of the result. Between them rows go in an order that all tasks of the first step have in common. Where
both sides share a sequence it is that one, the right side first, then updates of left rows by their number there, and
what a right row changes by its number here. Else what a right row changes of a left one lies between two updates of
that: no other right row meets it then.

Source: semantics.md 9; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udtf.columns.arrays import is_present, one_chunk, truth_of
from udtf.columns.batch import count_refused, hashes_of, keys_of, keys_present
from udtf.columns.current import NOTHING, CurrentRows
from udtf.columns.hashes import hashes_or_none
from udtf.columns.keys import GroupKeys
from udtf.columns.live_table import cell_of_deleted, forget_tombstones, put_rows
from udtf.columns.rows import FEWEST_ROWS, Rows
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
    orders_of,
    orders_of_both,
    side_by_side,
    stamps,
    times_in,
)
from udtf.logic import Segment, StreamEmission
from udtf.metrics import of_table
from udtf.numba_cache import compiled, inlined
from udtf.operators.table_join import foreign_key_loops, loops, rules
from udtf.operators.table_join.arrival import Coming, merged_updates
from udtf.operators.table_join.layout import ORDERS, between
from udtf.operators.table_join.logic import TableJoinConfig
from udtf.stream.interleave import in_order, order_codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.table import TableConfig

inlined(
    rules.shows_left, rules.asks_new, rules.is_joined, foreign_key_loops.unlink, foreign_key_loops.link,
    foreign_key_loops.send, foreign_key_loops.length, foreign_key_loops.take_left, foreign_key_loops.take_right,
)  # fmt: skip
_left_updates = compiled(loops.left_updates, rules)
_meet_foreign = compiled(foreign_key_loops.meet_foreign, rules, foreign_key_loops)
_point = compiled(foreign_key_loops.point, foreign_key_loops)


class _Lists:
    """Left rows, by their key, in lists by what they point to.

    Args:
        key_types: of the left key.
        payload: of the left rows.
    """

    def __init__(self, key_types: Sequence[pa.DataType], payload: pa.Schema) -> None:
        """Know no row."""
        self.keys = GroupKeys(key_types)
        self.rows = Rows(payload)
        self.facts = np.full((0, 4), NOTHING, np.int64)
        self.firsts = np.full(0, NOTHING, np.int64)
        self._next_pack = self._next_keys = FEWEST_ROWS

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self.keys.nbytes + self.rows.nbytes + self.facts.nbytes + self.firsts.nbytes

    @property
    def is_pointing(self) -> NDArray[np.bool_]:
        """By left row: it points to something."""
        found: NDArray[np.bool_] = self.facts[: self.keys.size, foreign_key_loops.TO] >= 0
        return found

    def place(self, columns: Sequence[pa.Array]) -> NDArray[np.int64]:
        """The codes of left keys."""
        codes = self.keys.place(columns, hashes_or_none(columns))
        known = len(self.facts)
        if self.keys.size > known:
            room = max(self.keys.size, 2 * known) - known
            self.facts = np.pad(self.facts, ((0, room), (0, 0)), constant_values=NOTHING)
        return codes

    def know(self, keys: int) -> None:
        """There are so many keys to point to."""
        known = len(self.firsts)
        if keys > known:
            self.firsts = np.pad(self.firsts, (0, max(keys, 2 * known) - known), constant_values=NOTHING)

    def make_room(self) -> None:
        """Forget replaced rows where those are most; codes and payload rows from before mean nothing then."""
        if self.rows.used < self._next_pack and self.keys.size < self._next_keys:
            return
        lefts = np.flatnonzero(self.is_pointing)
        facts = self.facts[lefts]
        self.rows.keep(facts[:, foreign_key_loops.ROW])
        new = self.keys.keep(lefts)
        self.facts = np.full((len(lefts), 4), NOTHING, np.int64)
        self.firsts = np.full_like(self.firsts, NOTHING)
        _point(new, facts[:, foreign_key_loops.TO].copy(), np.arange(len(new)), self.facts, self.firsts)
        self._next_pack, self._next_keys = max(FEWEST_ROWS, 2 * self.rows.used), max(FEWEST_ROWS, 2 * len(new))

    def renamed(self, keys: NDArray[np.int64]) -> None:
        """The keys to point to have new codes."""
        is_pointing = self.facts[:, foreign_key_loops.TO] >= 0
        self.facts[is_pointing, foreign_key_loops.TO] = keys[self.facts[is_pointing, foreign_key_loops.TO]]
        firsts = np.full_like(self.firsts, NOTHING)
        kept = np.flatnonzero(keys >= 0)
        firsts[keys[kept]] = self.firsts[kept]
        self.firsts = firsts


class ForeignKeyStream:
    """The first step, of one task: placed by the keys of right rows.

    Both inputs have `__k0 ..`, by which they meet, the payload (`_l0 ..`, `_r0 ..`) and what rows of updates carry
    along, see `udtf.columns.updates`; of a left update the row before and the row now may be in different tasks. The
    right one may have the rows of a definition instead, see `TableJoinStream`.

    Args:
        config: the join.
        schema: of the join's result.
        kept: how many order columns, which both inputs share, the result keeps.
        meets: types of the key by which they meet.
        table: the definition whose rows the right side has; None: it has updates.
    """

    def __init__(
        self,
        config: TableJoinConfig,
        schema: pa.Schema,
        kept: int,
        meets: Sequence[pa.DataType],
        table: TableConfig | None = None,
    ) -> None:
        """Start without state."""
        self.config, self._kept, self._schema, self._table = config, kept, between(schema, kept), table
        left, right = (
            pa.schema([schema.field(name) for name in names]) for names in (config.left_columns, config.right_columns)
        )
        self._right = CurrentRows(meets, [right])
        self._left = _Lists([schema.field(name).type for name in key_columns(schema.names)], left)
        self._now: int | None = None  # stream time of the definition

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = self._now
        self._make_room()
        left, right = self._lefts(inputs[0]), self._rights(inputs[1])
        self._left.know(self._right.size)
        order = merged_updates((left.updates, right.updates), sides, by_sequence=self._kept > 0)
        events = np.concatenate([left.events, right.events])[order]
        times = np.concatenate([left.updates.times, right.updates.times])[order]
        causes = np.concatenate([left.updates.first, right.updates.first + len(inputs[0])])[order]
        met = _Met(events, times, causes)
        sent, out_of_order = self._sent(met)
        delta = self._delta(left, right) if len(order) or before != self._now else None
        rows, emitted = self._rows(inputs, met, self._by_left_keys(met, sent))
        metrics = of_table(
            len(order), emitted, self._right.count + int(self._left.is_pointing.sum()), self.stored_bytes
        )
        count_refused(metrics, right.late)
        metrics.add("out_of_order", out_of_order)
        return StreamEmission(rows, (), dict(metrics), delta)

    def snapshot(self) -> Segment:
        """The current right rows, and the left ones that point to something."""
        if self._table is not None:
            forget_tombstones(self._right, 0, self._table, self._now)
        lefts = np.flatnonzero(self._left.is_pointing)
        return Segment({"left": self._lefts_table(lefts), "right": self._right.table(0)}, {"right": self._now})

    def apply(self, segment: Segment) -> None:
        """Put rows again."""
        gone = NOTHING if self._table is None else cell_of_deleted(self._table)
        self._right.put(0, segment.tables["right"], gone)
        self._now = segment.numbers["right"]
        for name, table in segment.tables.items():
            if name != "right":
                self._put_lefts(table, is_gone=name == "left_gone")

    @property
    def stored_bytes(self) -> int:
        """Memory of the rows."""
        return self._right.nbytes + self._left.nbytes

    def _make_room(self) -> None:
        pinned = np.zeros(max(self._right.size, len(self._left.firsts)), np.bool_)
        pinned[: len(self._left.firsts)] = self._left.firsts >= 0
        renamed = self._right.make_room(pinned)
        if renamed is not None:
            self._left.know(len(renamed))
            self._left.renamed(np.pad(renamed, (0, len(self._left.firsts) - len(renamed)), constant_values=NOTHING))
        self._left.make_room()

    def _lefts(self, table: pa.Table) -> _Lefts:
        read, columns = ReadUpdates(table), [one_chunk(table[name]) for name in key_columns(table.column_names)]
        codes = self._left.place([column.take(pa.array(read.first)) for column in columns])
        meets = keys_of(table, self.config.n_keys)
        points = np.full(len(table), NOTHING, np.int64)
        has_key = np.flatnonzero(keys_present(meets))
        points[has_key] = self._right.place([key.take(pa.array(has_key)) for key in meets], hashes_of(table)[has_key])
        start = self._left.rows.append(table)
        old, new = read.rows[:, OLD], read.rows[:, NEW]
        had, has = old >= 0, new >= 0
        number = numbers_in(table)[read.first] >> KIND_BITS
        events = np.column_stack([
            np.zeros_like(codes), codes, had, np.where(had, points[old], NOTHING), start + old, has,
            np.where(has, points[new], NOTHING), start + new, number,
        ]).astype(np.int64) if len(read) else np.empty((0, foreign_key_loops.WIDTH), np.int64)  # fmt: skip
        return _Lefts(Coming(read.first, times_in(table)[read.first]), events, np.unique(codes))

    def _rights(self, table: pa.Table) -> _Rights:
        late: tuple[pa.Table, ...] = ()
        if self._table is not None:
            put = put_rows(self._right, 0, self._table, table, self._now)
            self._now = put.now
            first, codes, cells, times = put.rows, put.codes, put.cells, put.times
            late = (put.late,)
        else:
            read = ReadUpdates(table)
            first, new = read.first, read.rows[:, NEW]
            keys = [key.take(pa.array(first)) for key in keys_of(table, self.config.n_keys)]
            codes, times = self._right.place(keys, hashes_of(table)[first]), times_in(table)[first]
            is_row = new >= 0
            start = self._right.rows[0].append(table.take(pa.array(new[is_row])))
            cells = np.full(len(new), NOTHING, np.int64)
            cells[is_row] = np.arange(start, start + np.count_nonzero(is_row))
        events = np.zeros((len(first), foreign_key_loops.WIDTH), np.int64)
        events[:, foreign_key_loops.SIDE] = 1
        events[:, foreign_key_loops.CODE], events[:, foreign_key_loops.NEW_ROW] = codes, cells
        return _Rights(Coming(first, times), events, np.unique(codes), late)

    def _sent(self, met: _Met) -> tuple[_Sent, int]:
        """What goes to the second step, and how many right rows were out of order."""
        left, right = self._left, self._right
        is_versioned = self._table is not None and self._table.is_versioned
        last = np.full(left.keys.size, NOTHING, np.int64)
        room, begin, out_of_order = 2 * len(met.events) + 16, 0, 0
        found = [_Sent(np.empty((0, foreign_key_loops.WIDTH), np.int64), np.empty(0, np.int64))]
        counted = np.zeros(2, np.int64)
        while begin < len(met.events):  # a right row may change many left ones
            sent, right_times = np.empty((room, foreign_key_loops.WIDTH), np.int64), np.zeros(room, np.int64)
            begin = int(_meet_foreign(
                self.config.keeps_left, is_versioned, met.events, met.times, right.cells[0], right.times[0],
                left.facts, left.firsts, last, sent, right_times, begin, counted,
            ))  # fmt: skip
            found.append(_Sent(sent[: counted[0]], right_times[: counted[0]]))
            out_of_order += int(counted[1])
            room *= 2
        rows, right_times = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return _Sent(rows, right_times), out_of_order

    def _by_left_keys(self, met: _Met, sent: _Sent) -> _Sent:
        """What a right row changes, in the order of the left keys (9.4)."""
        event = sent.rows[:, foreign_key_loops.EVENT]
        is_right = met.is_right[event]
        if not is_right.any():
            return sent
        codes, which = np.unique(sent.rows[is_right, foreign_key_loops.LEFT], return_inverse=True)
        keys = [order_codes(pa.chunked_array([key])) for key in self._left.keys.take(codes)[0]]
        place, rank = np.empty(len(codes), np.int64), np.zeros(len(event), np.int64)
        place[np.lexsort(keys[::-1])] = np.arange(len(codes))
        rank[is_right] = place[which]
        order = np.lexsort([sent.rows[:, foreign_key_loops.KIND], rank, event])
        return _Sent(sent.rows[order], sent.right_times[order])

    def _rows(self, inputs: Sequence[pa.Table], met: _Met, sent: _Sent) -> tuple[pa.Table, int]:
        """The rows between the steps, and how many updates they are of."""
        schema, kept, config = self._schema, self._kept, self.config
        event, left, last, kind, left_row, right_row, is_shown, has_key, is_same = sent.rows.T
        is_right, shows = met.is_right[event], is_shown == 1
        finds = shows & (right_row >= 0)
        payload = [
            *self._left.rows.take(np.where(shows, left_row, 0), shows),
            *self._right.rows[0].take(np.where(finds, right_row, 0), finds),
        ]
        columns: dict[str, Any] = dict(zip((*config.left_columns, *config.right_columns), payload, strict=True))
        columns |= {f"__o{n}": order for n, order in enumerate(orders_of_both(inputs, met.causes[event], kept))}
        by_sequence = (~is_right).astype(np.int64), np.where(is_right, 0, last)
        begins = np.ones(len(event), np.bool_)
        begins[1:] = (event[1:] != event[:-1]) | (left[1:] != left[:-1])
        numbers = np.cumsum(begins) - 1
        order = [*(by_sequence if kept else (last, is_right.astype(np.int64))), numbered(numbers, kind)]
        columns |= {f"__o{kept + n}": pa.array(column) for n, column in enumerate(order)}
        columns |= {"__left": pa.array(last), "__is_right": pa.array(is_right), "__is": pa.array(shows)}
        columns |= {"__has_key": pa.array(has_key == 1), "__is_same": pa.array(is_same == 1)}
        columns["__event_time"] = stamps(met.times[event])
        columns |= dict(zip(self._own_keys, self._left.keys.take(left)[0], strict=True))
        columns["__right_time"] = pa.array(sent.right_times, mask=is_right | (right_row < 0))
        return pa.table([columns[name] for name in schema.names], schema=schema), int(begins.sum())

    def _delta(self, left: _Lefts, right: _Rights) -> Segment:
        is_pointing = self._left.is_pointing[left.touched]
        gone = left.touched[~is_pointing]
        keys = dict(zip(self._own_keys, self._left.keys.take(gone)[0], strict=True))
        tables = {
            "right": self._right.table(0, right.touched),
            "left_gone": pa.table(keys),
            "left": self._lefts_table(left.touched[is_pointing]),
        }
        return Segment(tables, {"right": self._now})

    @property
    def _own_keys(self) -> list[str]:
        return key_columns(self._schema.names)

    def _lefts_table(self, lefts: NDArray[np.int64]) -> pa.Table:
        """Left rows that point to something: to what, their own key, their payload."""
        facts = self._left.facts[lefts]
        meets, hashes = self._right.keys(facts[:, foreign_key_loops.TO])
        columns = {f"__k{n}": key for n, key in enumerate(meets)} | {"__hash": hashes}
        columns |= dict(zip(self._own_keys, self._left.keys.take(lefts)[0], strict=True))
        payload = self._left.rows.take(facts[:, foreign_key_loops.ROW])
        return pa.table(columns | dict(zip(self.config.left_columns, payload, strict=True)))

    def _put_lefts(self, table: pa.Table, *, is_gone: bool) -> None:
        lefts = self._left.place([one_chunk(table[name]) for name in self._own_keys])
        points, rows = np.full(len(table), NOTHING, np.int64), np.zeros(len(table), np.int64)
        if not is_gone:
            points = self._right.place(keys_of(table, self.config.n_keys), hashes_of(table))
            rows = self._left.rows.append(table) + np.arange(len(table))
        self._left.know(self._right.size)
        _point(lefts, points, rows, self._left.facts, self._left.firsts)


class _Met(NamedTuple):
    """The updates of both sides, in order.

    Attributes:
        events: see `foreign_key_loops`.
        times: microseconds.
        causes: of each the row that it is known by, among those of both inputs.
    """

    events: NDArray[np.int64]
    times: NDArray[np.int64]
    causes: NDArray[np.int64]

    @property
    def is_right(self) -> NDArray[np.bool_]:
        """Which are of the right side."""
        found: NDArray[np.bool_] = self.events[:, foreign_key_loops.SIDE] == 1
        return found


class _Sent(NamedTuple):
    """Rows that go to the second step, see `foreign_key_loops`, and the times of right rows that left updates find."""

    rows: NDArray[np.int64]
    right_times: NDArray[np.int64]


class _Lefts(NamedTuple):
    """The updates of the left side, as events, and the left rows that they are of."""

    updates: Coming
    events: NDArray[np.int64]
    touched: NDArray[np.int64]


class _Rights(NamedTuple):
    """The updates of the right side, as events, the keys that they are of, and the rows that were refused."""

    updates: Coming
    events: NDArray[np.int64]
    touched: NDArray[np.int64]
    late: tuple[pa.Table, ...]


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
