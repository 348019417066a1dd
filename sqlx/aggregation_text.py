"""The text of a block whose rows are grouped: columns of the operator in place of keys, windows and aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog.entries import Column
from sqlx.clauses import QueryTail
from sqlx.dialect import Span
from sqlx.errors import UnsupportedError
from sqlx.plan import Aggregation, Result
from sqlx.selected import Grouping, Item, Replaced, Replacer, alias_text, shown_name
from sqlx.structure import Block

if TYPE_CHECKING:
    from sqlx.compiler import Compiler


@dataclass
class Grouped:
    """A block whose rows are grouped, while it is compiled; `from_text` and `prefix` are what it reads."""

    compiler: Compiler
    block: Block
    tail: QueryTail
    from_text: str
    prefix: str
    columns: tuple[Column, ...]
    items: list[Item]
    grouping: Grouping
    replacer: Replacer


def result_of(group: Grouped, selected: list[list[Replaced]]) -> Result:
    """What the block's result is."""
    emit = group.tail.emit
    if emit is not None and emit.kind == "final":
        return Result()
    whole = [
        pieces[0] if len(pieces) == 1 and pieces[0].span == item.span else None
        for item, pieces in zip(group.items, selected, strict=True)
    ]
    _check_keys(group, [piece for piece in whole if piece is not None])
    keys = tuple(
        n for n, pieces in enumerate(selected) if pieces and all(piece.kind in ("key", "window") for piece in pieces)
    )
    shape = emit.shape if emit is not None and emit.shape is not None else "upsert"
    return Result(shape, keys, filters=group.tail.having is not None)


def _check_keys(group: Grouped, whole: list[Replaced]) -> None:
    """A row that changes is known by its keys: all of them are selected.

    Raises:
        UnsupportedError: one is not.
    """
    shown = {piece.number for piece in whole if piece.kind == "key"}
    text, keys = group.compiler.text, group.grouping.keys
    missing = [Span(k[0].start, k[-1].end).of(text) for number, k in enumerate(keys) if number not in shown]
    window = group.grouping.window
    needed = "__we" if window is not None and window.window.kind == "cumulate" else ""  # they share their starts
    if window is not None and not any(piece.kind == "window" and needed in piece.sql for piece in whole):
        missing.append("window_end" if group.grouping.bounds else window.span.of(text))
    if missing:
        place = (group.block.select or group.block.span).pair
        raise UnsupportedError("EMIT.KEY_NOT_SELECTED", text, place, key=missing[0])


def rewrite(group: Grouped, node: Aggregation, selected: list[list[Replaced]], having: list[Replaced]) -> str:
    """Put the result in place; the query once more with its condition as a column."""
    edits, tail = group.compiler.edits, group.tail
    for item, pieces in zip(group.items, selected, strict=True):
        for piece in pieces:
            edits.replace(piece.span, piece.sql)
        if item.alias is None and pieces and pieces[0].span == item.span:
            edits.insert(item.span.end, alias_text(pieces[0].shown))
        elif item.alias is None:
            edits.insert(item.span.end, alias_text(shown_name(group.compiler.text, item)))
    for piece in having:
        edits.replace(piece.span, piece.sql)
    condition = "true" if tail.having is None else edits.render(tail.having)
    rest = "".join(f" {edits.render(span)}" for span in tail.rest)
    end = max(group.block.items[-1].end, group.block.tail.end)
    where = f" WHERE {condition}" if tail.having is not None else ""
    edits.replace(Span(group.block.items[0].start, end), f"{node.name}{where}{rest}")
    shown = edits.render(group.block.select)
    if group.block.select is not None:
        carried = group.compiler.live.hand_on_result(group.block, group.compiler.first_arrival)
        edits.insert(group.block.select.end, carried)
    return f"SELECT {shown}, ({condition}) AS __passes, __carry FROM {node.name}"
