"""Lowers a plan to Spark, live: each operator becomes a stateful streaming frame that the rest of the text reads.

A query may hold several operators where one feeds the next (Spark chains stateful operators in append mode). A query
whose operators refuse rows TO a table is run batch by batch (`foreachBatch`), so that both tables get the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # its usual name
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from catalog.entries import Entry
from sqlx.arrival import is_carried, is_order
from sqlx.errors import UnsupportedError
from sqlx.input_facts import deduplicate_config, join_config
from sqlx.lower import query_frame
from sqlx.lower_tables import answered_schema, changes, uncompiled, with_times
from sqlx.plan import Aggregation, Deduplicate, Fragment, KeyedJoin, Operator, Plan, Source, Suppress, TableChanges
from sqlx.streaming.late import late_span
from udtf.logic import StreamLogic
from udtf.operators.as_of_join import AsOfJoinConfig
from udtf.spark import logics
from udtf.spark.stream import StreamSpec, rows_of, stream_operator
from udtf.spark.stream_conf import stream_conf

_PARTITIONS = "spark.sql.shuffle.partitions"
#: The name by which the outermost query reads the changes of a table.
_CHANGES = "__sqlx_changes"
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
        table: the name behind LATE TO.
        schema: the columns of the input and the four of semantics.md B7.
        make: from a micro-batch of the fat frame to the rows.
    """

    table: str
    schema: StructType
    make: Callable[[DataFrame], DataFrame]


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


def lower_stream(plan: Plan, spark: SparkSession, live: Mapping[str, DataFrame], tasks: int) -> LiveQuery:
    """Lower a live query.

    Args:
        plan: the compiled query.
        spark: the session.
        live: the frame of each live source, by its name in the plan.
        tasks: units of state of each operator.
    """
    return StreamLowering(plan, spark, dict(live), tasks).lower()


class StreamLowering:
    """One lowering; see :func:`lower_stream`."""

    def __init__(self, plan: Plan, spark: SparkSession, frames: dict[str, DataFrame], tasks: int) -> None:
        self.plan, self.spark, self.frames, self.tasks = plan, spark, frames, tasks
        self.fat: dict[str, DataFrame] = {}
        self.fingerprints: list[str] = [f"TASKS {tasks}"]

    def lower(self) -> LiveQuery:
        """All operators, inputs first, then the query around them."""
        operators = self.plan.operators()
        check_operators(self.plan)
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
        assert isinstance(node, Aggregation), "check_operators has refused the others"
        updates = self.frames[node.name] if batch is None else self._rows(node, batch)
        result = self.plan.result

        def around(frame: DataFrame) -> DataFrame:
            return query_frame(result.around, self.spark, {node.name: frame})

        return changes(updates, around, result)

    def _rows_of_batch(self, batch: DataFrame) -> DataFrame:
        """The result of one micro-batch of the last operator's fat frame."""
        last = self.plan.operators()[-1]
        if self.plan.result.shape != "append":
            return self._changes(batch)
        frames = {**self.frames, last.name: self._rows(last, batch)}
        return query_frame(self.plan.root.sql, self.spark, _read_by(self.plan.root, frames))

    def _operator(self, node: Operator) -> DataFrame:
        spec = self._spec(node)
        inputs = [query_frame(side.sql, self.spark, _read_by(side, self.frames)) for side in node.inputs]
        self.fingerprints.append(spec.fingerprint)
        self.fat[node.name] = stream_operator(inputs, spec)
        return self._rows(node, self.fat[node.name])

    def _rows(self, node: Operator, fat: DataFrame) -> DataFrame:
        """The operator's result; what its rows carry along only where another operator reads it."""
        schema = _schema(node)
        if isinstance(node, Aggregation):
            return with_times(rows_of(fat, "rows", answered_schema(node, schema, self._emit_order(node))))
        if self._feeds_another(node):
            return rows_of(fat, "rows", schema)
        hidden = [field for field in schema.fields if is_carried(field.name)]
        shown = StructType([field for field in schema.fields if field not in hidden])
        rows = rows_of(fat, "rows", shown)
        return rows.withColumns({field.name: F.lit(None).cast(field.dataType) for field in hidden}) if hidden else rows

    def _feeds_another(self, node: Operator) -> bool:
        others = [other for other in self.plan.operators() if other is not node]
        return any(node.name in side.sql for other in others for side in other.inputs)

    def _emit_order(self, node: Operator) -> int:
        """How many order columns the output hands on."""
        return sum(1 for c in node.inputs[0].columns if is_order(c.name)) if self._feeds_another(node) else 0

    def _spec(self, node: Operator) -> StreamSpec:
        assert not isinstance(node, (Suppress, TableChanges)), "check_operators has refused them"
        orders = [sum(1 for c in side.columns if is_order(c.name)) for side in node.inputs]
        emit_order = self._emit_order(node)
        return StreamSpec(
            operator=f"{node.config.name}_{self.plan.operators().index(node) + 1}",
            make_logic=_logic(node, emit_order),
            fingerprint=" | ".join(
                [*(side.sql for side in node.inputs), str(node.config), f"{emit_order} TASKS {self.tasks}"]
            ),
            tasks=self.tasks,
            order_columns=tuple(orders),
            common_sequence=isinstance(node, KeyedJoin) and node.common_sequence,
            n_keys=node.config.n_keys,
            cache_bytes=int(self.spark.conf.get("sqlx.stream.cache_bytes", str(512 << 20)) or 0),
        )

    # LATE TO

    def _late(self, operators: tuple[Operator, ...]) -> tuple[LateOutput, ...]:
        check_late(self.plan)
        return tuple(
            _late_output(table, side, node)
            for node in operators
            for side, table in enumerate(_late_tables(node))
            if table is not None
        )


def _logic(node: Operator, emit_order: int) -> Callable[[], StreamLogic]:
    """A picklable maker of the operator's logic."""
    if isinstance(node, Deduplicate):
        return partial(logics.deduplicate, deduplicate_config(node), emit_order)
    if isinstance(node, Aggregation):
        return partial(logics.window_aggregate, node.config, not uncompiled(node), emit_order)
    assert isinstance(node, KeyedJoin), "check_operators has refused the others"
    config = join_config(node)
    if isinstance(config, AsOfJoinConfig):
        return partial(logics.as_of_join, config, emit_order)
    return partial(logics.table_lookup, config, emit_order)


def _read_by(fragment: Fragment, frames: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: frames[name] for name, _ in fragment.reads if name in frames}


def _schema(node: Operator) -> StructType:
    return _of_ddl(", ".join(f"`{column.name}` {column.type}" for column in node.columns))


def _of_ddl(ddl: str) -> StructType:
    schema = StructType.fromDDL(ddl) if ddl else StructType()
    assert isinstance(schema, StructType)
    return schema


def check_operators(plan: Plan) -> None:
    """Refuse what runs in replay only.

    Raises:
        UnsupportedError: the updates of a table are read, or wait.
    """
    for node in plan.operators():
        if isinstance(node, (Suppress, TableChanges)):
            what = "EMIT EVERY" if isinstance(node, Suppress) else f"The changes of the table `{node.table}`"
            raise UnsupportedError("UNSUPPORTED.TABLE_ON_SPARK", plan.text, (0, len(plan.text)), what=what)


def check_late(plan: Plan) -> None:
    """Only the last operator of a live query may have LATE TO: a batch function gets the rows of one frame.

    Raises:
        UnsupportedError: another one has.
    """
    for node in plan.operators()[:-1]:
        for table in _late_tables(node):
            if table is not None:
                raise UnsupportedError("STREAMING.LATE_TO_INNER", plan.text, late_span(plan.text), table=table)


def _late_tables(node: Operator) -> tuple[str | None, ...]:
    """Per input the table of its refused rows: of the clause, and of the table's definition."""
    if not isinstance(node, KeyedJoin):
        return (node.late_to,)
    entry: Entry | None = next((s.entry for s in node.right.walk() if isinstance(s, Source)), None)
    return node.late_to, entry.late_to if entry is not None else None


def _late_output(table: str, side: int, node: Operator) -> LateOutput:
    """Refused rows of an input, under the names that the query knows."""
    assert not isinstance(node, Suppress), "its input was judged before"
    fragment, names = node.inputs[side], node.input_names[side]
    payload = [f"{'_r' if side else '_l'}{n}" for n in range(len(names))]
    types = {c.name: c.type for c in fragment.columns}
    fields = _of_ddl(", ".join(f"`{name}` {types[name]}" for name in payload)).fields
    stored = StructType([*fields, *_LATE_COLUMNS])
    pairs = zip(names, fields, strict=True)
    shown = StructType([*(StructField(name, field.dataType) for name, field in pairs), *_LATE_COLUMNS])

    def make(batch: DataFrame) -> DataFrame:
        return rows_of(batch, f"late{side}", stored).toDF(*shown.names)

    return LateOutput(table, shown, make)
