"""Sessions of clients: what is kept for them in Python goes when they have gone; statements end in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sqlx.sessions import front_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    #: The ids of the Spark sessions that clients have open.
    Open = Callable[[], Iterable[str]]


class ClientSessions:
    """Lets go of what belongs to sessions that have ended: neither Thrift nor Spark Connect says so to a parser.

    Args:
        spark: the session that clients' sessions are made from.
        servers: what lists the open sessions, for each server.
    """

    def __init__(self, spark: SparkSession, servers: Iterable[Open]) -> None:
        self._front, self._servers = front_of(spark), tuple(servers)
        self._own = self._front.known()

    @property
    def count(self) -> int:
        """How many clients' sessions are open."""
        return len(self._open())

    def sweep(self) -> int:
        """Forget the sessions that have ended; how many there were."""
        before = self._front.known()  # a session that is made from here on is none of those
        ended = before - self._own - self._open()
        for session in ended:
            self._front.forget(session)
        return len(ended)

    def _open(self) -> set[str]:
        return {session for listed in self._servers for session in listed()}


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
