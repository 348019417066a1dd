"""Aggregations on Spark: which of a live query run as ours and which as Spark's own, and calls as Spark SQL.

Final results of windows by Spark's own aggregation take a watermark, `window` and append mode. Its stream time is one
for the query and as old as the last micro-batch, so that it accepts rows that ours would refuse; the rows that both
give agree as long as lateness stays within the grace (semantics.md 14, B3).
"""

from __future__ import annotations

from typing import Literal, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampNTZType

from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import Aggregation
from sqlx.spark.local_times import instant_of, time_of
from sqlx.sql.expressions import result_type
from udtf.operators.window_aggregate.config import arrow_type, reasons

Strategy = Literal["exact", "native"]
#: The property of a streaming table, and the setting of the session, that force one.
PROPERTY, SETTING = "window_strategy", "sqlx.window_strategy"


def strategy_of(node: Aggregation, text: str, wanted: str | None = None) -> Strategy:
    """How a live aggregation is run: ours where it keeps partial states, Spark's where ours would keep rows.

    Args:
        node: the aggregation.
        text: the query, for errors.
        wanted: 'exact' or 'native' where the user has said so.

    Raises:
        UnsupportedError: neither can run it, or not the one that is wanted.
    """
    if wanted not in (None, "exact", "native"):
        raise UnsupportedError("WINDOW.STRATEGY", text, (0, len(text)), found=str(wanted))
    keeps_rows = [call for call in node.calls if call is not None]
    reason = _not_native(node)
    if wanted == "native" and reason:
        raise UnsupportedError("WINDOW.NOT_NATIVE", text, (0, len(text)), reason=reason)
    if keeps_rows and (wanted == "exact" or reason):
        span = node.place(f"call {node.calls.index(keeps_rows[0])}") or (0, len(text))
        why = reason or "window_strategy is 'exact'"
        call = keeps_rows[0].partition("(")[0] + "(…)"  # its text is over argument columns that nobody wrote
        raise UnsupportedError("WINDOW.KEEPS_ROWS", text, span, call=call, reason=why)
    return cast(Strategy, wanted or ("native" if keeps_rows else "exact"))


def _not_native(node: Aggregation) -> str:
    """Why Spark's own aggregation cannot give the answers; "" where it can."""
    config = node.config
    if any(call is not None and one.distinct for call, one in zip(node.calls, config.aggregates, strict=True)):
        return "Spark's live aggregation has no DISTINCT"
    if not config.is_final:
        return "it gives final results only, and this is EMIT CHANGES"
    if config.window.kind not in ("time", "session"):
        return f"Spark has no {config.window.kind} windows"
    if node.late_to is not None:
        return "it drops late rows without giving them out, and there is LATE TO"
    if config.max_rows is not None or config.max_bytes is not None:
        return "it has no limit of what is open, and there is BUFFER MAX"
    return "its rows do not close when nothing comes, and there is IDLE TIMEOUT" if node.idle_us is not None else ""


def uncompiled(node: Aggregation) -> list[str]:
    """What of an aggregation keeps it from running compiled, in words; empty where nothing does."""
    types = {column.name: arrow_type(column.type) for column in node.input.columns}
    arguments = [
        [types[f"__a{n}_{m}"] for m in range(aggregate.arguments)] for n, aggregate in enumerate(node.config.aggregates)
    ]
    return reasons(node.config, arguments, [types[f"__k{n}"] for n in range(node.config.n_keys)])


def strategy_words(node: Aggregation, strategy: Strategy) -> str:
    """The strategy and what it costs, for EXPLAIN."""
    if strategy == "native":
        return "native: Spark's watermark and window aggregation; late is what the watermark of the query says"
    reasons = uncompiled(node)
    return (
        "exact, compiled, whole micro-batches at a time" if not reasons else f"exact, row by row: {'; '.join(reasons)}"
    )


def native_aggregation(node: Aggregation, rows: DataFrame) -> DataFrame:
    """The finals of an aggregation in the columns of the operator's result.

    Args:
        node: the aggregation.
        rows: its input.
    """
    config, window = node.config, node.config.window
    size, slide, offset = (f"{us} microseconds" for us in (window.size_us, window.slide_us, window.offset_us))
    is_session = window.kind == "session"
    column = F.session_window("__time", size) if is_session else F.window("__time", size, slide, offset)
    keys = [F.col(f"__k{n}") for n in range(config.n_keys)]
    time = rows.schema["__time"].dataType
    if isinstance(time, TimestampNTZType):  # a watermark is of instants
        rows = rows.withColumn("__time", instant_of(F.col("__time")))
    marked = rows.withWatermark("__time", f"{config.grace_us} microseconds")
    grouped = marked.groupBy(*keys, column.alias("__window"))
    found = [_aggregate(node, n) for n in range(len(config.aggregates))]
    answered = grouped.agg(*(found or [F.count(F.lit(1)).alias("__rows")]))
    ends = {"__ws": F.col("__window.start"), "__we": F.col("__window.end")}
    if isinstance(time, TimestampNTZType):
        ends = {name: time_of(F.unix_micros(end), time) for name, end in ends.items()}
    bounds = [end.alias(name) for name, end in ends.items()]
    return answered.select(*keys, *bounds, *[F.col(f"__a{n}") for n in range(len(found))])


def _aggregate(node: Aggregation, number: int) -> Column:
    is_distinct = node.config.aggregates[number].distinct
    return F.expr(_distinct_call(node, number) if is_distinct else call_of(node, number)).alias(f"__a{number}")


def _distinct_call(node: Aggregation, number: int) -> str:
    """An aggregate of distinct arguments over the set of them: Spark's live aggregation has sets, and no DISTINCT."""
    aggregate = node.config.aggregates[number]
    arguments = [f"__a{number}_{m}" for m in range(aggregate.arguments)]
    conditions = [f"{name} IS NOT NULL" for name in arguments] + [f"__a{number}_f"] * aggregate.has_filter
    value = arguments[0] if len(arguments) == 1 else f"struct({', '.join(arguments)})"
    values = f"collect_set({value}) FILTER (WHERE {' AND '.join(conditions)})"
    if aggregate.function == "count":
        return f"CAST(size({values}) AS BIGINT)"
    if aggregate.function in ("min", "max"):
        return f"array_{aggregate.function}({values})"
    if aggregate.function not in ("sum", "avg"):
        return values  # collect_list, collect_set
    types = {column.name: column.type for column in node.input.columns}
    total = result_type("sum", [types[arguments[0]]], "")
    if aggregate.function == "avg" and total == "bigint":
        total = "double"
    added = f"aggregate({values}, CAST(NULL AS {total}), (x, y) -> CAST(coalesce(x + y, y) AS {total}))"
    return added if aggregate.function == "sum" else f"CAST(try_divide({added}, size({values})) AS {aggregate.type})"


def call_of(node: Aggregation, number: int) -> str:
    """The call of an aggregate over its argument columns."""
    call, aggregate = node.calls[number], node.config.aggregates[number]
    if call is not None:
        return call
    arguments = ", ".join(f"__a{number}_{m}" for m in range(aggregate.arguments)) or "*"
    distinct = "DISTINCT " if aggregate.distinct else ""
    condition = f" FILTER (WHERE __a{number}_f)" if aggregate.has_filter else ""
    nulls = " IGNORE NULLS" if aggregate.ignore_nulls else ""
    return f"{aggregate.function}({distinct}{arguments}){condition}{nulls}"
