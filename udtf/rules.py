"""The rules that every operator obeys, written once: whether a row is late, ahead of time, refused, or due.

Plain functions over numbers. The record-by-record logic calls them as they are, loops over whole tables call them
compiled (`udtf.numba_cache`), so this file imports nothing. Times are microseconds since the epoch, as int64.

Source: semantics.md 2.1, 4.1, 6.1, 7.2, 7.3, A, B2 and B9.
"""

from __future__ import annotations

from typing import Any, Final

#: The least int64: a stream time before the first accepted row.
UNSET: Final = -(2**63)

ACCEPTED: Final = 0
NO_TIME: Final = 1
NULL_KEY: Final = 2
FUTURE: Final = 3
EXPIRED: Final = 4
LATE: Final = 5
WAITS: Final = 6

#: Names of the outcomes above, as metrics and late rows say them.
OUTCOMES: Final = ("accepted", "null_time", "null_key", "future", "expired", "late", "waits")

#: The distance of all that is farther apart.
FARTHEST: Final = 2**63 - 1


_MOST: Final = 2**62  # no two times of Spark lie as far apart


def limit(micros: int | None) -> int:
    """A limit for compiled rules: -1 is none, and it fits into 64 bits with room."""
    return -1 if micros is None else min(micros, _MOST)


def distance(one: Any, other: Any) -> Any:
    """How far apart two spots are; what does not fit into 64 bits is farthest."""
    high, low = (one, other) if one >= other else (other, one)
    if low < 0 and high > FARTHEST + low:  # NB: before it is calculated; a compiler takes it that nothing wraps around
        return FARTHEST
    return high - low


def is_behind(time: Any, stream_time: Any, limit: Any) -> bool:
    """Older than stream time by more than the limit; a limit below 0 is none. At exactly the limit it is not (2.1)."""
    return bool(limit >= 0 and time < stream_time and distance(stream_time, time) > limit)


def is_ahead(time: Any, stream_time: Any, limit: Any) -> bool:
    """Ahead of stream time by more than the limit (B9); the first row never is."""
    return bool(limit >= 0 and stream_time != UNSET and time > stream_time and distance(time, stream_time) > limit)


def outcome_at_sight(has_time: Any, has_key: Any, time: Any, stream_time: Any, max_future: Any) -> int:
    """Why a row of either side is refused before lateness is looked at, or ACCEPTED (4.1, 6.1, A, B9)."""
    if not has_time:
        return NO_TIME
    if not has_key:
        return NULL_KEY
    return FUTURE if is_ahead(time, stream_time, max_future) else ACCEPTED


def outcome_of_left(has_time: Any, has_key: Any, time: Any, stream_time: Any, max_future: Any, wait: Any) -> int:
    """What happens to a stream row, by the stream time before it; a wait below 0 answers at once (6.1, 7.2, B2, B9)."""
    outcome = outcome_at_sight(has_time, has_key, time, stream_time, max_future)
    if outcome != ACCEPTED or wait < 0:
        return outcome
    return LATE if is_behind(time, stream_time, wait) else WAITS


def outcome_of_right(has_time: Any, has_key: Any, time: Any, stream_time: Any, max_future: Any, retention: Any) -> int:
    """Whether a version is accepted, by the stream time of the accepted versions before it (2.1, 4.1, A, B9)."""
    outcome = outcome_at_sight(has_time, has_key, time, stream_time, max_future)
    if outcome != ACCEPTED:
        return outcome
    return EXPIRED if is_behind(time, stream_time, retention) else ACCEPTED


def due_until(stream_time: Any, wait: Any) -> Any:
    """Waiting rows up to this time leave: at exactly the wait they do (7.3)."""
    if wait > 0 and stream_time < UNSET + wait:
        return UNSET
    return stream_time - wait


def horizon(time: Any, interval: Any) -> Any:
    """`time - interval`; what does not fit into 64 bits is the least."""
    return UNSET if time < UNSET + interval else time - interval
