"""Blobs on their way to a task: held until it is its turn, and handed to another process in memory that both map."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from udtf.stream import shared_parts
from udtf.stream.held_blobs import HeldBlobs
from udtf.stream.shared_parts import receive, send


@pytest.mark.parametrize("most_bytes", [0, 5000, 1 << 20])
def test_blobs_come_back_in_the_order_of_their_places(most_bytes: int) -> None:
    blobs = {(side, partition, number): bytes([side, partition, number]) * 1000
             for side in (1, 0) for partition in (2, 0) for number in (1, 0)}  # fmt: skip
    with HeldBlobs(most_bytes) as held:
        for task in (7, 2):
            for place, blob in blobs.items():
                held.add(task, place, pa.py_buffer(blob))
        assert held.tasks == [2, 7]
        for task in (2, 7):
            found = [(*place, bytes(blob)) for *place, blob in held.of(task)]
            assert found == [(*place, blobs[place]) for place in sorted(blobs)]
        assert held.tasks == []


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        yield here, there


@pytest.mark.parametrize("has_memory_files", [True, False])
@pytest.mark.parametrize("parts", [[], [b""], [b"a", b"", b"bc"], [b"x" * 3_000_001, b"y"]])
def test_a_message_arrives_as_it_was_sent(
    line: tuple[socket.socket, socket.socket],
    parts: list[bytes],
    has_memory_files: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_memory_files:
        monkeypatch.delattr(shared_parts.os, "memfd_create")
    for said in ({"a": 1}, {"long": "z" * 50_000}):
        send(line[0], said, parts)
        described, found = receive(line[1])
        assert described == said
        assert [bytes(part) for part in found] == parts


def test_who_is_gone_is_gone(line: tuple[socket.socket, socket.socket]) -> None:
    line[0].sendall(b"\x00\x00")
    line[0].close()
    with pytest.raises(EOFError):
        receive(line[1])
