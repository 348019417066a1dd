"""Arrow's types for Spark's names of types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from udtf.errors import OperatorError
from udtf.operators.window_aggregate_stream_plan import decimal_of

_PLAIN: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_type(name: str) -> pa.DataType:
    """Arrow's type for Spark's name of a type.

    >>> arrow_type("array<struct<a:int,b:decimal(5,2)>>")
    ListType(list<item: struct<a: int32, b: decimal128(5, 2)>>)

    Raises:
        OperatorError: `OPERATOR.INVALID_OPTION`, the name is not known.
    """
    name = name.strip()
    if name in _PLAIN:
        return _PLAIN[name]
    if digits := decimal_of(name):
        return pa.decimal128(*digits)
    if name.startswith("array<"):
        return pa.list_(arrow_type(name[6:-1]))
    if name.startswith("map<"):
        key, value = _parts(name[4:-1])
        return pa.map_(arrow_type(key), arrow_type(value))
    if name.startswith("struct<"):
        fields = [part.split(":", 1) for part in _parts(name[7:-1])]
        return pa.struct([pa.field(field.strip(" `"), arrow_type(kind)) for field, kind in fields])
    if name.startswith(("varchar", "char")):
        return pa.string()
    raise OperatorError.invalid_option("type", name, "Spark's name of a type")


def _parts(text: str) -> Iterator[str]:
    """What stands between the commas that are in no brackets."""
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            yield text[start:place]
            start = place + 1
    if text:
        yield text[start:]
