"""The AS OF join of live streams, whole micro-batches at a time: the answers are those of `AsOfJoinLogic`.

A micro-batch goes three steps: every row's fate; what is answered in which order (`as_of_stream_left`); one compiled
loop over versions and answers in the order of arrival (`as_of_stream_loops.join_stream`).

Source: semantics.md 2, 4, 6, 7, A, B, C; design.md section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from udtf.errors import OperatorError
from udtf.logic import Segment, StreamEmission
from udtf.metrics import Metrics
from udtf.operators import as_of_kernel as kernel
from udtf.operators import compiled_stream
from udtf.operators.as_of_config import DIRECTIONS, limit
from udtf.operators.as_of_stream_left import Asked, LeftBatch, waiting_schema
from udtf.operators.as_of_stream_right import RightBatch, versions_schema
from udtf.operators.as_of_stream_versions import StreamVersions, by_code
from udtf.operators.as_of_stream_waiting import Waiting
from udtf.operators.stream_rows import count_refused, ordered, puts_before, table_of, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udtf.operators.as_of_config import AsOfJoinConfig

_REASON_NAMES = pa.array(kernel.REASONS, pa.string())
_NO_TREE = np.empty(0, np.int64)


class AsOfJoinStream:
    """The AS OF join of one task.

    Args:
        config: the join.
        emit_order: how many order columns the left input has, when they are to be in the output; 0 leaves them out.

    Raises:
        OperatorError: `OPERATOR.NEEDS_GRACE`, FORWARD or NEAREST without both tolerance and grace (C6).
    """

    def __init__(self, config: AsOfJoinConfig, emit_order: int = 0) -> None:
        """Start without state."""
        if config.direction != "backward" and (config.grace_us is None or config.tolerance_us is None):
            raise OperatorError.needs_grace(config.direction)
        self.config = config
        self._emit_order = emit_order
        self._versions: StreamVersions | None = None  # types are known with the first rows
        self._waiting: Waiting | None = None
        self._left_time: int = kernel.UNSET
        self._right_time: int = kernel.UNSET

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch, see `udtf.logic.StreamLogic`."""
        before = self._numbers()
        versions = self._known_versions(versions_schema(self.config, inputs[1].schema))
        waiting = self._known_waiting(waiting_schema(self.config, inputs[0].schema))
        versions.tidy(self._right_time)
        right = RightBatch(self.config, inputs[1], self._right_time)
        left = LeftBatch(self.config, inputs[0], self._left_time)
        asked = left.ask(waiting)
        places = self._answer(versions, left, right, asked, puts_before(sides, right.is_accepted)[asked.causes])
        kept = left.kept()
        waiting.put(kept)
        self._left_time, self._right_time = left.now, right.now
        delta = Segment({"versions": right.accepted, "waiting": kept}, self._numbers())
        is_changed = len(right.accepted) > 0 or len(kept) > 0 or before != delta.numbers
        late = (left.refused(), right.refused())
        metrics = self._metrics(left, right, asked, late)
        return StreamEmission(self._rows(inputs[0], asked, places), late, metrics, delta if is_changed else None)

    def snapshot(self) -> Segment:
        """Versions without what has expired, what waits, and both stream times."""
        tables = {}
        if self._versions is not None:
            self._versions.pack(self._right_time)
            tables["versions"] = self._versions.table()
        if self._waiting is not None:
            tables["waiting"] = self._waiting.table()
        return Segment(tables, self._numbers())

    def apply(self, segment: Segment) -> None:
        """Put the versions, add what waits, take out what the stream has passed."""
        left, right = segment.numbers["left_time"], segment.numbers["right_time"]
        self._left_time = kernel.UNSET if left is None else left
        self._right_time = kernel.UNSET if right is None else right
        if (table := segment.tables.get("versions")) is not None:
            versions = self._known_versions(table.schema)
            versions.tidy(self._right_time)
            versions.put(table)
        if (table := segment.tables.get("waiting")) is not None:
            waiting = self._known_waiting(table.schema)
            waiting.put(table)
            if self.config.wait_us is not None and left is not None:
                waiting.leave(kernel.due_until(left, self.config.left_limits[1]))

    @property
    def stored_bytes(self) -> int:
        """Memory of versions and waiting rows."""
        parts = (self._versions, self._waiting)
        return sum(part.nbytes for part in parts if part is not None)

    def _known_versions(self, schema: pa.Schema) -> StreamVersions:
        if self._versions is None:
            self._versions = StreamVersions(self.config, schema)
        return self._versions

    def _known_waiting(self, schema: pa.Schema) -> Waiting:
        if self._waiting is None:
            self._waiting = Waiting(schema)
        return self._waiting

    def _numbers(self) -> dict[str, int | None]:
        times = {"left_time": self._left_time, "right_time": self._right_time}
        return {name: None if time == kernel.UNSET else time for name, time in times.items()}

    def _answer(
        self,
        versions: StreamVersions,
        left: LeftBatch,
        right: RightBatch,
        asked: Asked,
        puts_before: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Put and look up; returns the payload row of every answer, -1 where there is none."""
        config, rows = self.config, np.full(len(asked.sources), -1)
        codes, coming, arrivals = versions.coming(right.accepted)
        ask_codes = left.codes(asked, versions.keys)
        nows = np.concatenate([[self._right_time], right.clock])[puts_before]
        order = by_code(ask_codes)
        reasons = asked.reasons[order]
        versions.count += compiled_stream.join_stream(
            codes,
            coming,
            arrivals,
            ask_codes[order],
            asked.times[order],
            asked.known[order],
            puts_before[order],
            nows[order],
            reasons,
            versions.meta,
            versions.pool,
            versions.scratch(),
            _NO_TREE,
            limit(config.retention_us),
            limit(config.tolerance_us),
            DIRECTIONS[config.direction],
            config.exclusive,
            config.has_known,
            rows,
        )
        places = np.empty_like(rows)
        places[order] = rows
        asked.reasons[order] = reasons
        return places

    def _rows(self, left: pa.Table, asked: Asked, places: NDArray[np.int64]) -> pa.Table:
        """The output, in the order of emission."""
        config, sources, causes, reasons = self.config, asked.sources, asked.causes, asked.reasons
        present = places >= 0
        if not config.is_left:
            sources, causes, reasons, places = sources[present], causes[present], reasons[present], places[present]
        names = [*config.left_columns, *config.right_columns]
        released = asked.released
        columns: list[Any] = [
            taken(left[name], released[name] if len(released) else None, sources) for name in config.left_columns
        ]
        assert self._versions is not None, "on_batch has made it"
        is_full = not config.is_left or bool(present.all())
        columns += self._versions.payload.take(places, None if is_full else present, config.right_columns)
        if config.with_reason:
            columns.append(_REASON_NAMES.take(pa.array(reasons)))
            names.append("__reason")
        if self._emit_order:
            order, order_names = ordered(left, causes, self._emit_order)
            columns, names = [*columns, *order], [*names, *order_names]
        return table_of(columns, names, len(sources))

    def _metrics(self, left: LeftBatch, right: RightBatch, asked: Asked, late: tuple[pa.Table, ...]) -> dict[str, int]:
        """What this batch counted; gauges as they are now."""
        metrics = Metrics()
        count_refused(metrics, late)
        metrics.add("late", int(np.count_nonzero(left.fates == kernel.LATE)))
        for reason, count in enumerate(np.bincount(asked.reasons, minlength=len(kernel.REASONS)).tolist()):
            metrics.add("matched" if reason == kernel.MATCH else f"unmatched_{kernel.REASONS[reason]}", count)
        metrics.add("unmatched", len(asked.reasons) - metrics["matched"])
        assert self._versions is not None, "on_batch has made it"
        assert self._waiting is not None, "on_batch has made it"
        metrics.set("buffered_rows", self._waiting.count)
        metrics.set("buffered_bytes", self._waiting.waiting_bytes)
        metrics.set("state_rows", self._versions.count + self._waiting.count)
        metrics.set("state_bytes", self.stored_bytes)
        if self._left_time != kernel.UNSET:
            metrics.set("max_event_time", self._left_time)
        return dict(metrics)
