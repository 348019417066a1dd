"""A few answers over HTTP, and how to ask for them: what health and metrics share."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_PATIENCE_SECONDS: Final = 10.0

#: Status, content type and body.
Answer = tuple[int, str, bytes]


class HttpServer:
    """Answers GET of some paths from a thread.

    Args:
        host: the address to listen at.
        port: its port; 0 is any that is free.
        name: of the thread.
        answers: from a path to its answer.

    Attributes:
        port: where it listens.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, host: str, port: int, name: str, answers: Mapping[str, Callable[[], Answer]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                make = answers.get(self.path.split("?", maxsplit=1)[0])
                if make is None:
                    self.send_error(404)
                    return
                status, kind, body = make()
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A look every few seconds is no news."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def stop(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()


def got(url: str) -> bytes:
    """What a server answers; never through a proxy, which would answer in its place.

    Raises:
        OSError: nobody answers, or with an error (`urllib.error.HTTPError`).
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=_PATIENCE_SECONDS) as answer:
        return bytes(answer.read())
