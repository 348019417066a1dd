"""Parsed plans as Spark's Datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_dataset_classes: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def dataset(spark: SparkSession, plan: Any) -> Any:
    """A parsed plan, analysed, as Spark's Dataset."""
    context = spark.sparkContext
    if context not in _dataset_classes:  # py4j asks the JVM for every part of a dotted name
        jvm: Any = context._jvm
        _dataset_classes[context] = jvm.org.apache.spark.sql.classic.Dataset
    return _dataset_classes[context].ofRows(spark._jsparkSession, plan)
