"""The worker side: operators without engine, their state, and the ways Spark calls them. Imports nothing of `sqlx`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the table functions (`as_of`, `deduplicate`) known to a session."""
    from udtf.spark.functions import register_as_of, register_deduplicate  # a worker without Spark SQL never needs them

    register_as_of(spark)
    register_deduplicate(spark)
