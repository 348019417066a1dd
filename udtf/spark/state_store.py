"""A task's changelog in Spark's state store: one map under the task's key, numbers to bytes.

What is written here is committed with the micro-batch or not at all: exactly-once is Spark's.

    0                      the head, as JSON
    position << 10 | part  a segment's bytes; a part that is not full is the last

One state of two plain columns, since Spark compiles encoders for each in every partition of every micro-batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from udtf.stream.log import Head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

#: Each part travels through a socket and a JVM array as one piece.
_PART_BYTES: Final = 32 << 20
_PART_BITS: Final = 10
_HEAD: Final = 0
_NUMBER: Final = StructType([StructField("number", LongType(), nullable=True)])
_DATA: Final = StructType([StructField("data", BinaryType(), nullable=True)])


class StateStoreLog:
    """The log of the task whose key Spark has set: one object serves all tasks of a partition, one after the other."""

    def __init__(self, handle: StatefulProcessorHandle, place: str) -> None:
        """Declare the state; types as text would be parsed each time.

        Args:
            handle: Spark's.
            place: the operator, for errors.
        """
        self._place = place
        self._entries = handle.getMapState("changelog", _NUMBER, _DATA)

    def head(self) -> Head | None:
        """How far the history goes."""
        found = self._get(_HEAD)
        return None if found is None else Head.from_bytes(found, self._place)

    def tail(self, after: int) -> Iterator[tuple[int, bytes | None]]:
        """The segments after a number."""
        head = self.head()
        for position in range(after + 1, head.position + 1 if head else 0):
            yield position, self._read(position)

    def append(self, head: Head, segment: bytes) -> None:
        """Add a delta."""
        for part, start in enumerate(range(0, len(segment) + 1, _PART_BYTES)):
            self._put(head.position << _PART_BITS | part, segment[start : start + _PART_BYTES])
        self._put(_HEAD, head.to_bytes())

    def compact(self, head: Head, snapshot: bytes) -> None:
        """Add a snapshot instead of all there is."""
        self._entries.clear()
        self.append(head, snapshot)

    def _read(self, position: int) -> bytes | None:
        parts: list[bytes] = []
        while not parts or len(parts[-1]) == _PART_BYTES:
            part = self._get(position << _PART_BITS | len(parts))
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _get(self, number: int) -> bytes | None:
        found = self._entries.getValue((number,))
        return None if found is None else bytes(found[0])

    def _put(self, number: int, data: bytes) -> None:
        self._entries.updateValue((number,), (data,))
