"""The FROM clause of a query block: its relations are read, and each temporal join in it becomes a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.errors import PySparkException

from catalog.entries import Column
from sqlx.bind.binder import RowOrder
from sqlx.bind.reads import rewritten_read
from sqlx.bind.refusals import check_names, explain_binding_error
from sqlx.bind.right_side import RightSide, RightSideReader
from sqlx.bind.scope import RelationScope, name_chains
from sqlx.errors import UnsupportedError
from sqlx.plan.as_of_join import AsOfJoinBuilder
from sqlx.plan.context import Context, FromRelation
from sqlx.plan.corrected_join import CorrectedJoinBuilder
from sqlx.plan.deduplicate import deduplicate_relation
from sqlx.plan.keyed_join import Inputs, any_right, with_late_columns, with_needed, with_row
from sqlx.plan.live_reads import check_live_left
from sqlx.plan.nodes import KeyedJoin, Source
from sqlx.plan.payload import needed_columns
from sqlx.plan.replaced_join import ReplacedJoin, restored
from sqlx.plan.subquery_text import merge_using, operand_start, read_by_left, with_clause
from sqlx.plan.table_changes import read_table
from sqlx.plan.table_join import TableJoinBuilder, merged_columns
from sqlx.plan.table_lookup import TableLookupBuilder
from sqlx.plan.table_reads import ShownTable
from sqlx.plan.updates import carried_by
from sqlx.sql.pipes import pipe_operators
from sqlx.sql.structure import Block, FromItem, Join, Level, Relation
from sqlx.sql.tokens import JOIN_WORDS, Span
from sqlx.sql.windows import bounded_windows

Builder = AsOfJoinBuilder | TableLookupBuilder | TableJoinBuilder
NewBuilder = Callable[[Context, Join, Inputs], Builder]


@dataclass
class FromCompiler:
    """Compiles the FROM clause of one block.

    Args:
        context: what the operators share.
        block: the block.

    Attributes:
        joins: the temporal joins that were replaced.
        before: the relations of the FROM items that are done.
        arrival: what the rows of the FROM item at hand carry along, where it is live.
        first_row_order: the same of the first item.
        table: what the joins of tables show that are done.
    """

    context: Context
    block: Block
    joins: list[ReplacedJoin] = field(default_factory=list)
    before: list[FromRelation] = field(default_factory=list)
    arrival: RowOrder | None = None
    first_row_order: RowOrder | None = None
    table: ShownTable = field(init=False)

    def compile(self) -> FromCompiler:
        """Compile its items, left to right."""
        self._check_piped_joins()
        if self.context.streaming and self.context.tables.reads(self.block):
            self._check_relation()
            shown = self._tables(self.block.items[0])
            self.context.tables.shown[self.block.span.start] = shown
            self.first_row_order = shown.carried
            return self
        for item in self.block.items:
            self.before = [*self.before, *self._item(item)]
            self.first_row_order = self.arrival if item is self.block.items[0] else self.first_row_order
        return self

    def _item(self, item: FromItem) -> list[FromRelation]:
        known = self._relation(item.relation)
        if item.relation.group is None or item.relation.alias is not None:
            self.arrival = self.context.live.row_order_of(item.relation)
        for join in item.joins:
            if join.as_of is not None:
                known = self._as_of(item, join, known)
                continue
            arrival = self.arrival
            right = self._relation(join.relation)
            self.arrival = arrival
            lookup = self._lookup(item, join, known) if self.context.streaming else None
            if lookup is not None:
                known = lookup
            elif "SEMI" not in join.kind and "ANTI" not in join.kind:
                known = [*known, *right]
        self._check_stream(item.relation)
        return known

    def _check_stream(self, relation: Relation) -> None:
        """What a live query takes for the rows of a stream is one.

        Raises:
            UnsupportedError: `TABLE.AS_STREAM`: it is a table of ours.
        """
        if not self.context.streaming or self.context.tables.picks_rows(self.block):
            return
        entry = self.context.table(relation.inner or relation, self.block.level)
        if entry is not None and entry.is_table:
            self.context.tables.refuse_as_stream(relation)

    def _relation(self, relation: Relation) -> list[FromRelation]:
        if relation.inner is not None:
            self._relation(relation.inner)
            deduplicate_relation(self.context, self.block, relation)
            return [FromRelation(RelationScope(relation.given_name, ()), relation)]
        if relation.kind == "group" and relation.group is not None:
            inner = self._item(relation.group)
            if relation.alias is None:
                return inner
        windows = None if self.context.streaming else bounded_windows(self.context.text, relation)
        read = windows or rewritten_read(self.context.text, relation, self.context.binder, self.context.in_order)
        if read is not None:
            self.context.edits.replace(*read)
        elif not self.context.streaming:
            self.context.live.read_bounded(relation, self.block.level)
        self._read_live(relation, self.block.level)
        return [FromRelation(RelationScope(relation.given_name, ()), relation)]

    def _give_names(self, item: FromItem, stop: int) -> None:
        """Relations without a name get one, once an operator needs to ask for their columns."""
        for relation in (item.relation, *(j.relation for j in item.joins if j.span.end <= stop)):
            if relation.group is not None and relation.alias is None:
                self._give_names(relation.group, stop)
            elif relation.visible_name is None and not self.context.edits.covers(relation.span.start):
                self.context.edits.insert(relation.span.end, f" AS {relation.given_name}")

    def _read_live(self, relation: Relation, level: Level) -> None:
        """Live, a temporal relation becomes a source of the plan; STREAM before one in a batch query is refused."""
        if self.context.streaming:
            self.context.live.read(relation, level)
        elif relation.stream and self.context.table(relation, level) is not None:
            what = f"`{'.'.join(relation.parts)}` is read with STREAM"
            raise UnsupportedError("UNSUPPORTED.STREAM_ON_SPARK", self.context.text, relation.body.pair, what=what)

    # operators

    def _as_of(
        self, item: FromItem, join: Join, known: list[FromRelation], builder: NewBuilder = AsOfJoinBuilder
    ) -> list[FromRelation]:
        corrections = self.context.tables.corrections if self.context.streaming else None
        if corrections is not None and builder is AsOfJoinBuilder:
            reason = "the left side of each AS OF join must be a stream by itself, or the result of such a join"
            span = join.as_of.head if join.as_of is not None else join.span
            raise UnsupportedError("UNSUPPORTED.EMIT_CORRECTIONS", self.context.text, span.pair, reason=reason)
        context = self.context
        reader = RightSideReader(context.binder, context.text, context.streaming, in_order=context.in_order)
        assert join.as_of is not None
        if join.relation.inner is not None:
            self._relation(join.relation)
        if join.relation.lateral:
            raise UnsupportedError("AS_OF_JOIN.RIGHT_SIDE", self.context.text, join.relation.span.pair, found="LATERAL")
        if join.as_of.spelling in ("as_of", "system_time"):
            right = reader.read(join.relation, self.block.level)
        else:
            right = any_right(self.context, reader, join.relation, self.block.level)
        return self._operator(item, join, known, right, builder)

    def _operator(
        self, item: FromItem, join: Join, known: list[FromRelation], right: RightSide, new_builder: NewBuilder
    ) -> list[FromRelation]:
        context, start = self.context, operand_start(self.block, item)
        if start != item.start:  # LATERAL looks back: what it sees goes into the operator
            known, self.before = [*self.before, *known], []
        relations = [(k.visible.name, k.relation) for k in known]
        check_names(context.text, [*relations, (join.relation.given_name, join.relation)])
        number = context.number(KeyedJoin)
        builder = self._builder(item, join, known, right, new_builder)
        inputs = builder.inputs
        if context.streaming and right.entry is not None:
            context.nodes.setdefault(context.binder.live(right.entry).name, Source(right.entry))
        node, further = builder.build(f"__sqlx_rel{number}")
        node = context.add(node)
        if context.streaming:  # bounded, the hidden column of the first relation goes through as it is
            self.arrival = _row_order_after(builder, f"__sqlx_op{number}")
        context.notes += builder.notes()
        conditions = [context.edits.render(c.span) for c in further]
        shown = [(k.visible.name, _shown(k.visible, inputs)) for k in known]
        reason = join.as_of.reason if join.as_of else None
        covered = Span(start, join.span.end)
        merging = merged_columns(builder) if isinstance(builder, TableJoinBuilder) else None
        context.edits.replace(covered, restored(number, node, shown, inputs, conditions, reason, merging))
        columns = right.columns + ((Column(reason, "string"),) if reason else ())
        merged = frozenset(t.name.lower() for t in join.using)
        seen = (*inputs.left, RelationScope(inputs.right_name, columns, merged=merged))
        seen, own = (merging.seen(seen), merging.columns) if merging is not None else (seen, ())
        if isinstance(builder, (CorrectedJoinBuilder, TableJoinBuilder)):
            carried = carried_by(node.columns, f"__sqlx_op{number}", is_sequence=node.common_sequence)
            self.table = ShownTable(node.table, builder.keys, seen, carried=carried if context.carries else None)
        self.joins = [s for s in self.joins if not covered.start <= s.span.start < covered.end]
        self.joins.append(ReplacedJoin(covered, number, (*node.columns, *own), seen, item is self.block.items[0]))
        return [FromRelation(relation) for relation in seen]

    def _builder(
        self, item: FromItem, join: Join, known: list[FromRelation], right: RightSide, new_builder: NewBuilder
    ) -> Builder:
        """The join's builder with its condition read, and its inputs down to the columns that are needed."""
        try:
            inputs = self._inputs(item, join, known, right)
            builder = new_builder(self.context, join, inputs)
            builder.read()
        except PySparkException as error:
            raise explain_binding_error(error, self.context.text, self.block, join, self.context.binder) from None
        spans = [c.span for c in builder.parts.further]
        shown = RelationScope(inputs.right_name, right.columns)
        needed = needed_columns(self.context.text, self.block, join, spans, inputs.left, shown)
        if self.context.carries:
            needed = with_late_columns(needed, join, inputs)
        elif self.arrival is not None and not self.context.streaming:
            needed = with_row(needed, inputs)
        builder.inputs = with_needed(inputs, needed, keeps_names=self.context.carries and builder.outlives_text)
        return builder

    def _inputs(self, item: FromItem, join: Join, known: list[FromRelation], right: RightSide) -> Inputs:
        span = Span(operand_start(self.block, item), join.span.start)
        for other in self.block.items[: self.block.items.index(item) + 1] if item in self.block.items else [item]:
            if other.start >= span.start:
                self._give_names(other, span.end)
        prefix = with_clause(self.context.text, self.context.edits, self.block.level, span, *read_by_left(join))
        left_from = self.context.edits.render(span).rstrip()
        left = merge_using(self.context.text, item, tuple(self._visible(k, prefix, left_from) for k in known), span.end)
        arrival = None
        if self.context.carries:
            arrival = check_live_left(self.context.text, item.relation.body, prefix + left_from, self.arrival)
        return Inputs(prefix, left_from, left, (), right, join.relation.given_name, (), arrival=arrival)

    def _visible(self, known: FromRelation, prefix: str, left_from: str) -> RelationScope:
        if known.visible.columns:
            return known.visible
        sql = f"{prefix}SELECT `{known.visible.name}`.* FROM {left_from}"
        relation = known.relation
        columns = self.context.bound(sql, relation) if relation is not None else self.context.columns_of(sql)
        named = relation is not None and relation.alias is None
        qualifiers = relation.parts[:-1] if relation is not None and named else ()
        return RelationScope(known.visible.name, self.context.shown(columns), qualifiers)

    def _lookup(self, item: FromItem, join: Join, known: list[FromRelation]) -> list[FromRelation] | None:
        """Live: a plain join of a stream with an upsert table looks up the row there is now (6.2)."""
        context, level = self.context, self.block.level
        entry = context.table(join.relation, level)
        if entry is None and not context.tables.is_looked_up(join.relation, level):
            return None
        if entry is not None and entry.kind == "stream":
            hint = "Join the stream with a table: CREATE VERSIONED TABLE or CREATE UPSERT TABLE."
            what = "A join of two streams"
            before = Span(operand_start(self.block, item), join.span.start)
            prefix = with_clause(context.text, context.edits, level, before)
            if not context.reads(prefix + context.edits.render(before)):
                what, hint = "A stream behind rows that are no stream", "Begin with the stream: FROM s JOIN …."
            raise UnsupportedError("UNSUPPORTED.STREAM_FRAGMENT", context.text, join.span.pair, what=what, hint=hint)
        right = RightSideReader(context.binder, context.text, streaming=True, kind="upsert").read(join.relation, level)
        return self._operator(item, join, known, right, TableLookupBuilder)

    def _check_piped_joins(self) -> None:
        """A pipe operator is Spark's: it would read a definition of ours as it is now, and never again.

        Raises:
            UnsupportedError: one joins live rows with a definition.
        """
        for operator in pipe_operators(self.context.text, self.block.tail)[1:] if self.context.streaming else ():
            spelled = [token.word for token in operator]
            if spelled[0] not in JOIN_WORDS or "JOIN" not in spelled:
                continue
            behind = operator[spelled.index("JOIN") + 1 :]
            is_streamed = len(behind) > 1 and behind[0].word == "STREAM" and behind[1].is_name
            chain = next(name_chains(behind[is_streamed:]), None)
            if chain is None or chain[0] is not behind[is_streamed]:  # a query in parentheses
                continue
            span = Span(chain[0].start, chain[-1].end)
            relation = Relation("name", span, span, tuple(token.name for token in chain))
            if self.context.table(relation, self.block.level) is not None:
                what = f"A pipe operator that joins with `{relation.given_name}`"
                words = {"what": what, "hint": "Join in the FROM clause."}
                raise UnsupportedError("UNSUPPORTED.STREAM_FRAGMENT", self.context.text, span.pair, **words)

    # tables

    def _check_relation(self) -> None:
        """What reads a table that changes is the query, or a relation of it.

        Raises:
            UnsupportedError: it is a subquery in an expression.
        """
        level, tables = self.block.level, self.context.tables
        named = {id(cte.query) for around in tables.root.walk() for cte in around.ctes}
        relations = {id(relation.query) for relation in tables.root.relations()}
        if level.parent is not None and id(level) not in named | relations:
            raise UnsupportedError("TABLE.SUBQUERY", self.context.text, self.block.span.pair)

    def _tables(self, item: FromItem) -> ShownTable:
        """Compile the FROM clause of a block that reads tables."""
        known = self._stream(item) if self.context.tables.is_stream_first(self.block) else self._table(item.relation)
        own = frozenset({item.relation.given_name.lower()})
        relations = [FromRelation(known.relations[0], item.relation)]
        for join in item.joins:
            self.arrival = known.carried
            if join.as_of is not None:
                corrected = partial(CorrectedJoinBuilder, left=known if known.keys else None, own=own)
                relations = self._as_of(item, join, relations, corrected)
                known = self.table
                continue
            right = self._table(join.relation)
            builder = partial(TableJoinBuilder, left=known, right=right)
            relations = self._operator(item, join, relations, self._side(join.relation, right), builder)
            known = self.table
        return known

    def _stream(self, item: FromItem) -> ShownTable:
        """Read the stream whose rows the results of a block belong to; as a table it has no key."""
        (known,) = self._relation(item.relation)
        carried = self.context.live.row_order_of(item.relation)
        return ShownTable(item.relation.given_name, (), (known.visible,), carried=carried)

    def _table(self, relation: Relation) -> ShownTable:
        """Read a table: a definition by its changes, a query as it was compiled."""
        context, level = self.context, self.block.level
        inner = level.query_of(relation)
        if inner is None:
            return read_table(context, self.block, relation)
        prefix = with_clause(context.text, context.edits, level, relation.span)
        name = relation.given_name
        alias = "" if relation.visible_name is not None else f" AS {name}"
        columns = context.columns_of(f"{prefix}SELECT `{name}`.* FROM {context.edits.render(relation.span)}{alias}")
        columns = context.shown(columns)
        query = context.tables.results[inner.blocks[0].span.start]
        found = replace(query.as_relation(RelationScope(name, columns)), name=relation.visible_name or "(subquery)")
        if query.carried is None:
            return found
        is_named = relation.visible_name is not None or self.block.items[0].joins  # these give names to their operands
        carried = query.carried.of(name if is_named else "")
        context.live.show(relation, carried)
        return replace(found, carried=carried)

    def _side(self, relation: Relation, table: ShownTable) -> RightSide:
        """A table as the right side of a join."""
        context = self.context
        prefix = with_clause(context.text, context.edits, self.block.level, relation.span)
        sql = f"{prefix}SELECT * FROM {context.edits.render(relation.span)}"
        shown = [min((column for _, column in key.names), default=None) for key in table.keys]
        read = table.read
        names = [column or "its key" for column in shown] if read is None else [read.names[n] for n in read.keys]
        keys = tuple(zip(names, shown, strict=True))
        return RightSide(sql, table.relations[0].columns, (), keys, None, table.name)


def is_operator(context: Context, join: Join, level: Level) -> bool:
    """Whether a join of a live query is a temporal one."""
    if join.as_of is not None:
        return True
    entry = context.table(join.relation, level)
    return entry.kind == "upsert" if entry is not None else context.tables.is_looked_up(join.relation, level)


def _row_order_after(builder: Builder, alias: str) -> RowOrder | None:
    """What the rows of a join carry along; what looked a row up has the time that its stream showed, or none."""
    before, after = builder.inputs.arrival, builder.inputs.row_order_after(alias)
    if before is None or after is None or before.time is not None or not isinstance(builder, TableLookupBuilder):
        return after
    return replace(after, time=None)


def _shown(visible: RelationScope, inputs: Inputs) -> list[tuple[str, Column]]:
    named = zip(inputs.names[0], inputs.left_needed, strict=True)
    return [(name, c) for name, (relation, c) in named if relation.name == visible.name]
