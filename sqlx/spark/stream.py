"""Lowers a plan to Spark, live: each operator becomes a stateful streaming frame that the rest of the text reads.

A query may hold several operators where one feeds the next (Spark chains stateful operators in append mode). A query
whose operators refuse rows TO a table is run batch by batch (`foreachBatch`), so that both tables get the same ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from catalog.entries import Column as NamedColumn
from sqlx.bind.binder import ROW, RowOrder, is_row_order
from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import (
    Aggregation,
    AsOfJoin,
    CorrectedJoin,
    Deduplicate,
    Fragment,
    GivesTable,
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
from sqlx.plan.updates import TableGiver, kept_orders, updates_in
from sqlx.spark.aggregates import SETTING, native_aggregation, strategy_of, uncompiled
from sqlx.spark.batch import live_copies, query_frame
from sqlx.spark.local_times import time_of
from sqlx.spark.workers import check_client, check_driver, check_workers
from udtf.columns.arrays import can_hash
from udtf.columns.names import is_order
from udtf.columns.updates import key_columns, order_columns, payload_columns
from udtf.engine import engine_of
from udtf.engine.settings import whole_number
from udtf.logic import StreamLogic
from udtf.operators.table_aggregate.logic import is_compiled
from udtf.operators.table_join.layout import between
from udtf.spark import logics
from udtf.spark.arrow_types import arrow_schema, spark_schema
from udtf.spark.kept import Stateful
from udtf.spark.stream import HandedOver, Made, rows_of, stream_operator, unpacking
from udtf.spark.tasks import PARTITIONS, stream_conf
from udtf.spark.updates import SIDES, changes, changes_at_once, left_updates, paired
from udtf.stream.handover import Handover
from udtf.stream.spec import CORRECTED_COUNTERS, COUNTERS, TABLE_COUNTERS, ChangelogFolder, StreamSpec

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


def check_late(plan: Plan, read_once: Collection[str]) -> None:
    """The frame of a micro-batch has all rows that go to tables, so that some operators are read a second time for it.

    Args:
        plan: of a live query.
        read_once: names of the operators whose rows can be read once in a micro-batch.

    Raises:
        UnsupportedError: LATE TO of one of these that is not the last.
    """
    for node in plan.operators()[:-1]:
        for table in node.late_tables:
            if table is not None and node.name in read_once:
                raise UnsupportedError("STREAMING.LATE_TO_INNER", plan.text, node.place("LATE TO"), table=table)


def _refused_by(node: Operator) -> str:
    """The end of the kind of rows that an operator has refused which another one reads."""
    return f" of {node.name}"


def late_output(table: str, side: int, node: Operator, *, is_last: bool) -> LateOutput:
    """Refused rows of an input, under the names that the query knows."""
    assert not isinstance(node, Suppress), "its input was judged before"
    fragment, names = node.inputs[side], node.input_names[side]
    types = {c.name: c.type for c in fragment.columns}
    fields = of_ddl(", ".join(f"`{name}` {types[name]}" for name in node.payload[side])).fields
    stored = StructType([*fields, *_LATE_COLUMNS])
    pairs = zip(names, fields, strict=True)
    shown = StructType([*(StructField(name, field.dataType) for name, field in pairs), *_LATE_COLUMNS])

    kind = f"late{side}" if is_last else f"late{side}{_refused_by(node)}"

    def make(batch: DataFrame) -> DataFrame:
        return rows_of(batch, kind, stored).toDF(*shown.names)

    return LateOutput(table, shown, make)


# Live results of operators that keep tables, on Spark: bounds of windows as times, and updates as changes.
#
# An update goes as rows, the row before and the row now. Spark runs the query around the operator over them (its select
# list, its HAVING), and what changed follows from those that are left.


CHANGE_TYPE = "_change_type"
_BOUNDS = ("__ws", "__we")


def answered_schema(types: StructType, orders: int) -> StructType:
    """The columns that the live logic of an aggregation gives out as finals.

    Args:
        types: of its result columns.
        orders: how many order columns its input has, where they are in the output too.
    """
    shown = [f for f in types.fields if f.name.startswith(("__k", "__a", *_BOUNDS))]
    fields = [StructField(f.name, LongType()) if f.name in _BOUNDS else f for f in shown]
    carried = [f for f in types.fields if is_order(f.name)] if orders else []
    return StructType([*fields, StructField("__time", LongType()), *carried])


def with_times(rows: DataFrame, types: StructType) -> DataFrame:
    """Bounds and event time as times; bounds without a zone are by the same clock whichever zone the session is in."""
    bounds = {name: time_of(F.col(name), types[name].dataType) for name in _BOUNDS if name in rows.columns}
    return rows.withColumns({**bounds, "__event_time": F.timestamp_micros(F.col("__time"))}).drop("__time")


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
    updates = engine_of(flat.sparkSession).live_rows(flat, paired, found)
    row = F.coalesce(*[F.col(side) for side in SIDES])
    keys = {f"__k{name[1:]}": F.col(f"__{name}") for name in fields if name.startswith("u")}
    dropped = ["__only", *(f"__{name}" for name in fields if name.startswith("u"))]
    return updates.withColumns({**keys, "__gone": _gone(names, row, result.keys)}).drop(*dropped)


@dataclass(frozen=True)
class Shown:
    """What a query shows of rows of updates, with what says which update each is of.

    Attributes:
        names: of the columns of the result.
        rows: those columns as `c0 ..`, and the last order column.
    """

    names: tuple[str, ...]
    rows: DataFrame

    @staticmethod
    def of(shown: DataFrame) -> Shown:
        """Of the rows of the query, with its hidden column."""
        fields = cast(StructType, shown.schema[ROW].dataType).names
        numbered = shown.toDF(*[name if name == ROW else f"c{n}" for n, name in enumerate(shown.columns)])
        last = [name for name in fields if name.startswith("o")][-1]  # it says which update a row is of
        own = [name for name in numbered.columns if name != ROW]
        names = tuple(name for name in shown.columns if name != ROW)
        return Shown(names, numbered.select(*own, F.col(f"{ROW}.{last}").alias(f"__{last}")))

    @cached_property
    def renamed(self) -> dict[str, str] | None:
        """Per column the one that it is of what a worker makes, where the query does but name columns."""
        return engine_of(self.rows.sparkSession).passed_through(self.rows)

    def changes(self, result: Result, made: Made | None) -> DataFrame:
        """The rows as changes, which end in `_change_type`.

        Args:
            result: what the result is.
            made: how the rows that the query reads are made, where it does but name columns: it is not run then.
        """
        how = result.shape, len(self.names), result.keys
        fields = self.rows.schema.fields[: len(self.names)]
        schema = StructType([*fields, StructField(CHANGE_TYPE, StringType())])
        if made is None or self.renamed is None:
            return Made(self.rows, partial(changes, *how)).frame(schema).toDF(*self.names, CHANGE_TYPE)
        at_once = partial(changes_at_once, made.make, tuple(self.renamed.items()), *how)
        return Made(made.source, at_once).frame(schema).toDF(*self.names, CHANGE_TYPE)


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


def waiting(updates: DataFrame, table: GivesTable) -> DataFrame:
    """Updates with both sides in the shape in which they wait: key with bounds, time, the three rows, the order."""
    keys = [F.col(f"__k{n}") for n in range(table.key_columns)]
    both = isinstance(table, Aggregation) and len(table.bounds) > 1
    first = len(keys) - 2 * both
    named = [(key if n < first else F.unix_micros(key)).alias(f"__k{n}") for n, key in enumerate(keys)]
    orders = [name for name in updates.columns if is_order(name)]
    schema = cast(StructType, updates.schema["__new"].dataType).toNullable()  # without a row nothing in it is there
    sides = [F.col(name).cast(schema).alias(name) for name in ("__old", "__new", "__gone")]
    return updates.select(*named, F.col("__event_time").alias("__time"), *sides, *orders)


def waited_schema(waits: StructType) -> StructType:
    """The columns of updates that have waited."""
    fields = [f for f in waits.fields if not is_order(f.name)]
    return StructType([StructField("__time", LongType()) if f.name == "__time" else f for f in fields])


# The lowering.


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
        operators: the end of it, without the query around the operators.
        held: the columns that only go through its states, as JSON: by operator and column its name and its type.
        stateful: the operators that keep state of ours, and how its columns are called.
        late: the tables of its LATE TO clauses.
        fat: with late rows, the frame whose micro-batches hold results and late rows; rows: from a micro-batch of it
            to the result.
        read_once: the operators whose rows can be read once in a micro-batch, see `check_late`.
        root: the query around the frames where it is another than the plan's.
    """

    plan: Plan
    spark: SparkSession
    read_by_root: Mapping[str, DataFrame]
    conf: dict[str, str]
    fingerprint: str
    operators: str
    held: str = ""
    stateful: tuple[Stateful, ...] = ()
    late: tuple[LateOutput, ...] = ()
    fat: DataFrame | None = None
    rows: Callable[[DataFrame], DataFrame] | None = None
    read_once: frozenset[str] = frozenset()
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
        if name == PARTITIONS:
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


@dataclass(frozen=True)
class Keeping:
    """How the operators of a query keep their state.

    Attributes:
        tasks: units of state of each operator.
        within: the definition behind which the query is, where it is: names of operators are unique in all of it.
        changelog: where the state is; None: in Spark's state store.
    """

    tasks: int
    within: str = ""
    changelog: ChangelogFolder | None = None


def lower_stream(
    plan: Plan, spark: SparkSession, live: Mapping[str, DataFrame], keeping: Keeping, strategy: str | None = None
) -> LiveQuery:
    """Lower a live query.

    Args:
        plan: the compiled query.
        spark: the session.
        live: the frame of each live source, by its name in the plan.
        keeping: how its operators keep their state.
        strategy: how windows are aggregated, 'exact' or 'native'; None is the session's setting, or what serves best.
    """
    return StreamLowering(plan, spark, dict(live), keeping, strategy or spark.conf.get(SETTING, None)).lower()


def lower_updates(
    plan: Plan, spark: SparkSession, live: Mapping[str, DataFrame], keeping: Keeping
) -> tuple[Followed, LiveQuery]:
    """Lower a query over tables that stands behind a definition; see `lower_stream`.

    Returns:
        its updates, and the query.
    """
    return StreamLowering(plan, spark, dict(live), keeping, spark.conf.get(SETTING, None)).lower_updates()


class StreamLowering:
    """One lowering; see :func:`lower_stream`."""

    def __init__(
        self,
        plan: Plan,
        spark: SparkSession,
        frames: dict[str, DataFrame],
        keeping: Keeping,
        strategy: str | None,
    ) -> None:
        self._prefix = f"{keeping.within}_" if keeping.within else ""
        self.plan, self.spark, self.frames, self.strategy = plan, spark, frames, strategy
        self.tasks, self._changelog = keeping.tasks, keeping.changelog
        self.fat: dict[str, DataFrame] = {}
        self.waits: dict[str, StructType] = {}
        self.fingerprints: list[str] = [f"TASKS {self.tasks}"]
        self.stateful: list[Stateful] = []
        self.handed_over: set[str] = set()
        self._is_followed = False
        self.shown: Shown | None = None

    def lower(self) -> LiveQuery:
        """All operators, inputs first, then the query around them."""
        operators = self.plan.operators()
        if operators:
            check_driver(self.spark)
            check_workers(self.spark)
        kept = {table.name for node in operators for table in _kept_tables(node) if table is not None}
        for node in operators:
            if node.name not in kept or len(self._readers(node)) > 1:
                self.frames[node.name] = self._operator(node)
        late = self._late(operators)
        read_once = frozenset(node.name for node in operators if self._is_read_once(node))
        shows_changes = self.plan.result.shape != "append"
        operators_text = " ".join("; ".join(self.fingerprints).split())
        return LiveQuery(
            plan=self.plan,
            spark=self.spark,
            read_by_root={_CHANGES: self._changes()} if shows_changes else _read_by(self.plan.root, self.frames),
            conf=stream_conf(self.spark, self.tasks) if operators else {},
            fingerprint=" ".join(f"{self.plan.root.sql}; {operators_text}".split()),
            operators=operators_text,
            held=json.dumps({name: column for node in operators for name, column in _held(node)}),
            stateful=tuple(self.stateful),
            late=late,
            fat=self._with_refused(operators, read_once) if late and operators[-1].name in self.fat else None,
            rows=self._rows_of_batch if late else None,
            read_once=read_once,
            root=f"SELECT * FROM {_CHANGES}" if shows_changes else None,
        )

    def lower_updates(self) -> tuple[Followed, LiveQuery]:
        """See the function of this name."""
        self._is_followed = True
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
        if self.shown is None:
            frames = _read_by(self.plan.root, {**self.frames, node.name: updates})
            return Shown.of(query_frame(self.plan.root.sql, self.spark, frames)).changes(result, None)
        fat = self.fat[node.name] if batch is None else batch
        assert isinstance(node, TableGiver), "nothing else gives rows of updates"
        return self.shown.changes(
            result, _making(node, fat, self.tasks, self._emit_order(node), self._shows(node, None))
        )

    def _shown(self, table: Operator, query: Fragment, updates: DataFrame) -> DataFrame:
        """The updates of a table with what a query shows of them; a row that is deleted keeps its key."""
        frames = _read_by(query, {**self.frames, table.name: updates})
        return put_together(query_frame(query.sql, self.spark, frames), self.plan.result)

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
        check_client(self.spark, self.plan.text)
        inputs = [
            self._handed_over(side) or self._input(node, side) if table is None else self._kept_input(side, table)
            for side, table in zip(node.inputs, _kept_tables(node), strict=True)
        ]
        if isinstance(node, Aggregation):
            inputs = [one if isinstance(one, HandedOver) else one.drop("__event_time") for one in inputs]
        narrow, spec = _narrowed(inputs, self._spec(node))
        spec = replace(spec, hands_over=self._handover(node, inputs[0]))
        self.shown = self._shown_at_end(node, inputs[0])
        spec = replace(spec, shows=self._shows(node, spec.hands_over))
        self.fingerprints.append(spec.fingerprint)
        self.stateful.append(Stateful(spec, names_of(node)))
        self.fat[node.name] = stream_operator(narrow, spec)
        if spec.hands_over is not None:
            self.handed_over.add(node.name)
        return self._rows(node, self.fat[node.name])

    def _input(self, node: Operator, side: Fragment) -> DataFrame:
        if not isinstance(node, Suppress):
            return query_frame(side.sql, self.spark, _read_by(side, self.frames))
        table = node.updates_of
        waits = waiting(self._shown(table, side, self.frames[table.name]), table)
        self.waits[node.name] = waited_schema(waits.schema)
        return waits

    def _handover(self, node: Operator, standing_in: DataFrame | HandedOver) -> Handover | None:
        """How the updates of an operator go straight to the only one that reads them, where it does but name columns.

        Args:
            node: the operator.
            standing_in: any live rows.
        """
        readers = self._readers(node)
        is_foreign = isinstance(node, TableJoin) and node.config.is_foreign  # it has a second step
        if updates_in(node) is None or is_foreign or len(readers) != 1:
            return None
        ((reader, side),) = readers
        if not isinstance(reader, (TableAggregation, TableJoin)):
            return None
        frame = _standing_in(standing_in, _schema(node))
        read = query_frame(side.sql, self.spark, _read_by(side, {**self.frames, node.name: frame}))
        columns = engine_of(self.spark).passed_through(read)
        types = _arrow_columns(side.columns)
        keys = [types.field(f"__k{number}").type for number in range(reader.grouping_keys)]
        if columns is None or not all(can_hash(kind) for kind in keys):
            return None
        return Handover(tuple(columns.items()), len(keys), self.tasks)

    def _shown_at_end(self, node: Operator, standing_in: DataFrame | HandedOver) -> Shown | None:
        """What the query shows of the updates of its last operator, where it does but name columns."""
        is_end = node is self.plan.operators()[-1] and self.plan.result.shape != "append" and not self._is_followed
        if not is_end or not isinstance(node, TableGiver) or updates_in(node) is None:
            return None
        schema, _ = rows_schema(node, self._emit_order(node))
        frame = _in_columns_of(node, _standing_in(standing_in, spark_schema(schema)))
        frames = _read_by(self.plan.root, {**self.frames, node.name: frame})
        shown = Shown.of(query_frame(self.plan.root.sql, self.spark, frames))
        return shown if shown.renamed is not None else None

    def _shows(self, node: Operator, hands_over: Handover | None) -> tuple[str, ...] | None:
        """The columns of an operator's rows that travel, where the next one or the end needs some of them alone."""
        if hands_over is not None:
            return tuple(dict.fromkeys(source for _, source in hands_over.columns))
        is_foreign = isinstance(node, TableJoin) and node.config.is_foreign  # its second step needs others
        if self.shown is None or self.shown.renamed is None or is_foreign:
            return None
        return tuple(dict.fromkeys(self.shown.renamed.values()))

    def _readers(self, node: Operator) -> list[tuple[Operator | None, Fragment]]:
        """The queries whose text names an operator, in front of others or, without one, around all of them."""
        sides = [(other, side) for other in self.plan.operators() for side in other.inputs]
        return [(other, side) for other, side in (*sides, (None, self.plan.root)) if stands_in(node.name, side.sql)]

    def _handed_over(self, side: Fragment) -> HandedOver | None:
        """What another operator hands over as this input, if one does."""
        for name, _ in side.reads:
            if name in self.handed_over:
                schema = _spark_columns(side.columns)
                return HandedOver(self.fat[name], StructType([*schema.fields, StructField("__hash", LongType())]))
        return None

    def _kept_input(self, side: Fragment, table: TableChanges) -> DataFrame:
        """What an operator that keeps a table itself reads: the table's own input, under the names that `side` gives.

        `side` does nothing but name columns. What it has no name for goes through it in the place of the last order
        column, which only updates have.
        """
        rows = self._input(table, table.input)
        hidden = [name for name in rows.columns if name in ("__time", "__deleted") or is_order(name)]
        given = {column.name for column in table.columns}
        *orders, last = [column for column in table.columns if is_order(column.name)]
        items = [F.col(name) for name in payload_columns(rows.columns) if name in given]
        items += [F.col(f"__k{name.removeprefix('__u')}").alias(name) for name in key_columns(list(given))]
        items += [F.lit(None).cast(column.type).alias(column.name) for column in orders]
        items += [F.lit(None).cast("timestamp").alias("__event_time"), F.struct(*hidden).alias(last.name)]
        frames = _read_by(side, {**self.frames, table.name: rows.select(*items)})
        shown = query_frame(side.sql, self.spark, frames)
        kept = [name for name in shown.columns if not name.startswith(("__u", "__o", "__event_time"))]
        return shown.select(*kept, f"{last.name}.*")

    def _rows(self, node: Operator, fat: DataFrame) -> DataFrame:
        """The operator's result; what its rows carry along only where another operator reads it."""
        if isinstance(node, Suppress):
            return rows_of(fat, "rows", self.waits[node.name])
        schema = _schema(node)
        if isinstance(node, TableGiver) and updates_in(node) is not None:
            order = self._emit_order(node)
            sent = spark_schema(rows_schema(node, order)[0])
            return _in_columns_of(node, _making(node, fat, self.tasks, order).frame(sent))
        if isinstance(node, Aggregation):
            return with_times(rows_of(fat, "rows", answered_schema(schema, self._emit_order(node))), schema)
        if self._is_read_on(node):
            return rows_of(fat, "rows", schema)
        hidden = [field for field in schema.fields if is_row_order(field.name)]
        shown = StructType([field for field in schema.fields if field not in hidden])
        rows = rows_of(fat, "rows", shown)
        return rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in hidden}) if hidden else rows

    def _feeds_another(self, node: Operator) -> bool:
        others = [other for other in self.plan.operators() if other is not node]
        return any(stands_in(node.name, side.sql) for other in others for side in other.inputs)

    def _is_read_on(self, node: Operator) -> bool:
        """Whether somebody reads what its rows carry along: another operator, or a definition over the query."""
        is_root = self.plan.carried is not None and stands_in(node.name, self.plan.root.sql)
        return is_root or self._feeds_another(node)

    def _emit_order(self, node: Operator) -> int:
        """How many order columns the output hands on."""
        is_read = self._is_read_on(node) or (self._is_followed and updates_in(node) is not None)
        return sum(1 for c in node.inputs[0].columns if is_order(c.name)) if is_read else 0

    def _spec(self, node: Operator) -> StreamSpec:
        emit_order = self._emit_order(node)
        idle_ms = None if node.idle_us is None else max(1, node.idle_us // 1000)
        tables = _kept_tables(node)
        is_one_table = node.keeps_table and len(node.inputs) == 1
        times: tuple[str, ...] = ("__time",) if is_one_table else ("__event_time", "__time")
        if isinstance(node, (TableAggregation, TableJoin)):
            times = tuple("__event_time" if table is None else "__time" for table in tables)
        sides = [side if table is None else table.input for side, table in zip(node.inputs, tables, strict=True)]
        sources = [node.updates_of.columns] if isinstance(node, Suppress) else [side.columns for side in sides]
        kept = [f"{table.input.sql} {table.config}" for table in tables if table is not None]
        return StreamSpec(
            operator=f"{self._prefix}{node.config.name}_{self.plan.operators().index(node) + 1}",
            make_logic=function_of(node, "live")(node, emit_order),
            fingerprint=" | ".join(
                [
                    *(side.core or side.sql for side in node.inputs),
                    node.remembered,
                    *kept,
                    f"{emit_order} TASKS {self.tasks}",
                ]
            ),
            answers=str(node.config),
            tasks=self.tasks,
            order_columns=tuple(sum(1 for c in columns if is_order(c.name)) for columns in sources),
            keeps_order=emit_order > 0 or (node.keeps_table and not isinstance(node, Aggregation)),
            common_sequence=isinstance(node, KeyedJoin) and node.common_sequence,
            n_keys=node.grouping_keys,
            changelog=self._changelog if idle_ms is None else None,  # Spark wakes up its own states only
            idle_ms=idle_ms,
            counters=_counters(node),
            times=times,
            gives_updates=updates_in(node) is not None,
            cache_bytes=whole_number(self.spark, "sqlx.stream.cache_bytes", 512 << 20),
        )

    # LATE TO

    def _late(self, operators: tuple[Operator, ...]) -> tuple[LateOutput, ...]:
        return tuple(
            late_output(table, side, node, is_last=node is operators[-1])
            for node in operators
            for side, table in enumerate(node.late_tables)
            if table is not None
        )

    def _is_read_once(self, node: Operator) -> bool:
        """Its state is Spark's, which steps forward at each reading, or another one's; or the last one is Spark's."""
        is_ours = {node.name, self.plan.operators()[-1].name} <= self.fat.keys()
        return not is_ours or self._changelog is None or node.idle_us is not None

    def _with_refused(self, operators: tuple[Operator, ...], read_once: Collection[str]) -> DataFrame:
        """The fat frame of the last operator, with what others have refused whose rows it reads."""
        *others, last = operators
        frame = self.fat[last.name]
        for node in others:
            if node.name not in read_once and any(table is not None for table in node.late_tables):
                refused = self.fat[node.name].where("kind LIKE 'late%'")
                named = F.concat("kind", F.lit(_refused_by(node))).alias("kind")
                nothing = F.lit(None).cast(frame.schema["counters"].dataType).alias("counters")
                frame = frame.union(refused.select("task", named, "blob", nothing))
        return frame


def _kept_tables(node: Operator) -> tuple[TableChanges | None, ...]:
    """Of each input the definition that the operator keeps itself, see `TableJoin.keeps`."""
    return node.kept_tables if isinstance(node, TableJoin) else (None,) * len(node.inputs)


def rows_schema(node: TableGiver, emit_order: int) -> tuple[pa.Schema, int]:
    """The columns of an operator's rows of updates, and how many order columns of its input are among them.

    Nobody asks at the end of a query how updates of different keys are ordered; paths of files are long.
    """
    schema, kept = _arrow_schema(node), kept_orders(node)
    if emit_order or not kept or not isinstance(node, (Aggregation, TableChanges, TableAggregation)):
        return schema, kept
    numbers = [pa.field(f"__o{n}", pa.int64()) for n in range(2)]
    fields = [field for field in schema if not is_order(field.name)]
    place = next(n for n, field in enumerate(fields) if field.name == "__event_time") + 1
    return pa.schema([*fields[:place], *numbers, *fields[place:]]), 0


def _in_columns_of(node: TableGiver, rows: DataFrame) -> DataFrame:
    """Rows of updates with all columns of the operator, where some do not travel; the last order column does."""
    orders, wanted = order_columns(rows.columns), order_columns([column.name for column in node.columns])
    if orders == wanted:
        return rows
    types = {column.name: column.type for column in node.columns}
    absent = {name: F.lit(None).cast(types[name]) for name in wanted[:-1]}
    found = absent | {wanted[-1]: F.col(orders[-1])}
    return rows.select(*(found.get(c.name, F.col(c.name)).alias(c.name) for c in node.columns))


def _making(
    node: TableGiver, fat: DataFrame, tasks: int, emit_order: int, shows: tuple[str, ...] | None = None
) -> Made:
    """How the rows of updates of an operator are made of its fat frame; `shows`: those of its columns that travel."""
    schema, kept = rows_schema(node, emit_order)
    if not (isinstance(node, TableJoin) and node.config.is_foreign):
        return unpacking(fat, "rows", schema.names if shows is None else shows)
    sent = rows_of(fat, "rows", spark_schema(between(schema, kept)))
    placed = sent.repartition(tasks, *key_columns(sent.columns))
    return Made(placed, partial(left_updates, node.config, schema, node.keys, kept))  # the second step


def _standing_in(rows: DataFrame | HandedOver, schema: StructType) -> DataFrame:
    """A live frame of which only the columns are asked for."""
    live = rows.fat if isinstance(rows, HandedOver) else rows
    return engine_of(live.sparkSession).live_rows(live, _nothing, schema)


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """No rows."""
    return iter(())


def _narrowed(
    inputs: Sequence[DataFrame | HandedOver], spec: StreamSpec
) -> tuple[Sequence[DataFrame | HandedOver], StreamSpec]:
    """An operator's inputs in which what is the same travels once, and the operator over them."""
    copies = [
        {} if isinstance(rows, HandedOver) else live_copies(rows, ("__k", "__o", time))
        for rows, time in zip(inputs, spec.times, strict=False)
    ]
    if any(copies):
        columns = [rows.schema.names[:-1] if isinstance(rows, HandedOver) else rows.columns for rows in inputs]
        keeps_order = spec.keeps_order or any(is_order(source) for same in copies for source in same.values())
        known = [[name for name in names if keeps_order or not is_order(name)] for names in columns]
        layouts = [{name: same.get(name, name) for name in names} for names, same in zip(known, copies, strict=True)]
        inputs = [
            rows if isinstance(rows, HandedOver) else rows.drop(*same)
            for rows, same in zip(inputs, copies, strict=True)
        ]
        makes = partial(logics.with_copies, spec.make_logic, layouts)
        spec = replace(spec, make_logic=makes, keeps_order=keeps_order, answers=f"{spec.answers} {layouts}")
    return inputs, spec


#: A column as an item of a select list.
_ITEM = re.compile(r"(?:SELECT|,) ((?:`[^`]+`|[A-Za-z_]\w*)(?:\.(?:`[^`]+`|\w+))*) AS (__k\d+|_[lr]\w+)\b")

_LAST_PART = re.compile(r"`[^`]+`|\w+")


def names_of(node: Operator) -> dict[str, str]:
    """How the columns of an operator's state are called in the query: keys by the columns that they are."""
    names: dict[str, str] = {}
    for side in node.inputs:
        names |= {column: _LAST_PART.findall(path)[-1].strip("`") for path, column in _ITEM.findall(side.sql)}
    if not isinstance(node, Suppress):
        for payload, shown in zip(node.payload, node.input_names, strict=True):
            names |= dict(zip(payload, shown, strict=True))
    return names


def _held(node: Operator) -> Iterator[tuple[str, tuple[str, str]]]:
    """The columns that only go through the state of an operator, each with its name in the query and its type."""
    for side, payload, shown, held in zip(node.inputs, node.payload, node.input_names, node.held, strict=True):
        types = {column.name: column.type for column in side.columns}
        names = dict(zip(payload, shown, strict=True))
        yield from ((f"{node.name} {name}", (names[name], types[name])) for name in held)


def _counters(node: Operator) -> tuple[str, ...]:
    if isinstance(node, CorrectedJoin):
        return CORRECTED_COUNTERS
    return TABLE_COUNTERS if node.keeps_table else COUNTERS


def _read_by(fragment: Fragment, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: frames[name] for name, _ in fragment.reads if name in frames}


def _schema(node: Operator) -> StructType:
    return _spark_columns(node.columns)


def _spark_columns(columns: Iterable[NamedColumn]) -> StructType:
    return of_ddl(", ".join(f"`{column.name}` {column.type}" for column in columns))


def _arrow_columns(columns: Iterable[NamedColumn]) -> pa.Schema:
    return arrow_schema(_spark_columns(columns))


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
    if updates_in(node) is None:
        return partial(logics.window_aggregate, node.config, not uncompiled(node), emit_order)
    schema, kept = rows_schema(node, emit_order)
    return partial(logics.group_updates, node.config, not uncompiled(node), schema, kept, node.bounds)


def table_changes(node: TableChanges, emit_order: int) -> Callable[[], StreamLogic]:
    """The updates of a table."""
    schema, kept = rows_schema(node, emit_order)
    return partial(logics.table_changes, node.config, schema, node.keys, kept)


def table_join(node: TableJoin, emit_order: int) -> Callable[[], StreamLogic]:
    """A join of two tables."""
    del emit_order
    left, right = (None if table is None else table.config for table in node.kept_tables)
    if node.config.is_foreign:
        columns = {field.name: field.type for field in _arrow_columns(node.right.columns)}
        meets = tuple(columns[f"__k{number}"] for number in range(node.config.n_keys))
        return partial(logics.foreign_key_join, node.config, _arrow_schema(node), kept_orders(node), meets, right)
    return partial(logics.table_join, node.config, _arrow_schema(node), node.keys, kept_orders(node), (left, right))


def table_aggregate(node: TableAggregation, emit_order: int) -> Callable[[], StreamLogic]:
    """An aggregation of a table."""
    schema, kept = rows_schema(node, emit_order)
    aggregates, types = node.config.aggregates, {column.name: column.type for column in node.input.columns}
    arguments = [[types[f"__a{n}_{m}"] for m in range(a.arguments)] for n, a in enumerate(aggregates)]
    arrow = _arrow_columns(node.input.columns)
    known = [[arrow.field(f"__a{n}_{m}").type for m in range(a.arguments)] for n, a in enumerate(aggregates)]
    compiled = known if is_compiled(aggregates, arguments) else None
    return partial(logics.table_aggregate, node.config, schema, kept, compiled)


def _arrow_schema(node: Operator) -> pa.Schema:
    return _arrow_columns(node.columns)


def suppress(node: Suppress, emit_order: int) -> Callable[[], StreamLogic]:
    """A suppression of a table's updates."""
    del emit_order
    return partial(logics.suppress, node.config, node.updates_of.key_columns)
