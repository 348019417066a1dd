"""Ports for servers that a test starts."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

#: Above those that servers here have by default (15002 of Spark Connect), and below those that the system gives to
#: outgoing connections (Linux: from 32768, others: from 49152). A port that the system itself has given as free may be
#: somebody's connection by the time that a server binds it.
_CHOICE = range(16_000, 30_000)
_TRIES = 100


def free_port() -> int:
    """A port that nobody listens at, and that no outgoing connection takes before the server is there."""
    for port in random.SystemRandom().sample(_CHOICE, _TRIES):
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    msg = f"none of {_TRIES} ports is free"
    raise AssertionError(msg)
