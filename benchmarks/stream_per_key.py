"""An AS OF join as one writes it today with `transformWithStateInPandas`: a call and a state for each key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

OUTPUT = "k bigint, ts timestamp, id bigint, qty double, rate double"
_STATE = "times array<bigint>, rates array<double>"


class AsOfByKey(StatefulProcessor):
    """The versions of a key are one value: read once and written once in a micro-batch, searched with numpy."""

    def __init__(self, retention_us: int) -> None:
        self._retention_us = retention_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._versions = handle.getValueState("versions", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """All rows of a key in a micro-batch: note its versions, then look its stream rows up."""
        import numpy as np
        import pandas as pd

        frame = pd.concat(list(rows), ignore_index=True)
        is_version = frame["side"].to_numpy() == 1
        times, rates = self._known(frame[is_version])
        left = frame[~is_version]
        if len(left):
            place = np.searchsorted(times, micros(left["ts"]), side="right") - 1
            found = np.append(rates, np.nan)[place]  # place -1 is no version
            rate = pd.Series(found, index=left.index).where(place >= 0, None)
            yield pd.DataFrame({"k": key[0], "ts": left["ts"], "id": left["id"], "qty": left["qty"], "rate": rate})

    def _known(self, added: pd.DataFrame) -> tuple[Any, Any]:
        """The versions of the key in order of time, with those that were added."""
        import numpy as np

        found = self._versions.get() or ([], [])
        times, rates = np.array(found[0], np.int64), np.array(found[1], np.float64)
        if len(added):
            times = np.append(times, micros(added["ts"]))
            rates = np.append(rates, added["qty"].to_numpy())
            order = np.argsort(times, kind="stable")
            times, rates = times[order], rates[order]
            # The version that was valid when the retention began is still needed.
            first = max(0, int(np.searchsorted(times, times[-1] - self._retention_us, side="right")) - 1)
            times, rates = times[first:], rates[first:]
            self._versions.update((times.tolist(), rates.tolist()))
        return times, rates

    def close(self) -> None:
        """Nothing to close."""


def micros(times: pd.Series[Any]) -> Any:
    """Microseconds since 1970."""
    return times.to_numpy().astype("datetime64[us]").astype("int64")
