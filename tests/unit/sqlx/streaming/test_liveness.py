"""That a driver is dead is said of one that closed its connection and refuses another, and of no other."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sqlx.streaming.liveness import Address, Connection

#: As Spark's RPC: it takes whoever comes, and says nothing.
LISTENER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    taken = []
    while True:
        taken.append(server.accept())
"""
SOON = 0.05
AT_LAST = 60.0


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", LISTENER], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def watch(driver: subprocess.Popen[str]) -> Connection:
    assert driver.stdout is not None
    connection = Connection(Address("127.0.0.1", int(driver.stdout.readline())))
    assert not connection.ends_within(SOON)
    return connection


def test_a_driver_that_dies_ends_the_wait(driver: subprocess.Popen[str]) -> None:
    connection = watch(driver)
    driver.kill()
    # A process closes what it had taken before it closes the port: a connection in between is cut as well.
    assert any(connection.ends_within(AT_LAST) for _ in range(3))


def test_one_that_sleeps_is_not_dead(driver: subprocess.Popen[str]) -> None:
    connection = watch(driver)
    driver.send_signal(signal.SIGSTOP)
    assert not connection.ends_within(SOON)
    connection.close()


def test_one_that_cuts_a_connection_and_takes_another_is_not_dead() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(Address(*server.getsockname()))
        assert not connection.ends_within(SOON)
        server.accept()[0].close()
        assert not connection.ends_within(AT_LAST)
        taken, _ = server.accept()
        taken.sendall(b"?")  # some other server, which speaks first
        assert not connection.ends_within(AT_LAST)
        taken.close()
        connection.close()


def test_one_that_is_gone_is_dead_whenever_that_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a process dies its port may do anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(Address(*server.getsockname()))
        assert not connection.ends_within(SOON)
        server.accept()[0].close()
        with monkeypatch.context() as patched:
            patched.setattr(socket, "create_connection", reset)
            assert not connection.ends_within(AT_LAST)
    assert connection.ends_within(AT_LAST)


def reset(*_: object) -> socket.socket:
    raise ConnectionResetError


def test_one_that_is_not_reached_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refuse(*address: object) -> socket.socket:
        tried.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", refuse)
    connection = Connection(Address("far", 7078))
    assert not any(connection.ends_within(SOON) for _ in range(3))
    assert len(tried) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_one_that_was_never_reached_may_live(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not Connection(Address(host, port)).ends_within(SOON)
    assert not Connection(Address()).ends_within(SOON)
