"""What operators hand on: the columns that a query block can mention, and what they are called on their way.

The others are never shipped to Python. Why some go by their own names: docs/design/20261126_handed_on.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from catalog.entries import Column
from sqlx.bind.right_side import qualifier_of, stars
from sqlx.bind.scope import RelationScope
from sqlx.sql.structure import Block, Join
from sqlx.sql.tokens import Span, Token, tokenize

_NARROW = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True)
class Needed:
    """The columns of both sides that the rest of the block may read."""

    left: tuple[tuple[RelationScope, Column], ...]
    right: tuple[Column, ...]


def numbered_names(letter: str, columns: Sequence[object]) -> tuple[str, ...]:
    """What payload columns of an input are called in a query that outlives nothing: by their places."""
    return tuple(f"_{letter}{n}" for n in range(len(columns)))


def lasting_names(
    letter: str, relations: Sequence[RelationScope], columns: Sequence[tuple[str, str]]
) -> tuple[str, ...]:
    """What payload columns of an input are called where states outlive a query's text: by their own names.

    >>> orders = RelationScope("o", (Column("Price", "int"), Column("ø", "int")))
    >>> lasting_names("l", [orders], [("o", "ø"), ("o", "Price")])
    ('_l__f8_', '_l_price')

    Args:
        letter: of the input.
        relations: what the input shows.
        columns: the payload, by relation and column.

    Returns:
        A column whose name is not unique is called by its place; all are where two would be called alike.
    """
    shown = [(relation.name, column.name) for relation in relations for column in relation.columns]
    spelled = [name if len(relations) == 1 else f"{relation}_{name}" for relation, name in shown]
    plain = [re.sub(r"\W", lambda found: f"_{ord(found[0]):x}_", name, flags=re.ASCII).lower() for name in spelled]
    count = Counter(plain)
    names = {
        column: f"_{letter}_{name}" if count[name] == 1 else f"_{letter}{place}"
        for place, (column, name) in enumerate(zip(shown, plain, strict=True))
    }
    found = tuple(names[column] for column in columns)
    return found if len(set(found)) == len(found) else numbered_names(letter, columns)


def needed_columns(
    text: str, block: Block, join: Join, further: list[Span], left: tuple[RelationScope, ...], right: RelationScope
) -> Needed:
    """Find the columns by name: one that no name in the block spells, and no star covers, cannot be read.

    A name after that of one of the relations reads no other one's column; whatever else is qualified may read any.

    Args:
        text: the statement.
        block: the query block of the join.
        join: the join; names in its own relations and in its keys do not count.
        further: its conditions that are tested on its result.
        left: what the left side shows.
        right: what the right side shows.
    """
    start, end = block.items[0].start, join.span.end
    tokens = [t for t in tokenize(text) if block.span.start <= t.start < block.span.end]
    outside = tuple(t for t in tokens if not start <= t.start < end or _within(t, further))
    names = spelled_names(outside, {v.name.lower() for v in (*left, right)})
    every, starred = _stars(block, tokens, outside)
    if not every:
        every = block.pipe or any("NATURAL" in j.kind for item in block.items for j in item.joins)

    def is_read(relation: RelationScope, column: Column) -> bool:
        qualifier, name = relation.name.lower(), column.name.lower()
        return every or qualifier in starred or ("", name) in names or (qualifier, name) in names

    lefts = tuple((v, c) for v in left for c in v.columns if is_read(v, c))
    rights = tuple(c for c in right.columns if is_read(right, c))
    if not lefts and not rights:  # count(*) reads no column, but Arrow does not count rows without any
        lefts = tuple(
            sorted(((v, c) for v in left for c in v.columns), key=lambda pair: pair[1].type not in _NARROW)[:1]
        )
    return Needed(lefts, rights)


def spelled_names(tokens: tuple[Token, ...], relations: set[str]) -> set[tuple[str, str]]:
    """The names that are spelled, each with the relation that is before it; "" before it may mean any of them."""
    names = set()
    for number, token in enumerate(tokens):
        if token.is_name:
            before = qualifier_of(tokens, number)
            names.add((before if before in relations else "", token.name.lower()))
    return names


def _within(token: Token, spans: list[Span]) -> bool:
    return any(span.start <= token.start < span.end for span in spans)


def _stars(block: Block, tokens: list[Token], outside: tuple[Token, ...]) -> tuple[bool, set[str]]:
    """Whether a bare star is in the block's own select list, and the names that qualify other stars."""
    select = tuple(t for t in tokens if block.select is not None and block.select.start <= t.start < block.select.end)
    every = False
    starred: set[str] = set()
    for star in (*stars(select), *stars(outside)):
        qualifier = qualifier_of(tokens, tokens.index(star))
        if qualifier:
            starred.add(qualifier)
        else:
            every = True
    return every, starred


def select_list(items: Mapping[str, str]) -> str:
    """Name to expression as the items of a select list."""
    return ", ".join(f"{expression} AS {name}" for name, expression in items.items())


def core_of(sql: str, columns: Sequence[Column], payload: Collection[str]) -> str:
    """`Fragment.core`: a query without payload, and the types of what it yields."""
    return f"{sql}: {', '.join(f'{c.name} {c.type}' for c in columns if c.name not in payload)}"
