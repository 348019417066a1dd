"""The updates of a table as the rows of a live query, and the clauses of queries that do not group.

::

    SELECT k, v FROM t EMIT EVERY INTERVAL '5' SECONDS PER KEY
      =>
    SELECT k, v FROM (SELECT _l0 AS `k`, _l1 AS `v` FROM __sqlx_tab1) AS `t`
"""

from __future__ import annotations

from catalog.entries import Column, Entry
from catalog.relations import alias_text
from sqlx.bind.comparison import check_collation
from sqlx.bind.reads import live_read
from sqlx.bind.scope import name_chains
from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.context import Context
from sqlx.plan.emit import check_emission, is_outermost
from sqlx.plan.keyed_join import live_retention_us, retention_notes, with_row_order
from sqlx.plan.nodes import Result, Source, TableChanges
from sqlx.plan.select_list import Item, select_items
from sqlx.sql.structure import Block, QueryTail, Relation
from sqlx.sql.tokens import Span, quoted
from udtf.operators.table_changes.logic import TableChangesConfig


def table_of(context: Context, block: Block) -> Entry | None:
    """The temporal table whose rows a block shows, with nothing else beside it."""
    if len(block.items) != 1 or block.items[0].joins:
        return None
    entry = context.table(block.items[0].relation, block.level)
    return entry if entry is not None and entry.is_table else None


def check_every(context: Context, tail: QueryTail, entry: Entry | None) -> None:
    """Updates of an upsert table can wait: nothing else that is not grouped has any, or they may not (3.1).

    Raises:
        BindError: EMIT EVERY is after something else.
    """
    if tail.emit is not None and tail.emit.kind == "every" and (entry is None or entry.kind != "upsert"):
        condition = "EMIT.EVERY_STREAM" if entry is None else "EMIT.EVERY_VERSIONED"
        raise BindError(condition, context.text, tail.emit.head.pair, name=entry.name if entry else "")


def ungrouped_block(context: Context, block: Block, tail: QueryTail) -> Result | None:
    """Compile a live block that groups nothing: it shows rows of a stream, or of a table as they change.

    Returns:
        What the query's result is; None where no table is shown.

    Raises:
        TemporalSqlError: its EMIT does not fit it.
    """
    check_emission(context, block, tail, None)
    windows = next((item.relation.windows for item in block.items if item.relation.windows is not None), None)
    if windows is not None:
        raise BindError("WINDOW.RELATION_UNGROUPED", context.text, windows.call.span.pair, name=windows.name.upper())
    entry = table_of(context, block)
    check_every(context, tail, entry)
    if tail.emit is not None and tail.emit.shape in ("upsert", "changelog") and entry is None:
        shape, span = tail.emit.shape.upper(), tail.emit.options["AS"]
        raise UnsupportedError("UNSUPPORTED.CHANGED_ROWS", context.text, span.pair, mode=f"AS {shape}")
    # A versioned table that another query reads may be the right side of an AS OF join: its versions, not its changes.
    shows_changes = entry is not None and (entry.kind == "upsert" or is_outermost(block))
    result = _table(context, block, tail, entry) if shows_changes and entry is not None and block.select else None
    for span in tail.ours:
        context.edits.replace(span, "")
    return result


def _table(context: Context, block: Block, tail: QueryTail, entry: Entry) -> Result:
    relation = block.items[0].relation
    emit = tail.emit
    shape = emit.shape if emit is not None and emit.shape is not None else "upsert"
    node = context.add(_node(context, relation, entry, is_latest_only=shape == "changelog"))
    shown = [f"_l{n} AS {quoted(column.name)}" for n, column in enumerate(entry.columns)]
    name = quoted(relation.visible_name or entry.name)
    context.edits.replace(relation.span, _read_of(node, shown, name))
    context.notes += retention_notes(entry)
    keys = _keys(context, block, entry)
    around = _around(context, block, tail, entry, _read_of(node, ["__carry", *shown], name))
    return Result(shape, keys, filters=tail.where is not None and not node.shows_every_update, around=around)


def _read_of(node: TableChanges, items: list[str], name: str) -> str:
    return f"(SELECT {', '.join(items)} FROM {node.name}) AS {name}"


def _around(context: Context, block: Block, tail: QueryTail, entry: Entry, read: str) -> str:
    """The query over `read` once more, with its condition as a column, and what is handed on."""
    edits = context.edits
    assert block.select is not None, "the caller has looked"
    condition = "true" if tail.where is None else edits.render(tail.where)
    select = edits.render(block.select).strip()
    items = ", ".join(quoted(column.name) for column in entry.columns) if select == "*" else select
    return f"SELECT {items}, ({condition}) AS __passes, __carry FROM {read}"


def _node(context: Context, relation: Relation, entry: Entry, is_latest_only: bool) -> TableChanges:
    live = live_read(context.binder, entry, context.text, relation.body)
    context.nodes.setdefault(live.name, Source(entry))
    items = [f"{quoted(key)} AS __k{n}" for n, key in enumerate(entry.keys)]
    items += [f"({live.of(entry).delete_when}) AS __deleted"] if entry.delete_when else []
    items += [f"{quoted(column.name)} AS _l{n}" for n, column in enumerate(entry.columns)]
    if context.carries and live.arrival is not None:
        arrival = live.arrival.of(alias_text(entry).strip("`"))
        items += [f"{arrival.time} AS __time", *arrival.items]
    sql = f"SELECT {', '.join(items)} FROM {live.name} AS {alias_text(entry)}"
    fragment = context.fragment(sql)
    for key, column in zip(entry.keys, fragment.columns, strict=False):
        check_collation(context.text, relation.body.pair, key, column.type)
    names = [column.name.lower() for column in entry.columns]
    shown = tuple(Column(f"_l{n}", column.type) for n, column in enumerate(entry.columns))
    if context.carries:
        types = {column.name: column.type for column in fragment.columns}
        keys = tuple(Column(f"__k{n}", types[f"__k{n}"]) for n in range(len(entry.keys)))
        shown = with_row_order((*keys, *shown), fragment.columns)
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
        tuple(column.name for column in entry.columns),
        tuple(names.index(key.lower()) for key in entry.keys),
    )


def _keys(context: Context, block: Block, entry: Entry) -> tuple[int, ...]:
    """Places of the output columns that are KEYS.

    Raises:
        UnsupportedError: a key is not selected.
    """
    keys = [key.lower() for key in entry.keys]
    shown: list[str] = []
    for item in select_items(context.text, block.select):
        shown += _columns(item, entry)
    for key in keys:
        if key not in shown:
            span = block.select or Span(0, 1)
            raise UnsupportedError("EMIT.KEY_NOT_SELECTED", context.text, span.pair, key=key)
    return tuple(n for n, name in enumerate(shown) if name in keys)


def _columns(item: Item, entry: Entry) -> list[str]:
    """The columns that an item shows: a star all, an expression none that has a name here."""
    if item.tokens[-1].text == "*":
        return [column.name.lower() for column in entry.columns]
    chain = next(iter(name_chains(item.tokens)), None)
    is_column = chain is not None and chain[0] is item.tokens[0] and chain[-1] is item.tokens[-1]
    return [chain[-1].name.lower() if chain is not None and is_column else ""]
