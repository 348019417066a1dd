"""Puts the result of an aggregation in the place of a live query block's FROM clause.

::

    SELECT k, window.start AS ws, count(*) AS n FROM STREAM s GROUP BY k, window(ts, '1 hour') HAVING count(*) > 1
      =>
    SELECT __k0 AS `k`, __ws AS ws, __a0 AS n FROM __sqlx_agg1 WHERE __a0 > 1
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from catalog.entries import Column
from sqlx.bind.binder import RowOrder
from sqlx.bind.comparison import check_carried, check_case, check_collation, check_compared, is_key
from sqlx.bind.scope import name_chains
from sqlx.bind.spark_errors import refused
from sqlx.errors import BindError, RefusedBySpark, UnsupportedError, did_you_mean
from sqlx.plan.context import Context
from sqlx.plan.emit import check_emission, config_of, is_outermost
from sqlx.plan.keyed_join import with_row_order
from sqlx.plan.live_reads import check_live_left, row_item
from sqlx.plan.nodes import Aggregation, Fragment, Places, Result, TableAggregation
from sqlx.plan.select_list import Grouping, Item, Replaced, Replacer, alias_text, groups, select_items, shown_name
from sqlx.plan.subquery_text import with_clause
from sqlx.plan.table_changes import check_every, check_shown_alone
from sqlx.plan.table_reads import ShownTable, TableQuery
from sqlx.plan.updates import carried_by, order_of, update_columns, updates_in
from sqlx.sql.cursor import Cursor
from sqlx.sql.expressions import (
    AggregateCall,
    check_arguments,
    check_no_aggregate,
    field_aliases,
    find_aggregates,
    is_chain,
    normal,
    result_type,
    span_of,
)
from sqlx.sql.structure import Block, QueryTail, WindowCall
from sqlx.sql.tokens import Span, Token, quoted, tokenize_span
from sqlx.sql.windows import BOUNDS, check_bounds, check_partition, window_call
from udtf.aggregates import Aggregate
from udtf.operators.table_aggregate.logic import TableAggregateConfig
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig

# The text of a block whose rows are grouped: columns of the operator in place of keys, windows and aggregates.


@dataclass
class Grouped:
    """A block whose rows are grouped, while it is compiled.

    Attributes:
        context: what the operators share.
        block: the block.
        tail: its clauses.
        from_text: what it reads, compiled; prefix: the WITH clause that this needs, or "".
        arrival: what its rows carry along, where they are live.
        columns: what it reads.
        items: of its select list.
        grouping: what it groups by.
        replacer: finds keys, windows and aggregates in its expressions.
    """

    context: Context
    block: Block
    tail: QueryTail
    from_text: str
    prefix: str
    arrival: RowOrder | None
    columns: tuple[Column, ...]
    items: list[Item]
    grouping: Grouping
    replacer: Replacer


def result_of(group: Grouped, selected: list[list[Replaced]]) -> Result:
    """What the block's result is."""
    emit = group.tail.emit
    if emit is not None and emit.kind == "final":
        return Result()
    places = _key_places(group, selected)
    _check_keys(group, places)
    keys = tuple(
        n for n, pieces in enumerate(selected) if pieces and all(piece.kind in ("key", "window") for piece in pieces)
    )
    shape = emit.shape if emit is not None and emit.shape is not None else "upsert"
    is_sequence = group.arrival is not None and group.arrival.is_sequence
    return Result(shape, keys, places, filters=group.tail.having is not None, is_sequence=is_sequence)


def _whole(group: Grouped, selected: list[list[Replaced]]) -> list[tuple[int, Replaced]]:
    """The items of the select list that are nothing but a key, a window or an aggregate, with their places."""
    return [
        (place, pieces[0])
        for place, (item, pieces) in enumerate(zip(group.items, selected, strict=True))
        if len(pieces) == 1 and pieces[0].span == item.span
    ]


def _key_places(group: Grouped, selected: list[list[Replaced]]) -> tuple[tuple[int, ...], ...]:
    """Per grouping column, and last of the window, the places in the select list that show it as it is."""
    whole, window = _whole(group, selected), group.grouping.window
    keys = [(place, piece.number) for place, piece in whole if piece.kind == "key"]
    found = [tuple(p for p, key in keys if key == number) for number in range(len(group.grouping.keys))]
    if window is not None:
        needed = "__we" if window.window.kind == "cumulate" else ""  # they share their starts
        found.append(tuple(place for place, piece in whole if piece.kind == "window" and needed in piece.sql))
    return tuple(found)


def _labels(group: Grouped) -> tuple[str, ...]:
    """What messages call the columns of `_key_places`."""
    text, window = group.context.text, group.grouping.window
    labels = [span_of(key).of(text) for key in group.grouping.keys]
    if window is not None:
        labels.append("window_end" if group.grouping.bounds else window.span.of(text))
    return tuple(labels)


def _check_keys(group: Grouped, places: tuple[tuple[int, ...], ...]) -> None:
    """A row that changes is known by its keys: all of them are selected.

    Raises:
        UnsupportedError: one is not.
    """
    missing = [label for label, shown in zip(_labels(group), places, strict=True) if not shown]
    if missing:
        place = (group.block.select or group.block.span).pair
        raise UnsupportedError("EMIT.KEY_NOT_SELECTED", group.context.text, place, key=missing[0])


def _as_table(group: Grouped, node: Aggregation | TableAggregation, selected: list[list[Replaced]]) -> TableQuery:
    """What the block is to the one that reads it: of a window the bound shows by which its updates are known."""
    places, labels = _key_places(group, selected), _labels(group)
    window = group.grouping.window
    if isinstance(node, Aggregation) and window is not None:
        (bound,) = node.bounds
        shown = tuple(place for place, piece in _whole(group, selected) if piece.sql == bound)
        label = f"{'window_' if group.grouping.bounds else f'{window.column}.'}{'start' if bound == '__ws' else 'end'}"
        places, labels = (*places[:-1], shown), (*labels[:-1], label)
    return TableQuery(places, labels, carried=_carried(group, node))


def _bounds(group: Grouped, selected: list[list[Replaced]]) -> tuple[str, ...]:
    """The bounds of windows by which updates are known: both at the end of a query, within it one that is shown.

    Either tells the windows of a key apart, but the starts of cumulating ones.
    """
    window = group.grouping.window
    if window is None or is_outermost(group.block):
        return () if window is None else ("__ws", "__we")
    is_start = window.window.kind != "cumulate" and any(p.sql == "__ws" for _, p in _whole(group, selected))
    return ("__ws",) if is_start else ("__we",)


def rewrite(
    group: Grouped, node: Aggregation | TableAggregation, selected: list[list[Replaced]], having: list[Replaced]
) -> None:
    """Put the result in place."""
    edits, tail = group.context.edits, group.tail
    for item, pieces, name in zip(group.items, selected, _names(group, selected), strict=True):
        for piece in pieces:
            edits.replace(piece.span, piece.sql)
        if item.alias is None:
            edits.insert(item.span.end, alias_text(name))
    for piece in having:
        edits.replace(piece.span, piece.sql)
    where = f" WHERE {edits.render(tail.having)}" if tail.having is not None else ""
    rest = "".join(f" {edits.render(span)}" for span in (*tail.rest, *([tail.pipes] if tail.pipes else [])))
    end = max(group.block.items[-1].end, group.block.tail.end)
    edits.replace(Span(group.block.items[0].start, end), f"{node.name}{where}{rest}")
    if group.block.select is not None:
        carried = _carried(group, node)
        of_stream = group.context.live.hand_on_result(group.block, group.arrival) if carried is None else ""
        edits.insert(group.block.select.end, of_stream if carried is None else row_item(carried))


def _names(group: Grouped, selected: list[list[Replaced]]) -> list[str]:
    """What items without an alias are called: as written, but for what Spark calculates and can be asked about."""
    context, found = group.context, list(zip(group.items, selected, strict=True))
    names = [p[0].shown if p and p[0].span == item.span else shown_name(context.text, item) for item, p in found]
    asked = [
        number
        for number, (item, pieces) in enumerate(found)
        if item.alias is None and not is_chain(normal(item.tokens)) and all(p.kind != "window" for p in pieces)
    ]
    if not asked or not context.binder.carries_row_order:
        return names
    items = ", ".join(context.edits.render(group.items[number].span) for number in asked)
    keys = ", ".join(context.edits.render(span_of(key)) for key in group.grouping.keys)
    grouped = f" GROUP BY {keys}" if keys else ""
    columns = context.binder.columns(f"{group.prefix}SELECT {items} FROM {group.from_text}{grouped}") or ()
    given = dict(zip(asked, columns, strict=True)) if len(columns) == len(asked) else {}
    return [given[number].name if number in given else name for number, name in enumerate(names)]


def _carried(group: Grouped, node: Aggregation | TableAggregation) -> RowOrder | None:
    """What updates of groups carry along, live on Spark; None of finals."""
    if updates_in(node) is None:
        return None
    return carried_by(node.columns, "", is_sequence=group.arrival is not None and group.arrival.is_sequence)


# What a GROUP BY groups by: columns, expressions, places in the select list, and at most one window.


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
        grouping.grouped_bounds.add(alone)  # window_start, window_end: the relation's windows
        return
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
        span, kind = span_of(key), types[f"__k{number}"]
        if not is_key(kind):
            raise BindError("AGGREGATE.KEY_TYPE", text, span.pair, key=span.of(text), type=kind.upper())
        check_collation(text, span.pair, span.of(text), kind)


# What is after a grouped block's HAVING: ORDER BY and its like, over the groups as the select list is.


def order_pieces(replacer: Replacer, tail: QueryTail, items: list[Item]) -> list[Replaced]:
    """What is to be replaced in the clauses after HAVING; names that the select list gives stay as they are.

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


_OWN = re.compile(r"__|_[lr]\d+$")  # columns of an operator below, which the query knows by other names
_TIMES = ("timestamp", "timestamp_ntz")


def aggregate_block(
    context: Context, block: Block, tail: QueryTail, from_text: str, arrival: RowOrder | None = None
) -> Result | None:
    """Compile a block that groups its rows.

    Args:
        context: what the operators share.
        block: the block.
        tail: its clauses.
        from_text: what its FROM clause reads, compiled.
        arrival: what its rows carry along, where they are live.

    Returns:
        What the query's result is; None where the block is not the query or not live.

    Raises:
        TemporalSqlError: it names what is not grouped, or its clauses do not fit each other.
    """
    from_text += "".join(f" {context.edits.render(span)}" for span in tail.laterals)
    group = _read(context, block, tail, from_text, arrival)
    check_emission(context, block, tail, group.grouping)
    selected = [group.replacer.pieces(item.tokens) for item in group.items]
    having = group.replacer.having(tokenize_span(context.text, tail.having), group.items, selected)
    order = order_pieces(group.replacer, tail, group.items)
    for item, pieces in zip(group.items, selected, strict=True):
        _check_grouped(group, item.tokens, pieces)
    _check_grouped(group, tokenize_span(context.text, tail.having), having)
    if context.streaming and (tail.emit is None or tail.emit.kind != "final"):  # its result is a table that changes
        check_shown_alone(context, block, tail)
    node = context.add(_node(group, _bounds(group, selected)))
    rewrite(group, node, selected, [*having, *order])
    if node.gives_changes and not is_outermost(block):
        context.tables.results[block.span.start] = _as_table(group, node, selected)
    return result_of(group, selected) if is_outermost(block) and context.streaming else None


def _read(context: Context, block: Block, tail: QueryTail, from_text: str, arrival: RowOrder | None) -> Grouped:
    text = context.text
    spans = [s for s in (block.select, tail.where, tail.having, tail.grouping) if s is not None]
    prefix = with_clause(text, context.edits, block.level, Span(block.items[0].start, block.items[-1].end), *spans)
    columns = tuple(c for c in context.columns_of(f"{prefix}SELECT * FROM {from_text}") if not _OWN.match(c.name))
    items = select_items(text, block.select)
    check_no_aggregate(text, tokenize_span(text, tail.where), "WHERE")
    names = {column.name.lower() for column in columns}
    windows = block.items[0].relation.windows
    bounds = BOUNDS if windows is not None else {}
    grouping = read_grouping(text, tail.group, items, names | bounds.keys(), bounds)
    if windows is not None:
        check_partition(text, windows, grouping.keys)
        check_bounds(text, windows, grouping.grouped_bounds)
        grouping.window, grouping.relation = windows.call, (block.items[0].relation.visible_name or "").lower()
    return Grouped(
        context, block, tail, from_text, prefix, arrival, columns, items, grouping, Replacer(text, grouping, names)
    )


def _check_grouped(group: Grouped, tokens: tuple, pieces: list[Replaced]) -> None:  # type: ignore[type-arg]
    """Every column outside of aggregates is grouped by.

    Raises:
        BindError: one is not.
    """
    names = {column.name.lower() for column in group.columns}
    aliases = {r.visible_name.lower() for i in group.block.items for r in [i.relation] if r.visible_name}
    covered = [piece.span for piece in pieces] + [span_of(tokens[at : at + 1]) for at in field_aliases(tokens)]
    outside = tuple(t for t in tokens if not any(s.start <= t.start < s.end for s in covered))
    stars = _all_columns(tokens, outside)
    if stars is not None:
        raise BindError("AGGREGATE.STAR", group.context.text, stars.pair, found=stars.of(group.context.text))
    for chain in name_chains(outside):
        is_column = chain[0].name.lower() in names or (len(chain) > 1 and chain[0].name.lower() in aliases)
        if is_column:
            shown, span = ".".join(t.name for t in chain), (chain[0].start, chain[-1].end)
            _check_function(group, tokens, span_of(tuple(chain)))
            raise BindError("AGGREGATE.NOT_GROUPED", group.context.text, span, column=shown)


def _check_function(group: Grouped, tokens: tuple[Token, ...], column: Span) -> None:
    """The function that a column is an argument of is one, and none that makes one value of the rows of a group.

    Raises:
        RefusedBySpark: there is no such function.
        UnsupportedError: it is an aggregate that the session alone knows.
    """
    calls = [
        Span(token.start, tokens[at + 1 + Cursor(group.context.text, tokens[at + 1 :]).closing()].end)
        for at, token in enumerate(tokens[:-1])
        if token.is_name and tokens[at + 1].text == "("
    ]
    around = [call for call in calls if call.start < column.start and column.end < call.end]
    if not around:
        return
    text, binder, call = group.context.text, group.context.binder, around[-1].of(group.context.text)
    alone, beside = (
        f"{group.prefix}SELECT {items} FROM {group.from_text}" for items in (call, f"{call}, {column.of(text)}")
    )
    if binder.columns(alone) is None:
        error = refused(binder, text, alone)
        if isinstance(error, RefusedBySpark) and error.condition.startswith("UNRESOLVED_ROUTINE"):
            raise error
    elif binder.columns(beside) is None:
        name = call.partition("(")[0].strip()
        raise UnsupportedError("AGGREGATE.OWN", text, around[-1].pair, function=name)


def _all_columns(tokens: tuple[Token, ...], outside: tuple[Token, ...]) -> Span | None:
    """Where `*` or `s.*` stands for all columns: it is after no operand, as the sign between two factors is."""
    for at, token in enumerate(tokens):
        before = tokens[at - 1].text if at else "("
        if token.text == "*" and token in outside and before in (".", "(", ","):
            begin = at
            while begin > 1 and tokens[begin - 1].text == ".":
                begin -= 2
            return Span(tokens[begin].start, token.end)
    return None


# the node


def _node(group: Grouped, bounds: tuple[str, ...]) -> Aggregation | TableAggregation:
    context, calls = group.context, group.replacer.calls
    is_table = group.block.span.start in context.tables.shown
    keys = [context.edits.render(span_of(key)) for key in group.grouping.keys]
    items = [f"{key} AS __k{n}" for n, key in enumerate(keys)]
    items += [] if is_table else [f"{_time(group)} AS __time"] if group.grouping.window else _event_time(group)
    arguments = [_arguments(group, call) for call in calls]
    for n, (call, found) in enumerate(zip(calls, arguments, strict=True)):
        items += [f"{argument} AS __a{n}_{m}" for m, argument in enumerate(found)]
        items += [f"{context.edits.render(call.filter)} AS __a{n}_f"] if call.filter else []
    payload = () if is_table else _payload(group)
    refused = [f"{quoted(column.name)} AS _l{n}" for n, column in enumerate(payload)]
    carried = _order_items(group) if context.carries else []
    core, sql = (_input_sql(group, [*items, *more, *carried]) for more in ([], refused))
    fragment = replace(context.fragment(sql), core=core)
    types = {column.name: column.type for column in fragment.columns}
    check_key_types(context.text, group.grouping, types)
    if context.binder.case_sensitive:
        check_case(context.text, group.block.items[0].relation.body.pair, group.columns)
    aggregates = tuple(
        _aggregate(group, n, call, found, types) for n, (call, found) in enumerate(zip(calls, arguments, strict=True))
    )
    texts = tuple(
        _call_text(group, n, call, found) for n, (call, found) in enumerate(zip(calls, arguments, strict=True))
    )
    if is_table:
        return _of_table(group, fragment, types, aggregates, texts)
    names = tuple(column.name for column in payload)
    return _of_stream(group, fragment, aggregates, names, texts, bounds)


def _order_items(group: Grouped) -> list[str]:
    """The columns of the order in which rows came."""
    place = group.block.items[0].relation.body
    return list(check_live_left(group.context.text, place, group.prefix + group.from_text, group.arrival).items)


def _input_sql(group: Grouped, items: list[str]) -> str:
    return f"{group.prefix}SELECT {', '.join(items) or '1 AS __one'} FROM {group.from_text}{_where(group)}"


def _of_table(
    group: Grouped, fragment: Fragment, types: dict[str, str], aggregates: tuple[Aggregate, ...],
    calls: tuple[str | None, ...],
) -> TableAggregation:  # fmt: skip
    window = group.grouping.window
    if window is not None:
        raise UnsupportedError("TABLE.WINDOW", group.context.text, window.span.pair, table=_shown(group).name)
    n_keys = len(group.grouping.keys)
    shown = [Column(f"__k{n}", types[f"__k{n}"]) for n in range(n_keys)]
    shown += [Column(f"__a{n}", aggregate.type) for n, aggregate in enumerate(aggregates)]
    if group.context.carries:
        _check_computed(group)
        shown += update_columns(order_of(fragment, is_sequence=True), shown[:n_keys])
    name = f"__sqlx_agg{group.context.number(Aggregation, TableAggregation)}"
    config = TableAggregateConfig(n_keys, aggregates)
    return TableAggregation(
        name, fragment, config, tuple(shown), _shown(group).name, calls=calls, places=_places(group)
    )


def _check_computed(group: Grouped) -> None:
    """Live groups of a table are kept up to date by what computes each aggregate in a worker.

    Raises:
        UnsupportedError: only Spark can compute one.
    """
    for call in group.replacer.calls:
        if call.function == "rows":
            found = call.span.of(group.context.text)
            raise UnsupportedError("TABLE.KEEPS_ROWS", group.context.text, call.name_span.pair, call=found)


def _shown(group: Grouped) -> ShownTable:
    return group.context.tables.shown[group.block.span.start]


def _of_stream(
    group: Grouped, fragment: Fragment, aggregates: tuple[Aggregate, ...],
    payload: tuple[str, ...], calls: tuple[str | None, ...], bounds: tuple[str, ...],
) -> Aggregation:  # fmt: skip
    context, window, n_keys = group.context, group.grouping.window, len(group.grouping.keys)
    relation = group.block.items[0].relation
    entry = context.table(relation, group.block.level)
    config = config_of(context, group.tail, Window() if window is None else window.window, n_keys, aggregates)
    config = replace(config, max_future_us=entry.max_future_us if entry is not None else None)
    types = {column.name: column.type for column in fragment.columns}
    bound = "timestamp" if window is None else types["__time"]
    keys = [Column(f"__k{n}", types[f"__k{n}"]) for n in range(n_keys)]
    shown = (
        *keys,
        *([Column("__ws", bound), Column("__we", bound)] if window else []),
        *(Column(f"__a{n}", aggregate.type) for n, aggregate in enumerate(aggregates)),
    )
    emit = group.tail.emit
    return Aggregation(
        f"__sqlx_agg{context.number(Aggregation, TableAggregation)}",
        fragment,
        config,
        _with_carried(group, fragment, shown, [*keys, *(Column(name, bound) for name in bounds)], config),
        ".".join(relation.parts) or "the query",
        group.tail.late_to,
        payload,
        calls,
        emit.idle_us if emit is not None and emit.kind == "final" else None,
        () if config.is_final else bounds,
        places=_places(group),
    )


def _with_carried(
    group: Grouped, fragment: Fragment, shown: tuple[Column, ...], keys: list[Column], config: WindowAggregateConfig
) -> tuple[Column, ...]:
    """The columns of a result and after them what its rows carry along, live on Spark."""
    if not group.context.carries:
        return shown
    if config.is_final:
        return with_row_order(shown, fragment.columns)
    is_sequence = group.arrival is not None and group.arrival.is_sequence
    return (*shown, *update_columns(order_of(fragment, is_sequence=is_sequence), keys))


def _places(group: Grouped) -> Places:
    """What messages may point to."""
    tail = group.tail
    found = {"LATE TO": tail.late, **(tail.emit.options if tail.emit is not None else {})}
    calls = {f"call {n}": call.name_span for n, call in enumerate(group.replacer.calls)}
    return tuple((what, span.pair) for what, span in {**found, **calls}.items() if span is not None)


def _event_time(group: Grouped) -> list[str]:
    """Without windows the time of a row is that of its event; replay knows it by itself.

    Raises:
        BindError: nothing shows it, and EMIT EVERY goes by it.
    """
    if not group.context.carries:
        return []
    time, emit = group.arrival.time if group.arrival is not None else None, group.tail.emit
    if time is None and emit is not None and emit.kind == "every":
        raise BindError("EMIT.EVERY_NO_TIME", group.context.text, emit.head.pair)
    return [f"{time or 'timestamp_micros(0)'} AS __time"]


def _where(group: Grouped) -> str:
    return f" WHERE {group.context.edits.render(group.tail.where)}" if group.tail.where is not None else ""


def _payload(group: Grouped) -> tuple[Column, ...]:
    """The columns of late rows: where they go to a table; in replay the driver shows them."""
    names = [column.name.lower() for column in group.columns]  # one that both sides of a join have is left out
    are_kept = group.context.streaming and (group.tail.late_to is not None or not group.context.carries)
    return tuple(c for c in group.columns if are_kept and names.count(c.name.lower()) == 1)


def _time(group: Grouped) -> str:
    """The time of a row's windows.

    Raises:
        BindError: it is no time.
    """
    call = group.grouping.window
    assert call is not None
    time = group.context.edits.render(call.time)
    sql = f"{group.prefix}SELECT {time} AS __x FROM {group.from_text}"
    (column,) = group.context.columns_of(sql)
    if column.type == "date":  # in the windows that Spark makes in batch a date is its midnight in the session's zone
        return f"CAST({time} AS {'TIMESTAMP_NTZ' if call.window.kind == 'sliding' else 'TIMESTAMP_LTZ'})"
    if column.type not in _TIMES:
        found = {"found": call.time.of(group.context.text), "type": column.type.upper()}
        raise BindError("WINDOW.TIME_TYPE", group.context.text, call.time.pair, **found)
    return time


def _arguments(group: Grouped, call: AggregateCall) -> list[str]:
    """What is computed for each row: the arguments; where the rows are kept, the columns that the call names."""
    if call.function != "rows":
        return [group.context.edits.render(span) for span in call.arguments]
    return list(dict.fromkeys(_named(group, call)))


def _named(group: Grouped, call: AggregateCall) -> list[str]:
    tokens = tokenize_span(group.context.text, call.span)
    names = {column.name.lower() for column in group.columns}
    aliases = {r.relation.visible_name.lower() for r in group.block.items if r.relation.visible_name}
    return [
        ".".join(t.text for t in chain)
        for chain in name_chains(tokens)
        if chain[0].name.lower() in names or chain[0].name.lower() in aliases
    ]


def _call_text(group: Grouped, number: int, call: AggregateCall, arguments: list[str]) -> str | None:
    """A call whose rows are kept, over its argument columns."""
    if call.function != "rows":
        return None
    written, at = [], call.span.start
    text = group.context.text
    for chain in name_chains(tokenize_span(text, call.span)):
        shown = ".".join(t.text for t in chain)
        if shown in arguments:
            written += [text[at : chain[0].start], f"__a{number}_{arguments.index(shown)}"]
            at = chain[-1].end
    return "".join([*written, text[at : call.span.end]])


def _aggregate(
    group: Grouped, number: int, call: AggregateCall, arguments: list[str], types: dict[str, str]
) -> Aggregate:
    found = [types[f"__a{number}_{m}"] for m in range(len(arguments))]
    check_carried(group.context.text, call.span.pair, zip(arguments, found, strict=True))
    for argument, kind in zip(arguments, found, strict=True):
        check_collation(group.context.text, call.span.pair, argument, kind)
    check_arguments(group.context.text, call, found, types.get(f"__a{number}_f"))
    check_compared(group.context.text, call, found)
    kind = result_type(call.function, found, "")
    has_filter = call.filter is not None and call.function != "rows"
    if not kind:
        sql = f"{group.prefix}SELECT {call.span.of(group.context.text)} AS __x FROM {group.from_text}"
        kind = group.context.columns_of(sql)[0].type
    return Aggregate(call.function, len(arguments), call.distinct, call.ignore_nulls, has_filter, kind)


# Windows of bounded queries, over all rows, so that every result is final: Spark aggregates them.
#
# It has no sliding windows: these are a temporal operator, as live ones are.


def bounded_block(context: Context, block: Block, tail: QueryTail, from_text: str) -> None:
    """Take out the clauses that play no part over bounded rows, once they are known to fit each other.

    Args:
        context: the compilation.
        block: the block.
        tail: its clauses.
        from_text: what its FROM clause reads, compiled.

    Raises:
        TemporalSqlError: they do not.
    """
    slides = not context.streaming and not block.pipe and _slides(context, block, tail, from_text)
    if slides:
        aggregate_block(context, block, tail, from_text)
    elif tail.ours:
        relations = Span(block.items[0].start, block.items[-1].end)
        prefix = with_clause(context.text, context.edits, block.level, relations)
        context.check_bounded(f"{prefix}SELECT * FROM {from_text}")
        _spark_block(context, block, tail, from_text)
    else:
        return
    if tail.grace is not None:
        context.notes.append("GRACE PERIOD plays no part in a batch query: every row is there.")
    if tail.late is not None:
        context.notes.append("LATE TO plays no part in a batch query: over bounded inputs nothing is late.")
    changes = tail.emit is not None and tail.emit.kind != "final"
    if changes and block.select is not None and is_outermost(block) and not context.streaming:
        context.edits.insert(block.select.end, ", 'insert' AS _change_type")


def _spark_block(context: Context, block: Block, tail: QueryTail, from_text: str) -> None:
    """Leave the grouping to Spark."""
    grouping = _grouping(context, block, tail, from_text) if tail.group else None
    check_emission(context, block, tail, grouping)
    if grouping is not None and grouping.window is not None and grouping.window.column == "session_window":
        _name_sessions(context, block, tail)
    carried = None if grouping is None else _bounded_finals(context.text, block, grouping)
    if carried is not None and tail.emit is not None and tail.emit.kind == "final":
        context.live.hand_on_finals(block, carried)
    if not groups(context.text, block, tail):
        check_every(context, block, tail)
    for span in tail.ours:
        context.edits.replace(span, "")


def _bounded_finals(text: str, block: Block, grouping: Grouping) -> RowOrder | None:
    """What final results of windows carry along: the time of their newest row, and the order in which they come live.

    Source: semantics.md 13.4, B13.
    """
    windows, call = block.items[0].relation.windows, grouping.window
    if call is not None:
        end, start = f"{call.span.of(text)}.end", f"{call.span.of(text)}.start"
    elif windows is not None:  # TUMBLE and its kin, whose rows name the bounds
        call, end, start = windows.call, "max(window_end)", "max(window_start)"
    else:
        return None
    keys = [span_of(key).of(text) for key in grouping.keys]
    order = ", ".join(f"'p{n}', {part}" for n, part in enumerate((end, start, *keys)))
    return RowOrder(f"max({call.time.of(text)})", (f"named_struct({order})",), is_sequence=True)


def _name_sessions(context: Context, block: Block, tail: QueryTail) -> None:
    """`window.start` is the start of the query's window, whichever function made it; Spark names it by the function."""
    for span in (block.select, tail.having):
        tokens = tokenize_span(context.text, span)
        for token, dot, bound in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if token.word == "WINDOW" and dot.text == "." and bound.name.lower() in ("start", "end"):
                context.edits.replace(Span(token.start, token.end), "session_window")


def _slides(context: Context, block: Block, tail: QueryTail, from_text: str) -> bool:
    """Whether a block groups by sliding windows, be it by an alias or a place in the select list."""
    text = context.text
    written = [tokenize_span(text, span) for span in (*tail.group, *([block.select] if block.select else []))]
    if not tail.group or not any(_calls(tokens) for tokens in written):
        return False
    grouping = _grouping(context, block, tail, from_text)
    return grouping.window is not None and grouping.window.window.kind == "sliding"


def _grouping(context: Context, block: Block, tail: QueryTail, from_text: str) -> Grouping:
    """What a block groups by; its columns are asked for where a name may be one or an alias, as a column it is."""
    text, items = context.text, select_items(context.text, block.select)
    bounds = BOUNDS if any(item.relation.windows is not None for item in block.items) else {}
    alone = [tokens[0].name.lower() for span in tail.group if len(tokens := tokenize_span(text, span)) == 1]
    if any(item.alias is not None and item.alias.name.lower() in alone for item in items):
        prefix = with_clause(text, context.edits, block.level, Span(block.items[0].start, block.items[-1].end))
        names = {column.name.lower() for column in context.columns_of(f"{prefix}SELECT * FROM {from_text}")}
        items = [Item(i.tokens) if i.alias is not None and i.alias.name.lower() in names else i for i in items]
    return read_grouping(text, tail.group, items, set(), bounds)


def _calls(tokens: tuple[Token, ...]) -> bool:
    """Whether some of the tokens call `sliding_window`."""
    return any(t.is_name and t.name.lower() == "sliding_window" and n.text == "(" for t, n in pairwise(tokens))
