"""A stream joined with an UPSERT table: the row there is now, by arrival; timestamps play no part.

Source: semantics.md 6.1, 6.2 (unversioned), 4.1, 4.2; KIP-914 ("unversioned tables").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from udtf.errors import require
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.record import Change, Key, Row, canonical_key
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros, StreamTime

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TableLookupConfig:
    """Everything the join of a stream with an UPSERT table needs to know.

    Attributes:
        join: 'inner' or 'left'.
        n_keys: how many key columns both inputs have.
        left_columns: names of the left payload in the output.
        right_columns: names of the right payload in the output.
        left_max_future_us: refuse rows further ahead of stream time (B9); None is no limit.
        right_max_future_us: the same for the table.
        name: the operator's name in `_operator` and in messages.
    """

    join: str = "inner"
    n_keys: int = 1
    left_columns: tuple[str, ...] = ()
    right_columns: tuple[str, ...] = ()
    left_max_future_us: Micros | None = None
    right_max_future_us: Micros | None = None
    name: str = "table_lookup"

    def __post_init__(self) -> None:
        require(self, "join", self.join in ("inner", "left"), "'inner' or 'left'")

    @property
    def remembered(self) -> TableLookupConfig:
        """What its state depends on: a row is answered at once, and what is handed on may change."""
        return replace(self, join="inner", left_columns=(), right_columns=())

    @property
    def is_left(self) -> bool:
        """Every left row has an answer."""
        return self.join == "left"


class TableLookupLogic:
    """Stream rows look up the current row of their key; table rows replace it, tombstones delete it."""

    def __init__(self, config: TableLookupConfig) -> None:
        """Start without state."""
        self.config = config
        self.metrics = Metrics()
        self._current: dict[Key, tuple[tuple[Any, ...], bool]] = {}
        self._clocks = {"L": StreamTime(), "R": StreamTime()}  # only for outliers (B9)
        self._emission = Emission()

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows of both sides in arrival order."""
        before = dict(self.metrics)
        emission = self._emission = Emission()
        for row in rows:
            if self._is_accepted(row):
                self._put(row) if row.side == "R" else self._answer(row)
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """The current rows, both stream times and the metrics."""
        times = {side: clock.snapshot() for side, clock in self._clocks.items()}
        return seal(self.config.name, {"rows": self._current, "times": times, "metrics": self.metrics.snapshot()})

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        # NB: keys again, since a NaN in one equals itself only as the one object of this process.
        self._current = {canonical_key(key): row for key, row in parts["rows"].items()}
        self._clocks = {side: StreamTime(now_us) for side, now_us in parts["times"].items()}
        self.metrics = Metrics(parts["metrics"])

    def _is_accepted(self, row: Row) -> bool:
        """Refuse what has no time (A), no key (4.1; a left join keeps its stream rows, 6.1) or is an outlier (B9)."""
        clock, event_time = self._clocks[row.side], row.event_time
        max_future_us = self.config.right_max_future_us if row.side == "R" else self.config.left_max_future_us
        if event_time is None:
            return self._refuse(row, "null_time")
        if row.has_null_key and not (row.side == "L" and self.config.is_left):
            return self._refuse(row, "null_key")
        if clock.is_future(event_time, max_future_us):
            return self._refuse(row, "future")
        clock.observe(event_time)
        return True

    def _put(self, row: Row) -> None:
        if row.is_tombstone:
            self._current.pop(canonical_key(row.key), None)
        else:
            self._current[canonical_key(row.key)] = row.payload, row.passes

    def _answer(self, row: Row) -> None:
        payload, passes = (
            (None, False) if row.has_null_key else self._current.get(canonical_key(row.key), (None, False))
        )
        if passes and payload is not None:
            self.metrics.add("matched")
            self._emission.rows.append(Change("insert", row.event_time, row.payload + payload))
            return
        self.metrics.add("unmatched")
        if self.config.is_left:
            nothing = (None,) * len(self.config.right_columns)
            self._emission.rows.append(Change("insert", row.event_time, row.payload + nothing))

    def _refuse(self, row: Row, reason: str) -> bool:
        self.metrics.add(reason)
        self._emission.refuse(row, row.event_time, reason, self.config.name, self._clocks[row.side])
        return False
