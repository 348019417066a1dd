"""Event time, stream time and the one comparison that says "late".

All times are integer microseconds since the epoch, UTC. Source: semantics.md sections 1 and 2 (KIP-914).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from udtf.rules import is_ahead, is_behind, limit

Micros: TypeAlias = int

#: `put` of a versioned store: the new version is the newest of its key (KIP-889, `VALID_TO_UNDEFINED`).
VALID_TO_LATEST: Final[Micros] = -1
#: `put` of a versioned store: refused, older than the history retention (KIP-889, `PUT_RETURN_CODE_NOT_PUT`).
NOT_PUT: Final[Micros] = -(2**63)


def is_late(event_time_us: Micros, stream_time_us: Micros | None, grace_us: Micros | None) -> bool:
    """Say whether an event is older than stream time by more than the grace; at exactly the grace it is not.

    Args:
        event_time_us: the time of the row.
        stream_time_us: None before the first accepted row; nothing is late then.
        grace_us: None is no limit; nothing is late then.

    >>> is_late(99, 200, 100), is_late(100, 200, 100), is_late(0, None, 100), is_late(0, 200, None)
    (True, False, False, False)
    """
    return stream_time_us is not None and is_behind(event_time_us, stream_time_us, limit(grace_us))


def is_future(event_time_us: Micros, stream_time_us: Micros | None, max_future_us: Micros | None) -> bool:
    """Say whether an event is an outlier ahead of stream time (semantics.md B9); the first row never is.

    >>> is_future(301, 200, 100), is_future(300, 200, 100), is_future(301, None, 100)
    (True, False, False)
    """
    return stream_time_us is not None and is_ahead(event_time_us, stream_time_us, limit(max_future_us))


class StreamTime:
    """The greatest event time that one operator of one task has accepted; it never goes back.

    Unset (None) before the first accepted row. The library starts at -1; times before 1970 are legal here (B1).

    >>> clock = StreamTime(); clock.observe(5), clock.observe(3)
    (5, 5)
    """

    __slots__ = ("now_us",)

    def __init__(self, now_us: Micros | None = None) -> None:
        """Start unset, or where a snapshot left off."""
        self.now_us = now_us

    def observe(self, event_time_us: Micros) -> Micros:
        """Move forward to `event_time_us`, never back; returns stream time."""
        if self.now_us is None or event_time_us > self.now_us:
            self.now_us = event_time_us
        return self.now_us

    def is_late(self, event_time_us: Micros, grace_us: Micros | None) -> bool:
        """`is_late` against this clock, before the row moves it."""
        return is_late(event_time_us, self.now_us, grace_us)

    def is_future(self, event_time_us: Micros, max_future_us: Micros | None) -> bool:
        """`is_future` against this clock, before the row moves it."""
        return is_future(event_time_us, self.now_us, max_future_us)

    def lateness_us(self, event_time_us: Micros | None) -> Micros | None:
        """How far behind stream time a row is (negative: ahead), None where one of both is unknown.

        It fits into 64 bits: what lies farther apart is as far as that.
        """
        if self.now_us is None or event_time_us is None:
            return None
        return max(-(2**63), min(self.now_us - event_time_us, 2**63 - 1))

    def snapshot(self) -> Micros | None:
        """The state: one number, or None before the first row."""
        return self.now_us

    def restore(self, state: Micros | None) -> None:
        """Continue from `snapshot()`."""
        self.now_us = state
