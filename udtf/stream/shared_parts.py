"""What goes between two processes of one machine: a description through a socket, and tables in memory that both map.

Through a socket alone a few megabytes go in hundreds of pieces, and for each of them both processes wait for a core.

Why so: docs/design/20261127_fewer_copies.md.
"""

from __future__ import annotations

import json
import mmap
import os
import socket
import struct
import tempfile
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_LENGTH: Final = struct.Struct(">I")
_ALIGNED: Final = 64  # as Arrow wants its buffers
_FIRST_BYTES: Final = 1 << 16
_FEWEST_BYTES: Final = 1 << 20
#: What all lines of a process may keep, about.
_KEPT_BYTES: Final = 16 << 20


def write_at(file: int, part: bytes | pa.Buffer, at: int) -> int:
    """Write bytes at a place of an open file; where they end.

    Raises:
        OSError: there is no room.
    """
    rest = memoryview(part).cast("B")
    while rest:
        written = os.pwrite(file, rest, at)
        rest, at = rest[written:], at + written
    return at


class Line:
    """One end of a connection between two processes.

    What an end sends it puts into memory of its own that the other one maps too, the same for each message: new memory
    costs several times what it takes to fill it.

    Args:
        connected: the socket; it is closed with the line.
        beside: how many lines this process has already. Memory beyond the share of this one does not stay: for a state
            that moves, a micro-batch out of the ordinary, or where there are very many workers.
    """

    def __init__(self, connected: socket.socket, beside: int = 0) -> None:
        """Nothing is shared yet."""
        self._socket = connected
        self._most_kept_bytes = _KEPT_BYTES // (1 + beside)
        self._mine = _Memory(0)
        self._theirs: pa.Buffer | None = None

    def __enter__(self) -> Line:
        """Close it in the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Send and receive no more."""
        self._socket.close()
        self._mine.close()
        self._theirs = None

    def send(self, description: dict[str, Any], parts: Sequence[bytes | pa.Buffer] = ()) -> None:
        """Send a message.

        Args:
            description: JSON can hold it.
            parts: what it is about.

        Raises:
            OSError: the other process is gone, or there is no memory.
        """
        sizes = [len(memoryview(part)) for part in parts]
        size = sum(map(_whole, sizes))
        is_new = size > self._mine.size
        if is_new:
            self._mine.close()
            self._mine = _Memory(max(_FEWEST_BYTES, 1 << (size - 1).bit_length()))
        self._mine.fill(parts)
        stays = self._mine.size <= self._most_kept_bytes
        header = json.dumps({**description, "sizes": sizes, "stays": stays}).encode()
        message = _LENGTH.pack(len(header)) + header
        sent = socket.send_fds(self._socket, [message], [self._mine.file]) if is_new else 0
        self._socket.sendall(message[sent:])
        if not stays:
            self._mine.close()

    def receive(self) -> tuple[dict[str, Any], list[pa.Buffer]]:
        """The next message, with its parts as they are in the memory that the sender filled: until the next one comes.

        Raises:
            EOFError: the other process is gone.
            OSError: likewise, or the memory cannot be mapped.
        """
        message, found, _, _ = socket.recv_fds(self._socket, _FIRST_BYTES, 1)
        try:
            while len(message) < _LENGTH.size or len(message) < _LENGTH.size + _LENGTH.unpack_from(message)[0]:
                more = self._socket.recv(_FIRST_BYTES) if message else b""
                if not more:
                    raise EOFError
                message += more
            description = json.loads(message[_LENGTH.size :])
            if found:
                self._theirs = pa.py_buffer(mmap.mmap(found[0], 0, access=mmap.ACCESS_READ))
            parts = self._parts(description.pop("sizes"))
            if not description.pop("stays"):
                self._theirs = None
            return description, parts
        finally:
            for shared in found:
                os.close(shared)

    def _parts(self, sizes: list[int]) -> list[pa.Buffer]:
        if not any(sizes):
            return [pa.py_buffer(b"") for _ in sizes]
        if self._theirs is None:
            raise EOFError
        whole, parts, start = self._theirs, [], 0
        for size in sizes:
            parts.append(whole.slice(start, size))
            start += _whole(size)
        return parts


class _Memory:
    """Memory that another process can map, as a file without a name: where there is none left, a write says so."""

    def __init__(self, size: int) -> None:
        self.size, self.file = 0, -1
        if size:
            self.file = _nameless_file()
            self.size = size  # from here on there is a file to close
            os.truncate(self.file, size)

    def fill(self, parts: Sequence[bytes | pa.Buffer]) -> None:
        start = 0
        for part in parts:
            start = _whole(write_at(self.file, part, start))

    def close(self) -> None:
        if self.size:
            os.close(self.file)
        self.size, self.file = 0, -1

    def __del__(self) -> None:
        self.close()


def _nameless_file() -> int:
    """Memory where the system has it for that, else a file that no folder lists."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sqlx", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as opened:
        return os.dup(opened.fileno())


def _whole(size: int) -> int:
    """With what is left free up to the next part."""
    return -(-size // _ALIGNED) * _ALIGNED
