"""A join of two live tables by primary key, whole micro-batches at a time, with the answers of `TableJoinLogic`.

Source: semantics.md 8; docs/design/20261123_tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.columns.batch import hashes_of, keys_of, keys_present
from udtf.columns.current import NOTHING, CurrentRows
from udtf.columns.updates import GONE, NEW, ReadUpdates, UpdateRows, as_payload, of_both, times_in
from udtf.logic import Segment, StreamEmission
from udtf.metrics import of_table
from udtf.numba_cache import compiled, inlined
from udtf.operators.table_join import loops, rules
from udtf.operators.table_join.logic import TableJoinConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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
    """

    first: NDArray[np.int64]
    codes: NDArray[np.int64]
    cells: NDArray[np.int64]
    times: NDArray[np.int64]
    has_key: NDArray[np.bool_]


class TableJoinStream:
    """The join of one task, by primary key.

    Both inputs have `__k0 ..`, by which they meet, the payload (`_l0 ..`, `_r0 ..`) and what rows of updates carry
    along, see `udtf.columns.updates`; so has the output.

    Args:
        config: the join.
        schema: of the output.
        keys: where columns of the output are its key: their place, and which column of the key they are.
        kept: how many order columns, which both inputs share, the output keeps.
    """

    def __init__(
        self, config: TableJoinConfig, schema: pa.Schema, keys: tuple[tuple[int, int], ...], kept: int
    ) -> None:
        """Start without state."""
        self.config, self._schema, self._kept = config, schema, kept
        self._key_at = keys
        types = [schema.field(f"__u{n}").type for n in range(config.n_keys)]
        payloads = [
            pa.schema([schema.field(n) for n in names]) for names in (config.left_columns, config.right_columns)
        ]
        self._current = CurrentRows(types, payloads)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        current, config = self._current, self.config
        current.make_room()
        coming = [self._coming(table, side) for side, table in enumerate(inputs)]
        places = [np.flatnonzero(sides == side)[updates.first] for side, updates in enumerate(coming)]
        order = np.argsort(np.concatenate(places), kind="stable")
        of_side = np.repeat(np.array([0, 1], np.int8), [len(updates.first) for updates in coming])[order]
        codes, cells, times, has_key = (
            np.concatenate([getattr(updates, name) for updates in coming])[order]
            for name in ("codes", "cells", "times", "has_key")
        )
        found = np.empty((len(order), 4), np.int64)
        shown, was, is_now = (np.empty(len(order), np.bool_) for _ in range(3))
        _meet(
            config.keeps_left, config.keeps_right, of_side, codes, times, has_key, cells, current.cells, current.times,
            found, shown, was, is_now,
        )  # fmt: skip
        sent = np.flatnonzero(shown)
        causes = np.concatenate([coming[0].first, coming[1].first + len(inputs[0])])[order][sent]
        output = self._output(inputs, causes, found[sent], UpdateRows(was[sent], is_now[sent], False), times[sent])
        touched = [np.unique(updates.codes) for updates in coming]
        tables = {name: current.table(side, touched[side]) for side, name in enumerate(_SIDES)}
        delta = Segment(tables, {}) if len(order) else None
        metrics = of_table(len(order), len(sent), current.count, self.stored_bytes)
        return StreamEmission(output, (), dict(metrics), delta)

    def snapshot(self) -> Segment:
        """The current rows of both sides."""
        return Segment({name: self._current.table(side) for side, name in enumerate(_SIDES)}, {})

    def apply(self, segment: Segment) -> None:
        """Put rows again."""
        for side, name in enumerate(_SIDES):
            self._current.put(side, segment.tables[name], NOTHING)

    @property
    def stored_bytes(self) -> int:
        """Memory of the rows."""
        return self._current.nbytes

    def _coming(self, table: pa.Table, side: int) -> _Coming:
        """Put the payload of one side into the state, where nothing shows it yet."""
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
