"""Lowers sliding windows of bounded rows to Spark, which has none.

Where all aggregates are compiled whole tasks are folded. Else tasks only say which rows are members of which window,
and Spark aggregates these::

    SELECT k, percentile(v, 0.5) FROM s GROUP BY k, sliding_window(ts, '10 minutes')
      =>
    k, ts, v  ->  k, end of the window, v (once for each window that holds the row)  ->  GROUP BY k, end of the window
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # its usual name
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType

from sqlx.lower_native import call_of
from sqlx.shipping import repeated_columns
from udtf.errors import OperatorError
from udtf.operators.window_aggregate_stream_plan import fold_of, uncompiled_aggregates
from udtf.operators.window_aggregate_stream_types import arrow_type
from udtf.spark.window_aggregate import sliding_windows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from sqlx.plan import Aggregation


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
