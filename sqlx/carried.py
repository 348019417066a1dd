"""Handing the hidden column of live rows on, from a stream to the operator that reads it.

A subquery or a common table expression between them gets one more item in its select list. Stars never show it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlx.dialect import tokenize_span
from sqlx.right_side import stars
from sqlx.selected import groups
from sqlx.structure import Block, Join, Level, Relation
from sqlx.tail_reader import read_tail

_AGGREGATES = frozenset("DISTINCT OVER".split())
_TAILS = frozenset("GROUP HAVING LIMIT OFFSET QUALIFY WINDOW UNION EXCEPT INTERSECT MINUS LATERAL".split())


@dataclass
class Carried:
    """Which relations and blocks of a statement lie between a stream and an operator.

    Args:
        text: the statement.
        root: its structure.

    Attributes:
        relations: the spans of relations that show the hidden column.
        blocks: where blocks begin whose select lists hand it on.
    """

    text: str
    root: Level
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
        """From a relation that is read with its hidden column to the one behind it."""
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
        if len(level.blocks) != 1 or level.recursive:
            return False
        block = level.blocks[0]
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
