"""A live stream joined with an UPSERT table, whole micro-batches at a time, with the answers of `TableLookupLogic`.

Source: semantics.md 6.1, 6.2 (unversioned), 4.1, 4.2; docs/design/20261121_streaming_state.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from udtf.columns.batch import (
    Decided,
    count_refused,
    flags_of,
    hashes_of,
    keys_of,
    ordered,
    puts_before,
    table_of,
    taken,
)
from udtf.columns.keys import StreamKeys
from udtf.columns.rows import FEWEST_ROWS, Rows, check_types
from udtf.logic import Segment, StreamEmission
from udtf.metrics import Metrics
from udtf.numba_cache import compiled
from udtf.operators.table_lookup import loops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.table_lookup.logic import TableLookupConfig


# The current rows of a live UPSERT table, of one task: memory grows with the keys that have a row.


_NOBODY = np.empty(0, np.int64)
_join_current = compiled(loops.join_current)


class KeyedRows:
    """The row of every key that has one.

    Args:
        schema: of table rows as segments hold them: `__k0 ..`, `__hash`, `__flags`, payload.
        n_keys: how many key columns there are.
    """

    def __init__(self, schema: pa.Schema, n_keys: int) -> None:
        """Start without rows."""
        self._schema, self._n_keys = schema, n_keys
        self._key_types = [schema.field(f"__k{number}").type for number in range(n_keys)]
        self.payload = Rows(self._payload_of(schema))
        self._keys = StreamKeys(self._key_types)
        self._cells = np.full(0, -1, np.int64)  # by key: payload row times 2, plus 1 where the filter is true
        self._next_pack = FEWEST_ROWS
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self._keys.nbytes + self.payload.nbytes + int(self._cells.nbytes)

    def fit(self, schema: pa.Schema) -> None:
        """Go on with rows of another payload: NULL in those that are there, where they have not a column.

        Raises:
            StateError: `STATE.OTHER_TYPE`: a column has another type.
        """
        if schema == self._schema:
            return
        check_types(self._schema, schema)
        self.payload.fit(self._payload_of(schema))
        self._schema = schema

    def _payload_of(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema(list(schema)[self._n_keys + 2 :])

    def join(
        self, table: pa.Table, left: pa.Table, decided: Decided, puts_before: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Put table rows and answer stream rows.

        Args:
            table: the accepted table rows, as segments hold them.
            left: all stream rows.
            decided: which of them are answered.
            puts_before: how many of the table rows came before each of those.

        Returns:
            the payload row of every answer, -1 where there is none.
        """
        wanted = decided.is_accepted & decided.has_key
        codes, cells = self._coming(table)
        asks = self._keys.find(keys_of(left, self._n_keys), hashes_of(left), wanted)[decided.accepted]
        rows = np.empty(len(asks), np.int64)
        self.count += int(_join_current(codes, cells, asks, puts_before, self._cells, rows))
        return rows

    def put(self, table: pa.Table) -> None:
        """Put rows that a segment holds."""
        self.count += int(_join_current(*self._coming(table), _NOBODY, _NOBODY, self._cells, _NOBODY))

    def _coming(self, table: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Make room for table rows; returns the codes of their keys and what their cells will be."""
        if self.payload.used >= self._next_pack:
            self._pack()
        codes = self._keys.place(keys_of(table, self._n_keys), hashes_of(table))
        if self._keys.size > len(self._cells):
            longer = np.full(max(self._keys.size, 2 * len(self._cells)), -1, np.int64)
            longer[: len(self._cells)] = self._cells
            self._cells = longer
        flags = table["__flags"].to_numpy().astype(np.int64)
        first = self.payload.append(table)
        return codes, np.where(flags & 2, -1, (np.arange(first, first + len(table)) << 1) + flags)

    def table(self) -> pa.Table:
        """The rows, in the shape of segments."""
        codes = self._pack()
        columns = [*self._keys.take(codes), pa.array((self._cells[codes] & 1).astype(np.int8))]
        return pa.table([*columns, *self.payload.take(self._cells[codes] >> 1)], names=self._schema.names)

    def _pack(self) -> NDArray[np.int64]:
        """Forget rows that were replaced and keys without a row; returns the codes of all keys."""
        cells = self._cells[: self._keys.size]
        codes = np.flatnonzero(cells >= 0)
        *columns, hashes = self._keys.take(codes)
        self.payload.keep(cells[codes] >> 1)
        self._keys = StreamKeys(self._key_types)
        flags = cells[codes] & 1
        codes = self._keys.place(columns, hashes.to_numpy())
        self._cells = np.full(len(codes), -1, np.int64)
        self._cells[codes] = (np.arange(len(codes)) << 1) + flags
        self._next_pack = max(FEWEST_ROWS, 2 * self.payload.used)
        return codes


class TableLookupStream:
    """The join of one task.

    Args:
        config: the join.
        emit_order: how many order columns the left input has, when they are to be in the output; 0 leaves them out.
    """

    def __init__(self, config: TableLookupConfig, emit_order: int = 0) -> None:
        """Start without state."""
        self.config = config
        self._emit_order = emit_order
        self._current: KeyedRows | None = None  # types are known with the first rows
        self._times: dict[str, int | None] = {"left_time": None, "right_time": None}  # only for outliers (B9)

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        config, (left, right) = self.config, inputs
        before = self._times
        lefts = Decided(
            left, "__event_time", config.n_keys, before["left_time"], config.left_max_future_us, config.is_left
        )
        rights = Decided(right, "__time", config.n_keys, before["right_time"], config.right_max_future_us)
        put = self._kept(right).take(pa.array(rights.accepted))
        current = self._known_current(put.schema)
        answers = current.join(put, left, lefts, puts_before(sides, rights.is_accepted)[lefts.accepted])
        self._times = {"left_time": lefts.now, "right_time": rights.now}
        late = (lefts.refused(config.name), rights.refused(config.name))
        delta = Segment({"rows": put}, dict(self._times)) if len(put) or before != self._times else None
        metrics = self._metrics(late, answers)
        return StreamEmission(self._rows(left, lefts.accepted, answers), late, metrics, delta)

    def snapshot(self) -> Segment:
        """The current rows and both stream times."""
        tables = {} if self._current is None else {"rows": self._current.table()}
        return Segment(tables, dict(self._times))

    def apply(self, segment: Segment) -> None:
        """Put rows again."""
        if (table := segment.tables.get("rows")) is not None:
            self._known_current(table.schema).put(table)
        self._times = dict(segment.numbers)

    @property
    def stored_bytes(self) -> int:
        """Memory of the rows."""
        return 0 if self._current is None else self._current.nbytes

    def _known_current(self, schema: pa.Schema) -> KeyedRows:
        if self._current is None:
            self._current = KeyedRows(schema, self.config.n_keys)
        self._current.fit(schema)
        return self._current

    def _kept(self, right: pa.Table) -> pa.Table:
        """Table rows as segments hold them: key, hash, `__flags` as `flags_of`, payload."""
        names = [*(f"__k{number}" for number in range(self.config.n_keys)), "__hash"]
        columns = [right[name] for name in (*names, *self.config.right_columns)]
        columns.insert(len(names), pa.chunked_array([pa.array(flags_of(right))]))
        return pa.table(columns, names=[*names, "__flags", *self.config.right_columns])

    def _rows(self, left: pa.Table, sources: NDArray[np.int64], answers: NDArray[np.int64]) -> pa.Table:
        """The output, in the order of arrival."""
        config, present = self.config, answers >= 0
        if not config.is_left:
            sources, answers = sources[present], answers[present]
        assert self._current is not None, "on_batch has made it"
        is_full = not config.is_left or bool(present.all())
        columns = [taken(left[name], None, sources) for name in config.left_columns]
        columns += self._current.payload.take(answers, None if is_full else present, config.right_columns)
        names = [*config.left_columns, *config.right_columns]
        if self._emit_order:
            order, order_names = ordered(left, sources, self._emit_order)
            columns, names = [*columns, *order], [*names, *order_names]
        return table_of(columns, names, len(sources))

    def _metrics(self, late: tuple[pa.Table, ...], answers: NDArray[np.int64]) -> dict[str, int]:
        metrics = Metrics()
        count_refused(metrics, late)
        metrics.add("matched", int(np.count_nonzero(answers >= 0)))
        metrics.add("unmatched", len(answers) - metrics["matched"])
        assert self._current is not None, "on_batch has made it"
        metrics.set("state_rows", self._current.count)
        metrics.set("state_bytes", self.stored_bytes)
        if (now := self._times["left_time"]) is not None:
            metrics.set("max_event_time", now)
        return dict(metrics)
