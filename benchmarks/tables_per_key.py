"""A join of two tables as one writes it today with `transformWithStateInPandas`: a call and a state for each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

OUTPUT = "k bigint, x bigint, y bigint, change string"
_STATE = "x bigint, y bigint"


class JoinByKey(StatefulProcessor):
    """The current rows of both sides of a key are one value: read once and written once in a micro-batch."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._rows = handle.getValueState("rows", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """All updates of a key in a micro-batch, in order of time: what each makes of the result."""
        import pandas as pd

        frame = pd.concat(list(rows), ignore_index=True).sort_values("ts")
        current: list[Any] = list(self._rows.get() or (None, None))
        changes = []
        for value, side in zip(frame["v"], frame["side"], strict=True):
            before = None if None in current else tuple(current)
            current[int(side)] = None if pd.isna(value) else int(value)
            now = None if None in current else tuple(current)
            if now is not None:
                changes.append((key[0], *now, "insert" if before is None else "update_after"))
            elif before is not None:
                changes.append((key[0], *before, "delete"))
        self._rows.update(tuple(current))
        yield pd.DataFrame(changes, columns=["k", "x", "y", "change"])

    def close(self) -> None:
        """Nothing to close."""
