"""Lowers a plan to Spark, bounded: each operator becomes a global temporary view that the rest of the text reads."""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType, TimestampNTZType

from sqlx.plan.nodes import Aggregation, AsOfJoin, Deduplicate, Fragment, Plan
from sqlx.plan.operators import function_of
from sqlx.spark.aggregates import call_of
from sqlx.spark.workers import check_workers
from udtf.engine import engine_of
from udtf.engine.settings import whole_number
from udtf.errors import OperatorError
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.window_aggregate.config import arrow_type, fold_of, uncompiled_aggregates
from udtf.spark import batch
from udtf.spark.batch import deduplicate, sliding_windows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column


# What travels to Python and back: a column that is a key or the time as well travels once.


_NAMED = ("__as_of", "__time", "__seq")


def without_copies(config: AsOfJoinConfig, left: DataFrame) -> tuple[AsOfJoinConfig, DataFrame, dict[str, str]]:
    """Leave payload columns out that are nothing but a key or the AS OF time.

    Args:
        config: the join.
        left: its left input, a projection.

    Returns:
        The join whose left payload names the key in their place, the narrower input, and what to call the columns of
        the result again.
    """
    columns, renamed = _without_copies(config.left_columns, engine_of(left.sparkSession).sources(left))
    return replace(config, left_columns=columns), left.drop(*renamed.values()), renamed


def without_own_copies(
    config: DeduplicateConfig, rows: DataFrame
) -> tuple[DeduplicateConfig, DataFrame, dict[str, str]]:
    """The same of a deduplication: its payload names keys, time and sequence where it is nothing but these.

    The optimised projection is read, since the time of a stream is computed in a subquery.
    """
    sources = engine_of(rows.sparkSession).sources(rows, optimized=True)
    columns, renamed = _without_copies(config.columns, sources)
    return replace(config, columns=columns), rows.drop(*renamed.values()), renamed


def repeated_columns(rows: DataFrame, last: Sequence[str] = ()) -> dict[str, str]:
    """Arguments of aggregates and columns of late rows that are nothing but another column of the input, and that one.

    Args:
        rows: an input, a projection.
        last: columns that no other one is to be a copy of, if possible.
    """
    sources = engine_of(rows.sparkSession).sources(rows)
    names = sorted(rows.columns, key=lambda name: name in last)
    return _same(names, sources, lambda name: name.startswith(("__a", "_l")))


def live_copies(rows: DataFrame, needed: Sequence[str]) -> dict[str, str]:
    """Columns of a live input that are nothing but another one of it, and that one.

    Args:
        rows: an input, a projection.
        needed: beginnings of the names that must travel whatever they are.
    """
    sources = engine_of(rows.sparkSession).sources(rows, optimized=True)  # projections over projections become one
    names = sorted(rows.columns, key=lambda name: not name.startswith(tuple(needed)))
    return _same(names, sources, lambda name: not name.startswith(tuple(needed)))


def _same(names: Sequence[str], sources: dict[str, str], may_go: Callable[[str], bool]) -> dict[str, str]:
    """Of columns with one source the first stays; the others, where they may go, and the one that stays."""
    kept: dict[str, str] = {}
    copies: dict[str, str] = {}
    for name in names:
        source = sources.get(name)
        if source is not None and kept.setdefault(source, name) != name and may_go(name):
            copies[name] = kept[source]
    return copies


def _without_copies(payload: tuple[str, ...], sources: dict[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The payload with the columns that stand for a part of it, and what to call those again."""
    keys = {source: name for name, source in sources.items() if name in _NAMED or name.startswith("__k")}
    renamed: dict[str, str] = {}
    columns = []
    for name in payload:
        key = keys.get(sources.get(name, ""))
        travels = key is not None and key not in renamed
        if travels and key is not None:
            renamed[key] = name
        columns.append(key if travels and key is not None else name)
    return tuple(columns), renamed


# Lowers a deduplication of bounded rows to Spark.


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


# Lowers sliding windows of bounded rows to Spark, which has none.
#
# Where all aggregates are compiled whole tasks are folded. Else tasks only say which rows are members of which window,
# and Spark aggregates these::
#
#     SELECT k, percentile(v, 0.5) FROM s GROUP BY k, sliding_window(ts, '10 minutes')
#       =>
#     k, ts, v  ->  k, end of the window, v (once for each window that holds the row)  ->  GROUP BY k, end of the window


def sliding_aggregation(node: Aggregation, rows: DataFrame) -> DataFrame:
    """The windows of all rows that have a time, in the columns of the operator's result.

    Args:
        node: the aggregation.
        rows: its input.
    """
    assert node.config.window.kind == "sliding", "Spark aggregates all other windows of bounded rows"
    answered = _expanded(node, rows) if expanded(node) else _folded(node, rows)
    return answered.withColumn("__ws", _start(node, rows)).select(*[F.col(column.name) for column in node.columns])


def expanded(node: Aggregation) -> list[str]:
    """The aggregates that Spark computes from the members of each window, in words; empty: none need be listed."""
    aggregates = node.config.aggregates
    types = {column.name: column.type for column in node.input.columns}
    arguments = [
        [_arrow_type(types[f"__a{n}_{m}"]) for m in range(aggregate.arguments)] if _has_type(node, n) else []
        for n, aggregate in enumerate(aggregates)
    ]
    return uncompiled_aggregates(aggregates, arguments)


def _has_type(node: Aggregation, number: int) -> bool:
    """Whether the types of an aggregate's arguments decide: counting takes any."""
    fold = fold_of(node.config.aggregates[number])
    return fold is not None and (fold.takes_ints or fold.takes_floats)


def _arrow_type(name: str) -> pa.DataType:
    """Arrow's type for Spark's name of one, null for one that has none here."""
    import pyarrow as pa

    try:
        return arrow_type(name)
    except OperatorError:
        return pa.null()


def _timed(rows: DataFrame) -> DataFrame:
    """The rows that lie in a window."""
    return rows.where(F.col("__time").isNotNull())


def _start(node: Aggregation, rows: DataFrame) -> Column:
    """The start of a window; both ends are inclusive (semantics.md B14)."""
    end, size_us = F.col("__we"), node.config.window.size_us
    if isinstance(rows.schema["__time"].dataType, TimestampNTZType):
        return end - F.lit(timedelta(microseconds=size_us))
    # NB: a timestamp minus an interval goes by the days of the session's time zone.
    return F.timestamp_micros(F.unix_micros(end) - F.lit(size_us))


def _folded(node: Aggregation, rows: DataFrame) -> DataFrame:
    counted = [
        f"__a{n}_{m}" for n, a in enumerate(node.config.aggregates) if a.function == "count" for m in range(a.arguments)
    ]
    copies = repeated_columns(rows, last=counted)
    narrow = _timed(rows).drop(*copies)
    flags = {name: F.when(F.col(name).isNotNull(), F.lit(True)) for name in counted if name not in copies}
    narrow = narrow.withColumns(flags) if flags else narrow
    values = [StructField(f"__a{n}", DataType.fromDDL(a.type)) for n, a in enumerate(node.config.aggregates)]
    return sliding_windows(narrow, node.config, _schema(node, rows, values), copies)


def _expanded(node: Aggregation, rows: DataFrame) -> DataFrame:
    copies = {name: source for name, source in repeated_columns(rows).items() if source != "__time"}
    narrow = _timed(rows).drop(*copies)
    arguments = [StructField(f.name, f.dataType) for f in narrow.schema.fields if f.name.startswith("__a")]
    members = sliding_windows(narrow, node.config, _schema(node, rows, arguments), {}, lists_members=True)
    whole = members.withColumns({name: F.col(source) for name, source in copies.items()}) if copies else members
    keys = [F.col(f"__k{n}") for n in range(node.config.n_keys)]
    calls = [F.expr(call_of(node, n)).alias(f"__a{n}") for n in range(len(node.config.aggregates))]
    return whole.groupBy(*keys, F.col("__we")).agg(*calls)


def _schema(node: Aggregation, rows: DataFrame, others: list[StructField]) -> StructType:
    """What tasks give out: key, end of the window, and others."""
    types = {field.name: field.dataType for field in rows.schema.fields}
    keys = [StructField(f"__k{n}", types[f"__k{n}"]) for n in range(node.config.n_keys)]
    return StructType([*keys, StructField("__we", types["__time"]), *others])


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
        shown = engine_of(self.spark).read_as(frame, name)
        self.names[name] = None
        while len(self.names) > _KEPT_VIEWS:
            oldest, _ = self.names.popitem(last=False)
            engine_of(self.spark).forget(oldest)
        return shown

    def drop(self) -> None:
        """Drop all of them: the session has ended."""
        while self.names:
            engine_of(self.spark).forget(self.names.popitem()[0])


def lower_operators(plan: Plan, spark: SparkSession, analyzed: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Plan the operators of a bounded query on Spark.

    Args:
        plan: the compiled query.
        spark: the session.
        analyzed: what Spark's analyzer has made of queries already, by their text.

    Returns:
        By the name under which the root reads it, the result of each operator.
    """
    frames: dict[str, DataFrame] = {}
    if plan.operators():
        check_workers(spark)
    for node in plan.operators():
        run = function_of(node, "batch")
        frames[node.name] = run(node, *(frame(side, spark, frames, analyzed) for side in node.inputs))
    return frames


#: Whether results outlive their statement.
_kept: ContextVar[bool] = ContextVar("kept", default=False)


@contextmanager
def kept(is_kept: bool) -> Iterator[None]:
    """Within it what is lowered outlives its statement: a cached table, or a script that may change what it reads.

    Spark drops and reads anew what has changed. A mapped right side is a file of the rows of now: it would stay.
    """
    token = _kept.set(is_kept or _kept.get())
    try:
        yield
    finally:
        _kept.reset(token)


def lower_query(plan: Plan, spark: SparkSession, analyzed: Mapping[str, DataFrame]) -> DataFrame:
    """A bounded query with operators.

    Args:
        plan: the compiled query.
        spark: the session.
        analyzed: as in `lower_operators`.
    """
    return frame(plan.root, spark, lower_operators(plan, spark, analyzed), analyzed)


def lower_body(plan: Plan, spark: SparkSession, analyzed: Mapping[str, DataFrame]) -> Any:
    """The same of the body of a function, as a plan that is analysed by whoever knows its arguments."""
    return engine_of(spark).body(plan.root.sql, lower_operators(plan, spark, analyzed))


def lower_to_views(plan: Plan, spark: SparkSession, views: Views, analyzed: Mapping[str, DataFrame]) -> str:
    """Plain Spark SQL for a command around a query: it reads the results as global temporary views."""
    names = {name: views.register(result) for name, result in lower_operators(plan, spark, analyzed).items()}
    return substitute(plan.root.sql, names)


def as_of_join(node: AsOfJoin, left: DataFrame, right: DataFrame) -> DataFrame:
    """The result of an AS OF join: a small right side is mapped by every worker, else both sides are shuffled."""
    config, narrow, renamed = without_copies(node.config, left)
    schema = output_schema(config, narrow, right)
    result = _mapped(narrow, right, config, schema) if strategy(right, right.sparkSession) == "mapped" else None
    if result is None:
        result = batch.as_of_join(narrow, right, config, schema)
    return result.withColumnsRenamed(renamed) if renamed else result


def _mapped(left: DataFrame, right: DataFrame, config: AsOfJoinConfig, schema: StructType) -> DataFrame | None:
    """The join by mapping; None where the right side is far larger than its estimate and Spark stops collecting it."""
    try:
        return batch.as_of_join_mapped(left, right, config, schema)
    except PySparkException as error:
        if "maxResultSize" not in str(error):
            raise
        _log.warning("A right side that was estimated as small is larger than spark.driver.maxResultSize: shuffling.")
        return None


def frame(
    fragment: Fragment, spark: SparkSession, frames: dict[str, DataFrame], analyzed: Mapping[str, DataFrame]
) -> DataFrame:
    """A fragment as a DataFrame."""
    read = {name: frames[name] for name, _ in fragment.reads if name in frames}
    found = analyzed.get(fragment.sql)
    if found is None:
        return query_frame(fragment.sql, spark, read)
    return engine_of(spark).over_results(found, fragment.sql, read) if read else found


def query_frame(sql: str, spark: SparkSession, frames: Mapping[str, DataFrame]) -> DataFrame:
    """A query that reads results by name, as a DataFrame."""
    return engine_of(spark).query(sql, frames) if frames else spark.sql(sql)


def substitute(sql: str, names: dict[str, str]) -> str:
    """Put the names of registered results in the place of the plan's."""
    for name, view in names.items():
        sql = re.sub(rf"\b{name}\b", view, sql)
    return sql


def strategy(right: DataFrame, spark: SparkSession) -> Strategy:
    """How a join is run, by Spark's estimate of its right side."""
    return "mapped" if not _kept.get() and batch.estimated_bytes(right) <= mapped_limit(spark) else "shuffled"


def mapped_limit(spark: SparkSession) -> int:
    """The largest right side, in bytes, that every worker maps: ``sqlx.as_of.mapped_bytes``; 0 always shuffles."""
    return whole_number(spark, "sqlx.as_of.mapped_bytes", _MAPPED_BYTES)


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
