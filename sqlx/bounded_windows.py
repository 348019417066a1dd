"""Windows of bounded queries: Spark aggregates them, over all rows, so that every result is final."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlx.clauses import QueryTail
from sqlx.emission import check_emission, is_outermost
from sqlx.grouping import read_grouping
from sqlx.selected import groups, select_items
from sqlx.structure import Block
from sqlx.table_changes import check_every, table_of

if TYPE_CHECKING:
    from sqlx.compiler import Compiler


def bounded_block(compiler: Compiler, block: Block, tail: QueryTail) -> None:
    """Take out the clauses that play no part over bounded rows, once they are known to fit each other.

    Raises:
        TemporalSqlError: they do not.
    """
    if not tail.ours:
        return
    items = select_items(compiler.text, block.select)
    windows = any(item.relation.windows is not None for item in block.items)
    bounds = BOUNDS if windows else {}
    grouping = read_grouping(compiler.text, tail.group, items, set(bounds), bounds) if tail.group else None
    check_emission(compiler, block, tail, grouping)
    emit, entry = tail.emit, table_of(compiler, block)
    if not groups(compiler.text, block, tail):
        check_every(compiler, tail, entry)
    for span in tail.ours:
        compiler.edits.replace(span, "")
    if tail.grace is not None:
        compiler.notes.append("GRACE PERIOD plays no part in a batch query: every row is there.")
    if tail.late is not None:
        compiler.notes.append("LATE TO plays no part in a batch query: over bounded inputs nothing is late.")
    changes = emit is not None and emit.kind != "final"
    if changes and block.select is not None and is_outermost(block) and not compiler.streaming:
        compiler.edits.insert(block.select.end, ", 'insert' AS _change_type")
