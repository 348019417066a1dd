"""What is asked of a task's state, and what it answers: between processes and within one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from udtf.logic import StreamEmission
    from udtf.stream.log import Head

#: Query (with its fingerprint), operator, task.
CacheKey = tuple[str, str, int]


@dataclass(frozen=True)
class Asked:
    """A micro-batch of a task, and where the log of that task is.

    Attributes:
        key: whose.
        head: of its log.
        inputs: per input the rows, as they were delivered.
        digest: of the rows and their order; b"" is unknown.
        is_idle: nothing has come for a while: give out what is open.
    """

    key: CacheKey
    head: Head
    inputs: Sequence[pa.Table]
    digest: bytes = b""
    is_idle: bool = False


@dataclass(frozen=True)
class Answer:
    """What a micro-batch did to its task.

    Attributes:
        head: of the log, once the segment is in it.
        segment: what to append; b"" where nothing changed.
        emission: what it sends out.
    """

    head: Head
    segment: bytes
    emission: StreamEmission

    @property
    def stored_bytes(self) -> int:
        """What it takes to keep."""
        return len(self.segment) + self.emitted_bytes

    @cached_property
    def emitted_bytes(self) -> int:
        """What the rows take that it sends out."""
        return int(sum(table.nbytes for table in (self.emission.rows, *self.emission.late)))
