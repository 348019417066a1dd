"""The versioned store: every key has a list of versions in time, and a version lives until the next one begins.

Source: KIP-889, KIP-914, semantics.md section 2 in its intended meaning: a tombstone is a version like any other and is
remembered at every timestamp (2.7; the library's artefact 2.8 is not followed).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from itertools import count
from operator import index
from typing import Any

from udtf.errors import StateError
from udtf.state.snapshot import seal, unseal
from udtf.time import NOT_PUT, VALID_TO_LATEST, Micros, StreamTime

_KIND = "versioned store"


class Versions:
    """The versions of one key, in parallel lists sorted by (time, rank, arrival).

    Attributes:
        times: when each version begins.
        ranks: order among versions of equal time, greatest wins; all equal without TIES BY.
        sequences: when each version became known; all 0 without KNOWN AS OF.
        values: None is a tombstone.
    """

    __slots__ = ("ranks", "sequences", "times", "values")

    def __init__(self) -> None:
        """Start without versions."""
        self.times: list[Micros] = []
        self.ranks: list[Any] = []
        self.sequences: list[Micros] = []
        self.values: list[Any] = []

    def add(self, time: Micros, rank: Any, sequence: Micros, value: Any) -> int:
        """Put a version after all of its time whose rank is not greater; returns its place."""
        low, high = bisect_left(self.times, time), bisect_right(self.times, time)
        place = bisect_right(self.ranks, rank, low, high)
        self.times.insert(place, time)
        self.ranks.insert(place, rank)
        self.sequences.insert(place, sequence)
        self.values.insert(place, value)
        return place

    def keep_last_of(self, time: Micros) -> None:
        """Of several versions at `time` keep the winner: the last."""
        low, high = bisect_left(self.times, time), bisect_right(self.times, time)
        self._delete(range(low, high - 1))

    def expire(self, horizon_us: Micros) -> None:
        """Drop what no look-up at or after the horizon can pick.

        A version is dropped iff a later one also begins before the horizon and was known no later. Strictly before,
        since an EXCLUSIVE look-up at the very horizon still needs the version before it.
        """
        dominated, known_since = [], None
        for place in reversed(range(bisect_left(self.times, horizon_us))):
            if known_since is not None and known_since <= self.sequences[place]:
                dominated.append(place)
            else:
                known_since = self.sequences[place]
        self._delete(reversed(dominated))

    def _delete(self, places: Any) -> None:
        doomed = list(places)  # ascending
        if not doomed:
            return
        if doomed[-1] - doomed[0] == len(doomed) - 1:  # one run, the usual case
            for column in (self.times, self.ranks, self.sequences, self.values):
                del column[doomed[0] : doomed[-1] + 1]
            return
        for place in reversed(doomed):
            for column in (self.times, self.ranks, self.sequences, self.values):
                del column[place]

    def state(self) -> tuple[list[Any], ...]:
        """What a snapshot holds."""
        return self.times, self.ranks, self.sequences, self.values

    @classmethod
    def of(cls, state: tuple[list[Any], ...]) -> Versions:
        """The versions of a snapshot."""
        versions = cls()
        versions.times, versions.ranks, versions.sequences, versions.values = state
        return versions


class VersionedStore:
    """Versions of keys within a history retention, which is the grace period of late updates too.

    Memory is bounded by the versions within the retention plus, for each key, what answers at its edge; dropping what
    has expired never changes an answer.

    Args:
        history_retention_us: how far back of stream time reads are exact and writes are accepted; None is for ever.
        snapshot: continue from what `snapshot()` of a store of the same retention returned.
        keep_tombstones: keep the last tombstone of a key for ever, so that it can be told from an unknown key.
        keep_equal_times: keep all versions of equal time (for KNOWN AS OF), not only the winner.

    Raises:
        StateError: `STATE.INVALID_RETENTION`, `STATE.CORRUPT_SNAPSHOT` and its kin, `STATE.RETENTION_CHANGED`.

    >>> store = VersionedStore(history_retention_us=100)
    >>> store.put("EUR", 105, 10), store.put("EUR", 103, 5)
    (-1, 10)
    >>> store.get_as_of("EUR", 9), store.get("EUR"), store.get_as_of("EUR", 4)
    ((103, 5), (105, 10), None)
    """

    def __init__(
        self,
        history_retention_us: Micros | None = None,
        snapshot: bytes | None = None,
        *,
        keep_tombstones: bool = False,
        keep_equal_times: bool = False,
    ) -> None:
        """Make an empty store, or one that continues from a snapshot."""
        self.history_retention_us = _checked_retention(history_retention_us)
        self.stream_time = StreamTime()
        self._keep_tombstones = keep_tombstones
        self._keep_equal_times = keep_equal_times
        self._versions: dict[Hashable, Versions] = {}
        self._due: list[tuple[Micros, int, Hashable]] = []  # when the horizon passes the time, the key may shrink
        self._tickets = count()  # keys need not be comparable: no two entries of the heap are equal before them
        if snapshot is not None:
            self._restore(snapshot)

    def put(self, key: Hashable, value: Any, ts: Micros, *, rank: Any = (), sequence: Micros = 0) -> Micros:
        """Add one version of `key`; None is a tombstone. Same key and time replaces (or the greater `rank` wins).

        Args:
            key: any hashable value but None.
            value: any value that can be pickled.
            ts: event time in µs since the epoch, UTC; inclusive start of validity.
            rank: order among versions of equal time (TIES BY); equal ranks go to the last put.
            sequence: when this version became known, in µs (KNOWN AS OF).

        Returns:
            valid_to in µs (exclusive), VALID_TO_LATEST when this is the newest version, NOT_PUT when it is older than
            stream time by more than the retention (then nothing changes, stream time neither).

        Raises:
            StateError: `STATE.NULL_KEY`, `STATE.INVALID_TIME`.

        Source: KIP-914, "VersionedKeyValueStore#put"; semantics.md 2.1, 2.7.
        """
        _check_key(key)
        ts = _checked_time(ts)
        if self.stream_time.is_late(ts, self.history_retention_us):
            return NOT_PUT
        self.stream_time.observe(ts)
        versions = self._versions.get(key)
        if versions is None:
            versions = self._versions[key] = Versions()
        place = versions.add(ts, rank, sequence, value)
        self._schedule(key, versions, place)
        if not self._keep_equal_times:
            versions.keep_last_of(ts)
        newer = bisect_right(versions.times, ts)
        valid_to = versions.times[newer] if newer < len(versions.times) else VALID_TO_LATEST
        self._expire()
        return valid_to

    def get(self, key: Hashable) -> tuple[Any, Micros] | None:
        """The newest version as (value, its time); None without one or when it is a tombstone. Never expires (2.2)."""
        versions = self._versions.get(key)
        return None if versions is None else _version(versions, len(versions.times) - 1)

    def get_as_of(self, key: Hashable, ts: Micros) -> tuple[Any, Micros] | None:
        """The version valid at `ts` as (value, its time); None without one or when it is a tombstone.

        Older than stream time by more than the retention, only the newest version is looked at (2.3).

        Raises:
            StateError: `STATE.INVALID_TIME`.
        """
        ts = _checked_time(ts)
        versions = self._versions.get(key)
        if versions is None:
            return None
        place = bisect_right(versions.times, ts) - 1
        if self.has_expired(ts) and place < len(versions.times) - 1:
            return None
        return _version(versions, place)

    def delete(self, key: Hashable, ts: Micros) -> tuple[Any, Micros] | None:
        """Put a tombstone at `ts`; returns what `get_as_of(key, ts)` was before, None when it is refused (2.6)."""
        _check_key(key)
        ts = _checked_time(ts)
        if self.has_expired(ts):
            return None
        before = self.get_as_of(key, ts)
        self.put(key, None, ts)
        return before

    def versions(self, key: Hashable) -> Versions | None:
        """All versions of a key that are still needed, not to be changed; for operators that pick by more than time."""
        return self._versions.get(key)

    def has_expired(self, ts: Micros) -> bool:
        """True where the history at `ts` is no longer kept: writes are refused, reads see the newest only."""
        return self.stream_time.is_late(ts, self.history_retention_us)

    def __len__(self) -> int:
        """How many versions are held now."""
        return sum(len(versions.times) for versions in self._versions.values())

    def snapshot(self) -> bytes:
        """All state as bytes, for `VersionedStore(retention, snapshot=...)`; taking it changes nothing."""
        return seal(_KIND, self.state())

    def state(self) -> dict[str, Any]:
        """The state as plain values, for an operator that seals several parts together."""
        return {
            "retention": self.history_retention_us,
            "stream_time": self.stream_time.snapshot(),
            "versions": [(key, versions.state()) for key, versions in self._versions.items()],
        }

    def restore_state(self, state: dict[str, Any]) -> None:
        """Replace all state by `state()` of a store of the same retention."""
        if state["retention"] != self.history_retention_us:
            raise StateError.retention_changed(state["retention"], self.history_retention_us)
        self.stream_time.restore(state["stream_time"])
        self._versions = {key: Versions.of(columns) for key, columns in state["versions"]}
        self._due = []
        for key, versions in self._versions.items():
            for place in range(len(versions.times)):
                self._schedule(key, versions, place)

    def _restore(self, snapshot: bytes) -> None:
        self.restore_state(unseal(_KIND, snapshot))

    def _schedule(self, key: Hashable, versions: Versions, place: int) -> None:
        """Remember when a version makes the one before it (or, being a tombstone, itself) superfluous."""
        if self.history_retention_us is None:
            return
        times = versions.times
        if place > 0 or (versions.values[place] is None and not self._keep_tombstones):
            heapq.heappush(self._due, (times[place], next(self._tickets), key))
        if place + 1 < len(times):
            heapq.heappush(self._due, (times[place + 1], next(self._tickets), key))

    def _expire(self) -> None:
        """Shrink the keys whose time has come. NB: by stream time alone, so never visible, also after a restore."""
        now_us = self.stream_time.now_us
        if self.history_retention_us is None or now_us is None:
            return
        horizon_us = now_us - self.history_retention_us
        while self._due and self.has_expired(self._due[0][0]):
            key = heapq.heappop(self._due)[2]
            versions = self._versions.get(key)
            if versions is None:
                continue
            versions.expire(horizon_us)
            if not self._keep_tombstones and self._is_gone(versions):
                del self._versions[key]

    def _is_gone(self, versions: Versions) -> bool:
        """Only an expired tombstone is left: nothing that is still accepted could come before it."""
        return len(versions.times) == 1 and versions.values[0] is None and self.has_expired(versions.times[0])


def _version(versions: Versions, place: int) -> tuple[Any, Micros] | None:
    if place < 0 or versions.values[place] is None:
        return None
    return versions.values[place], versions.times[place]


def _checked_retention(retention_us: Micros | None) -> Micros | None:
    if retention_us is None:
        return None
    if isinstance(retention_us, bool) or not hasattr(retention_us, "__index__") or index(retention_us) < 0:
        raise StateError.invalid_retention(retention_us)
    return index(retention_us)


def _checked_time(ts: Micros) -> Micros:
    if type(ts) is int and NOT_PUT < ts < -NOT_PUT:
        return ts
    if isinstance(ts, bool) or not hasattr(ts, "__index__") or not NOT_PUT < index(ts) < -NOT_PUT:
        raise StateError.invalid_time(ts)
    return index(ts)


def _check_key(key: Hashable) -> None:
    if key is None:
        raise StateError.null_key()
