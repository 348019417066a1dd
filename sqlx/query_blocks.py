"""What is done with a query block once its relations are compiled: grouping, EMIT, GRACE PERIOD and LATE TO."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlx.aggregation import aggregate_block
from sqlx.bounded_windows import bounded_block
from sqlx.cut import with_clause
from sqlx.dialect import Span
from sqlx.emission import suppress_config
from sqlx.plan import Aggregation, Fragment, Suppress
from sqlx.selected import groups
from sqlx.structure import Block
from sqlx.table_changes import ungrouped_block
from sqlx.tail_reader import read_tail
from udtf.operators.window_aggregate_config import Window

if TYPE_CHECKING:
    from sqlx.compiler import Compiler


def finish_block(compiler: Compiler, block: Block) -> None:
    """Compile what a block does with its rows.

    Raises:
        TemporalSqlError: its clauses do not fit each other.
    """
    if not block.items:
        return
    tail = read_tail(compiler.text, block)
    relations = Span(block.items[0].start, block.items[-1].end)
    from_text = compiler.edits.render(relations)
    if not _is_live(compiler, block, relations, from_text):
        bounded_block(compiler, block, tail, from_text)
    elif groups(compiler.text, block, tail):
        aggregate_block(compiler, block, tail, from_text)
    elif not block.pipe:
        ungrouped_block(compiler, block, tail)
    if tail.emit is not None and tail.emit.kind == "every" and compiler.streaming:
        compiler.every = tail.emit


def _is_live(compiler: Compiler, block: Block, relations: Span, from_text: str) -> bool:
    """Whether a block reads live rows, by itself or through a common table expression."""
    if not compiler.streaming:
        return False
    return bool(compiler.reads(with_clause(compiler.text, compiler.edits, block.level, relations) + from_text))


def suppressed(compiler: Compiler, fragment: Fragment) -> Fragment:
    """The query with its EMIT EVERY around it: its updates wait."""
    emit = compiler.every
    if emit is None:
        return fragment
    groups = [node for node in compiler.nodes.values() if isinstance(node, Aggregation)]
    values = tuple(n for n in range(len(fragment.columns)) if n not in compiler.result.keys)
    config = suppress_config(compiler, emit, groups[-1].config.window if groups else Window(), values)
    node = Suppress("__sqlx_sup1", fragment, config, fragment.columns, idle_us=emit.idle_us)
    compiler.nodes[node.name] = node
    compiler.binder.announce(node.name, node.columns)
    sql = f"SELECT * FROM {node.name}"
    return Fragment(sql, fragment.columns, ((node.name, node),))
