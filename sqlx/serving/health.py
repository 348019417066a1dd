"""An HTTP endpoint for load balancers and orchestrators: whether the server takes statements, and nothing else."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Callable

from sqlx.serving.http import Answer, HttpServer, got

_PATHS = ("/", "/health", "/healthz")


class HealthServer:
    """Answers ``GET /health`` with 200 and ``{"status": "ok"}``, or 503 and what is down.

    Args:
        host: the address to listen at.
        port: its port.
        look: what is down, in words; "" where all is well.
    """

    def __init__(self, host: str, port: int, look: Callable[[], str]) -> None:
        def answer() -> Answer:
            down = look()
            facts = {"status": "failing", "down": down} if down else {"status": "ok"}
            return 503 if down else 200, "application/json", (json.dumps(facts) + "\n").encode()

        self._server = HttpServer(host, port, "sqlx-health", dict.fromkeys(_PATHS, answer))

    def stop(self) -> None:
        """Take no more requests."""
        self._server.stop()


def ask(host: str, port: int) -> str:
    """What a running server says is down; "" where all is well.

    Args:
        host: where it listens.
        port: its health port.
    """
    url = f"http://[{host}]:{port}/health" if ":" in host else f"http://{host}:{port}/health"
    try:
        facts = json.loads(got(url))
    except urllib.error.HTTPError as error:
        return str(error.read().decode("utf-8", "replace").strip())
    except (OSError, ValueError) as error:
        return f"nothing answers at {url}: {getattr(error, 'reason', error)}"
    return "" if facts.get("status") == "ok" else str(facts)
