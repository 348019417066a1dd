"""The errors of py4j, by their names also where there is no Java: a client of Spark Connect never meets them."""

from __future__ import annotations

from typing import Any

__all__ = ["Py4JError", "Py4JJavaError", "Py4JNetworkError"]

try:
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
except ImportError:

    class Py4JError(Exception):  # type: ignore[no-redef]
        """An error on the way to Java."""

    class Py4JNetworkError(Py4JError):  # type: ignore[no-redef]
        """Java does not answer."""

    class Py4JJavaError(Py4JError):  # type: ignore[no-redef]
        """An exception of Java's."""

        java_exception: Any
