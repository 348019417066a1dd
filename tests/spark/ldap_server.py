"""An LDAP server that knows one thing: whether a simple bind has the right password (RFC 4511, 4.2)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import BinaryIO

_BIND, _BOUND = 0x60, 0x61
_SUCCESS, _INVALID_CREDENTIALS = 0, 49


@contextmanager
def ldap_server(passwords: Mapping[str, str]) -> Iterator[str]:
    """Its URL, while it runs; `passwords` by the whole name of each user."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while (message := _element(self.rfile)) is not None:
                (_, number), (operation, content) = _elements(message[1])
                if operation != _BIND:
                    return  # what follows a bind here is its end
                _, (_, name), (_, password) = _elements(content)
                is_right = bool(password) and passwords.get(name.decode()) == password.decode()
                result = bytes([0x0A, 1, _SUCCESS if is_right else _INVALID_CREDENTIALS, 4, 0, 4, 0])
                answer = bytes([2, len(number)]) + number + bytes([_BOUND, len(result)]) + result
                self.wfile.write(bytes([0x30, len(answer)]) + answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"ldap://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def _element(stream: BinaryIO) -> tuple[int, bytes] | None:
    """Tag and content of the next element in BER; None at the end."""
    head = stream.read(2)
    if len(head) < 2:
        return None
    size = head[1]
    if size & 0x80:  # the length has bytes of its own
        size = int.from_bytes(stream.read(size & 0x7F), "big")
    return head[0], stream.read(size)


def _elements(content: bytes) -> list[tuple[int, bytes]]:
    stream = BytesIO(content)
    return list(iter(lambda: _element(stream), None))
