"""The queries of a process over HTTP, on a port of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlx.failures import CommandError
from sqlx.serving.http import Answer, HttpServer
from sqlx.streaming.pages import ANSWERS, Recorder

if TYPE_CHECKING:
    from sqlx.streaming.registry import Registry

_HOST: Final = "127.0.0.1"


class MetricsServer:
    """Answers ``GET /queries`` (a page), ``/queries.json`` and ``/metrics`` (Prometheus).

    Only this machine reaches it: whoever does sees the names of all queries, and asks for no password.

    Args:
        port: where it listens; 0 is any that is free.
        queries: those of the process.

    Raises:
        CommandError: the port is taken.
    """

    def __init__(self, port: int, queries: Registry) -> None:
        self._recorder = recorder = Recorder(queries)
        answers = {path: partial(_answer, make, recorder) for path, make in ANSWERS.items()}
        try:
            self._server = HttpServer(_HOST, port, "sqlx metrics http", answers)
        except OSError as error:
            recorder.stop()
            msg = f"--metrics {port}: {error.strerror}."
            raise CommandError(msg, "Another process listens there: name another port.") from error
        self.url = f"http://{_HOST}:{self._server.port}/queries"

    def stop(self) -> None:
        """Take no more requests."""
        self._recorder.stop()
        self._server.stop()


def _answer(make: Callable[[Recorder], tuple[str, bytes]], recorder: Recorder) -> Answer:
    return 200, *make(recorder)
