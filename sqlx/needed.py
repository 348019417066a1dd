"""Which columns a query block can mention: the others are never shipped to Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.entries import Column
from sqlx.dialect import Span, Token, tokenize
from sqlx.join_inputs import Inputs
from sqlx.right_side import stars
from sqlx.scope import Visible
from sqlx.structure import Block, Join

_NARROW = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True)
class Needed:
    """The columns of both sides that the rest of the block may read."""

    left: tuple[tuple[Visible, Column], ...]
    right: tuple[Column, ...]


def needed_columns(
    text: str, block: Block, join: Join, further: list[Span], left: tuple[Visible, ...], right: Visible
) -> Needed:
    """Find the columns by name: one that no name in the block spells, and no star covers, cannot be read.

    A name behind that of one of the relations reads no other one's column; whatever else is qualified may read any.

    Args:
        text: the statement.
        block: the query block of the join.
        join: the join; names in its own relations and in its keys do not count.
        further: its conditions that are tested on its result.
        left: what the left side shows.
        right: what the right side shows.
    """
    tokens = [t for t in tokenize(text) if block.span.start <= t.start < block.span.end]
    own = Span(block.items[0].start, join.span.end)
    outside = tuple(t for t in tokens if not _within(t, [own]) or _within(t, further))
    names = spelled_names(outside, {v.name.lower() for v in (*left, right)})
    every, starred = _stars(block, tokens, outside)
    if not every:
        every = block.pipe or any("NATURAL" in j.kind for item in block.items for j in item.joins)

    def is_read(relation: Visible, column: Column) -> bool:
        qualifier, name = relation.name.lower(), column.name.lower()
        return every or qualifier in starred or ("", name) in names or (qualifier, name) in names

    lefts = tuple((v, c) for v in left for c in v.columns if is_read(v, c))
    rights = tuple(c for c in right.columns if is_read(right, c))
    if not lefts and not rights:  # count(*) reads no column, but Arrow does not count rows without any
        lefts = tuple(
            sorted(((v, c) for v in left for c in v.columns), key=lambda pair: pair[1].type not in _NARROW)[:1]
        )
    return Needed(lefts, rights)


def with_late_columns(needed: Needed, join: Join, inputs: Inputs) -> Needed:
    """All columns of an input whose refused rows go to a table."""
    left, right = needed.left, needed.right
    if join.as_of is not None and join.as_of.late_to is not None:
        left = tuple((v, c) for v in inputs.left for c in v.columns)
    if inputs.right.entry is not None and inputs.right.entry.late_to is not None:
        right = inputs.right.columns
    return Needed(left, right)


def spelled_names(tokens: tuple[Token, ...], relations: set[str]) -> set[tuple[str, str]]:
    """The names that are spelled, each with the relation that stands before it; "" before it may mean any of them."""
    names = set()
    for number, token in enumerate(tokens):
        if token.is_name:
            before = _qualifier(tokens, number)
            names.add((before if before in relations else "", token.name.lower()))
    return names


def _qualifier(tokens: Sequence[Token], at: int) -> str:
    """What stands before the dot before a token; "" where there is none."""
    return tokens[at - 2].name.lower() if at >= 2 and tokens[at - 1].text == "." else ""


def _within(token: Token, spans: list[Span]) -> bool:
    return any(span.start <= token.start < span.end for span in spans)


def _stars(block: Block, tokens: list[Token], outside: tuple[Token, ...]) -> tuple[bool, set[str]]:
    """Whether a bare star stands in the block's own select list, and the names that qualify other stars."""
    select = tuple(t for t in tokens if block.select is not None and block.select.start <= t.start < block.select.end)
    every = False
    starred: set[str] = set()
    for star in (*stars(select), *stars(outside)):
        qualifier = _qualifier(tokens, tokens.index(star))
        if qualifier:
            starred.add(qualifier)
        else:
            every = True
    return every, starred
