"""The plan: a small tree of frozen nodes. Plain SQL stays text; each temporal operator has everything explicit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from catalog.entries import Column, Entry
from udtf.operators.as_of_join import AsOfJoinConfig
from udtf.operators.deduplicate import DeduplicateConfig
from udtf.operators.suppress import SuppressConfig
from udtf.operators.table_changes import TableChangesConfig
from udtf.operators.table_lookup import TableLookupConfig
from udtf.operators.window_aggregate_config import WindowAggregateConfig


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
    """

    sql: str
    columns: tuple[Column, ...]
    reads: tuple[tuple[str, PlanNode], ...] = ()

    @property
    def inputs(self) -> tuple[PlanNode, ...]:
        return tuple(node for _, node in self.reads)


@dataclass(frozen=True)
class KeyedJoin(PlanNode):
    """What the joins of a stream with a table have in common.

    Attributes:
        name: the name under which the fragments above read the result (``__sqlx_op1``).
        left, right: the inputs, see the joins.
        config: what the operator's logic needs to know.
        columns: result columns: the payloads of both and ``__reason`` where the config asks for it.
        table: name of the right side, for messages.
        late_to: table that keeps refused rows, or None.
        common_sequence: live inputs interleave by a SEQUENCE BY of one type, else by event time.
        left_names, right_names: the names that the query knows the payload columns by.
    """

    name: str
    left: Fragment
    right: Fragment
    config: AsOfJoinConfig | TableLookupConfig
    columns: tuple[Column, ...]
    table: str
    late_to: str | None = None
    common_sequence: bool = False
    left_names: tuple[str, ...] = ()
    right_names: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Fragment, ...]:
        return (self.left, self.right)

    @property
    def input_names(self) -> tuple[tuple[str, ...], ...]:
        """Per input the names that the query knows its payload columns by."""
        return (self.left_names, self.right_names)


@dataclass(frozen=True)
class AsOfJoin(KeyedJoin):
    """Rows of the left with the version of the right that was valid at their time (KIP-914, semantics.md 6, 7, C).

    The left has columns ``__k0 …``, ``__as_of``, ``__known``?, then payload ``_l0 …``; the right ``__k0 …``,
    ``__time``, ``__seq``?, ``__tie0 …``, ``__arrival``?, ``__deleted``?, ``__pass``?, then payload ``_r0 …``, one row a
    version, tombstones included.
    """

    config: AsOfJoinConfig

    @property
    def matched(self) -> str:
        """The result column's test for a match, for conditions that are tested afterwards."""
        return "__reason IS NULL"


@dataclass(frozen=True)
class TableLookup(KeyedJoin):
    """Rows of a stream with the row that an upsert table shows at that moment of arrival (semantics.md 6.1, 6.2).

    The shapes are those of :class:`AsOfJoin` without times: left ``__k0 …``, ``_l0 …``; right ``__k0 …``,
    ``__deleted``?, ``__pass``?, ``_r0 …``.
    """

    config: TableLookupConfig

    @property
    def matched(self) -> str:
        """The result column's test for a match: the last of the right payload is a flag where it is asked for."""
        return f"{self.config.right_columns[-1]} IS NOT NULL"


@dataclass(frozen=True)
class OneInput(PlanNode):
    """What operators of one input have in common.

    Attributes:
        name: the name under which the fragments above read the result.
        input: see the operator.
        config: what the operator's logic needs to know.
        columns: result columns, see the operator.
        table: name of the relation, for messages.
        late_to: table that keeps late rows, or None.
        names: the names that the query knows the payload columns by.
    """

    name: str
    input: Fragment
    config: DeduplicateConfig | WindowAggregateConfig | TableChangesConfig | SuppressConfig
    columns: tuple[Column, ...]
    table: str
    late_to: str | None = None
    names: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Fragment, ...]:
        return (self.input,)

    @property
    def input_names(self) -> tuple[tuple[str, ...], ...]:
        """Per input the names that the query knows its payload columns by."""
        return (self.names,)


@dataclass(frozen=True)
class Deduplicate(OneInput):
    """Rows of a relation without those that are duplicates within an interval (KIP-655, semantics.md 16).

    Its input has columns ``__k0 …``, ``__time``? (without it: the record's event time), ``__seq``?, ``__arrival0 …``?,
    then payload ``_l0 …``, which is its result.
    """

    config: DeduplicateConfig


@dataclass(frozen=True)
class Aggregation(OneInput):
    """Groups of a stream's rows, with or without windows (KIP-328, semantics.md 11 to 14).

    Its input has columns ``__k0 …``, ``__time``? (of the window; without one: the record's event time), per aggregate
    ``__a<n>_0 …`` and ``__a<n>_f``?, then the payload ``_l0 …`` of the late rows; its result ``__k0 …``, ``__ws`` and
    ``__we`` where there are windows, ``__a0 …``.

    Attributes:
        calls: per aggregate of kind 'rows' the call over its argument columns, else None.
        idle_us: of IDLE TIMEOUT, or None.
    """

    config: WindowAggregateConfig
    calls: tuple[str | None, ...] = ()
    idle_us: int | None = None


@dataclass(frozen=True)
class TableChanges(OneInput):
    """The updates of an UPSERT table, old row and new (semantics.md 4.1, 4.2, B12).

    Its input has columns ``__k0 …``, ``__deleted``?, then the table's columns ``_l0 …``, which are its result.

    Attributes:
        keys: which of the payload columns are the KEYS.
    """

    config: TableChangesConfig
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Suppress(OneInput):
    """Updates of a table that wait, so that each key sends one every so often (KIP-328, semantics.md 15).

    Its input is the query whose updates wait, its result has the same columns.

    Attributes:
        idle_us: of IDLE TIMEOUT, or None.
    """

    config: SuppressConfig
    table: str = "the result"
    idle_us: int | None = None


Operator = AsOfJoin | TableLookup | Deduplicate | Aggregation | TableChanges | Suppress


@dataclass(frozen=True)
class Result:
    """What a query's result is: rows that are only added, or the changes of a table (semantics.md A).

    Attributes:
        shape: 'append', 'upsert' or 'changelog'.
        keys: places of the output columns that a deleted row keeps.
        filters: a condition stands between the table and the result (semantics.md 5.2).
        around: the query around the operator for a live result on Spark: its condition as the column ``__passes``, and
            a column ``__carry`` that is handed on.
    """

    shape: str = "append"
    keys: tuple[int, ...] = ()
    filters: bool = False
    around: str = ""


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
    """

    root: Fragment
    text: str
    streaming: bool
    notes: tuple[str, ...] = field(default=())
    origin: Callable[[int], int] = field(default=lambda offset: offset, compare=False)
    result: Result = field(default_factory=Result)

    def operators(self) -> tuple[Operator, ...]:
        """The temporal operators, inputs first."""
        return tuple(n for n in self.root.walk() if isinstance(n, Operator))
