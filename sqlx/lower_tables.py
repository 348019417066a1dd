"""Live results of operators that keep tables, on Spark: bounds of windows as times, and updates as changes.

An update has the row before and the row now. The query around the operator is applied to both, so that Spark says what
became of each (its select list, its HAVING), and what changed follows from the two::

    operator -> query over the new aggregates -> query over the old ones -> _change_type
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # its usual name
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import BooleanType, DataType, LongType, StructField, StructType

from sqlx.arrival import is_order
from sqlx.plan import Aggregation, Result
from udtf.operators.window_aggregate_stream_plan import reasons

#: The column that carries what the query does not know through it, and the one that says what passed its condition.
CARRY, PASSES = "__carry", "__passes"
CHANGE_TYPE = "_change_type"
_BOUNDS = ("__ws", "__we")

#: From a frame that stands in the operator's place to the query's rows.
Around = Callable[[DataFrame], DataFrame]


def answered_schema(node: Aggregation, types: StructType, orders: int) -> StructType:
    """The columns that the live logic of an aggregation gives out.

    Args:
        node: the operator.
        types: of its result columns.
        orders: how many order columns its input has, where they are in the output too.
    """
    fields = [StructField(f.name, LongType()) if f.name in _BOUNDS else f for f in _shown(types)]
    if not node.config.is_final:
        fields += [StructField(name, BooleanType()) for name in ("__was", "__is")]
        fields += [StructField(_old(f.name), f.dataType) for f in _shown(types) if f.name.startswith("__a")]
    fields.append(StructField("__time", LongType()))
    carried = [f for f in types.fields if is_order(f.name)] if orders else []
    return StructType([*fields, *carried])


def _shown(types: StructType) -> list[StructField]:
    return [f for f in types.fields if f.name.startswith(("__k", "__a", *_BOUNDS))]


def _old(name: str) -> str:
    return f"__b{name[len('__a') :]}"


def uncompiled(node: Aggregation) -> list[str]:
    """What of an aggregation keeps it from running compiled, in words; empty where nothing does."""
    types = {column.name: to_arrow_type(_parsed(column.type), timezone="UTC") for column in node.input.columns}
    arguments = [
        [types[f"__a{n}_{m}"] for m in range(aggregate.arguments)] for n, aggregate in enumerate(node.config.aggregates)
    ]
    return reasons(node.config, arguments, [types[f"__k{n}"] for n in range(node.config.n_keys)])


def _parsed(text: str) -> DataType:
    return DataType.fromDDL(text)


def with_times(rows: DataFrame) -> DataFrame:
    """Bounds and event time as timestamps."""
    bounds = {name: F.timestamp_micros(F.col(name)) for name in _BOUNDS if name in rows.columns}
    return rows.withColumns({**bounds, "__event_time": F.timestamp_micros(F.col("__time"))}).drop("__time")


def changes(updates: DataFrame, around: Around, result: Result) -> DataFrame:
    """Updates of a table as the changes of the query's result (semantics.md A, 5.2).

    Args:
        updates: key, bounds, `__a0 ..`, `__b0 ..`, `__was`, `__is`.
        around: the query, with CARRY handed on, and PASSES: whether its condition holds.
        result: what the changes look like.
    """
    aggregates = [name for name in updates.columns if name.startswith("__a")]
    everything = F.struct(*[F.col(name) for name in updates.columns])
    new = around(updates.withColumn(CARRY, everything))
    names = [name for name in new.columns if name not in (CARRY, PASSES)]
    shown = F.struct(*[F.col(f"`{name}`") for name in names])
    passed = new.select(CARRY, shown.alias("__new"), F.coalesce(F.col(PASSES), F.lit(False)).alias("__new_passes"))
    before = {name: F.col(f"{CARRY}.{_old(name)}") for name in aggregates}
    others = [F.col(f"{CARRY}.{name}").alias(name) for name in updates.columns if name not in aggregates]
    both = F.struct(
        F.col("__new"), F.col("__new_passes"), F.col(f"{CARRY}.__was").alias("was"), F.col(f"{CARRY}.__is").alias("is")
    )
    old = around(passed.select(*others, *[column.alias(name) for name, column in before.items()], both.alias(CARRY)))
    row, is_before, is_now = F.col(f"{CARRY}.__new"), _both("was", PASSES), _both("is", f"{CARRY}.__new_passes")
    if result.shape == "changelog":
        found = _exact(shown, row, is_before, is_now)
    else:
        found = _upsert(names, row, is_before, is_now, result)
    return old.select(F.explode(found).alias("__change")).select("__change.row.*", f"__change.{CHANGE_TYPE}")


def _both(exists: str, passes: str) -> Column:
    return F.col(f"{CARRY}.{exists}") & F.coalesce(F.col(passes), F.lit(False))


def _change(row: Column, kind: str | Column) -> Column:
    kind = F.lit(kind) if isinstance(kind, str) else kind
    return F.struct(row.alias("row"), kind.alias(CHANGE_TYPE))


def _upsert(names: list[str], row: Column, is_before: Column, is_now: Column, result: Result) -> Column:
    """One change; none where a condition keeps both rows out."""
    gone = F.struct(
        *[
            (row[name] if n in result.keys else F.when(F.lit(False), row[name])).alias(name)
            for n, name in enumerate(names)
        ]
    )
    deletes = is_before if result.filters else ~F.col(f"{CARRY}.is")
    kind = F.when(is_before, "update_after").otherwise("insert")
    return F.filter(
        F.array(
            F.when(is_now, _change(row, kind)).when(is_before | deletes, _change(gone, "delete")),
        ),
        lambda change: change.isNotNull(),
    )


def _exact(old: Column, new: Column, is_before: Column, is_now: Column) -> Column:
    """The pair of an update, the row that a deletion removes, and nothing where nothing changed."""
    same = is_before & is_now & F.to_json(F.struct(old.alias("x"))).eqNullSafe(F.to_json(F.struct(new.alias("x"))))
    before = F.when(is_before & ~same, _change(old, F.when(is_now, "update_before").otherwise("delete")))
    after = F.when(is_now & ~same, _change(new, F.when(is_before, "update_after").otherwise("insert")))
    return F.filter(F.array(before, after), lambda change: change.isNotNull())
