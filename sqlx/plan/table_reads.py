"""Blocks of a live query whose relations are tables: their rows change, each known by its key.

A block reads tables when its first relation is one and all others are joined to it and are tables too. A table is a
definition of ours, or a subquery or a common table expression whose block reads tables or groups a stream.

Why so: docs/design/20261123_tables.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from catalog.entries import Entry
from sqlx.bind.binder import RowOrder
from sqlx.bind.right_side import own_stars, qualifier_of
from sqlx.bind.scope import RelationScope, name_chains
from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import TableChanges
from sqlx.plan.select_list import Item, groups
from sqlx.sql.parser import read_tail
from sqlx.sql.structure import Block, EmitClause, FromItem, Join, Level, Relation, relations_of
from sqlx.sql.tokens import Token

Names = frozenset[tuple[str, str]]
#: What messages call the key of results that are corrected: no column shows it.
ROW_OF_STREAM = "the row of the stream that a result belongs to"


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key of a table, as a FROM clause shows it.

    Attributes:
        names: relations and columns, in lower case, each of which is it in every row.
        either: after a FULL JOIN those of which the first that is not NULL is it; `names` is empty then.
        label: what messages call it where a query between has left it out.
    """

    names: Names
    either: Names = frozenset()
    label: str = "the key"

    @property
    def shown(self) -> str:
        """How a query selects it."""
        if self.names:
            return min(column for _, column in self.names)
        either = ", ".join(f"{relation}.{column}" for relation, column in sorted(self.either))
        return f"coalesce({either})" if self.either else self.label


@dataclass(frozen=True)
class ShownTable:
    """What a FROM clause shows of tables.

    Attributes:
        name: what messages call it.
        keys: the columns of its key, in the order in which its updates have them.
        relations: what the query sees in it.
        is_versioned: nothing but a versioned table is behind it, with or without filters (semantics.md 3.1).
        read: the changes of the definition, where it is one as it is.
        carried: what its rows carry along, live on Spark; None everywhere else.
    """

    name: str
    keys: tuple[KeyColumn, ...]
    relations: tuple[RelationScope, ...]
    is_versioned: bool = False
    read: TableChanges | None = None
    carried: RowOrder | None = None

    def places(self, items: list[Item], *, together: bool = False) -> list[list[int]]:
        """Per column of the key the places in a select list that show it as it is.

        Args:
            items: of the select list.
            together: after a FULL JOIN the columns of both sides show it, too.
        """
        shown = [self._columns(item) for item in items]
        if None in shown:
            return [[] for _ in self.keys]
        columns = [names for found in shown for names in found or ()]
        found = []
        for key in self.keys:
            whole = [place for place, shown in enumerate(columns) if self._is_key(key, shown)]
            parts = [place for place, shown in enumerate(columns) if len(shown) == 1 and shown <= key.either]
            is_shown = frozenset[tuple[str, str]]().union(*(columns[place] for place in parts)) == key.either
            found.append(whole or (parts if together and is_shown and key.either else []))
        return found

    def _columns(self, item: Item) -> list[Names] | None:
        """Per column that an item shows what it may be called: a star shows all, an expression none that has a name.

        None where nobody can tell how many columns it shows.
        """
        star = next(iter(own_stars(item.tokens)), None)
        if star is not None:
            return self._starred(item.tokens, item.tokens.index(star))
        inside = item.tokens[2:-1] if _is_call(item.tokens, "COALESCE") else item.tokens
        is_plain = all(token.is_name or token.text in (".", ",") for token in inside)
        return [self._meant(name_chains(inside)) if is_plain else frozenset()]

    def _starred(self, tokens: tuple[Token, ...], at: int) -> list[Names] | None:
        asked = qualifier_of(tokens, at)
        relations = [r for r in self.relations if asked in ("", r.name.lower())]
        behind = tokens[at + 1 :]
        if not relations or (behind and behind[0].word != "EXCEPT"):
            return None
        hidden = {token.name.lower() for token in behind[1:] if token.is_name}
        merged = {name for r in relations for name in r.merged} if not asked else set()
        owners = [(r, c) for name in sorted(merged) for r in relations for c in r.columns
                  if c.name.lower() == name and name not in r.merged]  # fmt: skip
        rest = [(r, c) for r in relations for c in r.columns if c.name.lower() not in merged]
        columns = [(r.name.lower(), c.name.lower()) for r, c in [*owners, *rest]]
        return [frozenset({shown}) for shown in columns if shown[1] not in hidden]

    def _meant(self, chains: Iterable[list[Token]]) -> Names:
        found: set[tuple[str, str]] = set()
        for chain in chains:
            column = chain[-1].name.lower()
            names = [r.name.lower() for r in self.relations if r.column(column) and column not in r.merged]
            asked = chain[-2].name.lower() if len(chain) > 1 else (names[0] if names else "")
            found.add((asked, column))
        return frozenset(found)

    def _is_key(self, key: KeyColumn, shown: Names) -> bool:
        return (len(shown) == 1 and shown <= key.names) or (bool(key.either) and shown == key.either)


def _is_call(tokens: tuple[Token, ...], name: str) -> bool:
    return len(tokens) > 3 and tokens[0].word == name and tokens[1].text == "(" and tokens[-1].text == ")"


@dataclass(frozen=True)
class TableQuery:
    """A block whose rows are a table.

    Attributes:
        places: per column of the key the places of its output columns that show it as it is.
        labels: what messages call those columns.
        is_versioned: see `ShownTable`.
        carried: what its rows carry along, live on Spark, for `RowOrder.of`.
    """

    places: tuple[tuple[int, ...], ...]
    labels: tuple[str, ...]
    is_versioned: bool = False
    carried: RowOrder | None = None

    def as_relation(self, scope: RelationScope) -> ShownTable:
        """What a relation shows that is this query."""
        name, columns = scope.name.lower(), [column.name.lower() for column in scope.columns]
        keys = tuple(
            KeyColumn(frozenset((name, columns[place]) for place in places), label=label)
            for places, label in zip(self.places, self.labels, strict=True)
        )
        return ShownTable(scope.name, keys, (scope,), self.is_versioned)


def joins_or_groups(text: str, root: Level) -> bool:
    """Whether a query shows more than rows of one relation by themselves, in any of its blocks."""
    blocks = [block for level in root.walk() for block in level.blocks]
    return any(
        any(item.joins for item in block.items) or groups(text, block, read_tail(text, block)) for block in blocks
    )


@dataclass
class TableBlocks:
    """Which blocks of a statement read tables, and what those show that were compiled.

    Args:
        text: the statement.
        root: its structure.
        entry: the definition of a name, or None.

    Attributes:
        shown: by where a block begins, what its FROM clause shows.
        results: by where a block begins, what the block itself is to those that read it.
        corrections: the statement's EMIT CORRECTIONS; AS OF joins have tables as their results then.
    """

    text: str
    root: Level
    entry: Callable[[tuple[str, ...]], Entry | None]
    shown: dict[int, ShownTable] = field(default_factory=dict)
    results: dict[int, TableQuery] = field(default_factory=dict)
    corrections: EmitClause | None = field(init=False)
    _rows: set[int] = field(init=False, default_factory=set)
    _looked_up: set[int] = field(init=False, default_factory=set)
    _followed: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        emits = (read_tail(self.text, block).emit for block in self.root.blocks)
        self.corrections = next((emit for emit in emits if emit is not None and emit.kind == "corrections"), None)
        self._rows = self._under_as_of()
        self._rows |= self._under_streams()
        read = [inner.blocks[0] for inner in self._read_as_tables()]
        self._followed = {block.span.start for block in read if not self.reads(block)}

    @property
    def shows_every_update(self) -> bool:
        """Whether no block joins or groups, so that also updates of rows that are not current go out (4.3)."""
        return not joins_or_groups(self.text, self.root)

    def reads(self, block: Block) -> bool:
        """Whether a block reads tables and nothing else."""
        if block.pipe or block.select is None or len(block.items) != 1 or block.span.start in self._rows:
            return False
        if not self.is_stream_first(block) and any(join.as_of is not None for join in block.items[0].joins):
            return False
        return all(self._is_table(relation, block.level) for relation in self._plain(block))

    def _plain(self, block: Block) -> list[Relation]:
        """The relations of a block but a stream whose results it corrects, and what that picks versions of."""
        item = block.items[0]
        first = [] if self.is_stream_first(block) else [item.relation]
        return [*first, *(join.relation for join in item.joins if join.as_of is None)]

    def is_followed(self, block: Block) -> bool:
        """Whether a block groups a stream, and the one around it reads its groups as a table."""
        return block.span.start in self._followed

    def _gives(self, block: Block) -> bool:
        """Whether the rows of a block are a table."""
        return self.reads(block) or self._groups_stream(block)

    def _groups_stream(self, block: Block) -> bool:
        """Whether a block shows groups of live rows that change, each with its next row."""
        if block.pipe or block.span.start in self._rows:
            return False
        tail = read_tail(self.text, block)
        return tail.emit is None and groups(self.text, block, tail) and self._is_live(block)

    def _is_live(self, block: Block) -> bool:
        relations = [relation for item in block.items for relation in relations_of(item)]
        return any(self._is_live_relation(relation, block.level) for relation in relations)

    def _is_live_relation(self, relation: Relation, level: Level) -> bool:
        inner = level.query_of(relation)
        if inner is not None:
            return not inner.recursive and any(self._is_live(block) for block in inner.blocks)
        return relation.kind == "name" and self.entry(relation.parts) is not None

    def _read_as_tables(self) -> list[Level]:
        """The queries that blocks read which read tables and nothing else."""
        blocks = [block for level in self.root.walk() for block in filter(self.reads, level.blocks)]
        found = [block.level.query_of(relation) for block in blocks for relation in self._plain(block)]
        return [inner for inner in found if inner is not None]

    def versioned(self, block: Block) -> Entry | None:
        """The versioned table that a block reads, with or without filters (semantics.md 3.1); None if it is another."""
        item = block.items[0]
        if item.joins or groups(self.text, block, read_tail(self.text, block)):
            return None
        inner = block.level.query_of(item.relation)
        if inner is not None:
            return self.versioned(inner.blocks[0])
        entry = self.entry(item.relation.parts)
        return entry if entry is not None and entry.kind == "versioned" else None

    def picks_rows(self, block: Block) -> bool:
        """Whether a block is the right side of a join that picks a row of a table, or part of one."""
        return block.span.start in self._rows

    def refuse_groups(self, block: Block) -> NoReturn:
        """Rows of groups are not rows that a join can pick.

        Raises:
            UnsupportedError: `AS_OF_JOIN.RIGHT_SIDE` or `TABLE_LOOKUP.RIGHT_SIDE`.
        """
        condition = "TABLE_LOOKUP.RIGHT_SIDE" if block.span.start in self._looked_up else "AS_OF_JOIN.RIGHT_SIDE"
        raise UnsupportedError(condition, self.text, block.span.pair, found="an aggregate")

    def check(self) -> None:
        """What reads a query over tables is another one, and nothing stands beside it.

        Raises:
            UnsupportedError: `TABLE.AS_STREAM`.
        """
        for level in self.root.walk():
            for block in level.blocks:
                if len(level.blocks) > 1 and self.reads(block):
                    self.refuse_as_stream(block.items[0].relation)
                for item in block.items if not self.reads(block) else ():
                    self._check_item(item, level)

    def _check_item(self, item: FromItem, level: Level) -> None:
        looked_up = [join.relation for join in item.joins if join.as_of is None]
        for relation in (item.relation, *looked_up):
            inner = level.query_of(relation)
            is_right_side = relation is not item.relation and self.is_looked_up(relation, level)
            if inner is not None and not is_right_side and any(self._gives(block) for block in inner.blocks):
                self.refuse_as_stream(relation)

    def refuse_as_stream(self, relation: Relation) -> NoReturn:
        """Rows of a table that changes are not those of a stream.

        Raises:
            UnsupportedError: `TABLE.AS_STREAM`.
        """
        raise UnsupportedError("TABLE.AS_STREAM", self.text, relation.span.pair, table=relation.given_name)

    def is_stream_first(self, block: Block) -> bool:
        """Whether the results that a block corrects are of the rows of a stream."""
        item = block.items[0]
        is_as_of = self.corrections is not None and bool(item.joins) and item.joins[0].as_of is not None
        return is_as_of and not self._is_table(item.relation, block.level) and item.relation.group is None

    def _is_table(self, relation: Relation, level: Level) -> bool:
        if relation.travel is not None or relation.inner is not None or relation.windows is not None:
            return False
        inner = level.query_of(relation)
        if inner is not None:
            return len(inner.blocks) == 1 and not inner.recursive and self._gives(inner.blocks[0])
        entry = self.entry(relation.parts) if relation.kind == "name" else None
        return entry is not None and entry.is_table

    def is_looked_up(self, relation: Relation, level: Level) -> bool:
        """Whether a relation is a query over tables that a stream is joined with."""
        inner = level.query_of(relation)
        return inner is not None and any(block.span.start in self._looked_up for block in inner.blocks)

    def _under_streams(self) -> set[int]:
        """Where the blocks begin that a stream is joined with: it looks rows up there, and does not see changes."""
        blocks = [block for level in self.root.walk() for block in level.blocks if not self.reads(block)]
        joins = [(join, block.level) for block in blocks for item in block.items for join in item.joins]
        found: set[int] = set()
        for join, level in joins:
            inner = level.query_of(join.relation) if join.as_of is None else None
            if inner is not None and self._is_table(join.relation, level):
                self._looked_up |= {block.span.start for block in inner.blocks}
                found |= self._blocks(inner)
        return found

    def _under_as_of(self) -> set[int]:
        """Where the blocks begin that are the right side of an AS OF join: versions are read there, not changes."""
        found: set[int] = set()
        for level in self.root.walk():
            joins: list[Join] = [join for block in level.blocks for item in block.items for join in item.joins]
            for join in joins:
                inner = level.query_of(join.relation) if join.as_of is not None else None
                if inner is not None:
                    found |= self._blocks(inner)
        return found

    def _blocks(self, level: Level) -> set[int]:
        """A query's block and those that it is made of."""
        found = {block.span.start for block in level.blocks}
        for block in level.blocks:
            for item in block.items:
                inner = level.query_of(item.relation)
                found |= self._blocks(inner) if inner is not None else set()
        return found
