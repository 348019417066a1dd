"""A join of two live tables by primary key, whole micro-batches at a time, with the answers of `TableJoinLogic`.

A side comes as updates, or as the rows of a definition: then the join keeps that table itself, with the answers of
`TableChangesLogic` in front of it. What it shows of a table is what the join keeps of it anyway, under the same key.

Source: semantics.md 4, 5, 8; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.columns.batch import count_refused, hashes_of, keys_of, keys_present
from udtf.columns.current import NOTHING, CurrentRows
from udtf.columns.live_table import cell_of_deleted, forget_tombstones, put_rows
from udtf.columns.updates import (
    GONE,
    NEW,
    ReadUpdates,
    UpdateRows,
    as_payload,
    of_both,
    times_in,
)
from udtf.logic import Segment, StreamEmission
from udtf.metrics import of_table
from udtf.numba_cache import compiled, inlined
from udtf.operators.table_join import loops, rules
from udtf.operators.table_join.arrival import Coming, merged_updates
from udtf.operators.table_join.logic import TableJoinConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.table import TableConfig

inlined(rules.shows, rules.is_joined)
_meet = compiled(loops.meet, rules)
_SIDES = ("left", "right")


@dataclass
class _Coming:
    """The updates of one side in a micro-batch, one in each place.

    Attributes:
        first: the row of the input that each is known by.
        codes: of their keys.
        cells: what their keys show from then on.
        times: microseconds.
        has_key: no column of the key is NULL.
        late: the rows that were refused.
    """

    first: NDArray[np.int64]
    codes: NDArray[np.int64]
    cells: NDArray[np.int64]
    times: NDArray[np.int64]
    has_key: NDArray[np.bool_]
    late: tuple[pa.Table, ...] = ()


class TableJoinStream:
    """The join of one task, by primary key.

    Both inputs have `__k0 ..`, by which they meet, the payload (`_l0 ..`, `_r0 ..`) and what rows of updates carry
    along, see `udtf.columns.updates`; so has the output. One that is of a definition has `__time`, `__deleted` where
    rows can delete, and `__o0 ..` instead.

    Args:
        config: the join.
        schema: of the output.
        keys: where columns of the output are its key: their place, and which column of the key they are.
        kept: how many order columns, which both inputs share, the output keeps.
        tables: per side the definition whose rows it has; None: it has updates.
    """

    def __init__(
        self, config: TableJoinConfig, schema: pa.Schema, keys: tuple[tuple[int, int], ...], kept: int,
        tables: tuple[TableConfig | None, TableConfig | None] = (None, None),
    ) -> None:  # fmt: skip
        """Start without state."""
        self.config, self._schema, self._kept, self._tables = config, schema, kept, tables
        self._is_versioned = np.array([table is not None and table.is_versioned for table in tables])
        self._now: list[int | None] = [None, None]  # stream times, of sides that have rows of a definition
        self._key_at = keys
        types = [schema.field(f"__u{n}").type for n in range(config.n_keys)]
        payloads = [
            pa.schema([schema.field(n) for n in names]) for names in (config.left_columns, config.right_columns)
        ]
        self._current = CurrentRows(types, payloads)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        current, config, before = self._current, self.config, list(self._now)
        current.make_room()
        coming = [self._coming(table, side) for side, table in enumerate(inputs)]
        left, right = (Coming(updates.first, updates.times) for updates in coming)
        order = merged_updates((left, right), sides, by_sequence=self._kept > 0)
        of_side = np.repeat(np.array([0, 1], np.int8), [len(updates.first) for updates in coming])[order]
        codes, cells, times, has_key = (
            np.concatenate([getattr(updates, name) for updates in coming])[order]
            for name in ("codes", "cells", "times", "has_key")
        )
        found = np.empty((len(order), 4), np.int64)
        shown, was, is_now = (np.empty(len(order), np.bool_) for _ in range(3))
        out_of_order = _meet(
            config.keeps_left, config.keeps_right, self._is_versioned, of_side, codes, times, has_key, cells,
            current.cells, current.times, found, shown, was, is_now,
        )  # fmt: skip
        sent = np.flatnonzero(shown)
        causes = np.concatenate([coming[0].first, coming[1].first + len(inputs[0])])[order][sent]
        output = self._output(inputs, causes, found[sent], UpdateRows(was[sent], is_now[sent], False), times[sent])
        touched = [np.unique(updates.codes) for updates in coming]
        tables = {name: current.table(side, touched[side]) for side, name in enumerate(_SIDES)}
        delta = Segment(tables, self._numbers) if len(order) or before != self._now else None
        metrics = of_table(len(order), len(sent), current.count, self.stored_bytes)
        for updates in coming:
            count_refused(metrics, updates.late)
        metrics.add("out_of_order", int(out_of_order))
        return StreamEmission(output, (), dict(metrics), delta)

    def snapshot(self) -> Segment:
        """The current rows of both sides, and the stream times of those that are kept here."""
        for side, table in enumerate(self._tables):
            if table is not None:
                forget_tombstones(self._current, side, table, self._now[side])
        return Segment({name: self._current.table(side) for side, name in enumerate(_SIDES)}, self._numbers)

    def apply(self, segment: Segment) -> None:
        """Put rows again."""
        for side, (name, table) in enumerate(zip(_SIDES, self._tables, strict=True)):
            self._current.put(side, segment.tables[name], NOTHING if table is None else cell_of_deleted(table))
            self._now[side] = segment.numbers.get(name)

    @property
    def stored_bytes(self) -> int:
        """Memory of the rows."""
        return self._current.nbytes

    @property
    def _numbers(self) -> dict[str, int | None]:
        sides = zip(_SIDES, self._tables, self._now, strict=True)
        return {name: now for name, table, now in sides if table is not None}

    def _coming(self, table: pa.Table, side: int) -> _Coming:
        """Put the payload of one side into the state, where nothing shows it yet."""
        definition = self._tables[side]
        if definition is not None:
            put = put_rows(self._current, side, definition, table, self._now[side])
            self._now[side] = put.now
            has_key = np.ones(len(put.rows), np.bool_)  # what has none was refused
            return _Coming(put.rows, put.codes, put.cells, put.times, has_key, (put.late,))
        read = ReadUpdates(table)
        first, new = pa.array(read.first), read.rows[:, NEW]
        keys = [key.take(first) for key in keys_of(table, self.config.n_keys)]
        codes = self._current.place(keys, hashes_of(table)[read.first])
        is_row = new >= 0
        start = self._current.rows[side].append(table.take(pa.array(new[is_row])))
        cells = np.full(len(new), NOTHING, np.int64)
        cells[is_row] = np.arange(start, start + np.count_nonzero(is_row))
        return _Coming(read.first, codes, cells, times_in(table)[read.first], keys_present(keys))

    def _output(
        self, inputs: Sequence[pa.Table], causes: NDArray[np.int64], found: NDArray[np.int64], rows: UpdateRows,
        times: NDArray[np.int64],
    ) -> pa.Table:  # fmt: skip
        schema, config = self._schema, self.config
        both = {name: of_both(inputs, name).take(pa.array(causes)) for name in self._from_cause()}
        keys = [both[f"__k{n}"] for n in range(config.n_keys)]
        columns = rows.hidden(times, [both[f"__o{n}"] for n in range(self._kept)], keys)
        payload = []
        for side in (0, 1):
            source = found[rows.update, 2 * side + np.minimum(rows.kind, NEW)]
            source[rows.kind == GONE] = NOTHING
            payload += self._current.rows[side].take(np.maximum(source, 0), source >= 0)
        names = [*config.left_columns, *config.right_columns]
        columns |= as_payload(names, payload, rows, keys, self._key_at)
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _from_cause(self) -> list[str]:
        return [*(f"__k{n}" for n in range(self.config.n_keys)), *(f"__o{n}" for n in range(self._kept))]
