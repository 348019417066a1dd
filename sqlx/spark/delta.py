"""What Delta Lake cannot do on a PySpark that its connector was not made for."""

from __future__ import annotations

from catalog.definitions import Definition
from sqlx.connectors.jars import is_43
from sqlx.errors import UnsupportedError


def check_path(text: str, span: tuple[int, int], source: str, path: str) -> None:
    """Refuse a Delta table by its path where that is not safe.

    On PySpark 4.3 an append by path raises after it has committed, so that whoever tries again writes its rows twice;
    reads by path fail as well. By its name a table is read and written as on 4.2.

    Args:
        text: the statement.
        span: where it says so.
        source: of USING.
        path: of OPTIONS, or "".

    Raises:
        UnsupportedError: it is one.
    """
    if source.lower() == "delta" and path and is_43():
        raise UnsupportedError("DELTA.PATH", text, span, path=path)


def check_definition(definition: Definition) -> None:
    """The same of what a definition reads.

    Raises:
        UnsupportedError: it is one.
    """
    path = next((value for key, value in definition.options if key.lower() == "path"), "")
    check_path(definition.text, definition.span("OPTIONS"), definition.using, path)
    source, *rest = definition.relation_parts or ("",)
    if rest and ("/" in rest[-1] or ":" in rest[-1]):
        check_path(definition.text, definition.span("RELATION"), source, rest[-1])
