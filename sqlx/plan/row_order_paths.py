"""Which relations and blocks lie between a stream and an operator: they hand on what its rows carry along.

A subquery or a common table expression between them gets one more item in its select list, a hidden column. Stars
never show it at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from sqlx.bind.right_side import own_stars, qualifier_of, stars
from sqlx.plan.select_list import groups
from sqlx.sql.parser import read_tail
from sqlx.sql.pipes import pipe_operators
from sqlx.sql.structure import Block, Join, Level, Relation
from sqlx.sql.tokens import Span, Token, tokenize_span

_AGGREGATES = frozenset("DISTINCT OVER".split())
_TAILS = frozenset("GROUP HAVING LIMIT OFFSET QUALIFY WINDOW UNION EXCEPT INTERSECT MINUS LATERAL".split())
#: Pipe operators that make one row of each, and keep the columns that they do not name (SELECT does not).
_PASSING = frozenset("WHERE EXTEND SET DROP AS SELECT".split())


@dataclass
class RowOrderPaths:
    """Which relations and blocks of a statement lie between a stream and an operator.

    Args:
        text: the statement.
        root: its structure.
        order_type: what the rows of the definition of a name carry along, in words that are equal where it is of one
            kind; None where there is no such definition, or nothing is known.
        is_bounded: the query is: operators show what their rows carry as it is then.

    Attributes:
        relations: the spans of relations that show the hidden column.
        blocks: where blocks begin that hand it on.
        selects: where pipe operators `|> SELECT` end that hand it on, by where their block begins.
        piped: where deduplications begin that are pipe operators and read it.
    """

    text: str
    root: Level
    order_type: Callable[[tuple[str, ...]], str | None]
    is_bounded: bool = False
    relations: set[tuple[int, int]] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    selects: dict[int, set[int]] = field(default_factory=dict)
    piped: set[int] = field(default_factory=set)

    def find(self, is_operator: Callable[[Join, Level], bool]) -> None:
        """Walk from every temporal join down its left side, and from every grouping, to the stream that feeds it."""
        for level in self.root.walk():
            self._find_piped(level)
            for block in level.blocks:
                if block.items and groups(self.text, block, read_tail(self.text, block)):
                    self.down(block.items[0].relation, level)
                for item in block.items:
                    if any(is_operator(join, level) for join in item.joins):
                        self.down(item.relation, level)
                    for relation in (item.relation, *(join.relation for join in item.joins)):
                        if relation.inner is not None:
                            self.down(relation.inner, level)

    def find_deduplications(self) -> None:
        """The same of deduplications alone, and of those whose input is no stream by itself."""
        for level in self.root.walk():
            self._find_piped(level)
            relations = [r for block in level.blocks for item in block.items
                         for r in (item.relation, *(join.relation for join in item.joins))]  # fmt: skip
            for relation in relations:
                if relation.inner is not None and (relation.inner.kind != "name" or level.cte_of(relation.inner)):
                    self.down(relation.inner, level)

    def _find_piped(self, level: Level) -> None:
        """From the deduplications among the pipe operators of a query to its first relation."""
        if len(level.blocks) != 1 or level.recursive or not level.pipes:
            return
        block = level.blocks[0]
        starts = [block.tail.start, *(pipe.span.end for pipe in level.pipes)]
        for start, pipe in zip(starts, level.pipes, strict=False):
            between = Span(start, pipe.span.start)
            if not self._is_row_by_row(block, between):
                break
            self.piped.add(pipe.span.start)
            self._add_block(block, between)
        if level.pipes[0].span.start in self.piped:
            self.down(block.items[0].relation, level)

    def _add_block(self, block: Block, tail: Span) -> None:
        self.blocks.add(block.span.start)
        ends = {tokens[-1].end for tokens in pipe_operators(self.text, tail)[1:] if _names_columns(tokens)}
        self.selects.setdefault(block.span.start, set()).update(ends)

    def down(self, relation: Relation, level: Level) -> None:
        """From a relation that is read with its hidden column to the one after it."""
        if relation.columns:  # the alias names all columns, and the hidden one would be one too many
            return
        if relation.inner is not None:  # its own walk goes on from here
            self.relations.add(relation.span.pair)
            if self.is_bounded:
                self.down(relation.inner, level)
            return
        inner = relation.query or self._only_use(relation, level)
        if inner is None or self.into(inner):
            self.relations.add(relation.span.pair)

    def into(self, query: Level) -> bool:
        """From a query whose rows are read with what they carry along to what it reads; whether it can hand that on."""
        if self._is_final(query):  # the grouping's own walk goes on from here
            self.blocks.add(query.blocks[0].span.start)
        elif self._hands_on(query) or self._is_one_order(query):
            for block in query.blocks:
                self._add_block(block, block.tail)
                self.down(block.items[0].relation, query)
        else:
            return False
        return True

    def _is_one_order(self, level: Level) -> bool:
        """Whether the query is a UNION ALL of streams whose rows carry the same along, and so have one order."""
        between = [Span(a.span.end, b.span.start) for a, b in pairwise(level.blocks)]
        if not between or level.recursive or level.pipes:
            return False
        if any([t.word for t in tokenize_span(self.text, span)] != ["UNION", "ALL"] for span in between):
            return False
        types = {self._order_of(block, level) for block in level.blocks}
        return len(types) == 1 and None not in types

    def _order_of(self, block: Block, level: Level) -> str | None:
        """What a branch's rows carry along; None where they do not, or the hidden column would not be last."""
        if block.pipe or not self._is_row_by_row(block, block.tail) or block.items[0].joins or len(block.items) > 1:
            return None
        selected = tokenize_span(self.text, block.select)
        if [star for star in own_stars(selected) if star is not selected[-1]]:
            return None
        relation = block.items[0].relation
        if relation.columns or relation.inner is not None:
            return None
        inner = relation.query or self._only_use(relation, level)
        if inner is not None:
            return self._order_of(inner.blocks[0], inner) if self._hands_on(inner) else None
        is_definition = relation.kind == "name" and level.cte_of(relation) is None
        return self.order_type(relation.parts) if is_definition else None

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
        if len(level.blocks) != 1 or level.recursive or level.pipes:
            return False
        return self._is_row_by_row(level.blocks[0], level.blocks[0].tail)

    def _is_row_by_row(self, block: Block, tail: Span) -> bool:
        if not (block.pipe or block.select is not None) or not block.items:
            return False
        selected = {t.word for t in tokenize_span(self.text, block.select)}
        clauses, *operators = pipe_operators(self.text, tail)
        if {t.word for t in clauses} & _TAILS or selected & _AGGREGATES:
            return False
        return all(map(_passes, operators))


def _passes(operator: tuple[Token, ...]) -> bool:
    """Whether a pipe operator hands each row on; of `r.*` nobody could tell whether it shows the hidden column."""
    if operator[0].word not in _PASSING or {t.word for t in operator} & _AGGREGATES:
        return False
    found = own_stars(operator) if operator[0].word == "SELECT" else []
    return all(operator[operator.index(star) - 1].text != "." for star in found)


def _names_columns(operator: tuple[Token, ...]) -> bool:
    """Whether it is a SELECT that shows nothing but what it names."""
    return operator[0].word == "SELECT" and not own_stars(operator)


def shows_row(text: str, block: Block, relation: Relation) -> bool:
    """Whether a star of the block's select list shows the hidden column already."""
    tokens = tokenize_span(text, block.select)
    shown = ("", (relation.visible_name or "").lower())
    return any(qualifier_of(tokens, tokens.index(star)) in shown for star in own_stars(tokens))


def starred_arguments(text: str, block: Block) -> list[tuple[Token, str, Token | None]]:
    """The stars that are arguments, as in ``struct(s.*)``: each with what is before the dot, and its EXCEPT's "("."""
    inner = [level.span for level in block.level.children if level.blocks]
    found: list[tuple[Token, str, Token | None]] = []
    for span in (block.select, block.tail):
        tokens = tuple(t for t in tokenize_span(text, span) if not any(s.start <= t.start < s.end for s in inner))
        own = own_stars(tokens)
        for at in (tokens.index(star) for star in stars(tokens) if star not in own):
            is_excepted = [t.text.upper() for t in tokens[at + 1 : at + 3]] == ["EXCEPT", "("]
            found.append((tokens[at], qualifier_of(tokens, at), tokens[at + 2] if is_excepted else None))
    return found
