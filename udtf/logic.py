"""What every operator is, to whoever runs it: a batch of rows in, an emission out, and its state as bytes.

`Logic` goes record by record: the definition, and replay. `StreamLogic` takes whole micro-batches of Arrow tables, with
the same answers, and its state leaves as a changelog: one segment per micro-batch, and now and then a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from udtf.record import LateRow

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from udtf.metrics import Metrics
    from udtf.record import Change, Row, Update
    from udtf.time import Micros, StreamTime


@dataclass
class Emission:
    """What one call of `on_batch` sends out, each list in the order of emission.

    Attributes:
        rows: the changes of a result that only grows.
        updates: the changes of a result that is a table; an operator sends the one or the other.
        late: the rows that were refused (semantics.md B7).
        metrics: what this batch counted; gauges (`buffered_rows`, `buffered_bytes`) as they are after it.
    """

    rows: list[Change] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)
    metrics: Mapping[str, int] = field(default_factory=dict)

    def refuse(self, row: Row, time: Micros | None, reason: str, operator: str, clock: StreamTime) -> None:
        """Keep a refused row with how late its time was (B7)."""
        self.late.append(LateRow(row, reason, operator, clock.now_us, clock.lateness_us(time)))


class Snapshotable(Protocol):
    """A record-by-record logic as far as its state goes."""

    metrics: Metrics

    def snapshot(self) -> bytes:
        """All state, metrics included; taking it changes nothing."""
        ...

    def restore(self, state: bytes) -> None:
        """Replace all state by a snapshot's; the answers that follow are as if nothing had happened."""
        ...


class Logic(Snapshotable, Protocol):
    """One operator of one task; knows nothing of engines, threads, or where batches are cut."""

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows in arrival order; the answers never depend on how rows are cut into batches."""
        ...


@dataclass(frozen=True)
class Segment:
    """A piece of a task's changelog: what one micro-batch changed, or a snapshot of everything.

    Attributes:
        tables: rows of state by the operator's own names, such as `versions` and `waiting`.
        numbers: stream times and counters; None is a stream time that is not set yet.
    """

    tables: Mapping[str, pa.Table]
    numbers: Mapping[str, int | None]


@dataclass
class StreamEmission:
    """What one micro-batch sends out.

    Attributes:
        rows: the output columns (left, right, with reasons `__reason`) in the order of emission. With `emit_order` they
            are followed by `__o0 ..`, the order columns of the row whose arrival caused the emission, and one more: the
            running number of the output row within that cause.
        late: per input the refused rows: its columns, then `_reason`, `_operator`, `_stream_time`, `_lateness` (B7).
        metrics: what this batch counted; gauges as they are after it.
        delta: what the changelog must know; None where nothing changed.
    """

    rows: pa.Table
    late: tuple[pa.Table, ...]
    metrics: dict[str, int]
    delta: Segment | None


class StreamLogic(Protocol):
    """One operator of one task, whole micro-batches at a time; the answers are those of its `Logic`."""

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Take one micro-batch.

        Args:
            inputs: per input its rows in the order of arrival.
            sides: the interleaving: which input the next row comes from (0 is left, 1 right); as long as all inputs.
        """
        ...

    def snapshot(self) -> Segment:
        """All state but what can never matter again; taking it changes no answer."""
        ...

    def apply(self, segment: Segment) -> None:
        """Continue from a snapshot (into an empty logic), then from the deltas that followed, in order."""
        ...

    @property
    def stored_bytes(self) -> int:
        """Memory that the state takes, for the worker's budget."""
        ...


class IdleLogic(StreamLogic, Protocol):
    """A stream logic that gives out what is open when nothing has come for a while (IDLE TIMEOUT)."""

    def close_idle(self, *inputs: pa.Table) -> StreamEmission:
        """Give it out; `inputs` are inputs without rows, for their types."""
        ...
