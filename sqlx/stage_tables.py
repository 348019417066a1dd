"""EXPLAIN TEMPORAL of windows, EMIT and suppression."""

from __future__ import annotations

from sqlx.clauses import QueryTail
from sqlx.emission import emission_text
from sqlx.lower_native import strategy_of, strategy_words
from sqlx.lower_windows import expanded
from sqlx.operators.as_of_join import duration
from sqlx.plan import Aggregation, Suppress, TableChanges
from sqlx.structure import Block
from sqlx.tail_reader import read_tail
from udtf.operators.window_aggregate_config import Window, WindowAggregateConfig

Facts = list[tuple[str, str]]


def tail_clauses(text: str, block: Block) -> list[tuple[int, str]]:
    """The query's own clauses of a block: where each stands, and what it says."""
    tail = read_tail(text, block)
    found: list[tuple[int, str]] = []
    if tail.grace is not None:
        found.append((tail.grace.start, f"GRACE PERIOD {duration(tail.grace_us)}"))
    if tail.late is not None:
        found.append((tail.late.start, f"LATE TO {tail.late_to}"))
    if tail.emit is not None:
        found.append((tail.emit.span.start, f"{_emit_words(tail)}: {emission_text(tail.emit)}"))
    return found


def _emit_words(tail: QueryTail) -> str:
    assert tail.emit is not None
    options = ", ".join(tail.emit.options) or "no options"
    return f"EMIT {tail.emit.kind.upper()} ({options})"


def title(node: Aggregation | TableChanges | Suppress) -> str:
    """One line of the plan."""
    if isinstance(node, Suppress):
        return f"suppress: one update a key every {duration(node.config.wait_us)} of event time"
    if isinstance(node, TableChanges):
        return f"the changes of the upsert table {node.table}"
    return f"aggregate {node.table} by {window_words(node.config.window)}"


def window_words(window: Window) -> str:
    """Which windows they are."""
    size, slide = duration(window.size_us), duration(window.slide_us)
    if window.kind == "time":
        is_tumbling = window.size_us == window.slide_us
        return f"windows of {size}" if is_tumbling else f"windows of {size}, one every {slide}"
    words = {
        "session": f"sessions that end {size} after their last row",
        "sliding": f"sliding windows of {size}, both ends included",
        "cumulate": f"windows that grow by {slide} up to {size}",
    }
    return words.get(window.kind, "key, without windows")


def facts(node: Aggregation | TableChanges | Suppress, text: str, wanted: str | None) -> Facts:
    """What there is to know of a node.

    Args:
        node: the operator.
        text: the statement.
        wanted: the strategy that the user has set, or None.
    """
    if isinstance(node, TableChanges):
        return [("keys", ", ".join(node.names[place] for place in node.keys))]
    if isinstance(node, Suppress):
        return [*_limits(node.config.max_rows, node.config.max_bytes, node.config.when_full), *_idle(node.idle_us)]
    config = node.config
    found: Facts = [("emits", _emits(config))]
    if config.window.kind != "none":
        found.append(("late", f"{_late(config)}; kept in {node.late_to}" if node.late_to else _late(config)))
    found += _limits(config.max_rows, config.max_bytes, config.when_full)
    found += [("state", _state(node))]
    found.append(("strategy", strategy_words(node, strategy_of(node, text, wanted))))
    return [*found, *_idle(node.idle_us)]


def bounded_facts(node: Aggregation) -> Facts:
    """What there is to know of windows over bounded rows."""
    listed = expanded(node)
    whole = "whole tasks: rows shuffled by key, sorted by time, the members of each window folded, compiled"
    members = "Spark aggregates the members of each window, which whole tasks list"
    runs = f"{members}, for {'; '.join(listed)}" if listed else whole
    return [("emits", "once per window: every row is there, and nothing is late"), ("runs", runs)]


def _emits(config: WindowAggregateConfig) -> str:
    if not config.is_final:
        return "every update"
    return f"once per window, when stream time is {duration(config.grace_us)} behind its end"


def _late(config: WindowAggregateConfig) -> str:
    edge = "at or after" if not config.window.is_inclusive else "after"
    return f"a row whose windows have closed: stream time is {edge} their end and {duration(config.grace_us)}"


def _limits(rows: int | None, size: int | None, when_full: str) -> Facts:
    if rows is None and size is None:
        return []
    limits = [f"{rows:,} rows"] if rows is not None else []
    limits += [f"{size:,} bytes"] if size is not None else []
    then = {"emit": "the oldest leaves early", "fail": "the query stops", "spill": "the rest waits in the state store"}
    return [("buffer", f"at most {' and '.join(limits)} a task, then {then[when_full]}")]


def _state(node: Aggregation) -> str:
    """Which aggregates keep a partial state, and which all rows of their open windows."""
    rows = [call for call in node.calls if call is not None]
    lists = [a.function for a in node.config.aggregates if a.function in ("collect_list", "collect_set") or a.distinct]
    if rows:
        return f"all rows of open windows, for {', '.join(rows)}; a partial state for the others"
    if lists:
        return f"all values of open windows, for {', '.join(lists)}; a partial state for the others"
    return "a partial state per open window"


def _idle(idle_us: int | None) -> Facts:
    return [] if idle_us is None else [("idle", f"what is open goes out when nothing came for {duration(idle_us)}")]
