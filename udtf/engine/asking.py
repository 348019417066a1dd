"""Asking Spark without a trace in the log: a refusal is an answer here, not an error of the user's."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING

from pyspark.logger import PySparkLogger

if TYPE_CHECKING:
    from collections.abc import Iterator

_state = local()


class _Probing(logging.Filter):
    """Drops what is logged by a thread that is asking."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not is_probing()


_filter = _Probing()


@contextmanager
def probing() -> Iterator[None]:
    """Within it PySpark's log of failed queries stays silent for this thread."""
    PySparkLogger.getLogger("SQLQueryContextLogger").addFilter(_filter)
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def is_probing() -> bool:
    """Whether this thread asks only to learn the answer: a refusal is then nobody's to read."""
    return bool(getattr(_state, "depth", 0))
