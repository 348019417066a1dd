"""The updates of a table as the rows of a live query, and the clauses of queries that do not group.

::

    SELECT k, v FROM t EMIT EVERY INTERVAL '5' SECONDS PER KEY
      =>
    SELECT k, v FROM (SELECT _l0 AS `k`, _l1 AS `v` FROM __sqlx_tab1) AS `t`
"""

from __future__ import annotations

from itertools import pairwise

from catalog.entries import Column, Entry
from catalog.relations import alias_text
from sqlx.bind.binder import RowOrder
from sqlx.bind.comparison import check_collation
from sqlx.bind.reads import live_read
from sqlx.bind.right_side import generators, stars
from sqlx.bind.scope import RelationScope
from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.context import Context
from sqlx.plan.emit import check_emission, is_outermost
from sqlx.plan.keyed_join import live_retention_us, retention_notes
from sqlx.plan.live_reads import row_item
from sqlx.plan.nodes import Result, Source, TableChanges
from sqlx.plan.select_list import select_items
from sqlx.plan.table_reads import ROW_OF_STREAM, KeyColumn, ShownTable, TableQuery
from sqlx.plan.updates import carried_by, order_of, update_columns
from sqlx.sql.parser import read_tail
from sqlx.sql.structure import Block, QueryTail, Relation
from sqlx.sql.tokens import Span, quoted, tokenize, tokenize_span
from udtf.operators.table_changes.logic import TableChangesConfig


def check_every(context: Context, block: Block, tail: QueryTail) -> None:
    """Updates of a table can wait: those of a versioned one may not (3.1), and nothing else has any.

    Raises:
        BindError: EMIT EVERY is after something else.
    """
    if tail.emit is None or tail.emit.kind != "every":
        return
    span = tail.emit.head.pair
    if not context.tables.reads(block):
        raise BindError("EMIT.EVERY_STREAM", context.text, span)
    entry = context.tables.versioned(block)
    if entry is not None:
        raise BindError("EMIT.EVERY_VERSIONED", context.text, span, name=entry.name)


def ungrouped_block(context: Context, block: Block, tail: QueryTail) -> Result | None:
    """Compile a live block that groups nothing: it shows rows of a stream, or of tables as they change.

    Returns:
        What the query's result is; None where no table is shown, or the block is not the query.

    Raises:
        TemporalSqlError: its EMIT does not fit it.
    """
    check_emission(context, block, tail, None)
    windows = next((item.relation.windows for item in block.items if item.relation.windows is not None), None)
    if windows is not None:
        raise BindError("WINDOW.RELATION_UNGROUPED", context.text, windows.call.span.pair, name=windows.name.upper())
    table = context.tables.shown.get(block.span.start)
    check_every(context, block, tail)
    if tail.emit is not None and tail.emit.shape in ("upsert", "changelog") and table is None:
        span = tail.emit.options.get("AS", tail.emit.head)
        mode = span.of(context.text).upper()
        raise UnsupportedError("UNSUPPORTED.CHANGED_ROWS", context.text, span.pair, mode=mode)
    result = _table(context, block, tail, table) if table is not None else None
    for span in tail.ours:
        context.edits.replace(span, "")
    return result


def _table(context: Context, block: Block, tail: QueryTail, table: ShownTable) -> Result | None:
    """What a block over tables is: the query's result, or a table for the block around it."""
    places = table.places(select_items(context.text, block.select), together=is_outermost(block))
    if table.carried is not None and tail.where is not None:
        _filter(context, tail.where, table, table.carried)
    if not is_outermost(block):
        labels = tuple(key.shown for key in table.keys)
        found = TableQuery(tuple(map(tuple, places)), labels, table.is_versioned, table.carried)
        context.tables.results[block.span.start] = found
        return None
    emit = tail.emit
    missing = [key for key, found in zip(table.keys, places, strict=True) if not found]
    if missing and not (emit is not None and (emit.kind, emit.shape) == ("corrections", "changelog")):
        if missing[0].label == ROW_OF_STREAM:
            span = tail.emit.options.get("AS", tail.emit.head) if tail.emit is not None else Span(0, 1)
            raise BindError("EMIT.NO_KEY", context.text, span.pair)
        span = block.select or Span(0, 1)
        raise UnsupportedError("EMIT.KEY_NOT_SELECTED", context.text, span.pair, key=missing[0].shown)
    shape = emit.shape if emit is not None and emit.shape is not None else "upsert"
    keys = tuple(sorted(place for found in places for place in found))
    shows_every = table.read is not None and table.read.shows_every_update
    is_sequence = table.carried is not None and table.carried.is_sequence
    key_places = tuple(map(tuple, places))
    return Result(shape, keys, key_places, filters=tail.where is not None and not shows_every, is_sequence=is_sequence)


def _filter(context: Context, where: Span, table: ShownTable, carried: RowOrder) -> None:
    """Of what shows nothing before and now, an update of a versioned table goes on, any other does not (5.2, 5.4)."""
    context.edits.insert(where.start, "(")
    goes_on = f"OR {carried.is_gone}" if table.is_versioned else f"AND NOT {carried.is_gone}"
    context.edits.insert(where.end, f") {goes_on}")


def check_one_row(context: Context, block: Block, tail: QueryTail) -> None:
    """A row of a table is shown by itself, as one row: of several nobody could tell which is which when it changes.

    Raises:
        UnsupportedError: a generator makes several of it, or what it shows depends on other rows.
    """
    if block.span.start in context.tables.shown:
        for span in tail.laterals:
            raise UnsupportedError("TABLE.GENERATOR", context.text, span.pair)
        check_shown_alone(context, block, tail)


def check_shown_alone(context: Context, block: Block, tail: QueryTail) -> None:
    """Refuse what would show several rows for one, or one by others; see `check_one_row`.

    Raises:
        UnsupportedError: `TABLE.GENERATOR` or `TABLE.SEVERAL_ROWS`.
    """
    if tail.pipes is not None:
        what, hint = "A pipe operator behind a result that changes", "Write it as one SELECT."
        span = tail.pipes.start, tail.pipes.start + len("|>")
        raise UnsupportedError("UNSUPPORTED.STREAM_FRAGMENT", context.text, span, what=what, hint=hint)
    tokens = tokenize_span(context.text, block.select)
    for token in generators(tokens):
        raise UnsupportedError("TABLE.GENERATOR", context.text, (token.start, token.end))
    several = [t for t in tokens if t.word == "DISTINCT" and t is tokens[0]]
    several += [t for t, after in pairwise(tokens) if t.word == "OVER" and after.text == "("]
    found = [Span(t.start, t.end) for t in several] + tail.rest
    if found:
        first, *others = [token.word for token in tokenize_span(context.text, found[0])[:2]]
        what = " ".join([first, *(word for word in others if word == "BY")])
        raise UnsupportedError("TABLE.SEVERAL_ROWS", context.text, found[0].pair, what=what)


def read_table(context: Context, block: Block, relation: Relation) -> ShownTable:
    """Read a definition by its changes: its updates stand where its name was."""
    entry = context.table(relation, block.level)
    assert entry is not None, "a relation of tables is a definition or a query"
    if entry.valid_from is not None:
        raise UnsupportedError("TABLE.SCD2", context.text, relation.body.pair, table=entry.name)
    is_latest_only = not context.tables.shows_every_update or _shape(context, block) == "changelog"
    node = context.add(_node(context, relation, entry, is_latest_only))
    context.notes += retention_notes(entry)
    names = [token.name for token in relation.columns] or [column.name for column in entry.columns]
    if len(names) != len(entry.columns):
        span = (relation.columns[0].start, relation.columns[-1].end)
        listed, found = len(names), len(entry.columns)
        raise BindError("KEYED_JOIN.COLUMN_LIST", context.text, span, name=entry.name, listed=listed, found=found)
    name = relation.visible_name or entry.name
    scope = RelationScope(name, tuple(Column(n, c.type) for n, c in zip(names, entry.columns, strict=True)))
    carried = carried_by(node.columns, "", is_sequence=_is_sequence(context, entry)) if context.carries else None
    context.edits.replace(relation.span, _read_of(node, entry, scope, carried))
    shown = {column.name.lower(): n.lower() for n, column in zip(names, entry.columns, strict=True)}
    keys = tuple(KeyColumn(frozenset({(name.lower(), shown[key.lower()])})) for key in entry.keys)
    shown_row = carried.of(name) if carried is not None else None
    if shown_row is not None:
        context.live.show(relation, shown_row)
    return ShownTable(entry.name, keys, (scope,), entry.kind == "versioned", node, shown_row)


def _is_sequence(context: Context, entry: Entry) -> bool:
    arrival = context.binder.live(entry).arrival
    return arrival is not None and arrival.is_sequence


def _shape(context: Context, block: Block) -> str | None:
    """The shape that the statement's outermost block asks for."""
    level = block.level
    while level.parent is not None:
        level = level.parent
    emits = [read_tail(context.text, outer).emit for outer in level.blocks]
    return next((emit.shape for emit in emits if emit is not None), None)


def _needed(context: Context, relation: Relation, entry: Entry) -> list[Column]:
    """The columns that can be read: live, those that the statement spells, and the key."""
    tokens = tokenize(context.text)
    reads_all = stars(tokens) or relation.columns or any(token.word == "NATURAL" for token in tokens)
    if not context.carries or entry.late_to is not None or reads_all:
        return list(entry.columns)
    spelled = {token.name.lower() for token in tokens if token.is_name} | {key.lower() for key in entry.keys}
    return [column for column in entry.columns if column.name.lower() in spelled]


def _read_of(node: TableChanges, entry: Entry, scope: RelationScope, carried: RowOrder | None) -> str:
    place = {name: f"_l{n}" for n, name in enumerate(node.names)}
    values = [place.get(c.name, f"CAST(NULL AS {c.type})") for c in entry.columns]  # what nobody reads need not travel
    shown = ", ".join(f"{v} AS {quoted(column.name)}" for v, column in zip(values, scope.columns, strict=True))
    hidden = row_item(carried) if carried is not None else ""
    return f"(SELECT {shown}{hidden} FROM {node.name}) AS {quoted(scope.name)}"


def _node(context: Context, relation: Relation, entry: Entry, is_latest_only: bool) -> TableChanges:
    live = live_read(context.binder, entry, context.text, relation.body)
    context.nodes.setdefault(live.name, Source(entry))
    items = [f"{quoted(key)} AS __k{n}" for n, key in enumerate(entry.keys)]
    delete_when = live.of(entry).delete_when
    items += [f"({delete_when}) AS __deleted"] if delete_when else []
    columns = _needed(context, relation, entry)
    items += [f"{quoted(column.name)} AS _l{n}" for n, column in enumerate(columns)]
    if context.carries and live.arrival is not None:
        arrival = live.arrival.of(alias_text(entry).strip("`"))
        items += [f"{arrival.time} AS __time", *arrival.items]
    sql = f"SELECT {', '.join(items)} FROM {live.name} AS {alias_text(entry)}"
    fragment = context.fragment(sql)
    for key, column in zip(entry.keys, fragment.columns, strict=False):
        check_collation(context.text, relation.body.pair, key, column.type)
    shown = tuple(Column(f"_l{n}", column.type) for n, column in enumerate(columns))
    if context.carries:
        types = {column.name: column.type for column in fragment.columns}
        keys = tuple(Column(f"__u{n}", types[f"__k{n}"]) for n in range(len(entry.keys)))
        kept = order_of(fragment, is_sequence=_is_sequence(context, entry))
        shown = (*shown, *update_columns(kept, keys))
    return TableChanges(
        f"__sqlx_tab{context.number(TableChanges)}",
        fragment,
        TableChangesConfig(
            n_keys=len(entry.keys),
            max_future_us=entry.max_future_us,
            is_versioned=entry.kind == "versioned",
            retention_us=live_retention_us(entry) if entry.kind == "versioned" else None,
            is_latest_only=is_latest_only,
        ),
        shown,
        entry.name,
        entry.late_to,
        tuple(column.name for column in columns),
        tuple([column.name.lower() for column in columns].index(key.lower()) for key in entry.keys),
    )
