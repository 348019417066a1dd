"""A task's state from its changelog: from what a worker kept if that is of this history, else from the snapshot on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from udtf.errors import StateError
from udtf.stream.cache import CachedState
from udtf.stream.log import Head
from udtf.stream.segments import FORMAT, owner_of, unseal

if TYPE_CHECKING:
    from collections.abc import Callable

    from udtf.logic import StreamLogic
    from udtf.stream.log import Log


@dataclass(frozen=True)
class Restored:
    """A task's state as of the head of its log, and what it came from: `cache`, `tail`, `snapshot` or `nothing`."""

    logic: StreamLogic
    source: str


def checked_head(log: Log, fingerprint: str, place: str) -> Head:
    """The head of a log that belongs to this query.

    Raises:
        StateError: `STATE.FORMAT`, `STATE.OTHER_QUERY`.
    """
    head = log.head()
    if head is None:
        return Head.empty(fingerprint)
    if head.format != FORMAT:
        raise StateError.format(place, head.format, FORMAT)
    if head.fingerprint != fingerprint:
        raise StateError.other_query(place, head.fingerprint, fingerprint)
    return head


def restore(
    make_logic: Callable[[], StreamLogic], log: Log, head: Head, kept: CachedState | None, place: str
) -> Restored:
    """The state at the head: what was kept if it is that, or can catch up with it; else from the snapshot on.

    Raises:
        StateError: `STATE.CORRUPT_SEGMENT`, `STATE.MISSING_SEGMENT`, `STATE.OTHER_QUERY`, `STATE.FORMAT`.
    """
    if kept is not None and kept.is_at(head):
        return Restored(kept.logic, "cache")
    is_behind = kept is not None and head.first <= kept.position < head.position
    # NB: where the log is of another history, the kept state is left half applied, and is dropped with it.
    if kept is not None and is_behind and catch_up(kept.logic, log, head, kept, place):
        return Restored(kept.logic, "tail")
    logic = make_logic()
    if head.position == 0:
        return Restored(logic, "nothing")
    if not catch_up(logic, log, head, CachedState(logic, head.first - 1, ""), place):
        raise StateError.corrupt_segment(place, head.position, "the history does not end where the head says")
    return Restored(logic, "snapshot")


def catch_up(logic: StreamLogic, log: Log, head: Head, start: CachedState, place: str) -> bool:
    """Apply the log's segments after `start`; False when they do not go on from there, or do not lead to the head."""
    token = start.token
    for number, data in log.tail(start.position):
        if data is None:
            raise StateError.missing_segment(place, number, head.position)
        stamp, segment = unseal(data, number, place)
        if stamp.owner != owner_of(head.fingerprint):
            raise StateError.other_query(place, stamp.owner, head.fingerprint)
        begins_here = stamp.is_snapshot and number == head.first
        if not begins_here and stamp.previous != token:
            return False
        logic.apply(segment)
        token = stamp.token
    return token == head.token
