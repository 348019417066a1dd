"""What the engine compares otherwise than byte by byte, and what it cannot hand to a worker at all.

Workers compare keys, times and ties by their bytes. So CHAR is padded before as Spark pads it, and collations are
refused: Spark has no SQL function for the bytes by which it compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from catalog.entries import Column
from sqlx.errors import BindError, UnsupportedError
from sqlx.sql.expressions import AggregateCall, compared_arguments
from sqlx.sql.tokens import tokenize

_COLLATED = re.compile(r"string collate (?!utf8_binary\b)\w+", re.IGNORECASE)
#: Spark has no Arrow form of these for Python; elements of `array()` and `map()` have no type at all.
_NO_ARROW = re.compile(
    r"\binterval(?! (?:day|hour|minute|second))(?!`?:)|\b(?:array|map)<void\b", re.IGNORECASE
)  # but a field may be called so
_NO_KEY = re.compile(rf"map<|\bvariant\b(?!`?:)|{_NO_ARROW.pattern}", re.IGNORECASE)


def is_key(type_text: str) -> bool:
    """Whether values of a type can be keys: Spark compares them for equality, and workers can.

    >>> is_key("array<int>"), is_key("struct<`a`:map<int,int>>"), is_key("interval year")
    (True, False, False)
    >>> is_key("struct<interval:int,`variant`:int>"), is_key("struct<a:variant>")
    (True, False)
    """
    return not _NO_KEY.search(type_text)


def check_compared(text: str, call: AggregateCall, types: Sequence[str]) -> None:
    """Refuse a kept aggregate that compares values of a type which the engine does not compare.

    Args:
        text: the statement.
        call: the aggregate; it has the arguments that it takes.
        types: of them.

    Raises:
        BindError: there is one.
    """
    for place in compared_arguments(call):
        kind = types[place]
        if not is_key(kind) and not (call.function == "collect_set" and "map<" not in kind):  # it compares variants
            span = call.arguments[place]
            wanted, found = "values that can be compared", {"found": span.of(text), "type": kind.upper()}
            raise BindError("AGGREGATE.ARGUMENT_TYPE", text, span.pair, function=call.name, wanted=wanted, **found)


def check_collation(text: str, place: tuple[int, int], found: str, type_text: str) -> None:
    """Refuse what Spark compares by a collation, wholly or in a part.

    Args:
        text: the statement.
        place: of what is compared.
        found: the same as text.
        type_text: its type.

    Raises:
        UnsupportedError: it has one.
    """
    if _COLLATED.search(type_text):
        raise UnsupportedError("UNSUPPORTED.COLLATION", text, place, found=found, type=type_text.upper())


def padded(left: str, left_column: Column, right: str, right_column: Column) -> tuple[str, str]:
    """Two strings as Spark compares them with ``=``: CHAR is padded to the longer CHAR, or to the longer literal.

    >>> padded("a.x", Column("x", "string", 3), "b.y", Column("y", "string", 5))
    ("rpad(a.x, 5, ' ')", 'b.y')
    """
    sides, lengths = (left, right), (left_column.char_length, right_column.char_length)
    if all(lengths):
        length = str(max(lengths))
        left, right = (
            side if own == max(lengths) else _padded_to(side, length) for side, own in zip(sides, lengths, strict=True)
        )
        return left, right
    literal = right if lengths[0] else left
    if not any(lengths) or not _is_literal(literal):
        return sides
    length = f"greatest({max(lengths)}, char_length({literal}))"
    return _padded_to(left, length), _padded_to(right, length)


def _padded_to(side: str, length: str) -> str:
    return f"rpad({side}, {length}, ' ')"


def _is_literal(text: str) -> bool:
    return [token.kind for token in tokenize(text)] == ["string"]


def check_carried(text: str, place: tuple[int, int], columns: Iterable[tuple[str, str]]) -> None:
    """Everything that a query reads behind an operator goes through a worker.

    Args:
        text: the statement.
        place: of the operator.
        columns: name and type of what goes through it.

    Raises:
        UnsupportedError: a type is one that Spark does not hand to Python.
    """
    for name, type_text in columns:
        if _NO_ARROW.search(type_text):
            raise UnsupportedError("UNSUPPORTED.COLUMN_TYPE", text, place, column=name, type=type_text.upper())


def check_case(text: str, place: tuple[int, int], columns: Iterable[Column]) -> None:
    """Clauses of ours know columns whatever their case: two that differ in nothing else would be taken for one.

    Raises:
        UnsupportedError: there are two.
    """
    seen: dict[str, str] = {}
    for column in columns:
        other = seen.setdefault(column.name.lower(), column.name)
        if other != column.name:
            raise UnsupportedError("UNSUPPORTED.CASE_SENSITIVE", text, place, one=other, other=column.name)
