"""Spark's types as DDL text that can be read back, whatever the names of nested fields."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from catalog.entries import Column


def ddl(data_type: DataType) -> str:
    """The type as text for CAST; nested field names are quoted.

    >>> from pyspark.sql.types import IntegerType, StructField
    >>> ddl(ArrayType(StructType([StructField("a b", IntegerType())])))
    'array<struct<`a b`:int>>'
    """
    if isinstance(data_type, StructType):
        fields = ",".join(f"`{f.name.replace('`', '``')}`:{ddl(f.dataType)}" for f in data_type.fields)
        return f"struct<{fields}>"
    if isinstance(data_type, ArrayType):
        return f"array<{ddl(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{ddl(data_type.keyType)},{ddl(data_type.valueType)}>"
    return str(data_type.simpleString())


def columns_of(java_schema: Any) -> tuple[Column, ...]:
    """A Java StructType as columns."""
    schema = StructType.fromJson(json.loads(java_schema.json()))
    return tuple(Column(f.name, ddl(f.dataType)) for f in schema.fields)
