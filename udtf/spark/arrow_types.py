"""Arrow's types of Spark's columns, the same on every PySpark."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


#: PySpark 4.2 and newer ask for the time zone; before, it is always UTC.
_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}


def arrow_schema(columns: StructType) -> pa.Schema:
    """The columns as Arrow names their types, timestamps in UTC."""
    return to_arrow_schema(columns, **_ZONE)
