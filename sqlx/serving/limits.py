"""How long a statement may take, and how many rows it may return."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sqlx.errors import RunError


def too_many_rows(most_rows: int) -> RunError:
    """What a client is told whose result is too large.

    Args:
        most_rows: the most rows that a statement may return.
    """
    return RunError("SERVE.TOO_MANY_ROWS", most=most_rows)


class TimeLimit:
    """Ends statements of Spark Connect that take too long; Thrift has a setting for that, Spark Connect has none.

    Args:
        executions: what runs now: Spark's handles by id.
        limit_seconds: the longest that a statement may take.
        now: a clock in seconds.
    """

    def __init__(
        self, executions: Callable[[], dict[str, Any]], limit_seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._executions, self._limit_seconds, self._now = executions, limit_seconds, now
        self._seen: dict[str, float] = {}

    def enforce(self) -> list[str]:
        """Interrupt what has been seen for too long; the ids of what was interrupted."""
        running, now = self._executions(), self._now()
        self._seen = {one: self._seen.get(one, now) for one in running}
        late = [one for one, since in self._seen.items() if now - since > self._limit_seconds]
        for one in late:
            running[one].interrupt()
        return late
