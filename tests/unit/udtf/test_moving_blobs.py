"""Blobs on their way to a task: held until it is its turn, and handed to another process in memory that both map."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pyarrow as pa
import pytest

from udtf.stream import shared_parts
from udtf.stream.held_blobs import HeldBlobs
from udtf.stream.shared_parts import Line


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
def line() -> Iterator[tuple[Line, Line]]:
    here, there = socket.socketpair(socket.AF_UNIX)
    with Line(here) as first, Line(there) as second:
        yield first, second


@pytest.mark.parametrize("has_memory_files", [True, False])
@pytest.mark.parametrize("parts", [[], [b""], [b"a", b"", b"bc"], [b"x" * 3_000_001, b"y"]])
def test_a_message_arrives_as_it_was_sent(
    line: tuple[Line, Line],
    parts: list[bytes],
    has_memory_files: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not has_memory_files:
        monkeypatch.delattr(shared_parts.os, "memfd_create")
    for said in ({"a": 1}, {"long": "z" * 50_000}):
        line[0].send(said, parts)
        described, found = line[1].receive()
        assert described == said
        assert [bytes(part) for part in found] == parts


def test_messages_go_through_the_same_memory_until_one_is_larger(
    line: tuple[Line, Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    new_file = shared_parts._nameless_file

    def counted() -> int:
        made.append(1)
        return new_file()

    monkeypatch.setattr(shared_parts, "_FEWEST_BYTES", 64)
    line[0]._most_kept_bytes = 4096
    monkeypatch.setattr(shared_parts, "_nameless_file", counted)
    for size, files in ((50, 1), (64, 1), (65, 2), (3, 2), (4096, 3), (128, 3), (4097, 4), (10, 5), (60, 5)):
        line[0].send({}, [bytes([size % 256]) * size])
        assert [bytes(part) for part in line[1].receive()[1]] == [bytes([size % 256]) * size]
        assert len(made) == files, size


def test_both_ends_send(line: tuple[Line, Line]) -> None:
    line[0].send({"ask": 1}, [b"rows"])
    asked = line[1].receive()[1]
    line[1].send({"answer": 1}, [b"answers"])
    assert bytes(asked[0]) == b"rows", "the answer is in memory of its own"
    assert line[0].receive() == ({"answer": 1}, [pa.py_buffer(b"answers")])


def test_who_is_gone_is_gone() -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    here.sendall(b"\x00\x00")
    here.close()
    with Line(there) as line, pytest.raises(EOFError):
        line.receive()
