"""From text to plan: the structure is read, names are bound, and every temporal operator becomes a node.

Blocks are taken from the inside out, joins from left to right. An operator's two inputs are cut out of the text as
queries of their own; in its place the text reads the operator's result and gives its columns their names back::

    FROM o JOIN r AS OF o.ts ON o.k = r.k
      =>
    FROM __sqlx_rel1 AS __sqlx_op1
      CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o`
      CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.errors import PySparkException

from catalog.entries import Column, Entry
from sqlx.arrival import ROW, Arrival
from sqlx.bind import Binder
from sqlx.clauses import EmitClause
from sqlx.cut import check_leftovers, is_query, merge_using, operand_start, read_by_left, stands_in, with_clause
from sqlx.deduplication import deduplicate_pipe, deduplicate_relation
from sqlx.dialect import Span
from sqlx.edits import Edits
from sqlx.errors import UnsupportedError
from sqlx.join_inputs import Inputs
from sqlx.live_reads import LiveReads, check_live_left
from sqlx.needed import needed_columns, with_late_columns
from sqlx.operands import Known, any_right, upsert_side
from sqlx.operators import Builder, builders
from sqlx.outer import explained
from sqlx.plan import AsOfJoin, Fragment, Plan, PlanNode, Result, Source, TableLookup
from sqlx.query_blocks import finish_block, suppressed
from sqlx.reads import insert_target, rewritten_read
from sqlx.refusals import check_names, check_relation, notes, refused
from sqlx.restore import Standing, apply_names, restored, shorten_qualifiers
from sqlx.right_side import RightSide, RightSideReader
from sqlx.scanner import scan
from sqlx.scope import Visible
from sqlx.structure import Block, FromItem, Join, Level, Relation
from sqlx.window_relations import bounded_windows


def compile_query(text: str, binder: Binder, streaming: bool = False) -> Plan:
    """Compile a statement that holds a query with clauses of ours.

    Args:
        text: the query, or a statement around one (EXPLAIN and CREATE heads are cut off by the caller).
        binder: names and types.
        streaming: whether our definitions are read live (replay; on Spark: FROM STREAM).

    Returns:
        The plan; its root's SQL is the text with each operator replaced.

    Raises:
        TemporalParseError, BindError, UnsupportedError: with the line and a caret.
    """
    return Compiler(text, binder, streaming).compile()


@dataclass
class Compiler:
    """The state of one compilation."""

    text: str
    binder: Binder
    streaming: bool
    edits: Edits = field(init=False)
    nodes: dict[str, PlanNode] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    visible: list[Standing] = field(default_factory=list)
    before: list[Known] = field(default_factory=list)
    arrival: Arrival | None = None
    first_arrival: Arrival | None = None
    result: Result = field(default_factory=Result)
    every: EmitClause | None = None

    def __post_init__(self) -> None:
        self.edits = Edits(self.text)
        self.live = LiveReads(self.text, self.binder, self.edits, self.nodes)

    def compile(self) -> Plan:
        """Run all passes."""
        into = insert_target(self.text, self.binder)
        if into is not None:
            self.edits.replace(*into)
        root = scan(self.text)
        if self.streaming:
            self.live.start(root, self._is_operator)
        for level in root.walk():
            for block in level.blocks:
                self._block(block)
            for pipe in level.pipes:
                deduplicate_pipe(self, level, pipe)
        check_leftovers(self.text, self.edits)
        sql = self.edits.render()
        columns = self.columns_of(sql) if self.nodes and is_query(self.text) else ()
        fragment = suppressed(self, Fragment(sql, columns, self.reads(sql)))
        notes = tuple(dict.fromkeys(self.notes))
        return Plan(fragment, self.text, self.streaming, notes, self.edits.origin, self.result)

    def columns_of(self, sql: str) -> tuple[Column, ...]:
        """The columns of a query made of the text; an error of the engine where it is refused."""
        columns = self.binder.columns(sql)
        if columns is None:
            raise refused(self.binder, self.text, self.edits if self.nodes else None)
        return columns

    def reads(self, sql: str) -> tuple[tuple[str, PlanNode], ...]:
        """The nodes that a query reads."""
        return tuple((name, node) for name, node in self.nodes.items() if stands_in(name, sql))

    def _block(self, block: Block) -> None:
        self.visible, self.before, self.first_arrival = [], [], None
        for item in block.items:
            self.before = [*self.before, *self._item(block, item)]
            self.first_arrival = self.arrival if item is block.items[0] else self.first_arrival
        for operator in self.visible:
            apply_names(self.text, block, self.edits, operator)
        for item in block.items:
            shorten_qualifiers(self.text, block, self.edits, item, [o.span for o in self.visible])
        self.live.hand_on(block, self.first_arrival)
        finish_block(self, block)

    # FROM items

    def _item(self, block: Block, item: FromItem) -> list[Known]:
        known = self._relation(block, item.relation)
        if item.relation.group is None or item.relation.alias is not None:
            self.arrival = self.live.arrival_of(item.relation)
        for join in item.joins:
            if join.as_of is not None:
                known = self._as_of(block, item, join, known)
                continue
            arrival = self.arrival
            right = self._relation(block, join.relation)
            self.arrival = arrival
            lookup = self._lookup(block, item, join, known) if self.streaming else None
            if lookup is not None:
                known = lookup
            elif "SEMI" not in join.kind and "ANTI" not in join.kind:
                known = [*known, *right]
        return known

    def _relation(self, block: Block, relation: Relation) -> list[Known]:
        if relation.inner is not None:
            self._relation(block, relation.inner)
            deduplicate_relation(self, block, relation)
            return [Known(Visible(relation.given_name, ()), relation)]
        if relation.kind == "group" and relation.group is not None:
            inner = self._item(block, relation.group)
            if relation.alias is None:
                return inner
        windows = None if self.streaming else bounded_windows(self.text, relation)
        read = windows or rewritten_read(self.text, relation, self.binder)
        if read is not None:
            self.edits.replace(*read)
        self._read_live(relation, block.level)
        return [Known(Visible(relation.given_name, ()), relation)]

    def _give_names(self, item: FromItem, stop: int) -> None:
        """Relations without a name get one, once an operator needs to ask for their columns."""
        for relation in (item.relation, *(j.relation for j in item.joins if j.span.end <= stop)):
            if relation.group is not None and relation.alias is None:
                self._give_names(relation.group, stop)
            elif relation.visible_name is None and not self.edits.covers(relation.span.start):
                self.edits.insert(relation.span.end, f" AS {relation.given_name}")

    def _read_live(self, relation: Relation, level: Level) -> None:
        """Live, a relation of ours becomes a source of the plan; STREAM before one in a batch query is refused."""
        if self.streaming:
            self.live.read(relation, level)
        elif relation.stream and self.table(relation, level) is not None:
            what = f"`{'.'.join(relation.parts)}` is read with STREAM"
            raise UnsupportedError("UNSUPPORTED.STREAM_ON_SPARK", self.text, relation.body.pair, what=what)

    # operators

    def _as_of(self, block: Block, item: FromItem, join: Join, known: list[Known]) -> list[Known]:
        reader = RightSideReader(self.binder, self.text, self.streaming)
        assert join.as_of is not None
        if join.relation.inner is not None:
            self._relation(block, join.relation)
        if join.relation.lateral:
            raise UnsupportedError("AS_OF_JOIN.RIGHT_SIDE", self.text, join.relation.span.pair, found="LATERAL")
        if join.as_of.spelling in ("as_of", "system_time"):
            right = reader.read(join.relation, block.level)
        else:
            right = any_right(self, reader, join.relation, block.level)
        return self._operator(block, item, join, known, right)

    def bound(self, sql: str, relation: Relation | None) -> tuple[Column, ...]:
        """The columns of a query over a relation; an error where there is no such relation."""
        columns = self.columns_of(sql) if relation is None else self.binder.columns(sql)
        if columns is not None or relation is None:
            return columns or ()
        check_relation(self.binder, self.text, relation, self.edits.render(relation.body))
        raise refused(self.binder, self.text, None)

    def _operator(self, block: Block, item: FromItem, join: Join, known: list[Known], right: RightSide) -> list[Known]:
        if operand_start(block, item) != item.start:  # LATERAL looks back: what it sees goes into the operator
            known, self.before = [*self.before, *known], []
        number = sum(1 for n in self.nodes.values() if isinstance(n, (AsOfJoin, TableLookup))) + 1
        check_names(
            self.text, [(k.visible.name, k.relation) for k in known] + [(join.relation.given_name, join.relation)]
        )
        builder = self._builder(block, item, join, known, right)
        inputs = builder.inputs
        if self.streaming and right.entry is not None:
            self.nodes.setdefault(self.binder.live(right.entry).name, Source(right.entry))
        node, further = builder.build(f"__sqlx_rel{number}")
        self.arrival = builder.inputs.arrival_behind(f"__sqlx_op{number}")
        node = self._with_reads(node)
        self.nodes[node.name] = node
        self.binder.announce(node.name, node.columns)
        conditions = [self.edits.render(c.span) for c in further]
        shown = [(k.visible.name, self._shown(k.visible, inputs)) for k in known]
        reason = join.as_of.reason if join.as_of else None
        text = restored(number, node, shown, inputs, conditions, reason)
        self.edits.replace(Span(operand_start(block, item), join.span.end), text)
        columns = right.columns + ((Column(reason, "string"),) if reason else ())
        merged = frozenset(t.name.lower() for t in join.using)
        relations = (*inputs.left, Visible(inputs.right_name, columns, merged=merged))
        covered = Span(operand_start(block, item), join.span.end)
        self.visible = [s for s in self.visible if not covered.start <= s.span.start < covered.end]
        self.visible.append(Standing(covered, number, node.columns, relations, item is block.items[0]))
        self.notes += notes(join, node, right, self.streaming)
        return [Known(v) for v in relations]

    def _builder(self, block: Block, item: FromItem, join: Join, known: list[Known], right: RightSide) -> Builder:
        """The join's builder with its condition read, and its inputs down to the columns that are needed."""
        try:
            inputs = self._inputs(block, item, join, known, right)
            builder = builders(join)(self.binder, self.text, join, inputs, self.streaming)
            builder.read()
        except PySparkException as error:
            raise explained(error, self.text, block, join, self.binder) from None
        spans = [c.span for c in builder.parts.further]
        shown = Visible(inputs.right_name, right.columns)
        needed = needed_columns(self.text, block, join, spans, inputs.left, shown)
        if self.carries:
            needed = with_late_columns(needed, join, inputs)
        builder.inputs = replace(inputs, left_needed=needed.left, right_needed=needed.right)
        return builder

    def _with_reads(self, node: AsOfJoin | TableLookup) -> AsOfJoin | TableLookup:
        left = replace(node.left, reads=self.reads(node.left.sql))
        right = replace(node.right, reads=self.reads(node.right.sql))
        return replace(node, left=left, right=right)

    def _shown(self, visible: Visible, inputs: Inputs) -> list[tuple[int, Column]]:
        return [(n, c) for n, (relation, c) in enumerate(inputs.left_needed) if relation.name == visible.name]

    def _inputs(self, block: Block, item: FromItem, join: Join, known: list[Known], right: RightSide) -> Inputs:
        span = Span(operand_start(block, item), join.span.start)
        for other in block.items[: block.items.index(item) + 1] if item in block.items else [item]:
            if other.start >= span.start:
                self._give_names(other, span.end)
        prefix = with_clause(self.text, self.edits, block.level, span, *read_by_left(join))
        left_from = self.edits.render(span).rstrip()
        left = merge_using(self.text, item, tuple(self._visible(k, prefix, left_from) for k in known), span.end)
        arrival = (
            check_live_left(self.text, item.relation.body, prefix + left_from, self.arrival) if self.carries else None
        )
        return Inputs(prefix, left_from, left, (), right, join.relation.given_name, (), arrival)

    @property
    def carries(self) -> bool:
        """Whether live rows carry event time and order of arrival along."""
        return self.streaming and self.binder.carries_arrival

    def _visible(self, known: Known, prefix: str, left_from: str) -> Visible:
        if known.visible.columns:
            return known.visible
        sql = f"{prefix}SELECT `{known.visible.name}`.* FROM {left_from}"
        relation = known.relation
        columns = self.bound(sql, relation) if relation is not None else self.columns_of(sql)
        named = relation is not None and relation.alias is None
        qualifiers = relation.parts[:-1] if relation is not None and named else ()
        return Visible(known.visible.name, tuple(c for c in columns if c.name != ROW), qualifiers)

    def _lookup(self, block: Block, item: FromItem, join: Join, known: list[Known]) -> list[Known] | None:
        """Live: a plain join of a stream with an upsert table looks up the row there is now (6.2)."""
        entry = self.table(join.relation, block.level)
        return None if entry is None else self._operator(block, item, join, known, upsert_side(self, entry, join))

    def _is_operator(self, join: Join, level: Level) -> bool:
        """Whether a join of a live query is one of ours."""
        if join.as_of is not None:
            return True
        entry = self.table(join.relation, level)
        return entry is not None and entry.kind == "upsert"

    def table(self, relation: Relation, level: Level) -> Entry | None:
        """The definition that a relation names, unless a common table expression hides it."""
        if relation.kind != "name" or level.cte_of(relation) is not None:
            return None
        return self.binder.entry(relation.parts)
