"""Values in replay: what a test may push for a column of a type, and times as microseconds."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from sqlx.replay_types import INTEGRAL, SparkType

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
    "float": _float,
    "double": _double,
}
