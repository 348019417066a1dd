"""An HTTP endpoint for load balancers and orchestrators: whether the server takes statements, and nothing else."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PATHS = ("/", "/health", "/healthz")
_PATIENCE_SECONDS = 10.0


class HealthServer:
    """Answers ``GET /health`` with 200 and ``{"status": "ok"}``, or 503 and what is down.

    Args:
        host: the address to listen at.
        port: its port.
        look: what is down, in words; "" where all is well.
    """

    def __init__(self, host: str, port: int, look: Callable[[], str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.split("?")[0] not in _PATHS:
                    self.send_error(404)
                    return
                down = look()
                facts = {"status": "failing", "down": down} if down else {"status": "ok"}
                body = (json.dumps(facts) + "\n").encode()
                self.send_response(503 if down else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A look every few seconds is no news."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="sqlx-health", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()


def ask(host: str, port: int) -> str:
    """What a running server says is down; "" where all is well.

    Args:
        host: where it listens.
        port: its health port.
    """
    url = f"http://[{host}]:{port}/health" if ":" in host else f"http://{host}:{port}/health"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy would answer in its place
    try:
        with opener.open(url, timeout=_PATIENCE_SECONDS) as answer:
            facts = json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return str(error.read().decode("utf-8", "replace").strip())
    except (OSError, ValueError) as error:
        return f"nothing answers at {url}: {getattr(error, 'reason', error)}"
    return "" if facts.get("status") == "ok" else str(facts)
