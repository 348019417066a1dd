"""Lowers a plan to Spark, live: each operator becomes a stateful streaming frame that the rest of the text reads.

A query may hold several operators where one feeds the next (Spark chains stateful operators in append mode). A query
whose operators refuse rows TO a table is run batch by batch (`foreachBatch`), so that both tables get the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from sqlx.bind.binder import ROW, RowOrder, is_order, is_row_order
from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import (
    Aggregation,
    AsOfJoin,
    CorrectedJoin,
    Deduplicate,
    Fragment,
    KeyedJoin,
    Operator,
    Plan,
    Result,
    Suppress,
    TableAggregation,
    TableChanges,
    TableJoin,
    TableLookup,
)
from sqlx.plan.operators import function_of
from sqlx.plan.subquery_text import stands_in
from sqlx.plan.updates import kept_orders, updates_in
from sqlx.spark.aggregates import SETTING, native_aggregation, strategy_of, uncompiled
from sqlx.spark.batch import live_copies, query_frame
from sqlx.spark.workers import check_workers
from udtf.columns.updates import key_columns
from udtf.logic import StreamLogic
from udtf.operators.table_aggregate.logic import is_compiled
from udtf.operators.table_join.layout import between
from udtf.spark import logics
from udtf.spark.stream import rows_of, stream_operator
from udtf.spark.tasks import stream_conf
from udtf.spark.updates import SIDES, changes, left_updates, paired
from udtf.stream.spec import COUNTERS, TABLE_COUNTERS, StreamSpec

if TYPE_CHECKING:
    import pyarrow as pa

# Refused rows of live operators on their way to the tables of LATE TO (semantics.md B7).


_LATE_COLUMNS = [
    StructField("_reason", StringType()),
    StructField("_operator", StringType()),
    StructField("_stream_time", TimestampType()),
    StructField("_lateness", LongType()),
]


@dataclass(frozen=True)
class LateOutput:
    """Refused rows on their way to a table.

    Attributes:
        table: the name after LATE TO.
        schema: the columns of the input and the four of semantics.md B7.
        make: from a micro-batch of the fat frame to the rows.
    """

    table: str
    schema: StructType
    make: Callable[[DataFrame], DataFrame]


def of_ddl(ddl: str) -> StructType:
    """A list of columns with types as a schema."""
    schema = StructType.fromDDL(ddl) if ddl else StructType()
    assert isinstance(schema, StructType)
    return schema


def check_late(plan: Plan) -> None:
    """Only the last operator of a live query may have LATE TO: a batch function gets the rows of one frame.

    Raises:
        UnsupportedError: another one has.
    """
    for node in plan.operators()[:-1]:
        for table in node.late_tables:
            if table is not None:
                raise UnsupportedError("STREAMING.LATE_TO_INNER", plan.text, node.place("LATE TO"), table=table)


def late_output(table: str, side: int, node: Operator) -> LateOutput:
    """Refused rows of an input, under the names that the query knows."""
    assert not isinstance(node, Suppress), "its input was judged before"
    fragment, names = node.inputs[side], node.input_names[side]
    payload = [f"{'_r' if side else '_l'}{n}" for n in range(len(names))]
    types = {c.name: c.type for c in fragment.columns}
    fields = of_ddl(", ".join(f"`{name}` {types[name]}" for name in payload)).fields
    stored = StructType([*fields, *_LATE_COLUMNS])
    pairs = zip(names, fields, strict=True)
    shown = StructType([*(StructField(name, field.dataType) for name, field in pairs), *_LATE_COLUMNS])

    def make(batch: DataFrame) -> DataFrame:
        return rows_of(batch, f"late{side}", stored).toDF(*shown.names)

    return LateOutput(table, shown, make)


# Live results of operators that keep tables, on Spark: bounds of windows as times, and updates as changes.
#
# An update has the row before and the row now. The query around the operator is applied to both, so that Spark says
# what became of each (its select list, its HAVING), and what changed follows from the two::
#
#     operator -> query over the new values -> query over the old ones [-> suppression] -> _change_type


#: The column that carries what the query does not know through it, and the one that says what passed its condition.
CARRY, PASSES = "__carry", "__passes"
CHANGE_TYPE = "_change_type"
_BOUNDS = ("__ws", "__we")

#: From a frame that is in the operator's place to the query's rows.
Around = Callable[[DataFrame], DataFrame]


def answered_schema(node: Aggregation, types: StructType, orders: int) -> StructType:
    """The columns that the live logic of an aggregation gives out.

    Args:
        node: the aggregation.
        types: of its result columns.
        orders: how many order columns its input has, where they are in the output too.
    """
    shown = [f for f in types.fields if f.name.startswith(("__k", "__a", *_BOUNDS))]
    fields = [StructField(f.name, LongType()) if f.name in _BOUNDS else f for f in shown]
    if node.gives_changes:
        fields += [StructField(name, BooleanType()) for name in ("__was", "__is")]
        fields += [StructField(_old(f.name), f.dataType) for f in shown if f.name.startswith("__a")]
    fields.append(StructField("__time", LongType()))
    carried = [f for f in types.fields if is_order(f.name)] if orders else []
    return StructType([*fields, *carried])


def _old(name: str) -> str:
    """Where the old value of a column is."""
    return name.replace("__a", "__b", 1)


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
    news = [name for name in updates.columns if name.startswith("__a")]
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


def put_together(rows: DataFrame, result: Result) -> DataFrame:
    """Rows of updates that a query shows, with its hidden column, as one row an update.

    Returns:
        key `__k0 ..`, `__event_time`, `__o0 ..`, and the structs `__old`, `__new` (NULL: no such row) and `__gone`.
    """
    names = [name for name in rows.columns if name != ROW]
    shown = F.struct(*[F.col(f"`{name}`") for name in names]).alias("__shown")
    fields = [field.name for field in cast(StructType, rows.schema[ROW].dataType)]
    carried = {"time": "__event_time"} | {name: f"__{name}" for name in fields if name != "time"}
    flat = rows.select(shown, *[F.col(f"{ROW}.{name}").alias(carried[name]) for name in fields])
    first, *rest = flat.schema.fields
    found = StructType([*(StructField(side, first.dataType) for side in SIDES), *rest])
    updates = flat.mapInArrow(paired, found)
    row = F.coalesce(*[F.col(side) for side in SIDES])
    keys = {f"__k{name[1:]}": F.col(f"__{name}") for name in fields if name.startswith("u")}
    dropped = ["__only", *(f"__{name}" for name in fields if name.startswith("u"))]
    return updates.withColumns({**keys, "__gone": _gone(names, row, result.keys)}).drop(*dropped)


def changes_of(rows: DataFrame, result: Result) -> DataFrame:
    """Rows of updates that a query shows, with its hidden column, as rows that end in `_change_type`."""
    names = [name for name in rows.columns if name != ROW]
    fields = cast(StructType, rows.schema[ROW].dataType).names
    numbered = rows.toDF(*[name if name == ROW else f"c{n}" for n, name in enumerate(rows.columns)])
    own = [name for name in numbered.columns if name != ROW]
    hidden = [F.col(f"{ROW}.{name}").alias(f"__{name}") for name in fields if name.startswith("o")]
    flat = numbered.select(*own, *hidden)
    shown = StructType([*flat.schema.fields[: len(own)], StructField(CHANGE_TYPE, StringType())])
    make = partial(changes, result.shape, len(own), result.keys)
    return flat.mapInArrow(make, shown).toDF(*names, CHANGE_TYPE)


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


# The lowering.


_PARTITIONS = "spark.sql.shuffle.partitions"
#: The name by which the outermost query reads the changes of a table.
_CHANGES = "__sqlx_changes"


@dataclass(frozen=True)
class LiveQuery:
    """A streaming query, lowered.

    Attributes:
        plan: the query.
        spark: the session.
        read_by_root: the frames that the query around the operators reads, by name.
        conf: the settings that it wants when it starts.
        fingerprint: what its operators, TASKS and state are, as text.
        late: the tables of its LATE TO clauses.
        fat: with late rows, the frame whose micro-batches hold results and late rows; rows: from a micro-batch of it
            to the result.
        root: the query around the frames where it is another than the plan's.
    """

    plan: Plan
    spark: SparkSession
    read_by_root: Mapping[str, DataFrame]
    conf: dict[str, str]
    fingerprint: str
    late: tuple[LateOutput, ...] = ()
    fat: DataFrame | None = None
    rows: Callable[[DataFrame], DataFrame] | None = None

    root: str | None = None

    @cached_property
    def frame(self) -> DataFrame:
        """The streaming result; it is analysed once, when it is asked for first."""
        return query_frame(self.plan.root.sql if self.root is None else self.root, self.spark, dict(self.read_by_root))


def ready(spark: SparkSession, conf: Mapping[str, str]) -> tuple[str, ...]:
    """Give the session what live operators cannot run without; what a user should know of it, in sentences."""
    notes = []
    for name, value in conf.items():
        found = spark.conf.get(name, None)
        if name == _PARTITIONS:
            if int(found or 200) > int(value):
                notes.append(f"A live query is fastest with {name} = {value}, and the session has {found or 200}.")
        elif found != value:
            spark.conf.set(name, value)
    return tuple(notes)


@dataclass(frozen=True)
class Followed:
    """The updates of a query over tables, for a table that follows it.

    Attributes:
        frame: per update the row now, or the key of one that is deleted; whether it is; and what `order` reads.
        order: event times and order of the updates.
    """

    DELETED: ClassVar = "__deleted"
    frame: DataFrame
    order: RowOrder


def lower_stream(
    plan: Plan,
    spark: SparkSession,
    live: Mapping[str, DataFrame],
    tasks: int,
    strategy: str | None = None,
    within: str = "",
) -> LiveQuery:
    """Lower a live query.

    Args:
        plan: the compiled query.
        spark: the session.
        live: the frame of each live source, by its name in the plan.
        tasks: units of state of each operator.
        strategy: how windows are aggregated, 'exact' or 'native'; None is the session's setting, or what serves best.
        within: the definition behind which the query is, where it is: names of operators are unique in all of it.
    """
    return _lowering(plan, spark, live, tasks, strategy, within).lower()


def lower_updates(
    plan: Plan, spark: SparkSession, live: Mapping[str, DataFrame], tasks: int, within: str
) -> tuple[Followed, LiveQuery]:
    """Lower a query over tables that stands behind a definition; see `lower_stream`.

    Returns:
        its updates, and the query.
    """
    return _lowering(plan, spark, live, tasks, None, within).lower_updates()


def _lowering(
    plan: Plan, spark: SparkSession, live: Mapping[str, DataFrame], tasks: int, strategy: str | None, within: str
) -> StreamLowering:
    return StreamLowering(plan, spark, dict(live), tasks, strategy or spark.conf.get(SETTING, None), within)


class StreamLowering:
    """One lowering; see :func:`lower_stream`."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        frames: dict[str, DataFrame],
        tasks: int,
        strategy: str | None,
        within: str = "",
    ) -> None:
        self._prefix = f"{within}_" if within else ""
        self.plan, self.spark, self.frames, self.tasks, self.strategy = plan, spark, frames, tasks, strategy
        self.fat: dict[str, DataFrame] = {}
        self.waits: dict[str, StructType] = {}
        self.fingerprints: list[str] = [f"TASKS {tasks}"]

    def lower(self) -> LiveQuery:
        """All operators, inputs first, then the query around them."""
        operators = self.plan.operators()
        if operators:
            check_workers(self.spark, is_live=True)
        for node in operators:
            self.frames[node.name] = self._operator(node)
        late = self._late(operators)
        shows_changes = self.plan.result.shape != "append"
        return LiveQuery(
            plan=self.plan,
            spark=self.spark,
            read_by_root={_CHANGES: self._changes()} if shows_changes else _read_by(self.plan.root, self.frames),
            conf=stream_conf(self.spark, self.tasks) if operators else {},
            fingerprint=" ".join("; ".join([self.plan.root.sql, *self.fingerprints]).split()),
            late=late,
            fat=self.fat[operators[-1].name] if late else None,
            rows=self._rows_of_batch if late else None,
            root=f"SELECT * FROM {_CHANGES}" if shows_changes else None,
        )

    def lower_updates(self) -> tuple[Followed, LiveQuery]:
        """See the function of this name."""
        lowered = self.lower()
        node = self.plan.operators()[-1]
        updates = self._shown(node, self.plan.root, self.frames[node.name])
        orders = [name for name in updates.columns if is_order(name)]
        row = F.coalesce(F.col("__new"), F.col("__gone")).alias("__row")
        hidden = [F.col("__new").isNull().alias(Followed.DELETED), F.col("__event_time")]
        rows = updates.select(row, *hidden, *orders).select("__row.*", Followed.DELETED, "__event_time", *orders)
        return Followed(rows, RowOrder("__event_time", tuple(orders), self.plan.result.is_sequence)), lowered

    def _changes(self, batch: DataFrame | None = None) -> DataFrame:
        """The changes of the result; those of one micro-batch of the last operator's fat frame where it is given."""
        node = self.plan.operators()[-1]
        updates, result = self.frames[node.name] if batch is None else self._rows(node, batch), self.plan.result
        if isinstance(node, Suppress):
            return as_changes(updates, result.shape)
        if isinstance(node, Aggregation):
            return as_changes(self._shown(node, self.plan.root, updates), result.shape)
        frames = _read_by(self.plan.root, {**self.frames, node.name: updates})
        return changes_of(query_frame(self.plan.root.sql, self.spark, frames), result)

    def _shown(self, table: Operator, query: Fragment, updates: DataFrame) -> DataFrame:
        """The updates of a table with what a query shows of them; a row that is deleted keeps its key."""
        if not isinstance(table, Aggregation):
            frames = _read_by(query, {**self.frames, table.name: updates})
            return put_together(query_frame(query.sql, self.spark, frames), self.plan.result)

        def around(frame: DataFrame) -> DataFrame:
            return query_frame(self.plan.result.around, self.spark, {table.name: frame})

        return two_sided(updates, around, self.plan.result)

    def _rows_of_batch(self, batch: DataFrame) -> DataFrame:
        """The result of one micro-batch of the last operator's fat frame."""
        last = self.plan.operators()[-1]
        if self.plan.result.shape != "append":
            return self._changes(batch)
        frames = {**self.frames, last.name: self._rows(last, batch)}
        return query_frame(self.plan.root.sql, self.spark, _read_by(self.plan.root, frames))

    def _operator(self, node: Operator) -> DataFrame:
        if isinstance(node, Aggregation) and strategy_of(node, self.plan.text, self.strategy) == "native":
            self.fingerprints.append(f"{node.input.sql} | {node.config} native")
            return native_aggregation(node, self._input(node, node.input))
        inputs = [self._input(node, side) for side in node.inputs]
        if isinstance(node, Aggregation):
            inputs = [inputs[0].drop("__event_time")]
        spec = self._spec(node)
        self.fingerprints.append(spec.fingerprint)
        self.fat[node.name] = _narrow_operator(inputs, spec)
        return self._rows(node, self.fat[node.name])

    def _input(self, node: Operator, side: Fragment) -> DataFrame:
        if not isinstance(node, Suppress):
            return query_frame(side.sql, self.spark, _read_by(side, self.frames))
        table = node.updates_of
        waits = waiting(self._shown(table, side, self.frames[table.name]), len(table.result_keys))
        self.waits[node.name] = waited_schema(waits.schema)
        return waits

    def _rows(self, node: Operator, fat: DataFrame) -> DataFrame:
        """The operator's result; what its rows carry along only where another operator reads it."""
        if isinstance(node, Suppress):
            return rows_of(fat, "rows", self.waits[node.name])
        schema = _schema(node)
        if isinstance(node, TableJoin) and node.config.is_foreign:
            return _by_left_keys(node, fat, self.tasks)
        if updates_in(node) is not None:
            return rows_of(fat, "rows", schema)
        if isinstance(node, Aggregation):
            return with_times(rows_of(fat, "rows", answered_schema(node, schema, self._emit_order(node))))
        if self._feeds_another(node):
            return rows_of(fat, "rows", schema)
        hidden = [field for field in schema.fields if is_row_order(field.name)]
        shown = StructType([field for field in schema.fields if field not in hidden])
        rows = rows_of(fat, "rows", shown)
        return rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in hidden}) if hidden else rows

    def _feeds_another(self, node: Operator) -> bool:
        others = [other for other in self.plan.operators() if other is not node]
        return any(stands_in(node.name, side.sql) for other in others for side in other.inputs)

    def _emit_order(self, node: Operator) -> int:
        """How many order columns the output hands on."""
        return sum(1 for c in node.inputs[0].columns if is_order(c.name)) if self._feeds_another(node) else 0

    def _idle_ms(self, node: Operator) -> int | None:
        """Of IDLE TIMEOUT.

        Raises:
            UnsupportedError: another operator reads the result: rows that no row has caused have no place in its order.
        """
        idle_us = node.idle_us
        if idle_us is not None and self._feeds_another(node):
            raise UnsupportedError("EMIT.IDLE_INNER", self.plan.text, node.place("IDLE TIMEOUT"))
        return None if idle_us is None else max(1, idle_us // 1000)

    def _spec(self, node: Operator) -> StreamSpec:
        emit_order = self._emit_order(node)
        times = ("__time",) if node.keeps_table and len(node.inputs) == 1 else ("__event_time", "__time")
        sources = (node.updates_of.columns,) if isinstance(node, Suppress) else (side.columns for side in node.inputs)
        return StreamSpec(
            operator=f"{self._prefix}{node.config.name}_{self.plan.operators().index(node) + 1}",
            make_logic=function_of(node, "live")(node, emit_order),
            fingerprint=" | ".join(
                [*(side.sql for side in node.inputs), str(node.config), f"{emit_order} TASKS {self.tasks}"]
            ),
            tasks=self.tasks,
            order_columns=tuple(sum(1 for c in columns if is_order(c.name)) for columns in sources),
            common_sequence=isinstance(node, KeyedJoin) and node.common_sequence,
            n_keys=node.grouping_keys,
            idle_ms=self._idle_ms(node),
            counters=TABLE_COUNTERS if node.keeps_table and not isinstance(node, CorrectedJoin) else COUNTERS,
            times=("__event_time",) * 2 if isinstance(node, (TableAggregation, TableJoin)) else times,
            gives_updates=updates_in(node) is not None,
            cache_bytes=int(self.spark.conf.get("sqlx.stream.cache_bytes", str(512 << 20)) or 0),
        )

    # LATE TO

    def _late(self, operators: tuple[Operator, ...]) -> tuple[LateOutput, ...]:
        check_late(self.plan)
        return tuple(
            late_output(table, side, node)
            for node in operators
            for side, table in enumerate(node.late_tables)
            if table is not None
        )


def _narrow_operator(inputs: Sequence[DataFrame], spec: StreamSpec) -> DataFrame:
    """The operator over inputs in which what is the same travels once."""
    copies = [live_copies(rows, ("__k", "__o", time)) for rows, time in zip(inputs, spec.times, strict=False)]
    if any(copies):
        layouts = [
            {name: same.get(name, name) for name in rows.columns} for rows, same in zip(inputs, copies, strict=True)
        ]
        inputs = [rows.drop(*same) for rows, same in zip(inputs, copies, strict=True)]
        spec = replace(spec, make_logic=partial(logics.with_copies, spec.make_logic, layouts))
    return stream_operator(inputs, spec)


def _read_by(fragment: Fragment, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: frames[name] for name, _ in fragment.reads if name in frames}


def _schema(node: Operator) -> StructType:
    return of_ddl(", ".join(f"`{column.name}` {column.type}" for column in node.columns))


# Picklable makers of the operators' logics, by their descriptors.


def as_of_join(node: AsOfJoin, emit_order: int) -> Callable[[], StreamLogic]:
    """An AS OF join."""
    return partial(logics.as_of_join, node.live_config, emit_order)


def corrected_join(node: CorrectedJoin, emit_order: int) -> Callable[[], StreamLogic]:
    """An AS OF join with corrections."""
    del emit_order
    schema = _arrow_schema(node)
    return partial(logics.corrected_join, node.live_config, schema, kept_orders(node), node.is_changed)


def table_lookup(node: TableLookup, emit_order: int) -> Callable[[], StreamLogic]:
    """A lookup in an upsert table."""
    return partial(logics.table_lookup, node.live_config, emit_order)


def deduplicated(node: Deduplicate, emit_order: int) -> Callable[[], StreamLogic]:
    """A deduplication."""
    return partial(logics.deduplicate, node.live_config, emit_order)


def window_aggregate(node: Aggregation, emit_order: int) -> Callable[[], StreamLogic]:
    """An aggregation: compiled where all of it can be."""
    return partial(logics.window_aggregate, node.config, not uncompiled(node), emit_order)


def table_changes(node: TableChanges, emit_order: int) -> Callable[[], StreamLogic]:
    """The updates of a table."""
    del emit_order
    return partial(logics.table_changes, node.config, _arrow_schema(node), node.keys, kept_orders(node))


def table_join(node: TableJoin, emit_order: int) -> Callable[[], StreamLogic]:
    """A join of two tables."""
    del emit_order
    if node.config.is_foreign:
        return partial(logics.foreign_key_join, node.config, _arrow_schema(node), kept_orders(node))
    return partial(logics.table_join, node.config, _arrow_schema(node), node.keys, kept_orders(node))


def _by_left_keys(node: TableJoin, fat: DataFrame, tasks: int) -> DataFrame:
    """The second step of a join by foreign key, over what the first one gave."""
    schema, kept = _arrow_schema(node), kept_orders(node)
    sent = rows_of(fat, "rows", from_arrow_schema(between(schema, kept)))
    placed = sent.repartition(tasks, *key_columns(sent.columns))
    return placed.mapInArrow(partial(left_updates, node.config, schema, node.keys, kept), _schema(node))


def table_aggregate(node: TableAggregation, emit_order: int) -> Callable[[], StreamLogic]:
    """An aggregation of a table."""
    del emit_order
    aggregates, types = node.config.aggregates, {column.name: column.type for column in node.input.columns}
    arguments = [[types[f"__a{n}_{m}"] for m in range(a.arguments)] for n, a in enumerate(aggregates)]
    is_fast = is_compiled(aggregates, arguments)
    return partial(logics.table_aggregate, node.config, _arrow_schema(node), kept_orders(node), is_fast)


def _arrow_schema(node: Operator) -> pa.Schema:
    return to_arrow_schema(_schema(node), timezone="UTC")


def suppress(node: Suppress, emit_order: int) -> Callable[[], StreamLogic]:
    """A suppression of a table's updates."""
    del emit_order
    return partial(logics.suppress, node.config, node.updates_of.key_columns)
