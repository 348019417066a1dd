"""Segments of a task's changelog as sealed bytes: each names its place in the history and is checked when it is read.

Every segment carries a token of its own and the token of the one before it. A history is a chain of tokens, so a worker
that kept the state of some position finds out by one comparison whether the log went on from that very state.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from udtf.errors import StateError
from udtf.logic import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Raised when the layout of segments changes; the head of a log says which one it was written in.
FORMAT: Final = 2
_MAGIC: Final = b"SQLXSG"
_HEADER: Final = struct.Struct(">6sHIQI")  # magic, format, length of description, length of tables, checksum of both
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_PLAIN: Final = pa.ipc.IpcWriteOptions()
#: Of smaller tables compression takes ten times as long as writing them, and saves less than a block of a disk.
_WORTH_COMPRESSING_BYTES: Final = 1 << 15


@dataclass(frozen=True)
class Stamp:
    """Where a segment is in the history of its task.

    Attributes:
        position: its number, from 1.
        is_snapshot: it holds all state; else what changed since the position before.
        token: random; two histories that part at a position have different ones there.
        previous: the token of the position before; empty at the first.
        owner: what the state belongs to, as `owner_of` shortens it.
    """

    position: int
    is_snapshot: bool
    token: str
    previous: str
    owner: str


def owner_of(fingerprint: str) -> str:
    """A fingerprint holds whole queries; what every segment repeats is a digest of it."""
    return hashlib.blake2b(fingerprint.encode(), digest_size=8).hexdigest()


def seal(stamp: Stamp, segment: Segment) -> bytes:
    """Write a segment with its stamp."""
    bodies = [_table_bytes(table) for table in segment.tables.values()]
    described = {
        "stamp": asdict(stamp),
        "numbers": dict(segment.numbers),
        "tables": [[name, len(body)] for name, body in zip(segment.tables, bodies, strict=True)],
    }
    description = json.dumps(described).encode()
    checksum = zlib.crc32(description)
    for body in bodies:
        checksum = zlib.crc32(body, checksum)
    header = _HEADER.pack(_MAGIC, FORMAT, len(description), sum(map(len, bodies)), checksum)
    return b"".join([header, description, *(body.to_pybytes() for body in bodies)])


def unseal(data: bytes, position: int, place: str) -> tuple[Stamp, Segment]:
    """Read what `seal` wrote.

    Args:
        data: the bytes found at `position`.
        position: the number under which the log keeps them.
        place: operator and task, for errors.

    Raises:
        StateError: `STATE.CORRUPT_SEGMENT`, `STATE.FORMAT`.
    """
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise StateError.corrupt_segment(place, position, "it does not begin as a segment does")
    _, found, description_length, tables_length, checksum = _HEADER.unpack_from(data)
    if found != FORMAT:
        raise StateError.format(place, found, FORMAT)
    body = memoryview(data)[_HEADER.size :]
    if len(body) != description_length + tables_length:
        raise StateError.corrupt_segment(place, position, "its length is not the one written")
    if zlib.crc32(body) != checksum:
        raise StateError.corrupt_segment(place, position, "the checksum differs")
    described = json.loads(bytes(body[:description_length]))
    stamp = Stamp(**described["stamp"])
    if stamp.position != position:
        raise StateError.corrupt_segment(place, position, f"it was written as segment {stamp.position}")
    tables = dict(_tables(described["tables"], body[description_length:]))
    return stamp, Segment(tables, described["numbers"])


def _table_bytes(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    options = _COMPRESSED if table.nbytes >= _WORTH_COMPRESSING_BYTES else _PLAIN
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _tables(described: list[tuple[str, int]], body: memoryview) -> Iterator[tuple[str, pa.Table]]:
    start = 0
    for name, length in described:
        with pa.ipc.open_stream(body[start : start + length]) as reader:
            yield name, reader.read_all()
        start += length
