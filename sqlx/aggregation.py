"""Puts the result of an aggregation in the place of a live query block's FROM clause.

::

    SELECT k, window.start AS ws, count(*) AS n FROM STREAM s GROUP BY k, window(ts, '1 hour') HAVING count(*) > 1
      =>
    SELECT __k0 AS `k`, __ws AS ws, __a0 AS n FROM __sqlx_agg1 WHERE __a0 > 1
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.entries import Column
from sqlx.aggregates import AggregateCall, check_arguments, check_no_aggregate, result_type
from sqlx.aggregation_text import Grouped, result_of, rewrite
from sqlx.clauses import QueryTail
from sqlx.cut import with_clause
from sqlx.dialect import Span, quoted, tokenize_span
from sqlx.emission import check_emission, config_of, is_outermost
from sqlx.errors import BindError
from sqlx.grouping import check_key_types, read_grouping
from sqlx.join_inputs import with_carried
from sqlx.live_reads import check_live_left
from sqlx.ordering import order_pieces
from sqlx.plan import Aggregation, Fragment
from sqlx.scope import name_chains
from sqlx.selected import (
    Replaced,
    Replacer,
    select_items,
)
from sqlx.structure import Block
from sqlx.window_relations import BOUNDS, check_bounds, check_partition
from udtf.operators.window_aggregate_config import Aggregate, Window

if TYPE_CHECKING:
    from sqlx.compiler import Compiler

_OWN = re.compile(r"__|_[lr]\d+$")  # columns of an operator below, which the query knows by other names
_TIMES = ("timestamp", "timestamp_ntz")


def aggregate_block(compiler: Compiler, block: Block, tail: QueryTail, from_text: str) -> None:
    """Compile a live block that groups its rows.

    Raises:
        TemporalSqlError: it names what is not grouped, or its clauses do not fit each other.
    """
    from_text += "".join(f" {compiler.edits.render(span)}" for span in tail.laterals)
    group = _read(compiler, block, tail, from_text)
    check_emission(compiler, block, tail, group.grouping)
    selected = [group.replacer.pieces(item.tokens) for item in group.items]
    having = group.replacer.having(tokenize_span(compiler.text, tail.having), group.items, selected)
    order = order_pieces(group.replacer, tail, group.items)
    for item, pieces in zip(group.items, selected, strict=True):
        _check_grouped(group, item.tokens, pieces)
    _check_grouped(group, tokenize_span(compiler.text, tail.having), having)
    node = _node(group)
    compiler.nodes[node.name] = node
    compiler.binder.announce(node.name, node.columns)
    around = rewrite(group, node, selected, [*having, *order])
    if is_outermost(block) and compiler.streaming:
        compiler.result = replace(result_of(group, selected), around=around)


def _read(compiler: Compiler, block: Block, tail: QueryTail, from_text: str) -> Grouped:
    text = compiler.text
    spans = [s for s in (block.select, tail.where, tail.having, tail.grouping) if s is not None]
    prefix = with_clause(text, compiler.edits, block.level, Span(block.items[0].start, block.items[-1].end), *spans)
    columns = tuple(c for c in compiler.columns_of(f"{prefix}SELECT * FROM {from_text}") if not _OWN.match(c.name))
    items = select_items(text, block.select)
    check_no_aggregate(text, tokenize_span(text, tail.where), "WHERE")
    names = {column.name.lower() for column in columns}
    windows = block.items[0].relation.windows
    bounds = BOUNDS if windows is not None else {}
    grouping = read_grouping(text, tail.group, items, names | bounds.keys(), bounds)
    if windows is not None:
        check_partition(text, windows, grouping.keys)
        check_bounds(text, windows, [span.of(text) for span in tail.group])
        grouping.window = windows.call
    return Grouped(compiler, block, tail, from_text, prefix, columns, items, grouping, Replacer(text, grouping, names))


def _check_grouped(group: Grouped, tokens: tuple, pieces: list[Replaced]) -> None:  # type: ignore[type-arg]
    """Every column outside of aggregates is grouped by.

    Raises:
        BindError: one is not.
    """
    names = {column.name.lower() for column in group.columns}
    aliases = {r.visible_name.lower() for i in group.block.items for r in [i.relation] if r.visible_name}
    covered = [piece.span for piece in pieces]
    outside = tuple(t for t in tokens if not any(s.start <= t.start < s.end for s in covered))
    star = next((t for t in outside if t.text == "*" and (outside[0] is t or outside[-1] is t)), None)
    if star is not None:
        stars = Span(outside[0].start, star.end)
        raise BindError("AGGREGATE.STAR", group.compiler.text, stars.pair, found=stars.of(group.compiler.text))
    for chain in name_chains(outside):
        is_column = chain[0].name.lower() in names or (len(chain) > 1 and chain[0].name.lower() in aliases)
        if is_column:
            shown, span = ".".join(t.name for t in chain), (chain[0].start, chain[-1].end)
            raise BindError("AGGREGATE.NOT_GROUPED", group.compiler.text, span, column=shown)


# the node


def _node(group: Grouped) -> Aggregation:
    compiler, calls = group.compiler, group.replacer.calls
    window = group.grouping.window
    keys = [compiler.edits.render(Span(key[0].start, key[-1].end)) for key in group.grouping.keys]
    items = [f"{key} AS __k{n}" for n, key in enumerate(keys)]
    items += [f"{_time(group)} AS __time"] if window else _event_time(compiler)
    arguments = [_arguments(group, call) for call in calls]
    for n, (call, found) in enumerate(zip(calls, arguments, strict=True)):
        items += [f"{argument} AS __a{n}_{m}" for m, argument in enumerate(found)]
        items += [f"{compiler.edits.render(call.filter)} AS __a{n}_f"] if call.filter else []
    payload = _payload(group)
    items += [f"{quoted(column.name)} AS _l{n}" for n, column in enumerate(payload)]
    if compiler.carries:
        place = group.block.items[0].relation.body
        items += check_live_left(compiler.text, place, group.prefix + group.from_text, compiler.first_arrival).items
    sql = f"{group.prefix}SELECT {', '.join(items) or '1 AS __one'} FROM {group.from_text}{_where(group)}"
    columns = compiler.columns_of(sql)
    fragment = Fragment(sql, columns, compiler.reads(sql))
    types = {column.name: column.type for column in columns}
    check_key_types(compiler.text, group.grouping, types)
    aggregates = tuple(
        _aggregate(group, n, call, found, types) for n, (call, found) in enumerate(zip(calls, arguments, strict=True))
    )
    number = sum(1 for node in compiler.nodes.values() if isinstance(node, Aggregation)) + 1
    relation = group.block.items[0].relation
    entry = compiler.table(relation, group.block.level)
    config = config_of(compiler, group.tail, Window() if window is None else window.window, len(keys), aggregates)
    config = replace(config, max_future_us=entry.max_future_us if entry is not None else None)
    shown = [Column(f"__k{n}", types[f"__k{n}"]) for n in range(len(keys))]
    bound = "timestamp" if compiler.streaming or window is None else types["__time"]
    shown += [Column("__ws", bound), Column("__we", bound)] if window else []
    shown += [Column(f"__a{n}", aggregate.type) for n, aggregate in enumerate(aggregates)]
    emit = group.tail.emit
    return Aggregation(
        f"__sqlx_agg{number}",
        fragment,
        config,
        with_carried(tuple(shown), columns) if compiler.carries else tuple(shown),
        ".".join(relation.parts) or "the query",
        group.tail.late_to,
        tuple(column.name for column in payload),
        tuple(_call_text(group, n, call, found) for n, (call, found) in enumerate(zip(calls, arguments, strict=True))),
        emit.idle_us if emit is not None and emit.kind == "final" else None,
    )


def _event_time(compiler: Compiler) -> list[str]:
    """Without windows the time of a row is that of its event; replay knows it by itself."""
    arrival = compiler.first_arrival
    if not compiler.carries:
        return []
    # Where several streams are mixed nothing shows it; without windows nothing goes by it either.
    return [f"{arrival.time if arrival is not None and arrival.time else 'timestamp_micros(0)'} AS __time"]


def _where(group: Grouped) -> str:
    return f" WHERE {group.compiler.edits.render(group.tail.where)}" if group.tail.where is not None else ""


def _payload(group: Grouped) -> tuple[Column, ...]:
    """The columns of late rows: where they go to a table; in replay the driver shows them."""
    names = [column.name.lower() for column in group.columns]  # one that both sides of a join have is left out
    are_kept = group.compiler.streaming and (group.tail.late_to is not None or not group.compiler.carries)
    return tuple(c for c in group.columns if are_kept and names.count(c.name.lower()) == 1)


def _time(group: Grouped) -> str:
    """The time of a row's windows.

    Raises:
        BindError: it is no time.
    """
    call = group.grouping.window
    assert call is not None
    time = group.compiler.edits.render(call.time)
    sql = f"{group.prefix}SELECT {time} AS __x FROM {group.from_text}"
    (column,) = group.compiler.columns_of(sql)
    if column.type == "date":
        return f"CAST({time} AS TIMESTAMP_NTZ)"
    if column.type not in _TIMES:
        found = {"found": call.time.of(group.compiler.text), "type": column.type.upper()}
        raise BindError("WINDOW.TIME_TYPE", group.compiler.text, call.time.pair, **found)
    return time


def _arguments(group: Grouped, call: AggregateCall) -> list[str]:
    """What is computed for each row: the arguments; where the rows are kept, the columns that the call names."""
    if call.function != "rows":
        return [group.compiler.edits.render(span) for span in call.arguments]
    return list(dict.fromkeys(_named(group, call)))


def _named(group: Grouped, call: AggregateCall) -> list[str]:
    tokens = tokenize_span(group.compiler.text, call.span)
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
    text = group.compiler.text
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
    check_arguments(group.compiler.text, call, found, types.get(f"__a{number}_f"))
    kind = result_type(call.function, found, "")
    has_filter = call.filter is not None and call.function != "rows"
    if not kind:
        sql = f"{group.prefix}SELECT {call.span.of(group.compiler.text)} AS __x FROM {group.from_text}"
        kind = group.compiler.columns_of(sql)[0].type
    return Aggregate(call.function, len(arguments), call.distinct, call.ignore_nulls, has_filter, kind)
