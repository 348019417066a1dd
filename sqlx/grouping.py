"""What a GROUP BY groups by: columns, expressions, places in the select list, and at most one window."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise

from sqlx.aggregates import check_no_aggregate, find_aggregates
from sqlx.cursor import Cursor
from sqlx.dialect import Span, Token, tokenize_span
from sqlx.errors import BindError, UnsupportedError, did_you_mean
from sqlx.same_expression import normal
from sqlx.scope import name_chains
from sqlx.selected import Grouping, Item
from sqlx.window_functions import WindowCall, window_call

_SETS = frozenset({"ROLLUP", "CUBE"})


def read_grouping(
    text: str, group: tuple[Span, ...], items: list[Item], columns: set[str], bounds: dict[str, str]
) -> Grouping:
    """The keys and the window of a GROUP BY.

    Args:
        text: the statement.
        group: the spans of the grouping expressions.
        items: of the select list.
        columns: lower-case names of the columns that the block reads.
        bounds: window columns that its relation brings along, with their SQL.

    Raises:
        BindError: an ordinal without an item, a name that is not there, or a second window.
        TemporalParseError: an aggregate.
        UnsupportedError: ROLLUP, CUBE, GROUPING SETS.
    """
    grouping = Grouping(bounds=dict(bounds))
    for span in group:
        tokens = tokenize_span(text, span)
        _check_sets(text, span, tokens)
        if len(tokens) == 1 and tokens[0].word == "ALL":
            for item in items:
                if not find_aggregates(text, item.tokens):
                    _add(text, grouping, item.tokens, item.alias)
            continue
        tokens = _inside(tokens)
        if not tokens:
            continue  # GROUP BY (): all rows are one group
        meant, alias = _meant(text, tokens, items, columns)
        check_no_aggregate(text, meant, "GROUP BY")
        _check_names(text, meant, columns)
        _add(text, grouping, meant, alias)
    return grouping


def _check_sets(text: str, span: Span, tokens: tuple[Token, ...]) -> None:
    words = [token.word for token in tokens]
    called = words[0] if words[0] in _SETS and len(tokens) > 1 and tokens[1].text == "(" else ""
    behind = words[-1] if words[-1] in _SETS and "WITH" in words else ""
    sets = "GROUPING SETS" if ("GROUPING", "SETS") in pairwise(words) else ""
    if found := called or behind or sets:
        raise UnsupportedError("AGGREGATE.GROUPING_SETS", text, span.pair, found=found)


def _check_names(text: str, tokens: tuple[Token, ...], columns: set[str]) -> None:
    """A name that is alone is one of the columns, where they are known.

    Raises:
        BindError: it is not.
    """
    for chain in name_chains(tokens):
        name = chain[0].name
        if columns and len(chain) == 1 and name.lower() not in columns:
            span, suggestion = (chain[0].start, chain[0].end), did_you_mean(name, sorted(columns))
            raise BindError("AGGREGATE.UNKNOWN_COLUMN", text, span, column=name, suggestion=suggestion)


def _inside(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """An expression without the parentheses around all of it; with a comma in them they make a struct."""
    while tokens and tokens[0].text == "(" and Cursor("", tokens).closing() == len(tokens) - 1:
        depths = list(accumulate((t.text in "([{") - (t.text in ")]}") if t.kind == "op" else 0 for t in tokens))
        if any(t.text == "," and depth == 1 for t, depth in zip(tokens, depths, strict=True)):
            return tokens
        tokens = tokens[1:-1]
    return tokens


def _meant(
    text: str, tokens: tuple[Token, ...], items: list[Item], columns: set[str]
) -> tuple[tuple[Token, ...], Token | None]:
    """The expression that a grouping item means: a place in the select list or an alias stands for one."""
    if len(tokens) == 1 and tokens[0].kind == "number":
        place = int(tokens[0].text) if tokens[0].text.isdigit() else 0
        if not 1 <= place <= len(items):
            span = (tokens[0].start, tokens[0].end)
            raise BindError("AGGREGATE.ORDINAL", text, span, place=tokens[0].text, count=len(items))
        return items[place - 1].tokens, items[place - 1].alias
    if len(tokens) == 1 and tokens[0].is_name and tokens[0].name.lower() not in columns:
        named = [i for i in items if i.alias is not None and i.alias.name.lower() == tokens[0].name.lower()]
        if named:
            return named[0].tokens, named[0].alias
    return tokens, None


def _add(text: str, grouping: Grouping, tokens: tuple[Token, ...], alias: Token | None) -> None:
    alone = tokens[-1].name.lower() if tokens[-1].is_name else ""
    if alone in grouping.bounds and len(tokens) in (1, 3):
        return  # window_start, window_end: the relation's windows
    call = _window(text, tokens)
    if call is None:
        if normal(tokens) not in [normal(key) for key in grouping.keys]:
            grouping.keys.append(tokens)
        return
    if grouping.window is not None and _same(text, grouping.window, call):
        return
    if grouping.window is not None or grouping.bounds:
        raise BindError("WINDOW.TWICE", text, call.span.pair)
    grouping.window, grouping.window_alias = call, alias.name if alias is not None else None


def _window(text: str, tokens: tuple[Token, ...]) -> WindowCall | None:
    """The window that an expression is, or a bound of: `window(…).start` has one group a window, too."""
    is_bound = len(tokens) > 2 and tokens[-2].text == "." and tokens[-1].name.lower() in ("start", "end")
    return window_call(text, tokens[:-2] if is_bound and tokens[-3].text == ")" else tokens)


def _same(text: str, one: WindowCall, other: WindowCall) -> bool:
    return normal(tokenize_span(text, one.span)) == normal(tokenize_span(text, other.span))


def check_key_types(text: str, grouping: Grouping, types: Mapping[str, str]) -> None:
    """Every type that can be compared for equality can be a key; `types` are those of `__k0`, `__k1` and so on.

    Raises:
        BindError: one cannot.
    """
    for number, key in enumerate(grouping.keys):
        span, kind = Span(key[0].start, key[-1].end), types[f"__k{number}"]
        if "map<" in kind or "variant" in kind or kind == "interval":
            raise BindError("AGGREGATE.KEY_TYPE", text, span.pair, key=span.of(text), type=kind.upper())
