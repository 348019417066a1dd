"""What goes between two processes of one machine: a description through a socket, and tables in memory that both map.

Through a socket alone a few megabytes go in hundreds of pieces, and for each of them both processes wait for a core.
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

_LENGTH: Final = struct.Struct(">I")
_ALIGNED: Final = 64  # as Arrow wants its buffers
_FIRST_BYTES: Final = 1 << 16


def send(line: socket.socket, description: dict[str, Any], parts: Sequence[bytes | pa.Buffer] = ()) -> None:
    """Send a message.

    Args:
        line: where to; who is there reads all of it before it answers.
        description: JSON can hold it.
        parts: what it is about.

    Raises:
        OSError: the other process is gone, or there is no memory.
    """
    sizes = [len(memoryview(part)) for part in parts]
    header = json.dumps({**description, "sizes": sizes}).encode()
    message = _LENGTH.pack(len(header)) + header
    if not any(sizes):
        line.sendall(message)
        return
    shared = _nameless_file()
    try:
        _fill(shared, parts)
        sent = socket.send_fds(line, [message], [shared])
    finally:
        os.close(shared)
    line.sendall(message[sent:])


def receive(line: socket.socket) -> tuple[dict[str, Any], list[pa.Buffer]]:
    """The next message, with its parts as they are in the memory that the sender filled.

    Raises:
        EOFError: the other process is gone.
        OSError: likewise, or the memory cannot be mapped.
    """
    message, found, _, _ = socket.recv_fds(line, _FIRST_BYTES, 1)
    try:
        while len(message) < _LENGTH.size or len(message) < _LENGTH.size + _LENGTH.unpack_from(message)[0]:
            more = line.recv(_FIRST_BYTES) if message else b""
            if not more:
                raise EOFError
            message += more
        description = json.loads(message[_LENGTH.size :])
        return description, _parts(found, description.pop("sizes"))
    finally:
        for shared in found:
            os.close(shared)


def _nameless_file() -> int:
    """Memory where the system has it for that, else a file that no folder lists."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sqlx", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as opened:
        return os.dup(opened.fileno())


def _fill(shared: int, parts: Sequence[bytes | pa.Buffer]) -> None:
    start = 0
    for part in parts:
        rest, at = memoryview(part).cast("B"), start
        while rest:
            written = os.pwrite(shared, rest, at)
            rest, at = rest[written:], at + written
        start = _next_start(at)


def _parts(found: list[int], sizes: list[int]) -> list[pa.Buffer]:
    if not any(sizes):
        return [pa.py_buffer(b"") for _ in sizes]
    if not found:
        raise EOFError
    whole = pa.py_buffer(mmap.mmap(found[0], 0, access=mmap.ACCESS_READ))
    parts, start = [], 0
    for size in sizes:
        parts.append(whole.slice(start, size))
        start = _next_start(start + size)
    return parts


def _next_start(end: int) -> int:
    return -(-end // _ALIGNED) * _ALIGNED
