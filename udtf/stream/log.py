"""The changelog of one task: where segments live is behind this small interface, and who calls it behind another.

A log holds segments by number. Its head says how far the history goes, and from which number it can be read: a
snapshot replaces all before it.

Why so: docs/design/20261121_streaming_state.md.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Final, Protocol

from udtf.errors import StateError
from udtf.stream.segments import FORMAT, Stamp, owner_of

#: Below so many bytes of deltas nobody writes a snapshot: a worker reads them in milliseconds.
_LEAST_TAIL_BYTES: Final = 1 << 20
_MOST_DELTAS: Final = 256


@dataclass(frozen=True)
class Head:
    """How far a task's history goes.

    Attributes:
        position: of the last segment; 0 before the first.
        token: of the last segment.
        fingerprint: what the state belongs to (operator, configuration, tasks).
        format: of the segments.
        first: the number that reading starts from: a snapshot, or 1.
        snapshot_bytes: of the snapshot at `first`; 0 without one.
        tail_bytes: of the deltas since.
    """

    position: int
    token: str
    fingerprint: str
    format: int = FORMAT
    first: int = 1
    snapshot_bytes: int = 0
    tail_bytes: int = 0

    @staticmethod
    def empty(fingerprint: str) -> Head:
        """Nothing has happened yet."""
        return Head(0, "", fingerprint)

    @property
    def begins_here(self) -> bool:
        """The last segment is a snapshot: nothing before it is needed."""
        return self.snapshot_bytes > 0 and self.first == self.position

    def to_bytes(self) -> bytes:
        """As JSON, for a log that keeps bytes."""
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def from_bytes(data: bytes, place: str) -> Head:
        """Read what `to_bytes` wrote; of another format no more than that.

        Raises:
            StateError: `STATE.CORRUPT_SEGMENT`.
        """
        try:
            found = json.loads(data)
            known = found["format"] == FORMAT
            return Head(**found) if known else Head(0, "", "", found["format"])
        except (ValueError, TypeError, KeyError) as error:
            raise StateError.corrupt_segment(place, 0, f"the head is {data[:200]!r}") from error

    def wants_snapshot(self, task: int) -> bool:
        """The tail has outgrown the snapshot, at another size for each task, so that not all write at once."""
        outgrown = max(self.snapshot_bytes, _LEAST_TAIL_BYTES) * (1 + (task % 8) / 8)
        return self.tail_bytes > outgrown or self.position - self.first >= _MOST_DELTAS + task % 8

    def next_stamp(self, is_snapshot: bool, digest: bytes = b"") -> Stamp:
        """The stamp of the segment that comes next.

        Args:
            is_snapshot: what it will be.
            digest: of the rows of the micro-batch: the same rows after the same history make the same history, whoever
                writes it; b"" is unknown.
        """
        token = _token_after(self.token, digest) if digest else secrets.token_hex(8)
        return Stamp(self.position + 1, is_snapshot, token, self.token, owner_of(self.fingerprint))

    def after(self, stamp: Stamp, size: int) -> Head:
        """The head once that segment is in the log."""
        if stamp.is_snapshot:
            return Head(stamp.position, stamp.token, self.fingerprint, FORMAT, stamp.position, size, 0)
        return replace(self, position=stamp.position, token=stamp.token, tail_bytes=self.tail_bytes + size)


def _token_after(token: str, digest: bytes) -> str:
    return hashlib.blake2b(digest, key=token.encode(), digest_size=8).hexdigest()


class Log(Protocol):
    """Where one task's segments live. A call that fails leaves the micro-batch to its engine, which runs it again."""

    def head(self) -> Head | None:
        """How far the history goes; None before the first segment."""
        ...

    def tail(self, after: int) -> Iterator[tuple[int, bytes | None]]:
        """The numbers after `after`, up to the head's, and what is kept there; None where a segment is missing."""
        ...

    def append(self, head: Head, segment: bytes) -> None:
        """Add the segment of number `head.position`; `head` is the new head."""
        ...

    def compact(self, head: Head, snapshot: bytes) -> None:
        """Add a snapshot of number `head.position`, which replaces all segments before it; `head` is the new head."""
        ...


class MemoryLog:
    """A log in memory."""

    def __init__(self) -> None:
        """Nothing has happened yet."""
        self.segments: dict[int, bytes] = {}
        self.current: Head | None = None

    def head(self) -> Head | None:
        """How far the history goes."""
        return self.current

    def tail(self, after: int) -> Iterator[tuple[int, bytes | None]]:
        """The segments after a number."""
        last = self.current.position if self.current else 0
        return ((number, self.segments.get(number)) for number in range(after + 1, last + 1))

    def append(self, head: Head, segment: bytes) -> None:
        """Add a delta."""
        self.segments[head.position] = segment
        self.current = head

    def compact(self, head: Head, snapshot: bytes) -> None:
        """Add a snapshot instead of all there is."""
        self.segments = {head.position: snapshot}
        self.current = head
