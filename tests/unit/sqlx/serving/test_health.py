from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from sqlx.serving.health import HealthServer, ask
from tests.harness.ports import free_port


@pytest.fixture
def down() -> list[str]:
    return []


@pytest.fixture
def port(down: list[str]):
    found = free_port()
    server = HealthServer("127.0.0.1", found, lambda: "".join(down))
    yield found
    server.stop()


def test_a_server_that_works_says_so(port: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answer:
        assert (answer.status, answer.read()) == (200, b'{"status": "ok"}\n')
    assert ask("127.0.0.1", port) == ""


def test_what_is_down_is_an_error_and_has_a_name(port: int, down: list[str]) -> None:
    down.append("Thrift takes no connections")
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
    assert failed.value.code == 503
    failed.value.close()
    assert "Thrift takes no connections" in ask("127.0.0.1", port)


def test_there_is_nothing_else(port: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
    assert failed.value.code == 404
    failed.value.close()


def test_nobody_there_is_down() -> None:
    free = free_port()
    assert f"nothing answers at http://127.0.0.1:{free}/health" in ask("127.0.0.1", free)
