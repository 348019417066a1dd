"""Puts the result of a deduplication in the place of its relation.

::

    FROM orders o DEDUPLICATE WITHIN INTERVAL 10 MINUTES BY (o.id)
      =>
    FROM (SELECT _l0 AS `id`, _l1 AS `amount` FROM __sqlx_dedup1) AS `o`
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from catalog.entries import Column, Entry
from catalog.relations import versions_sql
from sqlx.arrival import ROW, Arrival
from sqlx.clauses import DeduplicateClause
from sqlx.cut import with_clause
from sqlx.dialect import Span, quoted
from sqlx.live_reads import check_live_left
from sqlx.needed import needed_columns
from sqlx.operators.deduplicate import DeduplicateBuilder, DeduplicateInput
from sqlx.plan import Deduplicate
from sqlx.reads import live_read
from sqlx.right_side import arrival_of
from sqlx.scope import Visible
from sqlx.structure import Block, Join, Level, Pipe, Relation

if TYPE_CHECKING:
    from sqlx.compiler import Compiler


@dataclass
class _Base:
    """The rows before DEDUPLICATE."""

    from_text: str
    name: str
    hidden: tuple[str, ...] = ()
    entry: Entry | None = None
    shown: tuple[Column, ...] = field(default=())
    arrival: Arrival | None = None


def deduplicate_relation(compiler: Compiler, block: Block, relation: Relation) -> None:
    """Compile ``relation DEDUPLICATE …``; the relation before it is compiled already.

    Raises:
        BindError: the clause does not fit the relation.
    """
    inner, clause = relation.inner, relation.deduplicate
    assert inner is not None
    assert clause is not None
    name = inner.given_name
    prefix = with_clause(compiler.text, compiler.edits, block.level, inner.span, *_read(clause))
    base = _stream(compiler, inner, block.level, name) or _plain(compiler, inner, prefix, name)
    shown = _shown(compiler, base, prefix, inner)
    if compiler.carries:
        check_live_left(compiler.text, inner.body, prefix + base.from_text, base.arrival)
    keeps_late = compiler.carries and clause.late_to is not None
    needed = shown.columns if relation.columns or keeps_late else _needed(compiler, block, relation, shown)
    what = f"`{'.'.join(inner.parts)}`" if inner.kind == "name" else "the relation before it"
    node = _add(compiler, clause, _inputs(base, prefix, shown, needed, what))
    text = _result(node, needed, compiler.live.arrival_behind(relation, base.arrival))
    if not relation.own_alias:
        text += f" AS {quoted(relation.given_name)}"
    end = relation.body.end if relation.own_alias else relation.span.end
    compiler.edits.replace(Span(relation.span.start, end), text)


def deduplicate_pipe(compiler: Compiler, level: Level, pipe: Pipe) -> None:
    """Compile ``query |> DEDUPLICATE …``: the query up to the pipe is its relation.

    Raises:
        BindError: the clause does not fit the query.
    """
    first = level.blocks[0]
    query = Span(first.span.start, pipe.span.start)
    only = first.items[0] if len(level.blocks) == 1 and len(first.items) == 1 and not first.items[0].joins else None
    name = (only.relation.visible_name if only else None) or f"__sqlx_a{pipe.span.start}"
    prefix = with_clause(compiler.text, compiler.edits, level, query, *_read(pipe.clause))
    from_text = f"({compiler.edits.render(query).rstrip()}) AS {quoted(name)}"
    base = _Base(from_text, name, arrival=Arrival() if compiler.carries else None)
    shown = _shown(compiler, base, prefix, None)
    node = _add(compiler, pipe.clause, _inputs(base, prefix, shown, shown.columns, "the query before the pipe"))
    whole = Span(query.start, pipe.span.end)
    compiler.edits.replace(whole, f"FROM {_result(node, shown.columns, None)} AS {quoted(name)}")


def _read(clause: DeduplicateClause) -> list[Span]:
    """The spans of the clause that are put into the query of its input."""
    return [*clause.by, *([clause.time] if clause.time else [])]


def _stream(compiler: Compiler, inner: Relation, level: Level, name: str) -> _Base | None:
    """A stream of our catalog under its own columns: it knows its time and sequence."""
    if inner.travel or inner.extra or inner.columns:
        return None
    entry = compiler.table(inner, level)
    if entry is None or entry.kind != "stream":
        return None
    if compiler.carries:
        return _live_stream(compiler, inner, entry, name)
    read = compiler.edits.render(Span(inner.span.start, inner.body.end))  # live, under the name of its source
    source = replace(entry, relation=read) if compiler.streaming else entry
    by_arrival = not compiler.streaming and entry.sequence_by is None
    arrival = arrival_of(entry, compiler.binder) if by_arrival else ()
    sql = versions_sql(replace(source, delete_when=None), arrival)
    for number in range(len(arrival)):
        sql = sql.replace(f" AS __order{number}", f" AS __arrival{number}")
    hidden = ("__time", *(["__seq"] if entry.sequence_by else []), *(f"__arrival{n}" for n in range(len(arrival))))
    return _Base(f"({sql}) AS {quoted(name)}", name, hidden, entry, entry.columns)


def _live_stream(compiler: Compiler, inner: Relation, entry: Entry, name: str) -> _Base:
    """A stream that carries its event time and order of arrival along."""
    live = live_read(compiler.binder, entry, compiler.text, inner.body)
    assert live.arrival is not None, "only such rows are read so"
    sql = versions_sql(replace(live.of(entry), delete_when=None))
    sql = sql.replace(" AS __time", f" AS __time, {ROW}", 1)
    hidden = ("__time", *(["__seq"] if entry.sequence_by else []))
    return _Base(f"({sql}) AS {quoted(name)}", name, hidden, entry, entry.columns, live.arrival.of(name))


def _plain(compiler: Compiler, inner: Relation, prefix: str, name: str) -> _Base:
    """Any other relation: live it brings the event time of its rows along, bounded it needs ON TIME."""
    body = compiler.edits.render(inner.span)
    from_text = body if inner.visible_name else f"{body} AS {quoted(name)}"
    is_name = inner.kind == "name" and not prefix and not inner.columns and not inner.travel and not inner.extra
    if compiler.carries:
        return _Base(from_text, name, arrival=compiler.live.arrival_of(inner) or Arrival())
    if compiler.streaming or not is_name or compiler.binder.columns(f"SELECT 1 FROM {from_text}") is None:
        return _Base(from_text, name)
    arrival = compiler.binder.arrival(compiler.edits.render(inner.body))  # it breaks ties of equal times
    sql = f"SELECT {quoted(name)}.*, {arrival} AS __arrival0 FROM {from_text}"
    return _Base(f"({sql}) AS {quoted(name)}", name, ("__arrival0",))


def _shown(compiler: Compiler, base: _Base, prefix: str, inner: Relation | None) -> Visible:
    if base.shown:
        return Visible(base.name, base.shown, inner.parts[:-1] if inner is not None and inner.alias is None else ())
    sql = f"{prefix}SELECT {quoted(base.name)}.* FROM {base.from_text}"
    columns = compiler.bound(sql, inner)
    return Visible(base.name, tuple(c for c in columns if c.name not in base.hidden and c.name != ROW))


def _needed(compiler: Compiler, block: Block, relation: Relation, shown: Visible) -> tuple[Column, ...]:
    """The columns that the rest of the block may read."""
    visible = replace(shown, name=relation.visible_name or shown.name)
    as_join = Join("", relation.span, relation)
    found = needed_columns(compiler.text, block, as_join, [], (visible,), Visible("", ()))
    return tuple(column for _, column in found.left)


def _inputs(base: _Base, prefix: str, shown: Visible, needed: tuple[Column, ...], what: str) -> DeduplicateInput:
    limit = base.entry.max_future_us if base.entry else None
    return DeduplicateInput(prefix, base.from_text, shown, needed, base.hidden, limit, what, base.arrival)


def _add(compiler: Compiler, clause: DeduplicateClause, inputs: DeduplicateInput) -> Deduplicate:
    """Build the node and make its result known."""
    number = sum(1 for node in compiler.nodes.values() if isinstance(node, Deduplicate)) + 1
    builder = DeduplicateBuilder(compiler.binder, compiler.text, clause, inputs, compiler.streaming)
    node = builder.build(f"__sqlx_dedup{number}")
    node = replace(node, input=replace(node.input, reads=compiler.reads(node.input.sql)))
    compiler.nodes[node.name] = node
    compiler.binder.announce(node.name, node.columns)
    if clause.late_to and not compiler.streaming:
        compiler.notes.append("LATE TO in a batch query keeps late rows out of the result, and writes them nowhere.")
    return node


def _result(node: Deduplicate, needed: tuple[Column, ...], arrival: Arrival | None) -> str:
    shown = zip(node.columns, needed, strict=False)  # what live rows carry along stands behind them
    items = [f"{place.name} AS {quoted(column.name)}" for place, column in shown]
    items += [f"{arrival.struct} AS {ROW}"] if arrival is not None else []
    return f"(SELECT {', '.join(items)} FROM {node.name})"
