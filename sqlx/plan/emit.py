"""What EMIT, GRACE PERIOD and LATE TO of a query mean, and which of them may not stand together.

Source: KIP-328 (the strict and the eager kind of buffers, final results), semantics.md 3.1, 14.10, 15, A and B.
"""

from __future__ import annotations

from typing import NoReturn

from sqlx.errors import BindError
from sqlx.plan.context import Context
from sqlx.plan.select_list import Grouping
from sqlx.sql.intervals import duration
from sqlx.sql.structure import Block, EmitClause, QueryTail
from udtf.aggregates import Aggregate
from udtf.operators.suppress.logic import SuppressConfig
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig


def check_emission(context: Context, block: Block, tail: QueryTail, grouping: Grouping | None) -> None:
    """Refuse clauses that do not fit a query that groups (or, without a grouping, one that does not).

    Raises:
        BindError: with the reason.
    """
    text = context.text
    has_window = grouping is not None and (grouping.window is not None or bool(grouping.bounds))
    for clause, span in (("GRACE PERIOD", tail.grace), ("LATE TO", tail.late)):
        if span is not None and not has_window:
            raise BindError("EMIT.NO_WINDOW_FOR", text, span.pair, clause=clause)
    emit = tail.emit
    if emit is not None:
        _check_options(text, emit, has_window)
    is_final = emit is not None and emit.kind == "final"
    if emit is not None and not is_outermost(block) and not (is_final and has_window):
        raise BindError("EMIT.INNER", text, emit.span.pair)
    is_table = block.span.start in context.tables.shown or context.tables.is_followed(block)
    if context.streaming and grouping is not None and not (is_final or is_outermost(block) or is_table):
        span = tail.grouping or block.select or block.span
        raise BindError("EMIT.INNER_CHANGES", text, span.pair)


def is_outermost(block: Block) -> bool:
    """Whether the block is the whole query."""
    return block.level.parent is None and len(block.level.blocks) == 1


def _check_options(text: str, emit: EmitClause, has_window: bool) -> None:
    limits = [span for name, span in emit.options.items() if name.startswith("BUFFER")]
    if emit.kind == "final":
        if not has_window:
            _refuse(text, emit, "EMIT.FINAL_NO_WINDOW")
        if emit.shape in ("upsert", "changelog"):
            _refuse(text, emit, "EMIT.FINAL_SHAPE", "AS", shape=emit.shape.upper())
        if emit.when_full == "emit":
            _refuse(text, emit, "EMIT.FINAL_EARLY", "WHEN FULL")
    elif emit.shape == "append":
        _refuse(text, emit, "EMIT.APPEND", "AS")
    if emit.kind in ("changes", "corrections"):
        for name in ("BUFFER MAX ROWS", "BUFFER MAX BYTES", "WHEN FULL", "IDLE TIMEOUT"):
            if name in emit.options:
                _refuse(text, emit, "EMIT.CHANGES_BUFFER", name, option=name)
    if "WHEN FULL" in emit.options and not limits:
        _refuse(text, emit, "EMIT.NO_LIMIT", "WHEN FULL")


def _refuse(text: str, emit: EmitClause, condition: str, place: str = "", **parameters: str) -> NoReturn:
    span = emit.options[place] if place else emit.head
    raise BindError(condition, text, span.pair, **parameters)


def config_of(
    context: Context, tail: QueryTail, window: Window, n_keys: int, aggregates: tuple[Aggregate, ...]
) -> WindowAggregateConfig:
    """The configuration of an aggregation; defaults that could surprise are noted; over bounded rows there are none."""
    if not context.streaming:
        return WindowAggregateConfig(window, emit="final", n_keys=n_keys, aggregates=aggregates)
    emit = tail.emit
    is_final = emit is not None and emit.kind == "final"
    if window.kind != "none" and tail.grace is None:
        context.notes.append("GRACE PERIOD was not given: a row is late as soon as its window has ended.")
    return WindowAggregateConfig(
        window=window,
        grace_us=tail.grace_us,
        emit="final" if is_final else "changes",
        n_keys=n_keys,
        aggregates=aggregates,
        nets_updates=window.kind == "session"
        and emit is not None
        and emit.kind in ("changes", "corrections")
        and emit.shape == "changelog",
        max_rows=emit.max_rows if emit is not None and is_final else None,
        max_bytes=emit.max_bytes if emit is not None and is_final else None,
        when_full=_when_full(context, emit, "fail") if emit is not None and is_final else "fail",
    )


def suppress_config(context: Context, emit: EmitClause, window: Window, values: tuple[int, ...]) -> SuppressConfig:
    """The configuration of EMIT EVERY."""
    by_window = {"none": None, "session": "session"}.get(window.kind, "time")
    return SuppressConfig(
        wait_us=emit.every_us,
        max_rows=emit.max_rows,
        max_bytes=emit.max_bytes,
        when_full=_when_full(context, emit, "emit"),
        by_window=by_window,
        values=values,
    )


def _when_full(context: Context, emit: EmitClause, default: str) -> str:
    if emit.when_full is None and any(name.startswith("BUFFER") for name in emit.options):
        meaning = {"fail": "FAIL: the query stops", "emit": "EMIT EARLY: the oldest goes out"}[default]
        context.notes.append(f"WHEN FULL was not given: a full buffer means {meaning}.")
    return emit.when_full or default


def emission_text(emit: EmitClause) -> str:
    """EMIT in words, for EXPLAIN."""
    if emit.kind == "every":
        return f"one update a key every {duration(emit.every_us)} of event time"
    if emit.kind == "corrections":
        return "every update, and what late rows change of earlier results"
    return "once per window, when it is closed" if emit.kind == "final" else "every update"
