"""Live results of operators that keep tables, on Spark: bounds of windows as times, and updates as changes.

An update has the row before and the row now. The query around the operator is applied to both, so that Spark says what
became of each (its select list, its HAVING), and what changed follows from the two::

    operator -> query over the new values -> query over the old ones [-> suppression] -> _change_type
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # its usual name
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from sqlx.arrival import is_order
from sqlx.plan import Aggregation, Result, TableChanges
from udtf.operators.window_aggregate_stream_plan import reasons
from udtf.operators.window_aggregate_stream_types import arrow_type

#: The column that carries what the query does not know through it, and the one that says what passed its condition.
CARRY, PASSES = "__carry", "__passes"
CHANGE_TYPE = "_change_type"
_BOUNDS = ("__ws", "__we")

#: From a frame that stands in the operator's place to the query's rows.
Around = Callable[[DataFrame], DataFrame]


def answered_schema(node: Aggregation | TableChanges, types: StructType, orders: int) -> StructType:
    """The columns that the live logic of an operator that keeps a table gives out.

    Args:
        node: the operator.
        types: of its result columns.
        orders: how many order columns its input has, where they are in the output too.
    """
    shown = [f for f in types.fields if f.name.startswith(("__k", "__a", "_l", *_BOUNDS))]
    fields = [StructField(f.name, LongType()) if f.name in _BOUNDS else f for f in shown]
    if isinstance(node, TableChanges) or not node.config.is_final:
        fields += [StructField(name, BooleanType()) for name in ("__was", "__is")]
        fields += [StructField(_old(f.name), f.dataType) for f in shown if f.name.startswith(("__a", "_l"))]
    fields.append(StructField("__time", LongType()))
    carried = [f for f in types.fields if is_order(f.name)] if orders else []
    return StructType([*fields, *carried])


def _old(name: str) -> str:
    """Where the old value of a column stands."""
    return name.replace("__a", "__b", 1) if name.startswith("__a") else name.replace("_l", "_b", 1)


def uncompiled(node: Aggregation) -> list[str]:
    """What of an aggregation keeps it from running compiled, in words; empty where nothing does."""
    types = {column.name: arrow_type(column.type) for column in node.input.columns}
    arguments = [
        [types[f"__a{n}_{m}"] for m in range(aggregate.arguments)] for n, aggregate in enumerate(node.config.aggregates)
    ]
    return reasons(node.config, arguments, [types[f"__k{n}"] for n in range(node.config.n_keys)])


def with_times(rows: DataFrame) -> DataFrame:
    """Bounds and event time as timestamps."""
    bounds = {name: F.timestamp_micros(F.col(name)) for name in _BOUNDS if name in rows.columns}
    return rows.withColumns({**bounds, "__event_time": F.timestamp_micros(F.col("__time"))}).drop("__time")


def two_sided(updates: DataFrame, around: Around, result: Result) -> DataFrame:
    """Each update with what the query shows of the row before, of the row now, and of a deletion (semantics.md 5.2).

    Args:
        updates: key, bounds, the new values, the old values, `__was`, `__is`, and what is handed on.
        around: the query, with CARRY handed on, and PASSES: whether its condition holds.
        result: what the result is.

    Returns:
        the columns of `updates`, and the structs `__old`, `__new` (NULL: no such row) and `__gone`.
    """
    news = [name for name in updates.columns if name.startswith(("__a", "_l"))]
    new = around(updates.withColumn(CARRY, F.struct(*[F.col(name) for name in updates.columns])))
    names = [name for name in new.columns if name not in (CARRY, PASSES)]
    shown = F.struct(*[F.col(f"`{name}`") for name in names])
    passes = F.coalesce(F.col(PASSES), F.lit(False))
    first = new.select(CARRY, shown.alias("row"), passes.alias("passes"))
    kept = [F.col(f"{CARRY}.{name}").alias(name) for name in updates.columns if name not in news]
    before = [F.col(f"{CARRY}.{_old(name)}").alias(name) for name in news]
    both = F.struct(CARRY, "row", "passes").alias(CARRY)
    second = around(first.select(*kept, *before, both))
    inner = f"{CARRY}.{CARRY}"
    row = F.col(f"{CARRY}.row")
    found = second.select(
        f"{inner}.*",
        F.when(F.col(f"{inner}.__was") & passes, shown).alias("__old"),
        F.when(F.col(f"{inner}.__is") & F.col(f"{CARRY}.passes"), row).alias("__new"),
        _gone(names, row, result.keys).alias("__gone"),
    )
    return found.where("__old IS NOT NULL OR __new IS NOT NULL") if result.filters else found


def _gone(names: list[str], row: Column, keys: tuple[int, ...]) -> Column:
    """The key of a row that is deleted, NULL in all other columns."""
    shown = [row[name] if n in keys else F.when(F.lit(False), row[name]) for n, name in enumerate(names)]
    return F.struct(*[column.alias(name) for name, column in zip(names, shown, strict=True)])


def as_changes(updates: DataFrame, shape: str) -> DataFrame:
    """Updates with both sides as rows that end in `_change_type` (semantics.md A)."""
    found = _exact() if shape == "changelog" else F.array(_upsert())
    exploded = updates.select(F.explode(found).alias("__change"))
    return exploded.select("__change.row.*", f"__change.{CHANGE_TYPE}")


def _change(row: str, kind: str | Column) -> Column:
    kind = F.lit(kind) if isinstance(kind, str) else kind
    return F.struct(F.col(row).alias("row"), kind.alias(CHANGE_TYPE))


def _upsert() -> Column:
    """One change an update."""
    kind = F.when(F.col("__old").isNotNull(), "update_after").otherwise("insert")
    return F.when(F.col("__new").isNotNull(), _change("__new", kind)).otherwise(_change("__gone", "delete"))


def _exact() -> Column:
    """The pair of an update, the row that a deletion removes, and nothing where nothing changed."""
    is_before, is_now = F.col("__old").isNotNull(), F.col("__new").isNotNull()
    differs = ~F.col("__old").eqNullSafe(F.col("__new"))
    before = F.when(is_before & differs, _change("__old", F.when(is_now, "update_before").otherwise("delete")))
    after = F.when(is_now & differs, _change("__new", F.when(is_before, "update_after").otherwise("insert")))
    return F.filter(F.array(before, after), lambda change: change.isNotNull())


# suppression


def waiting(updates: DataFrame, n_keys: int) -> DataFrame:
    """Updates with both sides in the shape in which they wait: key with bounds, time, the three rows, the order."""
    keys = [F.col(f"__k{n}") for n in range(n_keys)]
    bounds = [F.unix_micros(F.col(name)) for name in _BOUNDS if name in updates.columns]
    named = [column.alias(f"__k{n}") for n, column in enumerate([*keys, *bounds])]
    orders = [name for name in updates.columns if is_order(name)]
    return updates.select(*named, F.col("__event_time").alias("__time"), "__old", "__new", "__gone", *orders)


def waited_schema(waits: StructType) -> StructType:
    """The columns of updates that have waited."""
    fields = [f for f in waits.fields if not is_order(f.name)]
    return StructType([StructField("__time", LongType()) if f.name == "__time" else f for f in fields])
