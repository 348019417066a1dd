"""Lowers a deduplication of bounded rows to Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from sqlx.plan import Deduplicate
from sqlx.shipping import without_own_copies
from udtf.spark.deduplicate import deduplicate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def deduplicated(node: Deduplicate, rows: DataFrame) -> DataFrame:
    """The result of a deduplication.

    Args:
        node: the operator.
        rows: its input.
    """
    config, narrow, renamed = without_own_copies(node.config, rows)
    types = {field.name: field.dataType for field in narrow.schema.fields}
    schema = StructType([StructField(name, types[name]) for name in config.columns])
    result = deduplicate(narrow, config, schema)
    return result.withColumnsRenamed(renamed) if renamed else result
