"""What stands behind a grouped block's HAVING: ORDER BY and its like, over the groups as the select list is."""

from __future__ import annotations

from sqlx.clauses import QueryTail
from sqlx.dialect import Token, tokenize_span
from sqlx.same_expression import is_chain, normal
from sqlx.selected import Item, Replaced, Replacer


def order_pieces(replacer: Replacer, tail: QueryTail, items: list[Item]) -> list[Replaced]:
    """What is to be replaced in the clauses behind HAVING; names that the select list gives stay as they are.

    Args:
        replacer: of the block.
        tail: its clauses.
        items: its select list.

    Raises:
        TemporalSqlError: as `Replacer.pieces`.
    """
    names = {_name(item) for item in items} - {""}
    found: list[Replaced] = []
    for span in tail.rest:
        tokens = tokenize_span(replacer.text, span)
        named = {t.start for at, t in enumerate(tokens) if _name_at(tokens, at) in names}
        found += [piece for piece in replacer.pieces(tokens) if piece.span.start not in named]
    return found


def _name(item: Item) -> str:
    """What the result calls an item: its alias, or the column that it is."""
    if item.alias is not None:
        return item.alias.name.lower()
    return item.tokens[-1].name.lower() if is_chain(normal(item.tokens)) else ""


def _name_at(tokens: tuple[Token, ...], at: int) -> str:
    """The lower-case name at a position, if it is a name of its own, or ""."""
    before, after = tokens[at - 1].text if at else "", tokens[at + 1].text if at + 1 < len(tokens) else ""
    return tokens[at].name.lower() if tokens[at].is_name and before != "." and after not in (".", "(") else ""
