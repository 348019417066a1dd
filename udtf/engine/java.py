"""What Python code needs of Java: py4j's errors, by name also where there is none, and copies of Scala's values."""

from __future__ import annotations

from typing import Any

__all__ = ["Py4JError", "Py4JJavaError", "Py4JNetworkError", "copied", "fields_of"]

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


def fields_of(value: Any) -> list[str]:
    """The names of the fields of a Scala case class."""
    names = value.productElementNames()
    return [str(names.next()) for _ in range(int(value.productArity()))]


def copied(value: Any, **others: Any) -> Any:
    """A copy of a Scala case class with other values of some fields; those that it does not have are left out."""
    return value.copy(*(others.get(name, value.productElement(n)) for n, name in enumerate(fields_of(value))))
