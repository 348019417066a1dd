"""The plan: a small tree of frozen nodes. Plain SQL stays text; each temporal operator has everything explicit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from catalog.entries import Column, Entry
from sqlx.bind.binder import RowOrder
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.suppress.logic import SuppressConfig
from udtf.operators.table_aggregate.logic import TableAggregateConfig
from udtf.operators.table_changes.logic import TableChangesConfig
from udtf.operators.table_join.logic import TableJoinConfig
from udtf.operators.table_lookup.logic import TableLookupConfig
from udtf.operators.window_aggregate.config import WindowAggregateConfig


@dataclass(frozen=True)
class PlanNode:
    """A node of the plan; ``inputs`` are the nodes that it reads."""

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        """The nodes below, left to right."""
        return ()

    def walk(self) -> Iterator[PlanNode]:
        """All nodes, inputs before the nodes that read them."""
        for node in self.inputs:
            yield from node.walk()
        yield self


@dataclass(frozen=True)
class Source(PlanNode):
    """A relation of our catalog that is read live (streaming and replay)."""

    entry: Entry


@dataclass(frozen=True)
class Fragment(PlanNode):
    """Plain Spark SQL that we do not look into.

    Attributes:
        sql: the query; it reads ``reads`` by name.
        columns: its result columns.
        reads: relation name in ``sql`` to the node that yields it. Names that are not here are Spark's own.
        core: what a state of its rows depends on, as text: all but the columns that are only handed on. "" where that
            is the query.
    """

    sql: str
    columns: tuple[Column, ...]
    reads: tuple[tuple[str, PlanNode], ...] = ()
    core: str = field(default="", compare=False, repr=False)

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return tuple(node for _, node in self.reads)


Places = tuple[tuple[str, tuple[int, int]], ...]
Config = (
    AsOfJoinConfig
    | TableLookupConfig
    | DeduplicateConfig
    | WindowAggregateConfig
    | TableAggregateConfig
    | TableChangesConfig
    | TableJoinConfig
    | SuppressConfig
)


class Operator(PlanNode):
    """A temporal operator; what each has of clauses and executors is in `sqlx.plan.operators`.

    Columns that it only hands on are ``_l0 …`` and ``_r0 …``; those that a live state holds go by their own names, see
    `sqlx.plan.payload`.

    Attributes:
        name: the name under which the fragments above read the result (``__sqlx_op1``).
        config: what the operator's logic needs to know.
        columns: result columns, see the operator.
        table: name of the relation that it is about, for messages.
        late_to: table that keeps refused rows, or None.
        idle_us: of IDLE TIMEOUT, microseconds, or None.
        keeps_table: the result is a table, live it gives out updates with the old row and the new one.
        places: what of it a message may point to ("LATE TO", "IDLE TIMEOUT", "call 0" …), and where it is in the text.
    """

    name: str
    config: Config
    columns: tuple[Column, ...]
    table: str
    late_to: str | None
    idle_us: int | None = None
    places: Places
    keeps_table: ClassVar[bool] = False

    @property
    def inputs(self) -> tuple[Fragment, ...]:
        raise NotImplementedError

    @property
    def input_names(self) -> tuple[tuple[str, ...], ...]:
        """Per input the names that the query knows its payload columns by."""
        raise NotImplementedError

    @property
    def payload(self) -> tuple[tuple[str, ...], ...]:
        """Per input its payload columns, in the order of `input_names`."""
        return tuple(tuple(f"_{'lr'[n]}{m}" for m in range(len(names))) for n, names in enumerate(self.input_names))

    @property
    def held(self) -> tuple[tuple[str, ...], ...]:
        """Per input the payload columns that its state holds, of operators whose state outlives the query's text."""
        return tuple(() for _ in self.inputs)

    @property
    def late_tables(self) -> tuple[str | None, ...]:
        """Per input the table of its refused rows: of the clause, and of the table's definition."""
        return (self.late_to,)

    @property
    def gives_changes(self) -> bool:
        """Whether rows of the result change, so that its readers see updates."""
        return False

    @property
    def grouping_keys(self) -> int:
        """How many key columns place a row on a task."""
        assert not isinstance(self.config, SuppressConfig), "its keys are those of the table before it"
        return self.config.n_keys

    def with_inputs(self, inputs: tuple[Fragment, ...]) -> Self:
        """The same operator over other inputs."""
        raise NotImplementedError

    @property
    def remembered(self) -> str:
        """What of its config the state depends on, as text: an edited query goes on where that is the same."""
        return str(getattr(self.config, "remembered", self.config))

    def place(self, what: str) -> tuple[int, int] | None:
        """Where a clause or a call of the operator is in the text; None where it has none."""
        return dict(self.places).get(what)


@dataclass(frozen=True)
class KeyedJoin(Operator):
    """What joins by key have in common.

    Attributes:
        left, right: the inputs, see the joins.
        columns: result columns: the payloads of both and ``__reason`` where the config asks for it.
        common_sequence: live inputs interleave by a SEQUENCE BY of one type, else by event time.
        left_names, right_names: the names that the query knows the payload columns by.
    """

    name: str
    left: Fragment
    right: Fragment
    config: AsOfJoinConfig | TableLookupConfig | TableJoinConfig
    columns: tuple[Column, ...]
    table: str
    late_to: str | None = None
    common_sequence: bool = False
    left_names: tuple[str, ...] = ()
    right_names: tuple[str, ...] = ()
    places: Places = field(default=(), compare=False, repr=False)
    idle_us: int | None = None

    @property
    def inputs(self) -> tuple[Fragment, ...]:
        return (self.left, self.right)

    @property
    def input_names(self) -> tuple[tuple[str, ...], ...]:
        return (self.left_names, self.right_names)

    @property
    def payload(self) -> tuple[tuple[str, ...], ...]:
        left, right = self.config.left_columns, self.config.right_columns
        return left[: len(self.left_names)], right[: len(self.right_names)]

    @property
    def late_tables(self) -> tuple[str | None, ...]:
        entry = next((source.entry for source in self.right.walk() if isinstance(source, Source)), None)
        return self.late_to, entry.late_to if entry is not None else None

    def with_inputs(self, inputs: tuple[Fragment, ...]) -> Self:
        left, right = inputs
        return replace(self, left=left, right=right)

    @property
    def left_max_future_us(self) -> int | None:
        """The limit of outliers of the stream side."""
        return _max_future_us(self.left)


@dataclass(frozen=True)
class AsOfJoin(KeyedJoin):
    """Rows of the left with the version of the right that was valid at their time (KIP-914, semantics.md 6, 7, C).

    The left has columns ``__k0 …``, ``__as_of``, ``__known``?, then payload ``_l0 …``; the right ``__k0 …``,
    ``__time``, ``__seq``?, ``__tie0 …``, ``__arrival``?, ``__deleted``?, ``__pass``?, then payload ``_r0 …``, one row a
    version, tombstones included.
    """

    config: AsOfJoinConfig

    @property
    def held(self) -> tuple[tuple[str, ...], ...]:
        left, right = self.payload
        return () if self.config.grace_us is None else left, right

    @property
    def matched(self) -> str:
        """The result column's test for a match, for conditions that are tested afterwards."""
        return "__reason IS NULL"

    @property
    def live_config(self) -> AsOfJoinConfig:
        """The config of a live query: with the limit of outliers, and the order of SCD2 rows."""
        config = self.config
        if self.left_max_future_us is not None:
            config = replace(config, left_max_future_us=self.left_max_future_us)
        if any(column.name == "__arrival" for column in self.right.columns):
            config = replace(config, ties=(*config.ties, ("asc", "first")))
        return config


@dataclass(frozen=True)
class CorrectedJoin(AsOfJoin):
    """An AS OF join whose results change with what comes late: a table with a row for each row of the stream.

    The shapes are those of `AsOfJoin`.

    Attributes:
        is_changed: its left rows are results that are corrected themselves, so that they come as updates.
    """

    keeps_table: ClassVar[bool] = True

    is_changed: bool = field(default=False, kw_only=True)

    @property
    def held(self) -> tuple[tuple[str, ...], ...]:
        return (), ()  # what was given out of a row is in its state, too

    @property
    def gives_changes(self) -> bool:
        return True

    @property
    def remembered(self) -> str:
        """All of it: what was given out of a row is in its state, too."""
        return str(self.config)

    @property
    def result_keys(self) -> tuple[Column, ...]:
        """The columns of the key of its updates: the join key and the number of the stream's row under it."""
        if self.is_changed:
            (left,) = tables_read(self.left)
            return left.result_keys
        keys = (column for column in self.left.columns if column.name.startswith("__k") and column.name[3:].isdigit())
        return (*keys, Column("number", "bigint"))

    @property
    def key_columns(self) -> int:
        """How many columns tell the rows of the result apart."""
        return len(self.result_keys)


@dataclass(frozen=True)
class TableLookup(KeyedJoin):
    """Rows of a stream with the row that an upsert table shows at that moment of arrival (semantics.md 6.1, 6.2).

    The shapes are those of :class:`AsOfJoin` without times: left ``__k0 …``, ``_l0 …``; right ``__k0 …``,
    ``__deleted``?, ``__pass``?, ``_r0 …``.
    """

    config: TableLookupConfig

    @property
    def held(self) -> tuple[tuple[str, ...], ...]:
        return (), self.payload[1]

    @property
    def matched(self) -> str:
        """The result column's test for a match: the last of the right payload is a flag where it is asked for."""
        return f"{self.config.right_columns[-1]} IS NOT NULL"

    @property
    def live_config(self) -> TableLookupConfig:
        """The config of a live query: with the limit of outliers."""
        if self.left_max_future_us is None:
            return self.config
        return replace(self.config, left_max_future_us=self.left_max_future_us)


@dataclass(frozen=True)
class TableJoin(KeyedJoin):
    """Two tables joined by key, kept up to date (KIP-914, semantics.md 8, 9).

    Both sides have columns ``__k0 …`` by which they meet, then payload ``_l0 …`` and ``_r0 …``; they read tables, so
    that they come as updates.

    Attributes:
        keys: where columns of the result are its key: their place, and which column of the key they are.
        keeps: of each side whether it is a definition as it is, by its key: live, the join keeps that table itself.
    """

    keeps_table: ClassVar[bool] = True

    config: TableJoinConfig
    keys: tuple[tuple[int, int], ...] = ()
    keeps: tuple[bool, bool] = (False, False)

    @property
    def kept_tables(self) -> tuple[TableChanges | None, TableChanges | None]:
        """Of each side the definition that the join keeps itself."""
        left, right = (
            next(iter(tables_read(side))) if kept else None for side, kept in zip(self.inputs, self.keeps, strict=True)
        )
        assert left is None or isinstance(left, TableChanges)
        assert right is None or isinstance(right, TableChanges)
        return left, right

    @property
    def matched(self) -> str:
        """The result column's test for a match: the last of the right payload is a flag where it is asked for."""
        return f"{self.config.right_columns[-1]} IS NOT NULL"

    @property
    def late_tables(self) -> tuple[str | None, ...]:
        return (None, None)  # what is refused was refused before it

    @property
    def gives_changes(self) -> bool:
        return True

    @property
    def result_keys(self) -> tuple[Column, ...]:
        """The columns of the key of its updates: those by which the sides meet, by foreign key that of the left."""
        if not self.config.is_foreign:
            return tuple(column for column in self.left.columns if column.name.startswith("__k"))
        (left,) = tables_read(self.left)
        return left.result_keys

    @property
    def key_columns(self) -> int:
        """How many columns tell the rows of the result apart."""
        if not self.config.is_foreign:
            return len(self.result_keys)
        (left,) = tables_read(self.left)
        return left.key_columns


@dataclass(frozen=True)
class OneInput(Operator):
    """What operators of one input have in common.

    Attributes:
        input: see the operator.
        names: the names that the query knows the payload columns by.
    """

    name: str
    input: Fragment
    config: DeduplicateConfig | WindowAggregateConfig | TableAggregateConfig | TableChangesConfig | SuppressConfig
    columns: tuple[Column, ...]
    table: str
    late_to: str | None = None
    names: tuple[str, ...] = ()
    places: Places = field(default=(), compare=False, repr=False, kw_only=True)

    @property
    def inputs(self) -> tuple[Fragment, ...]:
        return (self.input,)

    @property
    def input_names(self) -> tuple[tuple[str, ...], ...]:
        return (self.names,)

    def with_inputs(self, inputs: tuple[Fragment, ...]) -> Self:
        (only,) = inputs
        return replace(self, input=only)


@dataclass(frozen=True)
class Deduplicate(OneInput):
    """Rows of a relation without those that are duplicates within an interval (KIP-655, semantics.md 16).

    Its input has columns ``__k0 …``, ``__time``? (without it: the record's event time), ``__seq``?, ``__arrival0 …``?,
    then payload ``_l0 …``, which is its result.

    Attributes:
        idle_us: of IDLE TIMEOUT, or None.
    """

    config: DeduplicateConfig
    idle_us: int | None = None

    @property
    def payload(self) -> tuple[tuple[str, ...], ...]:
        return (self.config.columns[: len(self.names)],)

    @property
    def held(self) -> tuple[tuple[str, ...], ...]:
        return self.payload if self.config.keeps_last else ((),)

    @property
    def live_config(self) -> DeduplicateConfig:
        """The config of a live query: with the limit of outliers."""
        return replace(self.config, max_future_us=_max_future_us(self.input))


@dataclass(frozen=True)
class TableOperator(OneInput):
    """An operator whose result is a table: its key columns are ``__k0 …``."""

    keeps_table: ClassVar[bool] = True

    config: WindowAggregateConfig | TableAggregateConfig | TableChangesConfig

    @property
    def key_columns(self) -> int:
        """How many columns tell the rows of the table apart, bounds of windows included."""
        return self.config.n_keys

    @property
    def result_keys(self) -> tuple[Column, ...]:
        """The columns of the key of its updates, without bounds of windows."""
        names = [f"__k{n}" for n in range(self.config.n_keys)]
        return tuple(column for column in self.input.columns if column.name in names)


@dataclass(frozen=True)
class Aggregation(TableOperator):
    """Groups of a stream's rows, with or without windows (KIP-328, semantics.md 11 to 14).

    Its input has columns ``__k0 …``, ``__time``? (of the window; without one: the record's event time), per aggregate
    ``__a<n>_0 …`` and ``__a<n>_f``?, then the payload ``_l0 …`` of the late rows; its result ``__k0 …``, ``__ws`` and
    ``__we`` where there are windows, ``__a0 …``.

    Attributes:
        calls: per aggregate of kind 'rows' the call over its argument columns, else None.
        idle_us: of IDLE TIMEOUT, or None.
        bounds: those of ``__ws`` and ``__we`` by which its updates are known, after ``__k0 …``.
    """

    config: WindowAggregateConfig
    calls: tuple[str | None, ...] = ()
    idle_us: int | None = None
    bounds: tuple[str, ...] = ()

    @property
    def gives_changes(self) -> bool:
        return not self.config.is_final

    @property
    def key_columns(self) -> int:
        return self.config.n_keys + len(self.bounds)


@dataclass(frozen=True)
class TableAggregation(TableOperator):
    """Groups of a table's rows, kept up to date (KIP-914, semantics.md 10).

    Its input reads a table, so that it comes as updates; it has columns ``__k0 …``, per aggregate ``__a<n>_0 …`` and
    ``__a<n>_f``?; its result ``__k0 …``, ``__a0 …``.

    Attributes:
        calls: per aggregate of kind 'rows' the call over its argument columns, else None.
    """

    config: TableAggregateConfig
    calls: tuple[str | None, ...] = ()

    @property
    def gives_changes(self) -> bool:
        return True


@dataclass(frozen=True)
class TableChanges(TableOperator):
    """The updates of a table, old row and new (semantics.md 4, 5, B12).

    Its input has columns ``__k0 …``, ``__deleted``?, then the table's columns ``_l0 …``, which are its result.

    Attributes:
        keys: which of the payload columns are the KEYS.
    """

    config: TableChangesConfig
    keys: tuple[int, ...] = ()

    @property
    def gives_changes(self) -> bool:
        return True

    @property
    def shows_every_update(self) -> bool:
        """Also one that shows nothing before and after: of a versioned table nothing is dropped (5.4)."""
        return self.config.is_versioned and not self.config.is_latest_only


@dataclass(frozen=True)
class Suppress(OneInput):
    """Updates of a table that wait, so that each key sends one every so often (KIP-328, semantics.md 15).

    Its input is the query whose updates wait, its result has the same columns.

    Attributes:
        idle_us: of IDLE TIMEOUT, or None.
    """

    keeps_table: ClassVar[bool] = True

    config: SuppressConfig
    table: str = "the result"
    idle_us: int | None = None

    @property
    def gives_changes(self) -> bool:
        return True

    @property
    def updates_of(self) -> GivesTable:
        """The operator whose updates wait."""
        (found,) = tables_read(self.input)
        return found

    @property
    def grouping_keys(self) -> int:
        return len(self.updates_of.result_keys)


#: Operators whose result is a table.
GivesTable = TableOperator | TableJoin | CorrectedJoin


def tables_read(fragment: Fragment) -> list[GivesTable]:
    """The operators whose updates a fragment reads."""
    return [node for node in fragment.inputs if isinstance(node, GivesTable)]


def reads_changes(fragment: Fragment) -> bool:
    """Whether rows that a fragment reads change."""
    return any(isinstance(node, Operator) and node.gives_changes for node in fragment.inputs)


def _max_future_us(fragment: Fragment) -> int | None:
    """The least limit of outliers among the streams that a fragment reads (semantics.md B9), microseconds."""
    future_us = [s.entry.max_future_us for s in fragment.walk() if isinstance(s, Source) and not s.entry.is_table]
    return min((limit for limit in future_us if limit is not None), default=None)


@dataclass(frozen=True)
class Result:
    """What a query's result is: rows that are only added, or the changes of a table (semantics.md A).

    Attributes:
        shape: 'append', 'upsert' or 'changelog'.
        keys: places of the output columns that a deleted row keeps.
        key_places: per column of the key the places of the output columns that show it as it is.
        filters: a condition is between the table and the result (semantics.md 5.2).
        is_sequence: a SEQUENCE BY says in which order the changes of a table are.
    """

    shape: str = "append"
    keys: tuple[int, ...] = ()
    key_places: tuple[tuple[int, ...], ...] = ()
    filters: bool = False
    is_sequence: bool = False


@dataclass(frozen=True)
class Plan:
    """A compiled query.

    Attributes:
        root: the outermost fragment; its columns are the query's.
        text: the query as it was written.
        streaming: whether sources are read live.
        notes: what the compiler wants to say once (defaults that could surprise).
        origin: offset in the root's SQL to the offset in the text that it came from.
        result: rows that are only added, or the changes of a table.
        carried: what its rows carry along in the hidden column, where that was asked for and they have one.
    """

    root: Fragment
    text: str
    streaming: bool
    notes: tuple[str, ...] = field(default=())
    origin: Callable[[int], int] = field(default=lambda offset: offset, compare=False)
    result: Result = field(default_factory=Result)
    carried: RowOrder | None = None

    def operators(self) -> tuple[Operator, ...]:
        """The temporal operators, inputs first."""
        return tuple(n for n in self.root.walk() if isinstance(n, Operator))


def not_followed(plan: Plan, *, is_table: bool) -> str | None:
    """Why a definition over a query whose result changes cannot follow it; None where it can, given its KEYS.

    Args:
        plan: of the query.
        is_table: whether the definition is a table.
    """
    if not is_table:
        return "its query reads a table that changes, and the rows of a stream do not"
    if any(isinstance(node, Suppress) for node in plan.operators()):
        return "updates of its query wait (EMIT EVERY), and a table follows each of them"
    if not plan.result.key_places:
        return "its query gives one row, which no column tells from others: GROUP BY a constant that is its KEYS"
    return None


def other_keys(plan: Plan, keys: Iterable[str]) -> str | None:
    """The key of a query over tables, as text, where a definition over it has other KEYS; None where they agree.

    What changes a row of a table that is derived from a table has to know its key.
    """
    names = [[plan.root.columns[place].name for place in places] for places in plan.result.key_places]
    asked = {key.lower() for key in keys}
    known = [{name.lower() for name in shown} for shown in names]
    if all(asked & shown for shown in known) and asked <= set().union(*known):
        return None
    return ", ".join(f"`{shown[0]}`" for shown in names if shown)
