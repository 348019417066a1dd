"""Reads of definitions in a live query: each becomes a source of the plan, and shows what its rows carry along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from catalog.entries import Entry
from sqlx.bind.binder import ROW, Binder, LiveRead, RowOrder
from sqlx.bind.reads import live_read
from sqlx.bind.right_side import stars
from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import PlanNode, Source
from sqlx.plan.select_list import groups
from sqlx.sql.edits import Edits
from sqlx.sql.parser import read_tail
from sqlx.sql.structure import Block, Join, Level, Relation
from sqlx.sql.tokens import Span, quoted, tokenize_span

# Handing the hidden column of live rows on, from a stream to the operator that reads it.
#
# A subquery or a common table expression between them gets one more item in its select list. Stars never show it.


_AGGREGATES = frozenset("DISTINCT OVER".split())
_TAILS = frozenset("GROUP HAVING LIMIT OFFSET QUALIFY WINDOW UNION EXCEPT INTERSECT MINUS LATERAL".split())


@dataclass
class RowOrderPaths:
    """Which relations and blocks of a statement lie between a stream and an operator.

    Args:
        text: the statement.
        root: its structure.
        entry: the definition of a name, or None.

    Attributes:
        relations: the spans of relations that show the hidden column.
        blocks: where blocks begin whose select lists hand it on.
    """

    text: str
    root: Level
    entry: Callable[[tuple[str, ...]], Entry | None]
    relations: set[tuple[int, int]] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)

    def find(self, is_operator: Callable[[Join, Level], bool]) -> None:
        """Walk from every temporal join down its left side, and from every grouping, to the stream that feeds it."""
        for level in self.root.walk():
            for block in level.blocks:
                if block.items and groups(self.text, block, read_tail(self.text, block)):
                    self.down(block.items[0].relation, level)
                for item in block.items:
                    if any(is_operator(join, level) for join in item.joins):
                        self.down(item.relation, level)
                    for relation in (item.relation, *(join.relation for join in item.joins)):
                        if relation.inner is not None:
                            self.down(relation.inner, level)

    def down(self, relation: Relation, level: Level) -> None:
        """From a relation that is read with its hidden column to the one after it."""
        if relation.columns:  # the alias names all columns, and the hidden one would be one too many
            return
        if relation.inner is not None:  # its own walk goes on from here
            self.relations.add(relation.span.pair)
            return
        inner = relation.query or self._only_use(relation, level)
        if inner is None:
            self.relations.add(relation.span.pair)
        elif self._is_final(inner):  # the grouping's own walk goes on from here
            self.relations.add(relation.span.pair)
            self.blocks.add(inner.blocks[0].span.start)
        elif self._hands_on(inner):
            block = inner.blocks[0]
            self.relations.add(relation.span.pair)
            self.blocks.add(block.span.start)
            self.down(block.items[0].relation, inner)
        elif self._is_one_sequence(inner):
            self.relations.add(relation.span.pair)
            for block in inner.blocks:
                self.blocks.add(block.span.start)
                self.down(block.items[0].relation, inner)

    def _is_one_sequence(self, level: Level) -> bool:
        """Whether the query is a UNION ALL of streams whose rows have one order, by a SEQUENCE BY of one type."""
        between = [Span(a.span.end, b.span.start) for a, b in pairwise(level.blocks)]
        if not between or level.recursive:
            return False
        if any([t.word for t in tokenize_span(self.text, span)] != ["UNION", "ALL"] for span in between):
            return False
        types = {self._sequence_of(block, level) for block in level.blocks}
        return len(types) == 1 and None not in types

    def _sequence_of(self, block: Block, level: Level) -> str | None:
        """The type of a branch's sequence; None where its rows have none, or the hidden column would not be last."""
        if not self._is_row_by_row(block) or block.items[0].joins or len(block.items) > 1:
            return None
        selected = tokenize_span(self.text, block.select)
        if [star for star in stars(selected) if star is not selected[-1]]:
            return None
        relation = block.items[0].relation
        if (
            relation.columns
            or relation.inner is not None
            or relation.kind != "name"
            or level.cte_of(relation) is not None
        ):
            return None
        entry = self.entry(relation.parts)
        if entry is None or entry.sequence_by is None:
            return None
        named = entry.sequence_by.replace("`", "").lower()
        return next((column.type for column in entry.columns if column.name.lower() == named), None)

    def _only_use(self, relation: Relation, level: Level) -> Level | None:
        """The query of a common table expression that is read here and nowhere else."""
        cte = level.cte_of(relation)
        if cte is None or cte.columns or sum(1 for r in self.root.relations() if r.parts == relation.parts) > 1:
            return None
        return cte.query

    def _is_final(self, level: Level) -> bool:
        """Whether the query gives final results of groups: each has an event time, and a row that closed it."""
        if len(level.blocks) != 1 or not level.blocks[0].items:
            return False
        tail = read_tail(self.text, level.blocks[0])
        return tail.emit is not None and tail.emit.kind == "final"

    def _hands_on(self, level: Level) -> bool:
        """Whether each row of the query is made of one row of its first relation."""
        return len(level.blocks) == 1 and not level.recursive and self._is_row_by_row(level.blocks[0])

    def _is_row_by_row(self, block: Block) -> bool:
        if block.pipe or block.select is None or not block.items:
            return False
        tail = {t.word for t in tokenize_span(self.text, block.tail)}
        selected = {t.word for t in tokenize_span(self.text, block.select)}
        return not tail & _TAILS and not selected & _AGGREGATES


def shows_row(text: str, block: Block, relation: Relation) -> bool:
    """Whether a star of the block's select list shows the hidden column already."""
    tokens = tokenize_span(text, block.select)
    for star in stars(tokens):
        at = tokens.index(star)
        qualifier = tokens[at - 2].name.lower() if at >= 2 and tokens[at - 1].text == "." else None
        if qualifier is None or qualifier == (relation.visible_name or "").lower():
            return True
    return False


#: Under such names queries read live sources and the results of operators.
_LIVE_NAMES = ("__sqlx_live", "__sqlx_rel", "__sqlx_dedup", "__sqlx_agg", "__sqlx_tab")


def check_live_left(text: str, place: Span, left: str, arrival: RowOrder | None) -> RowOrder:
    """What the (left) input of a live operator carries along.

    Raises:
        UnsupportedError: no part of it is live.
    """
    if not any(name in left for name in _LIVE_NAMES):
        raise UnsupportedError("STREAMING.LEFT_NOT_LIVE", text, place.pair)
    return arrival or RowOrder()


@dataclass
class LiveReads:
    """The live reads of one statement.

    Args:
        text: the statement.
        binder: names and types.
        edits: of the statement.
        nodes: of the plan.
    """

    text: str
    binder: Binder
    edits: Edits
    nodes: dict[str, PlanNode]
    _carried: RowOrderPaths | None = None
    _shown: dict[tuple[int, int], RowOrder] = field(default_factory=dict)
    _handed: dict[int, RowOrder] = field(default_factory=dict)

    def start(self, root: Level, is_operator: Callable[[Join, Level], bool]) -> None:
        """Find out which relations must show what their rows carry along."""
        self._carried = RowOrderPaths(self.text, root, self.binder.entry)
        self._carried.find(is_operator)

    def read(self, relation: Relation, level: Level) -> None:
        """A temporal relation becomes a source of the plan; one that hands another's rows on shows what they carry."""
        cte = level.cte_of(relation)
        inner = relation.query if cte is None else cte.query
        if inner is not None:
            self._through(relation, inner)
            return
        entry = self.binder.entry(relation.parts) if relation.kind == "name" else None
        if entry is None:
            return
        live = live_read(self.binder, entry, self.text, relation.body)
        self.nodes.setdefault(live.name, Source(entry))
        span = Span(relation.span.start, relation.body.end) if relation.stream else relation.body
        self.edits.replace(span, self._text(relation, entry, live))
        if relation.alias is None and live.arrival is not None:  # Spark takes an alias after WATERMARK and its kin
            end = span.end if relation.extra is None else relation.extra.end
            self.edits.insert(end, f" AS {quoted(relation.parts[-1])}")

    def _through(self, relation: Relation, inner: Level) -> None:
        handed = self._handed.get(inner.blocks[0].span.start) if inner.blocks else None
        if handed is not None and self._is_carried(relation):
            self._shown[relation.span.pair] = handed.of(relation.visible_name or "")

    def _is_carried(self, relation: Relation) -> bool:
        return self._carried is not None and relation.span.pair in self._carried.relations

    def _text(self, relation: Relation, entry: Entry, live: LiveRead) -> str:
        if live.arrival is None:
            return live.name
        if self._is_carried(relation):
            self._shown[relation.span.pair] = live.arrival.of(relation.visible_name or "")
            return live.name
        columns = ", ".join(quoted(column.name) for column in entry.columns)
        return f"(SELECT {columns} FROM {live.name})"

    def row_order_of(self, relation: Relation) -> RowOrder | None:
        """What the rows of a relation carry along, as far as it shows it."""
        return self._shown.get(relation.span.pair)

    def row_order_after(self, relation: Relation, before: RowOrder | None) -> RowOrder | None:
        """What the result of a deduplication carries along, where an operator reads it: noted as shown by it."""
        if before is None or not self._is_carried(relation):
            return None
        found = before.behind("")
        self._shown[relation.span.pair] = found.of(relation.given_name)
        return found

    def show(self, relation: Relation, carried: RowOrder) -> None:
        """Note what a relation shows of what its rows carry along."""
        self._shown[relation.span.pair] = carried

    def hand_on(self, block: Block, arrival: RowOrder | None, *, is_table: bool = False) -> None:
        """Let a block between a stream and an operator, and each that shows a table, show what its rows carry along."""
        if arrival is None or self._carried is None or not (is_table or block.span.start in self._carried.blocks):
            return
        assert block.select is not None, "only blocks with a select list are carried"
        if groups(self.text, block, read_tail(self.text, block)):
            return  # its result has an order of its own: hand_on_result
        first = block.items[0]
        is_shown = not any(j.as_of for j in first.joins) and self.row_order_of(first.relation) == arrival
        if not (is_shown and shows_row(self.text, block, first.relation)):
            self.edits.insert(block.select.end, row_item(arrival))
        self._handed[block.span.start] = arrival

    def hand_on_result(self, block: Block, arrival: RowOrder | None) -> str:
        """A select list item with what the finals of a block carry along, where an operator reads them; else ""."""
        if arrival is None or self._carried is None or block.span.start not in self._carried.blocks:
            return ""
        found = self._handed[block.span.start] = arrival.behind("")
        return row_item(found)


def row_item(carried: RowOrder) -> str:
    """The hidden column as one more item of a select list."""
    return f", {carried.struct} AS {ROW}"
