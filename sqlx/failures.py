"""What goes wrong around statements, in words: a message, never a stack trace.

Nothing here brings PySpark along, so that the command line starts without it.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from udtf.errors import TemporalRuntimeError

_FRAME = re.compile(r"^\s+(?:at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)\s*$")
_PYTHON_FRAMES = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n|\n)*")
_STOPPED = "Cannot call methods on a stopped SparkContext"
#: The last one is what a server says of a call that was under way when it ended.
_LOST = re.compile(r"UNAVAILABLE|failed to connect|RETRIES_EXCEEDED|Application error processing RPC", re.IGNORECASE)
_PLAN = re.compile(r";\n(?=['!+:]|[A-Z]\w*(?: |\n|$)).*", re.DOTALL)


class CommandError(Exception):
    """Something that was asked for cannot be done.

    Args:
        message: what was found.
        hint: what to do instead.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nHINT: {hint}" if hint else message)


@contextmanager
def interrupts() -> Iterator[None]:
    """Let an interrupt be one: where it comes in a call of Java, py4j closes its socket, and what fails there hides it.

    Raises:
        KeyboardInterrupt: in the place of such an error.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise


def message_of(error: BaseException) -> str | None:
    """What to tell a user about an error; None for one that nobody foresaw.

    Our own errors and Spark's keep their words; frames of Java and Python and Spark's drawing of the plan are left out.
    """
    if isinstance(error, (CommandError, TemporalRuntimeError)):
        return str(error)
    if isinstance(error, OSError):
        return _of_os_error(error)
    return _of_spark_error(error)


def _of_os_error(error: OSError) -> str:
    if isinstance(error, ConnectionError | socket.gaierror):
        return "Spark has stopped: its process does not answer any more."
    return f"{error.filename}: {error.strerror}" if error.filename else str(error)


def _of_spark_error(error: BaseException) -> str | None:
    from pyspark.errors import PySparkException

    from udtf.engine.java import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return without_frames(str(cause.getMessage() or cause))
    if is_lost(error):
        return "The server of Spark Connect does not answer any more."
    if isinstance(error, PySparkException):
        return without_frames(str(error))
    if isinstance(error, Py4JNetworkError):
        return "Spark has stopped: its process does not answer any more."
    return without_frames(str(error)) if isinstance(error, Py4JError) else None


def is_lost(error: BaseException) -> bool:
    """Whether a server of Spark Connect does not answer any more."""
    text, kind = str(error), type(error)
    if kind.__module__.split(".")[0] == "grpc":  # PySpark hands it on as it is where a call was under way
        return True
    of_network = kind.__name__ in ("SparkConnectGrpcException", "RetriesExceeded")
    is_stopping = ".connect" in kind.__module__ and _STOPPED in text
    return (of_network and _LOST.search(text) is not None) or is_stopping


def without_frames(text: str) -> str:
    r"""A message without the stack traces and the plan that Spark puts after it.

    >>> without_frames("[NO] no such table; line 1 pos 14;\n'Project [*]\n+- 'UnresolvedRelation [t]\n")
    '[NO] no such table; line 1 pos 14'
    >>> without_frames("Job aborted: x\n\tat org.apache.spark.A.b(A.scala:1)\n\nDriver stacktrace:")
    'Job aborted: x'
    >>> without_frames("An exception:\nTraceback (most recent call last):\n  File \"x\", line 1\nValueError: y")
    'An exception:\nValueError: y'
    """
    text = text.split("\nJVM stacktrace:")[0].split("\nDriver stacktrace:")[0]
    text = _PLAN.sub("", _PYTHON_FRAMES.sub("", text))
    return "\n".join(line for line in text.splitlines() if not _FRAME.match(line)).strip()
