"""What every operator is, to whoever runs it: a batch of rows in, an emission out, and its state as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from udtf.metrics import Metrics
    from udtf.record import Change, LateRow, Row


@dataclass
class Emission:
    """What one call of `on_batch` sends out, each list in the order of emission.

    Attributes:
        rows: the changes of the result.
        late: the rows that were refused (semantics.md B7).
        metrics: what this batch counted; gauges (`buffered_rows`, `buffered_bytes`) as they are after it.
    """

    rows: list[Change] = field(default_factory=list)
    late: list[LateRow] = field(default_factory=list)
    metrics: Mapping[str, int] = field(default_factory=dict)


class Logic(Protocol):
    """One operator of one task; knows nothing of engines, threads, or where batches are cut."""

    metrics: Metrics

    def on_batch(self, rows: Sequence[Row]) -> Emission:
        """Take rows in arrival order; the answers never depend on how rows are cut into batches."""
        ...

    def snapshot(self) -> bytes:
        """All state, metrics included; taking it changes nothing."""
        ...

    def restore(self, state: bytes) -> None:
        """Replace all state by a snapshot's; the answers that follow are as if nothing had happened."""
        ...
