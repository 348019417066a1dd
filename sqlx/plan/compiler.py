"""From text to plan: the structure is read, names are bound, and every temporal operator becomes a node.

Blocks are taken from the inside out, joins from left to right. An operator's two inputs are cut out of the text as
queries of their own; in its place the text reads the operator's result and gives its columns their names back::

    FROM o JOIN r AS OF o.ts ON o.k = r.k
      =>
    FROM __sqlx_rel1 AS __sqlx_op1
      CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o`
      CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`
"""

from __future__ import annotations

from functools import partial

from catalog.entries import Entry
from sqlx.bind.binder import ROW, Binder, RowOrder
from sqlx.bind.comparison import check_carried
from sqlx.bind.reads import insert_target
from sqlx.errors import TemporalSqlError
from sqlx.plan.context import Context
from sqlx.plan.corrected_join import check_corrected
from sqlx.plan.deduplicate import deduplicate_pipe
from sqlx.plan.emit import suppress_config
from sqlx.plan.from_clause import FromCompiler, is_operator
from sqlx.plan.nodes import Aggregation, Fragment, Operator, Plan, Result, Suppress, tables_read
from sqlx.plan.replaced_join import apply_names, shorten_qualifiers
from sqlx.plan.select_list import groups
from sqlx.plan.subquery_text import check_leftovers, is_query, with_clause
from sqlx.plan.table_changes import check_one_row, ungrouped_block
from sqlx.plan.table_reads import TableBlocks
from sqlx.plan.updates import updates_in
from sqlx.plan.window_aggregate import aggregate_block, bounded_block
from sqlx.sql.parser import read_tail, readable, scan
from sqlx.sql.structure import Block, EmitClause, Level
from sqlx.sql.tokens import Span
from udtf.operators.window_aggregate.config import Window


def compile_query(
    text: str, binder: Binder, streaming: bool = False, *, in_session: bool = True, hands_on: bool = False
) -> Plan:
    """Compile a statement that holds a query with temporal clauses.

    Args:
        text: the query, or a statement around one (EXPLAIN and CREATE heads are cut off by the caller).
        binder: names and types.
        streaming: whether definitions are read live (replay; on Spark: FROM STREAM).
        in_session: the session knows all names of the query; not those of a function's body, which reads its arguments.
        hands_on: a definition reads its rows live, with what they carry along: the root has the hidden column too.

    Returns:
        The plan; its root's SQL is the text with each operator replaced.

    Raises:
        TemporalParseError, BindError, UnsupportedError: with the line and a caret.
    """
    with readable(text):
        return _compiled(text, binder, streaming, in_session=in_session, hands_on=hands_on)


def _compiled(text: str, binder: Binder, streaming: bool, *, in_session: bool, hands_on: bool) -> Plan:
    context = Context(text, binder, streaming, _behind)
    into = insert_target(text, binder)
    if into is not None:
        context.edits.replace(*into)
    root = scan(text)
    context.tables = TableBlocks(text, root, binder.entry)
    if streaming:
        context.tables.check()
        context.live.start(root, partial(is_operator, context), hands_on=hands_on)
    else:
        context.live.start_bounded(root, hands_on=False)
    result, every = _blocks(context, root)
    check_leftovers(text, context.edits)
    check_corrected(context)
    sql = context.edits.render()
    columns = context.columns_of(sql) if context.nodes and in_session and is_query(text) else ()
    columns = context.shown(columns)
    if any(updates_in(node) is not None for node in context.nodes.values() if isinstance(node, Operator)):
        shown = next((block.select for block in root.blocks if block.select is not None), Span(0, len(text)))
        check_carried(text, shown.pair, [(column.name, column.type) for column in columns])
    root_fragment = Fragment(sql, columns, context.reads(sql))
    if every is not None:
        root_fragment = _suppressed(context, root_fragment, every, result)
    carried = context.live.handed_on(root) if hands_on and every is None else None
    notes = tuple(dict.fromkeys(context.notes))
    return Plan(root_fragment, text, streaming, notes, context.edits.origin, result, carried and carried.of(""))


def named_order(entry: Entry, binder: Binder) -> Entry:
    """A definition whose view is to show the last row of each key, as the stream that its query reads has them arrive.

    Args:
        entry: the definition.
        binder: names and types.

    Returns:
        The definition over a query that reads the stream by its name; as it was where the stream does not show its
        sequence, or operators are between them.
    """
    context = Context("", binder, False, _behind, by_name=True)
    ordered = context.in_order(entry)
    return ordered.entry if ordered.is_sequence and not context.nodes else entry


def is_order_in_view(entry: Entry, binder: Binder) -> bool:
    """Whether the view of a definition goes by the order in which its rows arrived, as far as there is one to know."""
    is_better_known = Context("", binder, False, _behind).in_order(entry).entry is not entry
    return not is_better_known or named_order(entry, binder) is not entry


def _behind(context: Context) -> tuple[str, RowOrder] | None:
    """Compile the query of a definition for a bounded read: what its rows carry along is in a hidden column.

    Returns:
        Its SQL and what the column holds; None where there is none, and where it cannot be read in this way: then it is
        read by its name, and whatever is wrong with it is said there.
    """
    try:
        with readable(context.text):
            root = scan(context.text)
            context.tables = TableBlocks(context.text, root, context.binder.entry)
            context.live.start_bounded(root, hands_on=True)
            _blocks(context, root)
            check_leftovers(context.text, context.edits)
    except TemporalSqlError:
        return None
    carried, sql = context.live.handed_on(root), context.edits.render()
    is_known = carried is not None and context.binder.columns(f"SELECT {ROW} FROM ({sql})") is not None
    return (sql, carried.of("")) if carried is not None and is_known else None


def _blocks(context: Context, root: Level) -> tuple[Result, EmitClause | None]:
    """Compile all blocks of a statement: what its result is, and its EMIT EVERY."""
    result, every = Result(), None
    for level in root.walk():
        for block in level.blocks:
            found = _block(context, block)
            result, every = found[0] or result, found[1] or every
        for pipe in level.pipes:
            deduplicate_pipe(context, level, pipe)
    return result, every


def _block(context: Context, block: Block) -> tuple[Result | None, EmitClause | None]:
    """Compile one block; what its result is where it is the query's, and its EMIT EVERY."""
    compiled = FromCompiler(context, block).compile()
    shown = context.live.rows_shown(block, compiled.first_row_order, is_replaced=bool(compiled.joins))
    for join in compiled.joins:
        apply_names(context.text, block, context.edits, join, shown)
    for item in block.items:
        shorten_qualifiers(context.text, block, context.edits, item, [join.span for join in compiled.joins])
    is_table = block.span.start in context.tables.shown
    context.live.hide_row(block, shown, is_replaced=bool(compiled.joins))
    context.live.hand_on(block, compiled.first_row_order, is_table=is_table)
    return _rows(context, block, compiled.first_row_order) if block.items else (None, None)


def _rows(context: Context, block: Block, arrival: RowOrder | None) -> tuple[Result | None, EmitClause | None]:
    """Compile what a block does with the rows of its relations: grouping, EMIT, GRACE PERIOD and LATE TO.

    Raises:
        TemporalSqlError: its clauses do not fit each other.
    """
    tail = read_tail(context.text, block)
    relations = Span(block.items[0].start, block.items[-1].end)
    from_text = context.edits.render(relations)
    result = None
    check_one_row(context, block, tail)
    if not _is_live(context, block, relations, from_text):
        bounded_block(context, block, tail, from_text)
    elif groups(context.text, block, tail):
        if context.tables.picks_rows(block):
            context.tables.refuse_groups(block)
        result = aggregate_block(context, block, tail, from_text, arrival)
    elif not block.pipe:
        result = ungrouped_block(context, block, tail)
    is_every = tail.emit is not None and tail.emit.kind == "every" and context.streaming
    return result, tail.emit if is_every else None


def _is_live(context: Context, block: Block, relations: Span, from_text: str) -> bool:
    """Whether a block reads live rows, by itself or through a common table expression."""
    if not context.streaming:
        return False
    return bool(context.reads(with_clause(context.text, context.edits, block.level, relations) + from_text))


def _suppressed(context: Context, fragment: Fragment, emit: EmitClause, result: Result) -> Fragment:
    """The query with its EMIT EVERY around it: its updates wait."""
    (table,) = tables_read(fragment)
    # Within a query one bound of a window is its key, as any column may be.
    window = table.config.window if isinstance(table, Aggregation) and len(table.bounds) > 1 else Window()
    values = tuple(n for n in range(len(fragment.columns)) if n not in result.keys)
    config = suppress_config(context, emit, window, values)
    places = tuple((option, span.pair) for option, span in emit.options.items())
    node = context.add(Suppress("__sqlx_sup1", fragment, config, fragment.columns, idle_us=emit.idle_us, places=places))
    return Fragment(f"SELECT * FROM {node.name}", fragment.columns, ((node.name, node),))
