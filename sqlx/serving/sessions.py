"""Sessions of clients: what is kept for them in Python goes when they have gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sqlx.sessions.session import front_of

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
