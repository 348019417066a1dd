"""The smallest stream logic: a running count per key. What hosts and logs are tested with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from udtf.logic import Segment, StreamEmission

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: One row, as an operator gets it: key, event time, order, payload.
ROW = pa.schema(
    [("__k0", pa.int64()), ("__event_time", pa.timestamp("us", "UTC")), ("__o0", pa.int64()), ("__hash", pa.int64())]
)


class Counting:
    """Output per row: its key `k`, its order `o`, and `n`, how many rows the key has had so far; key -1 is refused."""

    def __init__(self) -> None:
        """No key has had a row."""
        self.counts: dict[int, int] = {}

    def on_batch(self, inputs: Sequence[pa.Table], sides: NDArray[np.int8]) -> StreamEmission:
        """Count row by row, in the order of `sides`."""
        rows = [iter(table.select(["__k0", "__o0"]).to_pylist()) for table in inputs]
        out: list[dict[str, int]] = []
        changed: dict[int, int] = {}
        for side in sides.tolist():
            row = next(rows[side])
            if row["__k0"] != -1:
                self.counts[row["__k0"]] = changed[row["__k0"]] = self.counts.get(row["__k0"], 0) + 1
                out.append({"k": row["__k0"], "o": row["__o0"], "n": changed[row["__k0"]]})
        late = tuple(table.filter(pa.compute.equal(table["__k0"], -1)) for table in inputs)
        metrics = {"matched": len(out), "late": sum(table.num_rows for table in late), "state_rows": len(self.counts)}
        schema = pa.schema([("k", pa.int64()), ("o", pa.int64()), ("n", pa.int64())])
        return StreamEmission(pa.Table.from_pylist(out, schema), late, metrics, _segment(changed) if changed else None)

    def snapshot(self) -> Segment:
        """All counts."""
        return _segment(self.counts)

    def apply(self, segment: Segment) -> None:
        """Take over counts."""
        counts = segment.tables["counts"]
        self.counts.update(zip(counts["k"].to_pylist(), counts["n"].to_pylist(), strict=True))

    @property
    def stored_bytes(self) -> int:
        """16 for each key."""
        return 16 * len(self.counts)


def _segment(counts: dict[int, int]) -> Segment:
    table = pa.table({"k": pa.array(counts.keys(), pa.int64()), "n": pa.array(counts.values(), pa.int64())})
    return Segment({"counts": table}, {"keys": len(counts), "stream_time": None})
