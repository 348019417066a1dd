"""Windows of bounded queries, over all rows, so that every result is final: Spark aggregates them.

It has no sliding windows: these are an operator of ours, as live ones are.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sqlx.aggregation import aggregate_block
from sqlx.clauses import QueryTail
from sqlx.dialect import Span, Token, tokenize_span
from sqlx.emission import check_emission, is_outermost
from sqlx.grouping import read_grouping
from sqlx.selected import Grouping, groups, select_items
from sqlx.structure import Block
from sqlx.table_changes import check_every, table_of
from sqlx.window_relations import BOUNDS

if TYPE_CHECKING:
    from sqlx.compiler import Compiler


def bounded_block(compiler: Compiler, block: Block, tail: QueryTail, from_text: str) -> None:
    """Take out the clauses that play no part over bounded rows, once they are known to fit each other.

    Args:
        compiler: the compilation.
        block: the block.
        tail: its clauses.
        from_text: what its FROM clause reads, compiled.

    Raises:
        TemporalSqlError: they do not.
    """
    slides = not compiler.streaming and not block.pipe and _slides(compiler, block, tail)
    if slides:
        aggregate_block(compiler, block, tail, from_text)
    elif tail.ours:
        _spark_block(compiler, block, tail)
    else:
        return
    if tail.grace is not None:
        compiler.notes.append("GRACE PERIOD plays no part in a batch query: every row is there.")
    if tail.late is not None:
        compiler.notes.append("LATE TO plays no part in a batch query: over bounded inputs nothing is late.")
    changes = tail.emit is not None and tail.emit.kind != "final"
    if changes and block.select is not None and is_outermost(block) and not compiler.streaming:
        compiler.edits.insert(block.select.end, ", 'insert' AS _change_type")


def _spark_block(compiler: Compiler, block: Block, tail: QueryTail) -> None:
    """Leave the grouping to Spark."""
    grouping = _grouping(compiler, block, tail) if tail.group else None
    check_emission(compiler, block, tail, grouping)
    if grouping is not None and grouping.window is not None and grouping.window.column == "session_window":
        _name_sessions(compiler, block, tail)
    if not groups(compiler.text, block, tail):
        check_every(compiler, tail, table_of(compiler, block))
    for span in tail.ours:
        compiler.edits.replace(span, "")


def _name_sessions(compiler: Compiler, block: Block, tail: QueryTail) -> None:
    """`window.start` is the start of the query's window, whichever function made it; Spark names it by the function."""
    for span in (block.select, tail.having):
        tokens = tokenize_span(compiler.text, span)
        for token, dot, bound in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if token.word == "WINDOW" and dot.text == "." and bound.name.lower() in ("start", "end"):
                compiler.edits.replace(Span(token.start, token.end), "session_window")


def _slides(compiler: Compiler, block: Block, tail: QueryTail) -> bool:
    """Whether a block groups by sliding windows, be it by an alias or a place in the select list."""
    text = compiler.text
    written = [tokenize_span(text, span) for span in (*tail.group, *([block.select] if block.select else []))]
    if not tail.group or not any(_calls(tokens) for tokens in written):
        return False
    grouping = _grouping(compiler, block, tail)
    return grouping.window is not None and grouping.window.window.kind == "sliding"


def _grouping(compiler: Compiler, block: Block, tail: QueryTail) -> Grouping:
    """What a block groups by, as far as can be said without its columns."""
    bounds = BOUNDS if any(item.relation.windows is not None for item in block.items) else {}
    return read_grouping(compiler.text, tail.group, select_items(compiler.text, block.select), set(), bounds)


def _calls(tokens: tuple[Token, ...]) -> bool:
    """Whether some of the tokens call `sliding_window`."""
    return any(t.is_name and t.name.lower() == "sliding_window" and n.text == "(" for t, n in pairwise(tokens))
