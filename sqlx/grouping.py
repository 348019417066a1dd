"""What a GROUP BY groups by: columns, expressions, places in the select list, and at most one window."""

from __future__ import annotations

from sqlx.aggregates import check_no_aggregate, find_aggregates
from sqlx.dialect import Span, Token, tokenize_span
from sqlx.errors import BindError, UnsupportedError, did_you_mean
from sqlx.scope import name_chains
from sqlx.selected import Grouping, Item, normal
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
        meant, alias = _meant(text, tokens, items, columns)
        check_no_aggregate(text, meant, "GROUP BY")
        _check_names(text, meant, columns)
        _add(text, grouping, meant, alias)
    return grouping


def _check_sets(text: str, span: Span, tokens: tuple[Token, ...]) -> None:
    words = [token.word for token in tokens]
    called = words[0] if words[0] in _SETS and len(tokens) > 1 and tokens[1].text == "(" else ""
    behind = words[-1] if words[-1] in _SETS and "WITH" in words else ""
    sets = "GROUPING SETS" if ("GROUPING", "SETS") in zip(words, words[1:], strict=False) else ""
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
            suggestion = did_you_mean(name, sorted(columns))
            raise BindError("AGGREGATE.UNKNOWN_COLUMN", text, (chain[0].start, chain[0].end), column=name, suggestion=suggestion)


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
