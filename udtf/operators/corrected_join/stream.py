"""An AS OF join with corrections of a live stream, whole micro-batches at a time: answers of `CorrectedJoinLogic`.

Versions are kept as by the AS OF join; left rows beside them, by key and time, as long as they may be corrected. One
compiled loop goes over both in the order of arrival.

Source: see the logic; docs/design/20261123_corrections.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from udtf import rules
from udtf.columns.arrays import is_present, micros_of, one_chunk
from udtf.columns.batch import (
    count_refused,
    hashes_of,
    keys_of,
    puts_before,
)
from udtf.columns.rows import FEWEST_ROWS, Rows, grown
from udtf.columns.updates import UpdateRows, equals, orders_of_both, rows_by_place
from udtf.logic import Segment, StreamEmission
from udtf.metrics import Metrics
from udtf.numba_cache import compiled, inlined
from udtf.operators.as_of_join import compiled as version_loops
from udtf.operators.as_of_join import loops as as_of_loops
from udtf.operators.as_of_join import rules as kernel
from udtf.operators.as_of_join.config import DIRECTIONS
from udtf.operators.as_of_join.loops import CELL, LENGTH, TIME
from udtf.operators.as_of_join.stream import (
    NO_TREE,
    REASON_NAMES,
    RightBatch,
    StreamVersions,
    by_code,
    count_answers,
    left_outcomes,
    versions_schema,
    zero_grown,
)
from udtf.operators.corrected_join import loops
from udtf.operators.corrected_join.logic import history_us
from udtf.operators.corrected_join.loops import (
    ASKED,
    CAUSE,
    GIVEN_WIDTH,
    LEFT,
    NEW,
    NEW_REASON,
    NOTHING,
    OLD,
    OLD_REASON,
    PUT,
    VERSIONS,
)
from udtf.rules import UNSET, limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.columns.keys import StreamKeys
    from udtf.operators.as_of_join.config import AsOfJoinConfig

inlined(loops.answer_row)
inlined(loops.first_affected)
inlined(loops.end_of_affected)
inlined(loops.correct_put)
_correct = compiled(loops.correct_stream, kernel, as_of_loops, loops)

#: What is kept of a left row beside its key and payload: AS OF and event time (µs), and its number in the task.
_OWN: Final = ("__as_of", "__happened", "__number")


def left_schema(config: AsOfJoinConfig, left: pa.Schema) -> pa.Schema:
    """Of left rows as segments hold them."""
    names = [*(f"__k{n}" for n in range(config.n_keys)), "__hash", *config.left_columns]
    return pa.schema([*(left.field(name) for name in names), *(pa.field(name, pa.int64()) for name in _OWN)])


class LeftRows:
    """The left rows that may be corrected, by key and AS OF time.

    Args:
        schema: see `left_schema`.
        n_keys: how many of its columns are the key.
    """

    def __init__(self, schema: pa.Schema, n_keys: int) -> None:
        self.rows, self._n_keys = Rows(schema), n_keys
        self.meta, self.pool = np.zeros((0, 4), np.int64), np.zeros((0, 2), np.int64)
        self._used, self._next_pack = 0, FEWEST_ROWS

    @property
    def nbytes(self) -> int:
        """Memory of all of it."""
        return self.rows.nbytes + int(self.meta.nbytes + self.pool.nbytes)

    @property
    def count(self) -> int:
        """How many rows are kept."""
        return int(self.meta[:, LENGTH].sum())

    def room(self, codes: NDArray[np.int64]) -> None:
        """Make room for rows of keys, given by key."""
        more = version_loops.make_coming(codes, self.meta)
        self.pool = grown(self.pool, self._used, more)
        self._used = version_loops.make_room(codes, self.meta, self.pool, self._used)

    def put(self, table: pa.Table, keys: StreamKeys) -> None:
        """Put rows that a segment holds."""
        codes = keys.place(keys_of(table, self._n_keys), hashes_of(table))
        self.meta = zero_grown(self.meta, keys.size)
        first, order = self.rows.append(table), by_code(codes)
        self.room(codes[order])
        times = one_chunk(table["__as_of"]).to_numpy()
        coming = np.stack([times[order], order + first], axis=1)
        version_loops.put_versions(codes[order], coming, self.meta, self.pool, True)

    def tidy(self, horizon: int) -> None:
        """Drop what is not needed, when that is due."""
        if self.rows.used >= self._next_pack:
            self.pack(horizon)
            self._next_pack = max(FEWEST_ROWS, 2 * self.rows.used)

    def pack(self, horizon: int) -> None:
        """Drop rows before a time, microseconds."""
        lengths = self.meta[:, LENGTH]
        codes = np.repeat(np.arange(len(lengths)), lengths)
        begins = np.cumsum(lengths) - lengths
        places = np.arange(len(codes)) - np.repeat(begins - self.meta[:, 0], lengths)
        stays = self.pool[places, TIME] >= horizon
        codes, places = codes[stays], places[stays]
        cells = self.pool[places, CELL]
        self.rows.keep(cells)
        self.pool = np.stack([self.pool[places, TIME], np.arange(len(cells))], axis=1)
        lengths = np.bincount(codes, minlength=len(self.meta))
        self.meta = np.stack([np.cumsum(lengths) - lengths, lengths, lengths, np.zeros_like(lengths)], axis=1)
        self._used = len(cells)

    def table(self) -> pa.Table:
        """All rows, such that putting them again gives the same; after `pack`."""
        return self.rows.table(np.arange(self._used))


class _Asking:
    """The left rows of a micro-batch.

    Args:
        config: the join.
        table: the rows in the order of arrival.
        now: stream time before them.
        number: of the first row that is answered.
    """

    def __init__(self, config: AsOfJoinConfig, table: pa.Table, now: int, number: int) -> None:
        self._config, self._found = config, left_outcomes(config, table)
        self.now = self._found.decide_left(now, config.left_limits)
        self.times, outcomes, happened = self._found.times, self._found.outcomes, one_chunk(table["__event_time"])
        is_answered = outcomes == rules.ACCEPTED
        if config.is_left:
            is_answered |= ((outcomes == rules.NO_TIME) | (outcomes == rules.NULL_KEY)) & is_present(happened)
        self.rows, self._refused = np.flatnonzero(is_answered), np.flatnonzero(~is_answered)
        by_key = np.where(self._found.has_key, kernel.MATCH, kernel.NO_KEY)
        self.reasons = np.where(self._found.has_time, by_key, kernel.NULL_TIME)[self.rows]
        own = {"__as_of": self.times[self.rows], "__happened": micros_of(happened)[self.rows]}
        own["__number"] = np.arange(number, number + len(self.rows))
        schema = left_schema(config, table.schema)
        taken = table if len(self.rows) == len(table) else table.take(pa.array(self.rows))
        self.answered = pa.table(
            [pa.array(own[name]) if name in own else taken[name] for name in schema.names], schema=schema
        )

    def refused(self) -> pa.Table:
        """The rows that are not answered, as late rows."""
        return self._found.refused(self._refused, self._config.name)


class CorrectedJoinStream:
    """The join of one task; for inputs and output see `changed_rows.ChangedRowsJoin`, whose left rows are changed.

    Args:
        config: the join.
        schema: of the output.
        kept: how many order columns, which both inputs share, the output keeps.
    """

    def __init__(self, config: AsOfJoinConfig, schema: pa.Schema, kept: int) -> None:
        """Start without state."""
        self.config, self._schema, self._kept = config, schema, kept
        self._history_us = history_us(config)
        self._versions: StreamVersions | None = None  # types are known with the first rows
        self._left: LeftRows | None = None
        self._left_time = self._right_time = UNSET
        self._number = 0

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = self._numbers()
        versions, kept = self._state(
            versions_schema(self.config, inputs[1].schema), left_schema(self.config, inputs[0].schema)
        )
        versions.tidy(self._right_time)
        kept.tidy(self._horizon)
        right = RightBatch(self.config, inputs[1], self._right_time)
        left = _Asking(self.config, inputs[0], self._left_time, self._number)
        given, stays = self._given(versions, kept, left, right, sides)
        output, corrected = self._output(inputs, sides, given, versions, kept)
        self._number += len(left.rows)
        self._left_time, self._right_time = left.now, right.now
        delta = Segment({"versions": right.accepted, "left": left.answered.filter(pa.array(stays))}, self._numbers())
        is_changed = len(right.accepted) > 0 or before != delta.numbers
        late = (left.refused(), right.refused())
        metrics = self._metrics(given, late, corrected)
        return StreamEmission(output, late, metrics, delta if is_changed else None)

    def snapshot(self) -> Segment:
        """Versions and left rows without what has expired, both stream times, and the number of the next left row."""
        tables = {}
        if self._versions is not None and self._left is not None:
            self._versions.pack(self._right_time)
            self._left.pack(self._horizon)
            tables = {"versions": self._versions.table(), "left": self._left.table()}
        return Segment(tables, self._numbers())

    def apply(self, segment: Segment) -> None:
        """Put versions and left rows."""
        left, right = segment.numbers["left_time"], segment.numbers["right_time"]
        self._left_time, self._right_time = (UNSET if time is None else time for time in (left, right))
        self._number = segment.numbers["next"] or 0
        if segment.tables:
            tables = segment.tables["versions"], segment.tables["left"]
            versions, kept = self._state(*(table.schema for table in tables))
            versions.tidy(self._right_time)
            kept.tidy(self._horizon)
            versions.put(tables[0])
            kept.put(tables[1], versions.keys)

    @property
    def stored_bytes(self) -> int:
        """Memory of versions and left rows."""
        parts = (self._versions, self._left)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def _horizon(self) -> int:
        """Left rows before it are never corrected, microseconds."""
        if self._history_us is None or self._right_time == UNSET:
            return UNSET
        return int(rules.horizon(self._right_time, limit(self._history_us)))

    def _state(self, versions: pa.Schema, left: pa.Schema) -> tuple[StreamVersions, LeftRows]:
        if self._versions is None or self._left is None:
            longer = replace(self.config, retention_us=self._history_us)
            self._versions, self._left = StreamVersions(longer, versions), LeftRows(left, self.config.n_keys)
        return self._versions, self._left

    def _numbers(self) -> dict[str, int | None]:
        times = {"left_time": self._left_time, "right_time": self._right_time}
        found: dict[str, int | None] = {name: None if time == UNSET else time for name, time in times.items()}
        return found | {"next": self._number}

    def _given(
        self, versions: StreamVersions, kept: LeftRows, left: _Asking, right: RightBatch, sides: NDArray[np.int8]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What is given out, in the order of emission, see `loops`; and which of the answered rows stay."""
        config, is_asked = self.config, left.reasons == kernel.MATCH
        codes = np.full(len(left.rows), -1)
        asked = left.answered.filter(pa.array(is_asked))
        codes[is_asked] = versions.keys.place(keys_of(asked, config.n_keys), hashes_of(asked))
        put_codes, coming, arrivals = versions.coming(right.accepted)
        kept.meta = zero_grown(kept.meta, versions.keys.size)
        order = by_code(codes)
        kept.room(codes[order][np.count_nonzero(~is_asked) :])
        cells = np.arange(len(order)) + kept.rows.append(left.answered)
        asking = np.stack([left.times[left.rows], cells], axis=1)[order]
        places = [np.flatnonzero(sides == side) for side in (0, 1)]
        clock = np.concatenate([[self._right_time], right.clock])  # before each version, and after the last
        nows = clock[puts_before(sides, right.is_accepted)]
        stays, done = np.zeros(len(order), np.bool_), np.zeros(3, np.int64)
        parts, room = [], len(order) + 2 * len(put_codes) + 64
        while done[ASKED] < len(order) or done[PUT] < len(put_codes):
            given = np.empty((room, GIVEN_WIDTH), np.int64)
            count = _correct(
                put_codes, coming, places[1][right.is_accepted][arrivals], clock[arrivals], codes[order], asking,
                places[0][left.rows][order], nows[left.rows][order], left.reasons[order], versions.meta, versions.pool,
                kept.meta, kept.pool, NO_TREE, limit(self._history_us), limit(config.tolerance_us),
                DIRECTIONS[config.direction], config.exclusive, done, given, stays,
            )  # fmt: skip
            parts.append(given[:count])
            room = 2 * room if count else max(2 * room, int(kept.meta[:, LENGTH].max(initial=0)))
        versions.count += int(done[VERSIONS])
        found = np.concatenate([np.empty((0, GIVEN_WIDTH), np.int64), *parts])
        of_arrival = np.empty(len(order), np.bool_)
        of_arrival[order] = stays
        return found[np.argsort(found[:, CAUSE], kind="stable")], of_arrival

    def _output(
        self, inputs: Sequence[pa.Table], sides: NDArray[np.int8], given: NDArray[np.int64], versions: StreamVersions,
        kept: LeftRows,
    ) -> tuple[pa.Table, int]:  # fmt: skip
        """Rows of updates; and how many of them correct an answer."""
        config, schema = self.config, self._schema
        is_first = given[:, OLD_REASON] == NOTHING
        changed = given[is_first | ~self._is_same(given, versions)]
        was, is_now = (
            (changed[:, column] >= 0) if config.is_left else (changed[:, column] == kernel.MATCH)
            for column in (OLD_REASON, NEW_REASON)
        )
        shown = np.flatnonzero(was | is_now)
        updates = changed[shown]
        rows = UpdateRows(was[shown], is_now[shown], shows_gone=False)
        left = updates[:, LEFT]
        happened = kept.rows.take(left, names=["__happened"])[0].to_numpy()
        causes = rows_by_place(sides)[updates[:, CAUSE]]
        orders = orders_of_both(inputs, causes, self._kept)
        key_names = [f"__k{n}" for n in range(config.n_keys)]
        keys = kept.rows.take(left, names=[*key_names, "__number"])
        columns: dict[str, Any] = rows.hidden(happened, orders, keys)
        columns |= dict(
            zip(config.left_columns, kept.rows.take(left[rows.update], names=config.left_columns), strict=True)
        )
        cells = updates[:, [OLD, NEW]][rows.update, rows.kind]
        payload = versions.payload.take(np.maximum(cells, 0), cells >= 0, config.right_columns)
        columns |= dict(zip(config.right_columns, payload, strict=True))
        if config.with_reason:
            reasons = updates[:, [OLD_REASON, NEW_REASON]][rows.update, rows.kind]
            columns["__reason"] = REASON_NAMES.take(pa.array(reasons))
        table = pa.table([columns[name] for name in schema.names], schema=schema)
        return table, len(changed) - int(np.count_nonzero(is_first))

    def _is_same(self, given: NDArray[np.int64], versions: StreamVersions) -> NDArray[np.bool_]:
        """Where the version is another one, and shows the same."""
        same: NDArray[np.bool_] = (given[:, OLD] >= 0) == (given[:, NEW] >= 0)
        if self.config.with_reason and self.config.is_left:  # an inner join shows nothing where there is no match
            same &= given[:, OLD_REASON] == given[:, NEW_REASON]
        both = np.flatnonzero(same & (given[:, OLD] >= 0))
        names = self.config.right_columns
        sides = [versions.payload.take(given[both, column], None, names) for column in (OLD, NEW)]
        for old, new in zip(*sides, strict=True):
            same[both] &= equals(old, new)
        return same

    def _metrics(self, given: NDArray[np.int64], late: tuple[pa.Table, ...], corrected: int) -> dict[str, int]:
        """What this batch counted; gauges as they are now."""
        metrics = Metrics()
        count_refused(metrics, late)
        reasons = given[given[:, OLD_REASON] == NOTHING, NEW_REASON]
        count_answers(metrics, reasons)
        metrics.add("corrected", corrected)
        assert self._versions is not None, "on_batch has made it"
        assert self._left is not None, "on_batch has made it"
        metrics.set("state_rows", self._versions.count + self._left.count)
        metrics.set("state_bytes", self.stored_bytes)
        if self._left_time != UNSET:
            metrics.set("max_event_time", self._left_time)
        return dict(metrics)
