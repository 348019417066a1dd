"""What a Python worker keeps out of the garbage collector's sight."""

from __future__ import annotations

import gc
import socket
import sys
import types
from collections.abc import Iterator

import pytest

from udtf.spark import workers


@pytest.fixture(autouse=True)
def _unsettled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_settled", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_loaded_is_frozen_and_what_comes_later_is_collected() -> None:
    workers.freeze_loaded_modules()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
    assert gc.get_freeze_count() <= frozen  # another thread may have let go of a frozen object


def test_it_is_frozen_again_only_when_a_module_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    workers.freeze_loaded_modules()
    frozen = gc.get_freeze_count()
    held = [[number] for number in range(100)]
    workers.freeze_loaded_modules()
    assert gc.get_freeze_count() <= frozen
    monkeypatch.setitem(sys.modules, "a_module_that_has_come", types.ModuleType("a_module_that_has_come"))
    workers.freeze_loaded_modules()
    assert gc.get_freeze_count() >= frozen + len(held)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="a kernel without this option")
def test_what_came_over_tcp_is_acknowledged_at_once_and_the_connection_stays() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as java:
        worker, _ = server.accept()
        with worker:
            for _ in range(20):  # a conversation: the kernel waits for an answer to acknowledge along with
                java.sendall(b"?")
                worker.sendall(worker.recv(1))
                java.recv(1)
            assert not _acknowledges_at_once(worker)
            workers.begin_task()
            assert _acknowledges_at_once(worker)
            java.sendall(b"rows")
            assert worker.recv(4) == b"rows"


def _acknowledges_at_once(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
