"""Rows of Spark in Arrow's types, the same on every PySpark."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from udtf.spark.workers import begin_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


#: PySpark 4.2 and newer ask for the time zone; before, it is always UTC.
_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema(columns: StructType) -> pa.Schema:
    """The columns as Arrow names their types, timestamps in UTC."""
    return to_arrow_schema(columns, **_ZONE)


def spark_schema(columns: pa.Schema) -> StructType:
    """The columns as Spark names their types; before PySpark 4.2 a time without a zone became one with a zone."""
    return from_arrow_schema(columns, prefer_timestamp_ntz=True)


def in_utc(table: pa.Table) -> pa.Table:
    """The same instants under UTC's name: Spark hands tables over in the session's zone and takes none but UTC back."""
    import pyarrow as pa  # the driver may plan without it

    from udtf.columns.arrays import as_type

    schema = pa.schema([field.with_type(_utc_type(field.type)) for field in table.schema])
    if schema == table.schema:
        return table
    columns = [as_type(column, field.type) for column, field in zip(table.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def _utc_type(found: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    if pa.types.is_timestamp(found) and found.tz is not None:
        return pa.timestamp(found.unit, tz="UTC")
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_utc_type(field.type)) for field in found])
    if pa.types.is_map(found):
        return pa.map_(_utc_type(found.key_type), found.item_field.with_type(_utc_type(found.item_type)))
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_utc_type(found.value_type)))
    return found


def collected(frame: DataFrame) -> pa.Table:
    """The rows on the driver, timestamps in UTC.

    `toArrow` fails where a struct is NULL of which a field may not be, as in any VARIANT: Arrow does not cast it to its
    own type. Rows of such columns come as blobs, which workers write.
    """
    if not any(_has_required_field(field.dataType) for field in frame.schema):
        return frame.toArrow()
    import pyarrow as pa

    from udtf.stream.blobs import from_blob

    found = [from_blob(row[0]) for row in frame.mapInArrow(_as_blobs, "blob BINARY").collect()]
    return pa.concat_tables(found) if found else arrow_schema(frame.schema).empty_table()


def _has_required_field(kind: DataType) -> bool:
    if isinstance(kind, T.VariantType):
        return True
    if isinstance(kind, T.ArrayType):
        return _has_required_field(kind.elementType)
    if isinstance(kind, T.MapType):
        return _has_required_field(kind.keyType) or _has_required_field(kind.valueType)
    if isinstance(kind, T.StructType):
        return any(not field.nullable or _has_required_field(field.dataType) for field in kind)
    return False


def _as_blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition, in a worker."""
    import pyarrow as pa

    from udtf.stream.blobs import column_of, to_blob

    begin_task()
    for batch in (batch for batch in batches if batch.num_rows):
        blob = to_blob(in_utc(pa.Table.from_batches([batch])).to_batches())
        yield pa.RecordBatch.from_arrays([column_of(blob)], names=["blob"])
