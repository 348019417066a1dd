"""Spark's types in replay: read from their text, compared, and spelt in DuckDB's words; rows come in checked."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

Values = tuple[Any, ...]


_ALIASES = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float", "dec": "decimal",
    "numeric": "decimal", "timestamp_ltz": "timestamp", "varchar": "string", "char": "string", "character": "string",
}  # fmt: skip
_DUCKDB = {
    "boolean": "BOOLEAN", "tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "bigint": "BIGINT",
    "float": "FLOAT", "double": "DOUBLE", "string": "VARCHAR", "binary": "BLOB", "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE", "timestamp_ntz": "TIMESTAMP", "void": "INTEGER", "interval": "INTERVAL",
}  # fmt: skip
_FROM_DUCKDB = {
    "timestamp with time zone": "timestamp", "timestamp": "timestamp_ntz", "varchar": "string", "blob": "binary",
    "integer": "int", "utinyint": "smallint", "usmallint": "int", "uinteger": "bigint",
}  # fmt: skip
INTEGRAL = ("tinyint", "smallint", "int", "bigint")
_NUMERIC = (*INTEGRAL, "float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_UNITS = ("year", "month", "day", "hour", "minute", "second", "to")
_PIECE = re.compile(r"`(?:[^`]|``)*`|[^\s<>(),:`]+|[<>(),:]")


class TypeTextError(ValueError):
    """The text names no type that replay knows."""


@dataclass(frozen=True)
class SparkType:
    """A type of Spark's.

    Attributes:
        name: its short name: ``int``, ``decimal``, ``struct`` ….
        precision, scale: of a decimal.
        fields: of a struct (name, type); of an array one, of a map two, without names.
    """

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[tuple[str, SparkType], ...] = ()

    @property
    def text(self) -> str:
        """As DDL text.

        >>> parse_type("ARRAY<STRUCT<a: INTEGER, `b c`: DEC(5,2)>>").text
        'array<struct<`a`:int,`b c`:decimal(5,2)>>'
        """
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "struct":
            inner = ",".join(f"`{name.replace('`', '``')}`:{kind.text}" for name, kind in self.fields)
            return f"struct<{inner}>"
        if self.fields:
            return f"{self.name}<{','.join(kind.text for _, kind in self.fields)}>"
        return "interval day to second" if self.name == "interval" else self.name

    @property
    def duckdb(self) -> str:
        """The same type in DuckDB's words."""
        kinds = [kind.duckdb for _, kind in self.fields]
        if self.name == "decimal":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.name == "struct":
            names = ['"' + name.replace('"', '""') + '"' for name, _ in self.fields]
            return f"STRUCT({', '.join(f'{name} {kind}' for name, kind in zip(names, kinds, strict=True))})"
        if self.name == "array":
            return f"{kinds[0]}[]"
        return f"MAP({kinds[0]}, {kinds[1]})" if self.name == "map" else _DUCKDB[self.name]


@lru_cache(maxsize=4096)
def parse_type(text: str) -> SparkType:
    """The type that a DDL text names; NOT NULL, DEFAULT, COLLATE and COMMENT after it play no part.

    Raises:
        TypeTextError: there is no such type in replay.

    >>> parse_type("DECIMAL(10, 2) NOT NULL").text, parse_type("varchar(5)").text
    ('decimal(10,2)', 'string')
    """
    pieces = _PIECE.findall(text)
    kind, _ = _read(pieces, 0, text)
    return kind


def _read(pieces: list[str], at: int, text: str) -> tuple[SparkType, int]:
    if at >= len(pieces):
        raise TypeTextError(text)
    name = _ALIASES.get(pieces[at].lower(), pieces[at].lower())
    following = pieces[at + 1] if at + 1 < len(pieces) else ""
    if name in ("array", "map", "struct") and following == "<":
        return _nested(name, pieces, at + 2, text)
    if name == "decimal":
        numbers, at = _numbers(pieces, at + 1)
        precision, scale = [*numbers, *[(10, 0), (0,)][len(numbers)]] if len(numbers) < 2 else numbers[:2]
        return SparkType("decimal", precision, scale), at
    if name == "interval":
        return SparkType(name), _units(pieces, at + 1, text)
    if name not in _DUCKDB:
        raise TypeTextError(text)
    return SparkType(name), _numbers(pieces, at + 1)[1]


def _units(pieces: list[str], at: int, text: str) -> int:
    """Where the units of an interval end. Python has no value for one of years and months, and workers get none."""
    end = at
    while end < len(pieces) and pieces[end].lower() in _UNITS:
        end += 1
    if {"year", "month"} & {piece.lower() for piece in pieces[at:end]}:
        raise TypeTextError(text)
    return end


def _numbers(pieces: list[str], at: int) -> tuple[list[int], int]:
    """Numbers in parentheses, if there are any: of DECIMAL(10, 2) or VARCHAR(5)."""
    if at >= len(pieces) or pieces[at] != "(":
        return [], at
    end = pieces.index(")", at)
    return [int(piece) for piece in pieces[at + 1 : end] if piece != ","], end + 1


def _nested(name: str, pieces: list[str], at: int, text: str) -> tuple[SparkType, int]:
    fields: list[tuple[str, SparkType]] = []
    while at < len(pieces) and pieces[at] != ">":
        label = ""
        if name == "struct":
            label = pieces[at].strip("`").replace("``", "`")
            at += 2 if at + 1 < len(pieces) and pieces[at + 1] == ":" else 1
        kind, at = _read(pieces, at, text)
        fields.append((label, kind))
        while at < len(pieces) and pieces[at] not in (",", ">"):  # NOT NULL, COMMENT
            at += 1
        at += at < len(pieces) and pieces[at] == ","
    if at >= len(pieces) or len(fields) != {"array": 1, "map": 2}.get(name, len(fields)):
        raise TypeTextError(text)
    return SparkType(name, fields=tuple(fields)), at + 1


def from_duckdb(found: Any) -> SparkType:
    """The type behind one of DuckDB's.

    Args:
        found: a ``DuckDBPyType``.

    Raises:
        TypeTextError: Spark has no such type.
    """
    kind = str(found.id)
    if kind in ("list", "array"):
        return SparkType("array", fields=(("", from_duckdb(found.children[0][1])),))
    if kind == "struct":
        return SparkType("struct", fields=tuple((name, from_duckdb(child)) for name, child in found.children))
    if kind == "map":
        return SparkType("map", fields=tuple(("", from_duckdb(child)) for _, child in found.children))
    if kind == "decimal":
        precision, scale = (int(number) for _, number in found.children)
        return SparkType("decimal", precision, scale)
    if kind in ("hugeint", "ubigint", "uhugeint"):
        return SparkType("decimal", 38, 0)
    return parse_type(_FROM_DUCKDB.get(kind, "void" if kind in ('"null"', "sqlnull", "null") else kind))


def common_type(left: SparkType, right: SparkType) -> SparkType | None:
    """The type in which Spark compares two types with ``=`` (its ANSI rules), or None where it refuses to.

    >>> common_type(parse_type("decimal(10,2)"), parse_type("int")).text
    'decimal(12,2)'
    """
    if left == right or right.name == "void":
        return left
    if left.name == "void":
        return right
    if left.fields or right.fields:
        return _common_nested(left, right)
    names = {left.name, right.name}
    if "string" in names:
        return _common_with_string(left if right.name == "string" else right)
    if names <= {"date", "timestamp", "timestamp_ntz"}:
        return SparkType("timestamp" if "timestamp" in names else "timestamp_ntz")
    return _common_number(left, right) if names <= {*_NUMERIC, "decimal"} else None


def _common_nested(left: SparkType, right: SparkType) -> SparkType | None:
    if left.name != right.name or len(left.fields) != len(right.fields):
        return None
    fields = []
    for (name, one), (other_name, other) in zip(left.fields, right.fields, strict=True):
        common = common_type(one, other)
        if common is None or name.lower() != other_name.lower():
            return None
        fields.append((name, common))
    return SparkType(left.name, fields=tuple(fields))


def _common_with_string(other: SparkType) -> SparkType | None:
    if other.name in INTEGRAL:
        return SparkType("bigint")
    if other.name in ("float", "double", "decimal"):
        return SparkType("double")
    return None if other.name == "interval" else other


def _common_number(left: SparkType, right: SparkType) -> SparkType:
    names = {left.name, right.name}
    if "decimal" in names:
        if names & {"float", "double"}:
            return SparkType("double")
        one, other = _as_decimal(left), _as_decimal(right)
        scale = max(one.scale, other.scale)
        whole = max(one.precision - one.scale, other.precision - other.scale)
        return SparkType("decimal", min(38, whole + scale), min(38, scale))
    wider = max(names, key=_NUMERIC.index)
    return SparkType("double" if wider == "float" else wider)  # an integer and a float: no digit may get lost


def _as_decimal(kind: SparkType) -> SparkType:
    return kind if kind.name == "decimal" else SparkType("decimal", _DIGITS[kind.name], 0)


# Values in replay: what a test may push for a column of a type, and times as microseconds.


Reader = Callable[[Any], Any]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_NTZ = dt.datetime(1970, 1, 1)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_MICROSECOND = dt.timedelta(microseconds=1)
_DAY_US = 86_400_000_000
_BITS = dict(zip(INTEGRAL, (7, 15, 31, 63), strict=True))
_DECIMAL = Context(prec=76)

#: What a value of a type has to be, for messages.
EXPECTED = {
    "timestamp": "an aware datetime, or int microseconds since the epoch",
    "timestamp_ntz": "a naive datetime, or int microseconds",
    "date": "a date",
    "decimal": "a Decimal, int, float or str of a number that fits",
    "string": "a str",
    "binary": "bytes",
    "boolean": "a bool",
    "interval": "a timedelta",
    "float": "a float or int",
    "double": "a float or int",
    "array": "a list of such values",
    "map": "a dict of such values",
    "struct": "a dict with a value per field",
}


class Misfit(Exception):
    """A value is not of its column's type."""


def from_micros(micros: int) -> dt.datetime:
    """An aware UTC datetime.

    >>> from_micros(1).isoformat()
    '1970-01-01T00:00:00.000001+00:00'
    """
    return _EPOCH + dt.timedelta(microseconds=micros)


def to_micros(value: Any) -> int | None:
    """The time of an event or version in microseconds; integers stay as they are.

    >>> to_micros(dt.date(1970, 1, 2)), to_micros(from_micros(-5)), to_micros(None)
    (86400000000, -5, None)
    """
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, dt.datetime):
        return (value - (_EPOCH if value.tzinfo is not None else _EPOCH_NTZ)) // _MICROSECOND
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH_DAY) * _DAY_US
    raise Misfit(value)


@lru_cache(maxsize=1024)
def reader_of(kind: SparkType) -> Reader:
    """A function that checks a value for a type and gives it the one shape that replay calculates with.

    Its shapes: aware UTC datetime, naive datetime, date, Decimal of the type's scale, int, float, str, bytes, bool,
    list and dict; None stays None. The function raises Misfit where the value is not of the type.
    """
    read = _nested_reader(kind) if kind.fields else _simple_reader(kind)
    return lambda value: None if value is None else read(value)


def _simple_reader(kind: SparkType) -> Reader:
    if kind.name in _BITS:
        return lambda value: _integer(value, _BITS[kind.name])
    if kind.name == "decimal":
        return lambda value: _decimal(value, kind)
    return _READERS.get(kind.name, lambda value: value)


def _nested_reader(kind: SparkType) -> Reader:
    readers = [reader_of(field) for _, field in kind.fields]
    if kind.name == "array":
        return lambda value: [readers[0](item) for item in _of(value, (list, tuple))]
    if kind.name == "map":
        return lambda value: {readers[0](key): readers[1](item) for key, item in _of(value, dict).items()}
    names = [name for name, _ in kind.fields]

    def read_struct(value: Any) -> dict[str, Any]:
        if set(_of(value, dict)) - set(names):
            raise Misfit(value)
        return {name: read(value.get(name)) for name, read in zip(names, readers, strict=True)}

    return read_struct


def _of(value: Any, kinds: Any) -> Any:
    if not isinstance(value, kinds):
        raise Misfit(value)
    return value


def _integer(value: Any, bits: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**bits) <= value < 2**bits:
        raise Misfit(value)
    return value


def _decimal(value: Any, kind: SparkType) -> Decimal:
    if not isinstance(value, (Decimal, int, float, str)) or isinstance(value, bool):
        raise Misfit(value)
    try:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), "ROUND_HALF_UP", _DECIMAL)
    except InvalidOperation:
        raise Misfit(value) from None
    if not number.is_finite() or abs(number) >= Decimal(10) ** (kind.precision - kind.scale):
        raise Misfit(value)
    return number


def _timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return _EPOCH + _since_epoch(value)


def _timestamp_ntz(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value
    return _EPOCH_NTZ + _since_epoch(value)


def _since_epoch(value: Any) -> dt.timedelta:
    micros = _integer(value, 63)
    if not -62_135_596_800_000_000 <= micros < 253_402_300_800_000_000:
        raise Misfit(value)  # Python's datetime ends at the years 1 and 9999
    return dt.timedelta(microseconds=micros)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):
        raise Misfit(value)
    return dt.date.fromordinal(_EPOCH_DAY + _integer(value, 22)) if isinstance(value, int) else _of(value, dt.date)


def _double(value: Any) -> float:
    if isinstance(value, bool):
        raise Misfit(value)
    return float(_of(value, (int, float)))


def _float(value: Any) -> float:
    wide = _double(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", wide))[0])
    except OverflowError:
        return math.copysign(math.inf, wide)


_READERS: dict[str, Reader] = {
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "date": _date,
    "string": lambda value: _of(value, str),
    "binary": lambda value: bytes(_of(value, (bytes, bytearray, memoryview))),
    "boolean": lambda value: _of(value, bool),
    "interval": lambda value: _of(value, dt.timedelta),
    "float": _float,
    "double": _double,
}
