"""Lowers a plan to Spark, bounded: each operator becomes a global temporary view that the rest of the text reads."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from sqlx.lower_deduplicate import deduplicated
from sqlx.lower_windows import sliding_aggregation
from sqlx.plan import Aggregation, AsOfJoin, Deduplicate, Fragment, Plan
from sqlx.shipping import without_copies
from sqlx.spark_datasets import dataset
from udtf.operators.as_of_join import AsOfJoinConfig
from udtf.spark import batch, mapped

Strategy = Literal["mapped", "shuffled"]
_log = logging.getLogger("sqlx")
_KEPT_VIEWS = 512
_MAPPED_BYTES = 64 << 20
_numbers = count(1)
_process = uuid4().hex[:8]


@dataclass
class Views:
    """The views that lowered commands read, each until its command is analysed; the oldest are dropped."""

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

    def drop(self) -> None:
        """Drop all of them: the session has ended."""
        while self.names:
            self.spark.catalog.dropGlobalTempView(self.names.popitem()[0])


def lower_operators(plan: Plan, spark: SparkSession, analyzed: Mapping[str, Any]) -> dict[str, DataFrame]:
    """Plan the operators of a bounded query on Spark.

    Args:
        plan: the compiled query.
        spark: the session.
        analyzed: what Spark's analyzer has made of queries already, by their text.

    Returns:
        By the name under which the root reads it, the result of each operator.
    """
    frames: dict[str, DataFrame] = {}
    for node in plan.operators():
        if isinstance(node, Deduplicate):
            frames[node.name] = deduplicated(node, frame(node.input, spark, frames, analyzed))
            continue
        if isinstance(node, Aggregation):
            frames[node.name] = sliding_aggregation(node, frame(node.input, spark, frames, analyzed))
            continue
        assert isinstance(node, AsOfJoin)
        frames[node.name] = as_of_join(node, spark, frames, analyzed)
    return frames


def lower_to_views(plan: Plan, spark: SparkSession, views: Views, analyzed: Mapping[str, Any]) -> str:
    """Plain Spark SQL for a command around a query: it reads the results as global temporary views."""
    names = {name: views.register(result) for name, result in lower_operators(plan, spark, analyzed).items()}
    return substitute(plan.root.sql, names)


def as_of_join(
    node: AsOfJoin, spark: SparkSession, frames: dict[str, DataFrame], analyzed: Mapping[str, Any]
) -> DataFrame:
    """The result of an AS OF join: a small right side is mapped by every worker, else both sides are shuffled."""
    left, right = (frame(side, spark, frames, analyzed) for side in (node.left, node.right))
    config, narrow, renamed = without_copies(node.config, left)
    schema = output_schema(config, narrow, right)
    result = _mapped(narrow, right, config, schema) if strategy(right, spark) == "mapped" else None
    if result is None:
        result = batch.as_of_join(narrow, right, config, schema)
    return result.withColumnsRenamed(renamed) if renamed else result


def _mapped(left: DataFrame, right: DataFrame, config: AsOfJoinConfig, schema: StructType) -> DataFrame | None:
    """The join by mapping; None where the right side is far larger than its estimate and Spark stops collecting it."""
    try:
        return mapped.as_of_join(left, right, config, schema)
    except PySparkException as error:
        if "maxResultSize" not in str(error):
            raise
        _log.warning("A right side that was estimated as small is larger than spark.driver.maxResultSize: shuffling.")
        return None


def frame(
    fragment: Fragment, spark: SparkSession, frames: dict[str, DataFrame], analyzed: Mapping[str, Any]
) -> DataFrame:
    """A fragment as a DataFrame."""
    if fragment.sql in analyzed:
        return DataFrame(analyzed[fragment.sql], spark)
    return query_frame(fragment.sql, spark, {name: frames[name] for name, _ in fragment.reads if name in frames})


def query_frame(sql: str, spark: SparkSession, frames: dict[str, DataFrame]) -> DataFrame:
    """A query that reads results by name, as a DataFrame."""
    if not frames:
        return spark.sql(sql)
    java: Any = spark._jsparkSession
    plan = with_results(java.sessionState().sqlParser().parsePlan(sql), frames)
    return DataFrame(dataset(spark, plan), spark)


def with_results(plan: Any, frames: dict[str, DataFrame]) -> Any:
    """A parsed query with the results that it reads, as common table expressions around it.

    So nothing is registered that somebody would have to drop, and the text of a stored view may read them too.
    """
    jvm: Any = next(iter(frames.values())).sparkSession.sparkContext._jvm
    none = jvm.scala.Option.empty()
    logical: Any = jvm.org.apache.spark.sql.catalyst.plans.logical
    alias: Any = getattr(getattr(logical, "SubqueryAlias$"), "MODULE$")
    ctes = [
        jvm.scala.Tuple3(name, alias.apply(name, result._jdf.queryExecution().analyzed()), none)
        for name, result in frames.items()
    ]
    return logical.UnresolvedWith(plan, jvm.PythonUtils.toSeq(ctes), False)


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


def output_schema(config: AsOfJoinConfig, left: DataFrame, right: DataFrame) -> StructType:
    """The schema of a join's result: payloads of both sides, all nullable, then the reason."""
    types = {f.name: f.dataType for f in (*right.schema.fields, *left.schema.fields)}
    fields = [StructField(name, types[name]) for name in (*config.left_columns, *config.right_columns)]
    if config.with_reason:
        fields.append(StructField("__reason", StringType()))
    return StructType(fields)
