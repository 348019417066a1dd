"""What the operators of one statement share while it is compiled: its text, names and types, and the plan so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from catalog.entries import Column, Entry
from sqlx.bind.binder import ROW, Binder, Ordered, RowOrder
from sqlx.bind.reads import query_of
from sqlx.bind.refusals import check_relation, undefined_stream
from sqlx.bind.scope import RelationScope
from sqlx.bind.spark_errors import refused
from sqlx.errors import UnsupportedError
from sqlx.plan.live_reads import LiveReads
from sqlx.plan.nodes import Fragment, Operator, PlanNode
from sqlx.plan.subquery_text import stands_in
from sqlx.plan.table_reads import TableBlocks
from sqlx.sql.edits import Edits
from sqlx.sql.structure import Level, Relation, is_recursion

_Node = TypeVar("_Node", bound=Operator)


@dataclass
class FromRelation:
    """One relation of a FROM clause, while the compiler walks over its joins."""

    visible: RelationScope
    relation: Relation | None = None


@dataclass
class Context:
    """What an operator's module may ask and add to.

    Attributes:
        text: the statement.
        binder: names and types, as the engine sees them.
        streaming: definitions are read live.
        edits: what is put in place of pieces of the text.
        nodes: the plan's nodes by name, in the order in which they were made.
        notes: sentences that a user should read: defaults that could surprise.
        live: the live reads of the statement.
        tables: which of its blocks read tables.
        behind: compiles the text of a definition's query, whose rows then show what they carry along; None where they
            carry nothing, or nobody can say what.
        within: the definitions through whose queries this one is read.
        by_name: bounded streams are read by their names: the text is kept, and they may be defined anew.
        ordered: definitions that show how their rows arrived, by name.
    """

    text: str
    binder: Binder
    streaming: bool
    behind: Callable[[Context], tuple[str, RowOrder] | None]
    within: frozenset[str] = frozenset()
    by_name: bool = False
    edits: Edits = field(init=False)
    nodes: dict[str, PlanNode] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    live: LiveReads = field(init=False)
    tables: TableBlocks = field(init=False)
    ordered: dict[str, Ordered] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.edits = Edits(self.text)
        self.live = LiveReads(self.text, self.binder, self.edits, self.nodes, self.in_order, self.by_name)

    @property
    def carries(self) -> bool:
        """Whether live rows carry event time and order of arrival along."""
        return self.streaming and self.binder.carries_row_order

    def shown(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        """Columns without the hidden one of live rows; over bounded rows a column of its name is the user's."""
        return tuple(column for column in columns if not (self.carries and column.name == ROW))

    def columns_of(self, sql: str) -> tuple[Column, ...]:
        """The columns of a query made of the text; an error of the engine where it is refused."""
        columns = self.binder.columns(sql)
        if columns is None:
            raise refused(self.binder, self.text, sql, self.edits if self.nodes else None)
        return columns

    def bound(self, sql: str, relation: Relation | None) -> tuple[Column, ...]:
        """The columns of a query over a relation; an error where there is no such relation."""
        columns = self.columns_of(sql) if relation is None else self.binder.columns(sql)
        if columns is not None or relation is None:
            return columns or ()
        if is_recursion(self.tables.root, relation):
            name = relation.parts[0]
            raise UnsupportedError("UNSUPPORTED.RECURSIVE", self.text, relation.body.pair, name=name)
        check_relation(self.binder, self.text, relation, self.edits.render(relation.body))
        raise refused(self.binder, self.text, sql)

    def reads(self, sql: str) -> tuple[tuple[str, PlanNode], ...]:
        """The nodes that a query reads."""
        return tuple((name, node) for name, node in self.nodes.items() if stands_in(name, sql))

    def fragment(self, sql: str) -> Fragment:
        """A query made of the text, with its columns and the nodes that it reads."""
        return Fragment(sql, self.columns_of(sql), self.reads(sql))

    def check_bounded(self, sql: str) -> None:
        """Refuse a stream without a definition: as rows of now it would be read, each micro-batch by itself.

        Raises:
            UnsupportedError: `STREAMING.UNDEFINED`.
        """
        if self.binder.is_stream(sql):
            raise undefined_stream(self.binder, self.text, self.tables.root)

    def table(self, relation: Relation, level: Level) -> Entry | None:
        """The definition that a relation names, unless a common table expression hides it."""
        if relation.kind != "name" or level.cte_of(relation) is not None:
            return None
        return self.binder.entry(relation.parts)

    def in_order(self, entry: Entry) -> Ordered:
        """A definition whose bounded rows show how they arrived: as those arrived that its query makes them of."""
        if entry.name not in self.ordered:
            self.ordered[entry.name] = self._in_order(entry)
        return self.ordered[entry.name]

    def _in_order(self, entry: Entry) -> Ordered:
        own = Ordered(entry, entry.sequence_by is not None)
        has_own = entry.sequence_by is not None or entry.valid_from is not None or entry.topic
        if has_own or not self.binder.carries_row_order or entry.name in self.within:
            return own
        query = query_of(self.binder, entry)
        if query is None:
            return own
        nodes, ordered, within = dict(self.nodes), dict(self.ordered), self.within | {entry.name}
        inner = replace(self, text=query, streaming=False, nodes=nodes, notes=[], ordered=ordered, within=within)
        found = self.behind(inner)
        if found is None or not found[1].order:
            return own  # and what was compiled for it is nobody's
        self.nodes.update(inner.nodes)
        self.ordered.update(inner.ordered)
        sql, carried = found
        return Ordered(replace(entry, relation=f"({sql})", arrival=carried.order), carried.is_sequence)

    def number(self, *kinds: type[Operator]) -> int:
        """The number of the next operator of these kinds, from 1 on."""
        return sum(1 for node in self.nodes.values() if isinstance(node, kinds)) + 1

    def add(self, node: _Node) -> _Node:
        """Put an operator into the plan: later queries may read its result by its name."""
        inputs = tuple(replace(fragment, reads=self.reads(fragment.sql)) for fragment in node.inputs)
        for fragment in inputs:
            if not (self.streaming and fragment.reads):
                self.check_bounded(fragment.sql)
        node = node.with_inputs(inputs)
        self.nodes[node.name] = node
        self.binder.announce(node.name, node.columns)
        return node
