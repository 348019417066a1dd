"""The loop that decides what happens to each stream row of a micro-batch, compiled by `udtf.columns.compiled`."""

from __future__ import annotations

from typing import Any

from udtf.rules import ACCEPTED, WAITS, fate_of_left


def decide_left(
    times: Any, has_time: Any, has_key: Any, now: Any, max_future: Any, wait: Any, fates: Any, clock: Any
) -> Any:
    """Fate of every stream row, and the stream time after it; returns the last one."""
    for row in range(len(times)):
        fate = fate_of_left(has_time[row], has_key[row], times[row], now, max_future, wait)
        if (fate in (ACCEPTED, WAITS)) and times[row] > now:
            now = times[row]
        fates[row] = fate
        clock[row] = now
    return now
