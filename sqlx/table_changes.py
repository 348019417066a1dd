"""The updates of an upsert table as the rows of a live query, and the clauses of queries that do not group.

::

    SELECT k, v FROM t EMIT EVERY INTERVAL '5' SECONDS PER KEY
      =>
    SELECT k, v FROM (SELECT _l0 AS `k`, _l1 AS `v` FROM __sqlx_tab1) AS `t`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog.entries import Column, Entry
from catalog.relations import alias_text
from sqlx.clauses import QueryTail
from sqlx.dialect import Span, quoted
from sqlx.emission import check_emission
from sqlx.errors import BindError, UnsupportedError
from sqlx.join_inputs import with_carried
from sqlx.plan import Fragment, Result, Source, TableChanges
from sqlx.reads import live_read
from sqlx.scope import name_chains
from sqlx.selected import Item, select_items
from sqlx.structure import Block, Relation
from udtf.operators.table_changes import TableChangesConfig

if TYPE_CHECKING:
    from sqlx.compiler import Compiler


def table_of(compiler: Compiler, block: Block) -> Entry | None:
    """The table of ours whose rows a block shows, with nothing else beside it."""
    if len(block.items) != 1 or block.items[0].joins:
        return None
    entry = compiler.table(block.items[0].relation, block.level)
    return entry if entry is not None and entry.is_table else None


def check_every(compiler: Compiler, tail: QueryTail, entry: Entry | None) -> None:
    """Updates of an upsert table can wait: nothing else that is not grouped has any, or they may not (3.1).

    Raises:
        BindError: EMIT EVERY stands behind something else.
    """
    if tail.emit is not None and tail.emit.kind == "every" and (entry is None or entry.kind != "upsert"):
        condition = "EMIT.EVERY_STREAM" if entry is None else "EMIT.EVERY_VERSIONED"
        raise BindError(condition, compiler.text, tail.emit.head.pair, name=entry.name if entry else "")


def ungrouped_block(compiler: Compiler, block: Block, tail: QueryTail) -> None:
    """Compile a live block that groups nothing: it shows rows of a stream, or of a table as they change.

    Raises:
        TemporalSqlError: its EMIT does not fit it.
    """
    check_emission(compiler, block, tail, None)
    windows = next((item.relation.windows for item in block.items if item.relation.windows is not None), None)
    if windows is not None:
        raise BindError("WINDOW.RELATION_UNGROUPED", compiler.text, windows.call.span.pair, name=windows.name.upper())
    entry = table_of(compiler, block)
    check_every(compiler, tail, entry)
    if tail.emit is not None and tail.emit.shape in ("upsert", "changelog") and entry is None:
        shape, span = tail.emit.shape.upper(), tail.emit.options["AS"]
        raise UnsupportedError("UNSUPPORTED.CHANGED_ROWS", compiler.text, span.pair, mode=f"AS {shape}")
    if entry is not None and entry.kind == "upsert" and block.select is not None:
        _table(compiler, block, tail, entry)
    for span in tail.ours:
        compiler.edits.replace(span, "")


def _table(compiler: Compiler, block: Block, tail: QueryTail, entry: Entry) -> None:
    relation = block.items[0].relation
    node = _node(compiler, relation, entry)
    compiler.nodes[node.name] = node
    compiler.binder.announce(node.name, node.columns)
    shown = ", ".join(f"_l{n} AS {quoted(column.name)}" for n, column in enumerate(entry.columns))
    name = quoted(relation.visible_name or entry.name)
    compiler.edits.replace(relation.span, f"(SELECT {shown} FROM {node.name}) AS {name}")
    emit = tail.emit
    keys = _keys(compiler, block, entry)
    shape = emit.shape if emit is not None and emit.shape is not None else "upsert"
    around = _around(compiler, block, tail)
    compiler.result = Result(shape, keys, filters=tail.where is not None, around=around)


def _around(compiler: Compiler, block: Block, tail: QueryTail) -> str:
    """The query once more with its condition as a column, and what is handed on."""
    edits = compiler.edits
    assert block.select is not None, "the caller has looked"
    condition = "true" if tail.where is None else edits.render(tail.where)
    relation = edits.render(block.items[0].relation.span).replace("(SELECT ", "(SELECT __carry, ", 1)
    select = edits.render(block.select)
    shown = ", ".join(quoted(column.name) for column in _entry_columns(compiler, block))
    items = ", ".join(shown if item.strip() == "*" else item.strip() for item in [select])
    return f"SELECT {items}, ({condition}) AS __passes, __carry FROM {relation}"


def _entry_columns(compiler: Compiler, block: Block) -> tuple[Column, ...]:
    entry = table_of(compiler, block)
    return entry.columns if entry is not None else ()


def _node(compiler: Compiler, relation: Relation, entry: Entry) -> TableChanges:
    live = live_read(compiler.binder, entry, compiler.text, relation.body)
    compiler.nodes.setdefault(live.name, Source(entry))
    items = [f"{quoted(key)} AS __k{n}" for n, key in enumerate(entry.keys)]
    items += [f"({live.of(entry).delete_when}) AS __deleted"] if entry.delete_when else []
    items += [f"{quoted(column.name)} AS _l{n}" for n, column in enumerate(entry.columns)]
    if compiler.carries and live.arrival is not None:
        arrival = live.arrival.of(alias_text(entry).strip("`"))
        items += [f"{arrival.time} AS __time", *arrival.items]
    sql = f"SELECT {', '.join(items)} FROM {live.name} AS {alias_text(entry)}"
    fragment = Fragment(sql, compiler.columns_of(sql), compiler.reads(sql))
    number = sum(1 for node in compiler.nodes.values() if isinstance(node, TableChanges)) + 1
    names = [column.name.lower() for column in entry.columns]
    shown = tuple(Column(f"_l{n}", column.type) for n, column in enumerate(entry.columns))
    if compiler.carries:
        types = {column.name: column.type for column in fragment.columns}
        keys = tuple(Column(f"__k{n}", types[f"__k{n}"]) for n in range(len(entry.keys)))
        shown = with_carried((*keys, *shown), fragment.columns)
    return TableChanges(
        f"__sqlx_tab{number}",
        fragment,
        TableChangesConfig(n_keys=len(entry.keys), max_future_us=entry.max_future_us),
        shown,
        entry.name,
        entry.late_to,
        tuple(column.name for column in entry.columns),
        tuple(names.index(key.lower()) for key in entry.keys),
    )


def _keys(compiler: Compiler, block: Block, entry: Entry) -> tuple[int, ...]:
    """Places of the output columns that are KEYS.

    Raises:
        UnsupportedError: a key is not selected.
    """
    keys = [key.lower() for key in entry.keys]
    shown: list[str] = []
    for item in select_items(compiler.text, block.select):
        shown += _columns(item, entry)
    for key in keys:
        if key not in shown:
            span = block.select or Span(0, 1)
            raise UnsupportedError("EMIT.KEY_NOT_SELECTED", compiler.text, span.pair, key=key)
    return tuple(n for n, name in enumerate(shown) if name in keys)


def _columns(item: Item, entry: Entry) -> list[str]:
    """The columns that an item shows: a star all, an expression none that has a name here."""
    if item.tokens[-1].text == "*":
        return [column.name.lower() for column in entry.columns]
    chain = next(iter(name_chains(item.tokens)), None)
    is_column = chain is not None and chain[0] is item.tokens[0] and chain[-1] is item.tokens[-1]
    return [chain[-1].name.lower() if chain is not None and is_column else ""]
