"""The select list of a block whose rows are grouped: its items, and what is in place of keys and aggregates."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlx.errors import BindError
from sqlx.sql.expressions import (
    AggregateCall,
    alias_at,
    field_aliases,
    find_aggregates,
    is_chain,
    match,
    normal,
    struct_fields,
)
from sqlx.sql.parser import items_of
from sqlx.sql.structure import Block, QueryTail, WindowCall
from sqlx.sql.tokens import Span, Token, quoted, tokenize_span
from sqlx.sql.windows import CALLS

_QUANTIFIERS = frozenset({"DISTINCT", "ALL"})


@dataclass
class Item:
    """One item of a select list.

    Attributes:
        tokens: of its expression.
        alias: its name as written, or None.
    """

    tokens: tuple[Token, ...]
    alias: Token | None = None

    @property
    def span(self) -> Span:
        """Where its expression is."""
        return Span(self.tokens[0].start, self.tokens[-1].end)


def select_items(text: str, select: Span | None) -> list[Item]:
    """The items of a select list."""
    items = items_of(text, select)
    if items and items[0][0].word in _QUANTIFIERS:
        items[0] = items[0][1:]
    return [_item(tokens) for tokens in items if tokens]


def _item(tokens: tuple[Token, ...]) -> Item:
    end = alias_at(tokens)
    return Item(tokens[:end], tokens[-1] if end < len(tokens) else None)


def groups(text: str, block: Block, tail: QueryTail) -> bool:
    """Whether a block groups its rows."""
    if block.pipe or block.select is None:
        return False
    if tail.grouping is not None:
        return True
    return bool(find_aggregates(text, tokenize_span(text, block.select)))


@dataclass
class Grouping:
    """What a GROUP BY groups by.

    Attributes:
        keys: the expressions besides the window.
        names: what the select list may call a key, by its alias.
        window: the call that makes the windows, or None.
        window_alias: what the select list may call the window besides its column.
        bounds: names of window columns that a relation brings along (window_start …), with their SQL.
        grouped_bounds: those of them that it groups by.
        relation: the lower-case name of that relation.
    """

    keys: list[tuple[Token, ...]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    window: WindowCall | None = None
    window_alias: str | None = None
    bounds: dict[str, str] = field(default_factory=dict)
    grouped_bounds: set[str] = field(default_factory=set)
    relation: str = ""


@dataclass
class Replaced:
    """A piece of an expression and the column of the aggregation that is in its place.

    Attributes:
        span: of the piece.
        sql: the new text.
        kind: 'key', 'window', 'aggregate', or in HAVING 'alias'.
        number: of the key.
        shown: the name of the column where the piece is a whole item without an alias.
    """

    span: Span
    sql: str
    kind: str
    number: int = -1
    shown: str = ""


class Replacer:
    """Finds keys, windows and aggregates in expressions over groups.

    Args:
        text: the statement.
        grouping: what it groups by.
        columns: lower-case names of the columns that the block reads.
    """

    def __init__(self, text: str, grouping: Grouping, columns: Container[str] = ()) -> None:
        self.text, self.grouping, self._columns = text, grouping, columns
        self.calls: list[AggregateCall] = []
        self._keys = [normal(key) for key in grouping.keys]

    def having(self, tokens: tuple[Token, ...], items: list[Item], selected: list[list[Replaced]]) -> list[Replaced]:
        """What is to be replaced in HAVING, which may call a selected item by its alias.

        Args:
            tokens: of the condition.
            items: of the select list.
            selected: what is to be replaced in each of them.

        Raises:
            TemporalSqlError: as `pieces`.
        """
        found = self.pieces(tokens)
        named = {i.alias.name.lower(): n for n, i in reversed(list(enumerate(items))) if i.alias is not None}
        inside = [piece.span for piece in found if piece.kind == "aggregate"]
        fields = field_aliases(tokens)
        for at, token in enumerate(tokens):
            around = (tokens[at - 1].text if at else "", tokens[at + 1].text if at + 1 < len(tokens) else "")
            number = named.get(token.name.lower()) if token.is_name and around[0] != "." and around[1] != "(" else None
            if number is None or at in fields or any(span.start <= token.start < span.end for span in inside):
                continue
            sql = f"({_written(self.text, items[number].span, selected[number])})"
            found = [piece for piece in found if piece.span.start != token.start]
            found.append(Replaced(Span(token.start, token.end), sql, "alias"))
        return found

    def pieces(self, tokens: tuple[Token, ...]) -> list[Replaced]:
        """What is to be replaced in an expression, in order; aggregates are numbered over all expressions.

        Raises:
            TemporalSqlError: an aggregate is inside another, or is a window function.
        """
        calls = {call.span.start: call for call in find_aggregates(self.text, tokens)}
        found: list[Replaced] = []
        names = field_aliases(tokens)
        at = 0
        while at < len(tokens):
            piece = self._piece(tokens, at, calls) if at not in names else None
            if piece is None:
                at += 1
                continue
            found.append(piece)
            at += sum(1 for t in tokens[at:] if t.start < piece.span.end)
        return self._named_as_written(tokens, found)

    def _piece(self, tokens: tuple[Token, ...], at: int, calls: dict[int, AggregateCall]) -> Replaced | None:
        call = calls.get(tokens[at].start)
        return self._aggregate(call) if call is not None else self._key(tokens, at) or self._window(tokens, at)

    def _named_as_written(self, tokens: tuple[Token, ...], pieces: list[Replaced]) -> list[Replaced]:
        """The pieces, those that are fields of a struct under the names that they give to the fields."""
        fields = {}
        for start, end, number in struct_fields(tokens):
            whole = Span(tokens[start].start, tokens[end - 1].end)
            while tokens[start].symbol == "(" and tokens[end - 1].symbol == ")":
                start, end = start + 1, end - 1
            fields[Span(tokens[start].start, tokens[end - 1].end)] = whole, f"col{number}"
        found = []
        for piece in pieces:
            whole, name = fields.get(piece.span, (piece.span, ""))
            if name and (piece.kind == "window" or (piece.kind == "key" and is_chain(self._keys[piece.number]))):
                name = piece.shown
            found.append(replace(piece, span=whole, sql=f"{piece.sql} AS {quoted(name)}") if name else piece)
        return found

    def _aggregate(self, call: AggregateCall) -> Replaced:
        texts = [normal(tokenize_span(self.text, other.span)) for other in self.calls]
        own = normal(tokenize_span(self.text, call.span))
        number = texts.index(own) if own in texts else len(self.calls)
        if number == len(self.calls):
            self.calls.append(call)
        shown = _ALL_ROWS.sub("(1)", call.span.of(self.text))
        return Replaced(call.span, f"__a{number}", "aggregate", number, shown)

    def _key(self, tokens: tuple[Token, ...], at: int) -> Replaced | None:
        before = tokens[at - 1].text if at else ""
        if before == "." or not tokens[at].text:
            return None
        for number, key in enumerate(self._keys):
            length = match(tokens, at, key, self._columns)
            if length:
                span = Span(tokens[at].start, tokens[at + length - 1].end)
                shown = tokens[at + length - 1].name if is_chain(key) else span.of(self.text)
                return Replaced(span, f"__k{number}", "key", number, shown)
        return None

    def _window(self, tokens: tuple[Token, ...], at: int) -> Replaced | None:
        grouping, token = self.grouping, tokens[at]
        if at and tokens[at - 1].text == ".":
            return None
        name = token.name.lower() if token.is_name else ""
        bound = self._bound(tokens, at)
        if bound is not None:
            return bound
        if grouping.window is None:
            self._check_call(name, tokens, at)
            return None
        call = normal(tokenize_span(self.text, grouping.window.span))
        if normal(tokens[at : at + len(call)]) == call:
            return self._bounds(tokens, at, at + len(call))
        if name == "window_time" and at + 3 < len(tokens) and tokens[at + 1].text == "(" and tokens[at + 3].text == ")":
            span = Span(token.start, tokens[at + 3].end)
            return Replaced(span, "(__we - INTERVAL 1 MICROSECOND)", "window", shown="window_time(window)")
        names = {grouping.window.column, (grouping.window_alias or grouping.window.column).lower()}
        names |= set() if "window" in self._columns else {"window"}  # whichever function made it: a query has one
        if name and name in names and (at + 1 == len(tokens) or tokens[at + 1].text != "("):  # TUMBLE's has none
            return self._bounds(tokens, at, at + 1)
        self._check_call(name, tokens, at)
        return None

    def _bound(self, tokens: tuple[Token, ...], at: int) -> Replaced | None:
        """A window column that the relation brings along, by its name alone or after that of the relation."""
        is_qualified = at + 2 < len(tokens) and tokens[at + 1].text == "." and tokens[at].is_name
        last = at + 2 if is_qualified and tokens[at].name.lower() == self.grouping.relation else at
        name, after = tokens[last].name.lower(), tokens[last + 1].text if last + 1 < len(tokens) else ""
        if not tokens[last].is_name or name not in self.grouping.bounds or after in (".", "("):
            return None
        return Replaced(Span(tokens[at].start, tokens[last].end), self.grouping.bounds[name], "window", shown=name)

    def _check_call(self, name: str, tokens: tuple[Token, ...], at: int) -> None:
        """Refuse `session_window.start` where there is no such window."""
        if name in CALLS and name not in self._columns and _field(tokens, at + 1) in _BOUNDS:
            self._refuse_field(tokens, at, at + 1)

    def _refuse_field(self, tokens: tuple[Token, ...], at: int, end: int) -> NoReturn:
        span = Span(tokens[at].start, tokens[end + 1].end)
        raise BindError("WINDOW.NO_BOUND", self.text, span.pair, found=span.of(self.text))

    def _bounds(self, tokens: tuple[Token, ...], at: int, end: int) -> Replaced:
        """The window itself, or its start or end."""
        assert self.grouping.window is not None
        field_name = _field(tokens, end)
        if field_name in _BOUNDS:
            span = Span(tokens[at].start, tokens[end + 1].end)
            return Replaced(span, _BOUNDS[field_name], "window", shown=field_name)
        if field_name:
            self._refuse_field(tokens, at, end)
        struct = "named_struct('start', __ws, 'end', __we)"
        shown = self.grouping.window_alias or self.grouping.window.column
        return Replaced(Span(tokens[at].start, tokens[end - 1].end), struct, "window", shown=shown)


_ALL_ROWS = re.compile(r"\(\s*\*\s*\)")
_BOUNDS = {"start": "__ws", "end": "__we"}


def _field(tokens: tuple[Token, ...], at: int) -> str:
    """The lower-case name after a dot at a position, or ""."""
    return tokens[at + 1].name.lower() if at + 1 < len(tokens) and tokens[at].text == "." else ""


def _written(text: str, span: Span, pieces: list[Replaced]) -> str:
    """An expression with its pieces replaced."""
    written, at = [], span.start
    for piece in sorted(pieces, key=lambda piece: piece.span.start):
        written += [text[at : piece.span.start], piece.sql]
        at = piece.span.end
    return "".join([*written, text[at : span.end]])


def alias_text(shown: str) -> str:
    """`` AS `name` ``."""
    return f" AS {quoted(' '.join(shown.split()))}"


def shown_name(text: str, item: Item) -> str:
    """What Spark calls an item without an alias: a field by its own name, anything else as it is written."""
    is_chain = all(t.is_name or t.text == "." for t in item.tokens)
    return item.tokens[-1].name if is_chain else item.span.of(text)
