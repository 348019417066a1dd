"""Lowers a plan to Spark, live: each operator becomes a stateful streaming frame that the rest of the text reads.

A query may hold several operators where one feeds the next (Spark chains stateful operators in append mode). A query
whose operators refuse rows TO a table is run batch by batch (`foreachBatch`), so that both tables get the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # its usual name
from pyspark.sql.types import StructType

from sqlx.arrival import is_carried, is_order
from sqlx.cut import stands_in
from sqlx.errors import UnsupportedError
from sqlx.input_facts import deduplicate_config, join_config
from sqlx.lower import query_frame
from sqlx.lower_late import LateOutput, check_late, late_output, late_tables, of_ddl
from sqlx.lower_native import SETTING, native_aggregation, strategy_of
from sqlx.lower_tables import (
    answered_schema,
    as_changes,
    two_sided,
    uncompiled,
    waited_schema,
    waiting,
    with_times,
)
from sqlx.plan import Aggregation, Deduplicate, Fragment, KeyedJoin, Operator, Plan, Suppress, TableChanges
from sqlx.shipping import live_copies
from udtf.logic import StreamLogic
from udtf.operators.as_of_join import AsOfJoinConfig
from udtf.spark import logics
from udtf.spark.stream import StreamSpec, rows_of, stream_operator
from udtf.spark.stream_conf import stream_conf
from udtf.stream.spec import COUNTERS, TABLE_COUNTERS

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

    @property
    def sql(self) -> str:
        """The query around the frames."""
        return self.plan.root.sql if self.root is None else self.root

    @cached_property
    def frame(self) -> DataFrame:
        """The streaming result; analysed when it is asked for, since a caller may put the query into a plan itself."""
        return query_frame(self.sql, self.spark, dict(self.read_by_root))


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


def lower_stream(
    plan: Plan, spark: SparkSession, live: Mapping[str, DataFrame], tasks: int, strategy: str | None = None
) -> LiveQuery:
    """Lower a live query.

    Args:
        plan: the compiled query.
        spark: the session.
        live: the frame of each live source, by its name in the plan.
        tasks: units of state of each operator.
        strategy: how windows are aggregated, 'exact' or 'native'; None is the session's setting, or what serves best.
    """
    return StreamLowering(plan, spark, dict(live), tasks, strategy or spark.conf.get(SETTING, None)).lower()


class StreamLowering:
    """One lowering; see :func:`lower_stream`."""

    def __init__(
        self, plan: Plan, spark: SparkSession, frames: dict[str, DataFrame], tasks: int, strategy: str | None
    ) -> None:
        self.plan, self.spark, self.frames, self.tasks, self.strategy = plan, spark, frames, tasks, strategy
        self.fat: dict[str, DataFrame] = {}
        self.waits: dict[str, StructType] = {}
        self.fingerprints: list[str] = [f"TASKS {tasks}"]

    def lower(self) -> LiveQuery:
        """All operators, inputs first, then the query around them."""
        operators = self.plan.operators()
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

    def _changes(self, batch: DataFrame | None = None) -> DataFrame:
        """The changes of the result; those of one micro-batch of the last operator's fat frame where it is given."""
        node = self.plan.operators()[-1]
        updates = self.frames[node.name] if batch is None else self._rows(node, batch)
        if not isinstance(node, Suppress):
            updates = self._two_sided(node, updates)
        return as_changes(updates, self.plan.result.shape)

    def _two_sided(self, table: Operator, updates: DataFrame) -> DataFrame:
        """The updates of a table with what the query shows of them; a row that is deleted keeps its key."""
        if isinstance(table, TableChanges):
            keys = {f"_l{place}": F.coalesce(f"_l{place}", f"__k{n}") for n, place in enumerate(table.keys)}
            updates = updates.withColumns(keys)

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
        table = self._table_before(node)
        waits = waiting(self._two_sided(table, self.frames[table.name]), table.config.n_keys)
        self.waits[node.name] = waited_schema(waits.schema)
        return waits

    def _table_before(self, node: Suppress) -> Aggregation | TableChanges:
        operators = self.plan.operators()
        table = operators[operators.index(node) - 1]
        assert isinstance(table, (Aggregation, TableChanges)), "only updates of a table wait"
        return table

    def _rows(self, node: Operator, fat: DataFrame) -> DataFrame:
        """The operator's result; what its rows carry along only where another operator reads it."""
        if isinstance(node, Suppress):
            return rows_of(fat, "rows", self.waits[node.name])
        schema = _schema(node)
        if isinstance(node, (Aggregation, TableChanges)):
            return with_times(rows_of(fat, "rows", answered_schema(node, schema, self._emit_order(node))))
        if self._feeds_another(node):
            return rows_of(fat, "rows", schema)
        hidden = [field for field in schema.fields if is_carried(field.name)]
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
        idle_us = node.idle_us if isinstance(node, (Aggregation, Suppress)) else None
        if idle_us is not None and self._feeds_another(node):
            at = self.plan.text.upper().find("IDLE")
            raise UnsupportedError("EMIT.IDLE_INNER", self.plan.text, (at, at + len("IDLE TIMEOUT")))
        return None if idle_us is None else max(1, idle_us // 1000)

    def _spec(self, node: Operator) -> StreamSpec:
        emit_order = self._emit_order(node)
        keeps_table = isinstance(node, (Aggregation, TableChanges, Suppress))
        orders = [sum(1 for c in side.columns if is_order(c.name)) for side in node.inputs]
        n_keys = self._table_before(node).config.n_keys if isinstance(node, Suppress) else node.config.n_keys
        if isinstance(node, Suppress):
            orders = [sum(1 for c in self._table_before(node).columns if is_order(c.name))]
        return StreamSpec(
            operator=f"{node.config.name}_{self.plan.operators().index(node) + 1}",
            make_logic=self._logic(node, emit_order),
            fingerprint=" | ".join(
                [*(side.sql for side in node.inputs), str(node.config), f"{emit_order} TASKS {self.tasks}"]
            ),
            tasks=self.tasks,
            order_columns=tuple(orders),
            common_sequence=isinstance(node, KeyedJoin) and node.common_sequence,
            n_keys=n_keys,
            idle_ms=self._idle_ms(node),
            counters=TABLE_COUNTERS if keeps_table else COUNTERS,
            times=("__time",) if keeps_table else ("__event_time", "__time"),
            cache_bytes=int(self.spark.conf.get("sqlx.stream.cache_bytes", str(512 << 20)) or 0),
        )

    def _logic(self, node: Operator, emit_order: int) -> Callable[[], StreamLogic]:
        """A picklable maker of the operator's logic."""
        if isinstance(node, Suppress):
            table = self._table_before(node)
            has_bounds = isinstance(table, Aggregation) and table.config.window.kind != "none"
            return partial(logics.suppress, node.config, table.config.n_keys + 2 * has_bounds)
        if isinstance(node, TableChanges):
            return partial(logics.table_changes, node.config, emit_order)
        if isinstance(node, Deduplicate):
            return partial(logics.deduplicate, deduplicate_config(node), emit_order)
        if isinstance(node, Aggregation):
            return partial(logics.window_aggregate, node.config, not uncompiled(node), emit_order)
        config = join_config(node)
        if isinstance(config, AsOfJoinConfig):
            return partial(logics.as_of_join, config, emit_order)
        return partial(logics.table_lookup, config, emit_order)

    # LATE TO

    def _late(self, operators: tuple[Operator, ...]) -> tuple[LateOutput, ...]:
        check_late(self.plan)
        return tuple(
            late_output(table, side, node)
            for node in operators
            for side, table in enumerate(late_tables(node))
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
