"""Lowers a plan to Spark, bounded: each operator becomes a global temporary view that the rest of the text reads."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import count
from typing import Literal
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from sqlx.plan import AsOfJoin, Fragment, Plan
from udtf.spark import batch, mapped

Strategy = Literal["mapped", "shuffled"]
_KEPT_VIEWS = 512
_MAPPED_BYTES = 64 << 20
_numbers = count(1)
_process = uuid4().hex[:8]


@dataclass
class Views:
    """The views that lowered statements read. A view is needed until its statement is analysed; old ones are dropped."""

    spark: SparkSession
    names: OrderedDict[str, None] = field(default_factory=OrderedDict)

    def register(self, frame: DataFrame) -> str:
        """Register a result under a name of its own; the name to read it by."""
        name = f"__sqlx_{_process}_{next(_numbers)}"
        frame.createOrReplaceGlobalTempView(name)
        self.names[name] = None
        while len(self.names) > _KEPT_VIEWS:
            oldest, _ = self.names.popitem(last=False)
            self.spark.catalog.dropGlobalTempView(oldest)
        return f"{self.spark.conf.get('spark.sql.globalTempDatabase', 'global_temp')}.{name}"


def lower_batch(plan: Plan, spark: SparkSession, views: Views) -> str:
    """Plan the operators on Spark.

    Args:
        plan: a bounded plan.
        spark: the session.
        views: where operator results are registered.

    Returns:
        Plain Spark SQL for the whole query.
    """
    names: dict[str, str] = {}
    for node in plan.operators():
        assert isinstance(node, AsOfJoin)
        names[node.name] = views.register(as_of_join(node, spark, names))
    return substitute(plan.root.sql, names)


def as_of_join(node: AsOfJoin, spark: SparkSession, names: dict[str, str]) -> DataFrame:
    """The result of an AS OF join: a small right side is mapped by every worker, else both sides are shuffled."""
    left, right = frame(node.left, spark, names), frame(node.right, spark, names)
    schema = output_schema(node, left, right)
    if strategy(right, spark) == "mapped":
        return mapped.as_of_join(left, right, node.config, schema)
    return batch.as_of_join(left, right, node.config, schema)


def frame(fragment: Fragment, spark: SparkSession, names: dict[str, str]) -> DataFrame:
    """A fragment as a DataFrame."""
    return spark.sql(substitute(fragment.sql, names))


def substitute(sql: str, names: dict[str, str]) -> str:
    """Put the names of registered results in the place of the plan's."""
    for name, view in names.items():
        sql = re.sub(rf"\b{name}\b", view, sql)
    return sql


def strategy(right: DataFrame, spark: SparkSession) -> Strategy:
    """How a join is run, by Spark's estimate of its right side."""
    return "mapped" if batch.estimated_bytes(right) <= mapped_limit(spark) else "shuffled"


def mapped_limit(spark: SparkSession) -> int:
    """The largest right side, in bytes, that every worker maps: ``sqlx.as_of.mapped_bytes``; 0 always shuffles."""
    return int(spark.conf.get("sqlx.as_of.mapped_bytes", str(_MAPPED_BYTES)) or 0)


def estimated(node: AsOfJoin, spark: SparkSession) -> tuple[Strategy, int, int] | None:
    """How a join would be run, the estimated bytes of its right side, and the limit; None before its inputs exist."""
    if node.right.inputs:
        return None
    right = spark.sql(node.right.sql)
    return strategy(right, spark), batch.estimated_bytes(right), mapped_limit(spark)


def output_schema(node: AsOfJoin, left: DataFrame, right: DataFrame) -> StructType:
    """The schema of a join's result: payloads of both sides, all nullable, then the reason."""
    fields = [
        StructField(f.name, f.dataType)
        for f in (*left.schema.fields, *right.schema.fields)
        if not f.name.startswith("__")
    ]
    if node.config.with_reason:
        fields.append(StructField("__reason", StringType()))
    return StructType(fields)
