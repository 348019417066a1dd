"""DEDUPLICATE WITHIN: from the clause as written to a plan node with everything explicit.

Source: KIP-655, semantics.md section 16.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn

from catalog.entries import Column, Entry
from catalog.relations import versions_sql
from sqlx.bind.binder import ROW, Ordered, RowOrder
from sqlx.bind.comparison import check_carried, check_case, check_collation, is_key
from sqlx.bind.reads import live_read
from sqlx.bind.right_side import arrival_of
from sqlx.bind.scope import RelationScope, Scope
from sqlx.bind.spark_errors import refused
from sqlx.errors import BindError
from sqlx.plan.context import Context
from sqlx.plan.keyed_join import with_row_order
from sqlx.plan.live_reads import check_live_left
from sqlx.plan.nodes import Deduplicate, Fragment
from sqlx.plan.payload import core_of, lasting_names, needed_columns, numbered_names
from sqlx.plan.subquery_text import with_clause
from sqlx.sql.structure import Block, DeduplicateClause, Join, Level, Pipe, Relation
from sqlx.sql.tokens import Span, quoted, tokenize_span
from udtf.operators.deduplicate.config import DeduplicateConfig

_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class DeduplicateInput:
    """The relation before DEDUPLICATE as text.

    Attributes:
        with_clause: the WITH clause that it needs, or "".
        from_text: what is after FROM.
        core: the same without the columns that nothing but the query reads.
        shown: its name and all its columns.
        needed: those of its columns that the query can read.
        names: what these are called on their way through the operator.
        hidden: which of ``__time``, ``__seq``, ``__arrival0`` … it has.
        max_future_us: of the stream that it is, or None.
        what: what messages call it.
        arrival: what live rows carry along on Spark; None everywhere else.
    """

    with_clause: str
    from_text: str
    core: str
    shown: RelationScope
    needed: tuple[Column, ...]
    names: tuple[str, ...]
    hidden: tuple[str, ...]
    max_future_us: int | None = None
    what: str = "the relation"
    arrival: RowOrder | None = None

    def query(self, items: list[str]) -> str:
        """The relation as a query of these items."""
        return f"{self.with_clause}SELECT {', '.join(items)} FROM {self.from_text}"

    def core_query(self, items: list[str]) -> str:
        """The same without the columns that nothing but the query reads."""
        return f"{self.with_clause}SELECT {', '.join(items)} FROM {self.core}"


class DeduplicateBuilder:
    """Builds one deduplication.

    Args:
        context: what the operators share.
        clause: the clause as it was read.
        inputs: the relation.
    """

    def __init__(self, context: Context, clause: DeduplicateClause, inputs: DeduplicateInput) -> None:
        self.binder, self.text, self.streaming = context.binder, context.text, context.streaming
        self.clause, self.inputs = clause, inputs
        self.scope = Scope(self.text, (inputs.shown,), None, context.binder.is_variable)

    def build(self, name: str) -> Deduplicate:
        """The plan node.

        Raises:
            BindError: the clause does not fit the relation.
        """
        if self.binder.case_sensitive:
            check_case(self.text, self.clause.head.pair, self.inputs.shown.columns)
        keys = [self._expression(span) for span in self.clause.by]
        time = self._time()
        self._check_keys(keys)
        items = [f"{key} AS __k{n}" for n, key in enumerate(keys)]
        items += [f"{time} AS __time"] if time else []
        alias = quoted(self.inputs.shown.name)
        items += [f"{alias}.{hidden} AS {hidden}" for hidden in self.inputs.hidden if hidden != "__time"]
        payload, arrival = self.inputs.names, self.inputs.arrival
        shown = zip(payload, self.inputs.needed, strict=True)
        handed_on = [f"{alias}.{quoted(column.name)} AS {place}" for place, column in shown]
        carried = replace(arrival, time=arrival.time or "CAST(NULL AS TIMESTAMP)").items if arrival is not None else []
        sql = self.inputs.query([*items, *handed_on, *carried])
        columns = self._columns(sql)
        core = core_of(self.inputs.core_query([*items, *carried]), columns, payload)
        output = tuple(c for c in columns if c.name in payload)
        if arrival is not None:
            output, payload = with_row_order(output, columns), (*payload, "__event_time")
        named = zip((c.name for c in self.inputs.needed), (c.type for c in output), strict=False)
        check_carried(self.text, self.clause.head.pair, named)
        fragment, shown_name = Fragment(sql, columns, core=core), self.inputs.shown.name
        names = tuple(column.name for column in self.inputs.needed)
        config, late_to = self._config(payload), self.clause.late_to
        options = (("LATE TO", "LATE"), ("IDLE TIMEOUT", "IDLE TIMEOUT"))
        found = self.clause.options
        places = tuple((place, found[option].pair) for place, option in options if option in found)
        idle_us = self.clause.idle_us if self.streaming else None
        return Deduplicate(name, fragment, config, output, shown_name, late_to, names, places=places, idle_us=idle_us)

    def _expression(self, span: Span) -> str:
        """An expression over the relation.

        Raises:
            BindError: it names a column that is not there.
        """
        try:
            self.scope.references(tokenize_span(self.text, span))
        except BindError as error:
            if error.condition != "BIND.UNKNOWN_COLUMN":
                raise
            raise BindError("DEDUPLICATE.UNKNOWN_COLUMN", self.text, error.span, **error.parameters) from None
        return span.of(self.text)

    def _time(self) -> str:
        """The time that is compared; "" where it is the event time that comes with each live row.

        Raises:
            BindError: there is none, or it is no time.
        """
        if self.clause.time is None:
            if "__time" not in self.inputs.hidden:
                arrival = self.inputs.arrival
                if self.streaming and (arrival is None or arrival.time is not None):
                    return ""
                raise BindError("DEDUPLICATE.NO_TIME", self.text, self.clause.head.pair, name=self.inputs.what)
            return self._cast(f"{quoted(self.inputs.shown.name)}.__time", self.clause.head)
        return self._cast(self._expression(self.clause.time), self.clause.time)

    def _cast(self, time: str, span: Span) -> str:
        """A time as a timestamp."""
        (column,) = self._columns(self.inputs.query([f"{time} AS __x0"]))
        if column.type == "date":
            return f"CAST({time} AS TIMESTAMP_NTZ)"
        if column.type not in _TIMES:
            self._refuse_time(time, column.type, span)
        return time

    def _refuse_time(self, found: str, type_name: str, span: Span) -> NoReturn:
        raise BindError("DEDUPLICATE.TIME_TYPE", self.text, span.pair, found=found, type=type_name.upper())

    def _check_keys(self, keys: list[str]) -> None:
        """Every type that can be compared for equality can be a key.

        Raises:
            BindError, UnsupportedError: one cannot.
        """
        types = self._columns(self.inputs.query([f"{key} AS __x{n}" for n, key in enumerate(keys)]))
        for key, column, span in zip(keys, types, self.clause.by, strict=True):
            if not is_key(column.type) or column.type == "void":
                raise BindError("DEDUPLICATE.KEY_TYPE", self.text, span.pair, key=key, type=column.type.upper())
            check_collation(self.text, span.pair, key, column.type)

    def _columns(self, sql: str) -> tuple[Column, ...]:
        columns = self.binder.columns(sql)
        if columns is None:
            raise refused(self.binder, self.text, sql)
        return columns

    def _config(self, payload: tuple[str, ...]) -> DeduplicateConfig:
        return DeduplicateConfig(
            interval_us=self.clause.interval_us,
            keep="last" if self.clause.keeps_last else "first",
            late=self.clause.late,
            n_keys=len(self.clause.by),
            columns=payload,
            has_sequence="__seq" in self.inputs.hidden,
            max_future_us=self.inputs.max_future_us if self.streaming else None,
        )


# Puts the result of a deduplication in the place of its relation.
#
# ::
#
#     FROM orders o DEDUPLICATE WITHIN INTERVAL 10 MINUTES BY (o.id)
#       =>
#     FROM (SELECT _l0 AS `id`, _l1 AS `amount` FROM __sqlx_dedup1) AS `o`


@dataclass
class _Base:
    """The rows before DEDUPLICATE."""

    from_text: str
    name: str
    core: str = ""
    hidden: tuple[str, ...] = ()
    entry: Entry | None = None
    shown: tuple[Column, ...] = field(default=())
    arrival: RowOrder | None = None


def deduplicate_relation(context: Context, block: Block, relation: Relation) -> None:
    """Compile ``relation DEDUPLICATE …``; the relation before it is compiled already.

    Raises:
        BindError: the clause does not fit the relation.
    """
    inner, clause = relation.inner, relation.deduplicate
    assert inner is not None
    assert clause is not None
    name = inner.given_name
    prefix = with_clause(context.text, context.edits, block.level, inner.span, *_read(clause))
    keeps_row = not context.streaming and context.live.is_carried(relation)
    base = _stream(context, inner, block.level, name) or _plain(context, inner, prefix, name, keeps_row)
    shown = _shown(context, base, prefix, inner)
    if context.carries:
        check_live_left(context.text, inner.body, prefix + base.from_text, base.arrival)
    keeps_late = context.carries and clause.late_to is not None
    needed = shown.columns if relation.columns or keeps_late else _needed(context, block, relation, shown)
    carried = context.live.row_order_of(inner) if keeps_row else None
    if carried is not None:
        needed = (*(c for c in needed if c.name != ROW), *(c for c in shown.columns if c.name == ROW))
        context.live.show(relation, carried.of(relation.given_name))
    what = f"`{'.'.join(inner.parts)}`" if inner.kind == "name" else "the relation before it"
    node = _add(context, clause, _inputs(context, base, prefix, shown, needed, what))
    text = _result(node, needed, context.live.row_order_after(relation, base.arrival))
    if not relation.own_alias:
        text += f" AS {quoted(relation.given_name)}"
    end = relation.body.end if relation.own_alias else relation.span.end
    context.edits.replace(Span(relation.span.start, end), text)


def deduplicate_pipe(context: Context, level: Level, pipe: Pipe) -> None:
    """Compile ``query |> DEDUPLICATE …``: the query up to the pipe is its relation.

    Raises:
        BindError: the clause does not fit the query.
    """
    first = level.blocks[0]
    query = Span(first.span.start, pipe.span.start)
    only = first.items[0] if len(level.blocks) == 1 and len(first.items) == 1 and not first.items[0].joins else None
    name = (only.relation.visible_name if only else None) or f"__sqlx_a{pipe.span.start}"
    prefix = with_clause(context.text, context.edits, level, query, *_read(pipe.clause))
    from_text = f"({context.edits.render(query).rstrip()}) AS {quoted(name)}"
    carried = context.live.piped(level, pipe, name)
    base = _Base(from_text, name, arrival=carried if context.carries else None)
    if not context.streaming and carried.time is not None:
        base = _bounded(from_text, name, carried, context.live.is_read_again(level, pipe))
    shown = _shown(context, base, prefix, None)
    node = _add(context, pipe.clause, _inputs(context, base, prefix, shown, shown.columns, "the query before the pipe"))
    whole = Span(query.start, pipe.span.end)
    behind = context.live.row_order_behind(level, pipe, base.arrival) if base.arrival is not None else None
    context.edits.replace(whole, f"FROM {_result(node, shown.columns, behind)} AS {quoted(name)}")


def _read(clause: DeduplicateClause) -> list[Span]:
    """The spans of the clause that are put into the query of its input."""
    return [*clause.by, *([clause.time] if clause.time else [])]


def _stream(context: Context, inner: Relation, level: Level, name: str) -> _Base | None:
    """A stream of our catalog under its own columns: it knows its time and sequence."""
    if inner.travel or inner.extra or inner.columns:
        return None
    entry = context.table(inner, level)
    if entry is None or entry.kind != "stream":
        return None
    if context.carries:
        return _live_stream(context, inner, entry, name)
    if context.live.row_order_of(inner) is not None:
        return None
    read = context.edits.render(Span(inner.span.start, inner.body.end))  # live, under the name of its source
    ordered = Ordered(replace(entry, relation=read), False) if context.streaming else context.in_order(entry)
    by_arrival = not context.streaming and entry.sequence_by is None
    arrival = arrival_of(ordered.entry, context.binder) if by_arrival else ()
    names = _orders(arrival, is_sequence=ordered.is_sequence)
    sql = versions_sql(replace(ordered.entry, delete_when=None), further=dict(zip(names, arrival, strict=True)))
    hidden = ("__time", *(["__seq"] if entry.sequence_by else []), *names)
    return _Base(f"({sql}) AS {quoted(name)}", name, hidden=hidden, entry=entry, shown=entry.columns)


def _live_stream(context: Context, inner: Relation, entry: Entry, name: str) -> _Base:
    """A stream that carries its event time and order of arrival along."""
    live = live_read(context.binder, entry, context.text, inner.body)
    assert live.arrival is not None, "only such rows are read so"
    source, further = replace(live.of(entry), delete_when=None), {ROW: ROW}
    both = source, replace(source, columns=())
    whole, core = (f"({versions_sql(one, further=further)}) AS {quoted(name)}" for one in both)
    hidden = ("__time", *(["__seq"] if entry.sequence_by else []))
    return _Base(whole, name, core, hidden, entry, entry.columns, live.arrival.of(name))


def _plain(context: Context, inner: Relation, prefix: str, name: str, keeps_row: bool) -> _Base:
    """Any other relation: live it brings the event time of its rows along, bounded it needs ON TIME."""
    body = context.edits.render(inner.span)
    from_text = body if inner.visible_name else f"{body} AS {quoted(name)}"
    is_name = inner.kind == "name" and not prefix and not inner.columns and not inner.travel and not inner.extra
    if context.carries:
        return _Base(from_text, name, arrival=context.live.row_order_of(inner) or RowOrder())
    carried = context.live.row_order_of(inner)
    if carried is not None:
        return _bounded(from_text, name, carried, keeps_row)
    if context.streaming or not is_name or context.binder.columns(f"SELECT 1 FROM {from_text}") is None:
        return _Base(from_text, name)
    arrival = context.binder.arrival(context.edits.render(inner.body))  # it breaks ties of equal times
    sql = f"SELECT {quoted(name)}.*, {arrival} AS __arrival0 FROM {from_text}"
    return _Base(f"({sql}) AS {quoted(name)}", name, hidden=("__arrival0",))


def _orders(order: tuple[str, ...], *, is_sequence: bool) -> list[str]:
    """What a query calls that by which its rows arrived."""
    return ["__seq"][: len(order)] if is_sequence else [f"__arrival{number}" for number in range(len(order))]


def _bounded(from_text: str, name: str, carried: RowOrder, keeps_row: bool) -> _Base:
    """Bounded rows of a stream, as other queries have handed them on; another deduplication may read the result."""
    names = _orders(carried.order, is_sequence=carried.is_sequence)
    order = [f"{expression} AS {hidden}" for expression, hidden in zip(carried.order, names, strict=True)]
    star = f"{quoted(name)}.*" if keeps_row else f"{quoted(name)}.* EXCEPT ({ROW})"
    items = [star, f"{carried.time} AS __time", *order]
    return _Base(f"(SELECT {', '.join(items)} FROM {from_text}) AS {quoted(name)}", name, hidden=("__time", *names))


def _shown(context: Context, base: _Base, prefix: str, inner: Relation | None) -> RelationScope:
    if base.shown:
        return RelationScope(
            base.name, base.shown, inner.parts[:-1] if inner is not None and inner.alias is None else ()
        )
    sql = f"{prefix}SELECT {quoted(base.name)}.* FROM {base.from_text}"
    columns = context.bound(sql, inner)
    return RelationScope(base.name, tuple(c for c in context.shown(columns) if c.name not in base.hidden))


def _needed(context: Context, block: Block, relation: Relation, shown: RelationScope) -> tuple[Column, ...]:
    """The columns that the rest of the block may read."""
    visible = replace(shown, name=relation.visible_name or shown.name)
    as_join = Join("", relation.span, relation)
    found = needed_columns(context.text, block, as_join, [], (visible,), RelationScope("", ()))
    return tuple(column for _, column in found.left)


def _inputs(  # all that is known of the relation
    context: Context, base: _Base, prefix: str, shown: RelationScope, needed: tuple[Column, ...], what: str
) -> DeduplicateInput:
    limit = base.entry.max_future_us if base.entry else None
    columns = [(shown.name, column.name) for column in needed]
    names = lasting_names("l", (shown,), columns) if context.carries else numbered_names("l", columns)
    core = base.core or base.from_text
    return DeduplicateInput(prefix, base.from_text, core, shown, needed, names, base.hidden, limit, what, base.arrival)


def _add(context: Context, clause: DeduplicateClause, inputs: DeduplicateInput) -> Deduplicate:
    """Build the node and make its result known."""
    node = context.add(DeduplicateBuilder(context, clause, inputs).build(f"__sqlx_dedup{context.number(Deduplicate)}"))
    if clause.late_to and not context.streaming:
        context.notes.append("LATE TO in a batch query keeps late rows out of the result, and writes them nowhere.")
    if clause.idle_us is not None and not context.streaming:
        context.notes.append("IDLE TIMEOUT plays no part in a batch query: the end of the input completes all groups.")
    return node


def _result(node: Deduplicate, needed: tuple[Column, ...], arrival: RowOrder | None) -> str:
    shown = zip(node.columns, needed, strict=False)  # what live rows carry along is after them
    items = [f"{place.name} AS {quoted(column.name)}" for place, column in shown]
    items += [f"{arrival.struct} AS {ROW}"] if arrival is not None else []
    return f"(SELECT {', '.join(items)} FROM {node.name})"
