"""A task's changelog in Spark's state store: the head in a value, the segments in a map, both under the task's key.

What is written here is committed with the micro-batch or not at all: exactly-once is Spark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from udtf.stream.log import Head

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

#: A segment is kept in parts of at most so many bytes: each travels through a socket and a JVM array as one piece.
_MOST_PART_BYTES: Final = 32 << 20


def _schema(**types: Any) -> StructType:
    return StructType([StructField(name, kind, nullable=True) for name, kind in types.items()])


_HEAD: Final = _schema(
    position=LongType(),
    token=StringType(),
    fingerprint=StringType(),
    format=IntegerType(),
    first=LongType(),
    snapshot_bytes=LongType(),
    tail_bytes=LongType(),
)
_PLACE: Final = _schema(position=LongType(), part=IntegerType())
_PART: Final = _schema(parts=IntegerType(), data=BinaryType())


class StateStoreLog:
    """The log of the task whose key Spark has set: one object serves all tasks of a partition, one after the other."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state. Spark does so for every partition of every micro-batch: types as text would be slow."""
        self._head = handle.getValueState("head", _HEAD)
        self._parts = handle.getMapState("segments", _PLACE, _PART)

    def head(self) -> Head | None:
        """How far the history goes."""
        found = self._head.get()
        return None if found is None else Head(*found)

    def tail(self, after: int) -> Iterator[tuple[int, bytes | None]]:
        """The segments after a number."""
        head = self.head()
        for position in range(after + 1, head.position + 1 if head else 0):
            yield position, self._read(position)

    def append(self, head: Head, segment: bytes) -> None:
        """Add a delta."""
        parts = range(0, len(segment), _MOST_PART_BYTES)
        for number, start in enumerate(parts):
            data = segment[start : start + _MOST_PART_BYTES]
            self._parts.updateValue((head.position, number), (len(parts), data))
        values = (head.position, head.token, head.fingerprint, head.format, head.first)
        self._head.update((*values, head.snapshot_bytes, head.tail_bytes))

    def compact(self, head: Head, snapshot: bytes) -> None:
        """Add a snapshot instead of all there is."""
        self._parts.clear()
        self.append(head, snapshot)

    def _read(self, position: int) -> bytes | None:
        first = self._parts.getValue((position, 0))
        if first is None:
            return None
        found = [first, *(self._parts.getValue((position, number)) for number in range(1, first[0]))]
        parts = [bytes(part[1]) for part in found if part is not None]
        return b"".join(parts) if len(parts) == len(found) else None
