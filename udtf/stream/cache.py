"""The states that a worker process keeps between micro-batches, so that it need not read them back each time.

What is kept is never trusted by itself: whoever takes it compares its position and token with the log.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from udtf.logic import StreamLogic
    from udtf.stream.asked import Answer, Asked, CacheKey
    from udtf.stream.log import Head


@dataclass(frozen=True)
class Done:
    """The micro-batch that led to a kept state: run again, it must change and answer the same.

    Attributes:
        before: the head that it began from.
        digest: of its rows and their order.
        answer: what it did.
    """

    before: Head
    digest: bytes
    answer: Answer

    def is_of(self, asked: Asked) -> bool:
        """The log is where this micro-batch began, and these are its rows."""
        return bool(self.digest) and (self.before, self.digest) == (asked.head, asked.digest)


@dataclass(frozen=True)
class CachedState:
    """A task's state as it was at one position of its history."""

    logic: StreamLogic
    position: int
    token: str
    done: Done | None = None

    def is_at(self, head: Head) -> bool:
        """The log has gone no further, and came this way."""
        return (self.position, self.token) == (head.position, head.token)

    def answers(self, asked: Asked) -> bool:
        """Nothing need be read to answer from it."""
        return self.is_at(asked.head) or (self.done is not None and self.done.is_of(asked))


class StateCache:
    """States by task, least recently used first, within a budget of bytes over all of them.

    >>> cache = StateCache(); cache.take(("query", "operator", 0)) is None
    True
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._kept: OrderedDict[CacheKey, tuple[CachedState, int]] = OrderedDict()
        self._changing = Lock()

    def __len__(self) -> int:
        """How many states are kept."""
        return len(self._kept)

    @property
    def kept_bytes(self) -> int:
        """What all kept states take."""
        return sum(size for _, size in self._kept.values())

    def take(self, key: CacheKey) -> CachedState | None:
        """Hand a state over: it is no longer kept, so that one that fails half way is never met again."""
        with self._changing:
            kept, _ = self._kept.pop(key, (None, 0))
        return kept

    def put(self, key: CacheKey, kept: CachedState, budget_bytes: int) -> None:
        """Keep a state, and forget the least recently used beyond the budget, this one too if it is alone too large."""
        size = kept.logic.stored_bytes + (kept.done.answer.stored_bytes if kept.done else 0)
        with self._changing:
            self._kept[key] = kept, size
            total = self.kept_bytes
            while self._kept and total > budget_bytes:
                total -= self._kept.popitem(last=False)[1][1]


#: One per worker process.
WORKER_CACHE: Final = StateCache()
