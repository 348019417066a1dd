"""EXPLAIN TEMPORAL: every stage of a statement, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from catalog.entries import Entry
from sqlx.plan.emit import emission_text
from sqlx.plan.nodes import (
    Aggregation,
    AsOfJoin,
    CorrectedJoin,
    Deduplicate,
    Fragment,
    KeyedJoin,
    Operator,
    Plan,
    PlanNode,
    Source,
    Suppress,
    TableAggregation,
    TableChanges,
    TableJoin,
    TableLookup,
)
from sqlx.plan.operators import function_of
from sqlx.spark.aggregates import SETTING, strategy_of, strategy_words
from sqlx.spark.batch import estimated, expanded
from sqlx.sql.intervals import duration
from sqlx.sql.parser import read_tail, scan
from sqlx.sql.structure import AsOfClause, Block, DeduplicateClause, Join, QueryTail, Relation
from udtf.operators.table_aggregate.subtracting import subtracting
from udtf.operators.window_aggregate.config import Window, WindowAggregateConfig
from udtf.spark.tasks import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Facts = list[tuple[str, str]]
_EVENT_TIME = "the event time of each row"


class Shown(NamedTuple):
    """The plan that is explained, and the session where there is one."""

    plan: Plan
    spark: SparkSession | None


class Explained(NamedTuple):
    """What is said of a node: one line, and facts by name."""

    title: str
    facts: Facts


# What EXPLAIN TEMPORAL says of a live query: state, order of arrival, and how inputs interleave.


def live_facts(plan: Plan, tasks: int) -> list[str]:
    """One line a fact.

    Args:
        plan: a live query's.
        tasks: TASKS of its operators.
    """
    sources = dict.fromkeys(node.entry for node in plan.root.walk() if isinstance(node, Source))
    lines = [f"- {entry.kind} {entry.name}: {_arrival(entry)}" for entry in sources]
    lines += [line for number, node in enumerate(plan.operators(), 1) for line in _operator(node, number, tasks)]
    return lines or ["- no temporal definition is read live: Spark runs the query as it is"]


def _arrival(entry: Entry) -> str:
    if entry.sequence_by is not None:
        return f"rows arrive in the order of {entry.sequence_by} within a micro-batch"
    if entry.topic:
        return "records of a partition arrive in the order of their offsets; partitions are merged by event time"
    if any("_metadata" in expression or "__arrived" in expression for expression in entry.arrival):
        return "rows arrive as their files were written: by modification time, path and row"
    return "rows arrive as the source delivers them: the order is the source's"


def _operator(node: Operator, number: int, tasks: int) -> list[str]:
    lines = [f"- {node.config.name}_{number}: {tasks} tasks by key; stream time, and so lateness, is the task's own"]
    if not isinstance(node, KeyedJoin):
        return lines
    if node.common_sequence:
        lines.append("    inputs interleave by their common SEQUENCE BY: the answer does not depend on micro-batches")
    elif isinstance(node, (CorrectedJoin, TableJoin)):
        lines.append(
            "    both sides interleave by event time within a micro-batch; what the changes add up to is the same"
            " wherever these are cut"
        )
    else:
        cure = "" if isinstance(node, AsOfJoin) and node.config.grace_us is not None else "; GRACE PERIOD is the cure"
        lines.append(
            "    inputs interleave by event time within a micro-batch, the table first on a tie: a version that comes"
            f" in a later micro-batch than its rows is not seen by them{cure}"
        )
    if isinstance(node, AsOfJoin) and node.config.wait_us is not None:
        lines.append(
            f"    a row is answered when its task's stream time has passed it by {duration(node.config.wait_us)}"
        )
    return lines


# EXPLAIN TEMPORAL of windows, EMIT and suppression.


def tail_clauses(text: str, block: Block) -> list[tuple[int, str]]:
    """The query's own clauses of a block: where each is, and what it says."""
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


def suppress(node: Suppress, shown: Shown) -> Explained:
    """EMIT EVERY: updates that wait."""
    del shown
    limits = _limits(node.config.max_rows, node.config.max_bytes, node.config.when_full)
    title = f"suppress: one update a key every {duration(node.config.wait_us)} of event time"
    return Explained(title, [*limits, *_idle(node.idle_us)])


def table_changes(node: TableChanges, shown: Shown) -> Explained:
    """The updates of a table; of a versioned one also what comes out of order, and what is too old for that."""
    del shown
    keys, config = ", ".join(node.names[place] for place in node.keys), node.config
    facts: Facts = [("keys", keys)]
    if config.is_versioned:
        facts.append(("out of order", "left out" if config.is_latest_only else "sent, the current row stays"))
        facts += [] if config.retention_us is None else [("history", duration(config.retention_us))]
    return Explained(f"the changes of the {'versioned' if config.is_versioned else 'upsert'} table {node.table}", facts)


def table_join(node: TableJoin, shown: Shown) -> Explained:
    """A join of two tables: by which keys, what it keeps, and that its result is an unversioned table (3.2)."""
    del shown
    config = node.config
    meets = (
        "a foreign key: an update of the right side changes every row that points to it"
        if config.is_foreign
        else ("the keys of both")
    )
    facts: Facts = [("by", meets), ("keeps", _KEEPS[config.join]), ("state", "the current rows of both sides")]
    return Explained(f"join of the tables {node.table}; the result is an upsert table", facts)


_KEEPS = {
    "inner": "rows with a match alone",
    "left": "rows of the left side without a match too",
    "full": "rows of both sides without a match too",
}


def _kept(node: TableAggregation) -> str:
    """What is remembered of the rows of a group."""
    needing = [a.function for a in node.config.aggregates if subtracting(a) is None]
    if not needing:
        return "what its aggregates have added up, from which a row is taken out again"
    return f"the rows of each group, which {', '.join(dict.fromkeys(needing))} needs: each update goes over all of them"


def table_aggregate(node: TableAggregation, shown: Shown) -> Explained:
    """An aggregation of a table: what an update does, and what is kept for that."""
    del shown
    facts: Facts = [
        ("an update", "leaves its old group, then enters its new one"),
        ("a group", "is deleted with its last row" if node.config.n_keys else "of all rows, always there"),
        ("state", f"{_kept(node)}, and the greatest time of each group"),
    ]
    return Explained(f"groups of the table {node.table}; the result is an upsert table", facts)


def window_aggregate(node: Aggregation, shown: Shown) -> Explained:
    """An aggregation: what it emits, when a row is late, what it keeps, and how it runs."""
    title = f"aggregate {node.table} by {window_words(node.config.window)}"
    if not shown.plan.streaming:
        return Explained(title, bounded_facts(node))
    config, wanted = node.config, None if shown.spark is None else shown.spark.conf.get(SETTING, None)
    found: Facts = [("emits", _emits(config))]
    if config.window.kind != "none":
        found.append(("late", f"{_late(config)}; kept in {node.late_to}" if node.late_to else _late(config)))
    found += _limits(config.max_rows, config.max_bytes, config.when_full)
    found.append(("state", _state(node)))
    found.append(("strategy", strategy_words(node, strategy_of(node, shown.plan.text, wanted))))
    return Explained(title, [*found, *_idle(node.idle_us)])


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
    rows = [call.partition("(")[0] for call in node.calls if call is not None]  # their arguments have names of ours
    lists = [a.function for a in node.config.aggregates if a.function in ("collect_list", "collect_set") or a.distinct]
    if rows:
        return f"all rows of open windows, for {', '.join(rows)}; a partial state for the others"
    if lists:
        return f"all values of open windows, for {', '.join(lists)}; a partial state for the others"
    return "a partial state per open window"


def _idle(idle_us: int | None) -> Facts:
    return [] if idle_us is None else [("idle", f"what is open goes out when nothing came for {duration(idle_us)}")]


_PICKS = {
    ("backward", False): "the latest version at or before the row's time",
    ("backward", True): "the latest version before the row's time",
    ("forward", False): "the first version at or after the row's time",
    ("forward", True): "the first version after the row's time",
    ("nearest", False): "the version nearest to the row's time, the earlier one on a tie",
    ("nearest", True): "the version nearest to the row's time but not at it, the earlier one on a tie",
}


def explain_plan(plan: Plan, spark: SparkSession | None = None) -> str:
    """The stages of a plan as text: what was written, the operators, the plain SQL around them, what to know.

    Args:
        plan: the compiled query.
        spark: where given, each join's way of running and Spark's size estimates are shown.
    """
    stages = [("Statement", plan.text.strip()), ("Clauses as read", "\n".join(_clauses(plan.text)) or "none of ours")]
    stages += [("Temporal plan", "\n".join(_tree(plan.root, Shown(plan, spark))))]
    if plan.streaming and spark is not None:
        stages.append(("Live", "\n".join(live_facts(plan, configured_tasks(spark)))))
    for node in plan.operators():
        names = ("input",) if len(node.inputs) == 1 else ("left input", "right input")
        stages += [(f"{node.name}: {name}", side.sql) for name, side in zip(names, node.inputs, strict=True)]
    stages.append(("Spark SQL around the operators", plan.root.sql.strip()))
    if plan.notes:
        stages.append(("Notes", "\n".join(f"- {note}" for note in plan.notes)))
    return "\n".join(f"== {title} ==\n{text}\n" for title, text in stages)


def _clauses(text: str) -> list[str]:
    """One line a temporal clause, as the parser read it: where it is, and what it says."""
    found: list[tuple[int, str]] = []
    for level in scan(text).walk():
        for item in (item for block in level.blocks for item in block.items):
            found += [(j.span.start, _as_of_clause(text, j, j.as_of)) for j in item.joins if j.as_of is not None]
            for relation in (item.relation, *(join.relation for join in item.joins)):
                found += _deduplications(text, relation)
        for block in level.blocks:
            found += tail_clauses(text, block)
        found += [(p.clause.head.start, _deduplicate_clause(text, "the query", p.clause)) for p in level.pipes]
    return [f"line {text.count(chr(10), 0, start) + 1}: {line}" for start, line in sorted(found)]


def _as_of_clause(text: str, join: Join, clause: AsOfClause) -> str:
    time = f", time {clause.time.of(text)}" if clause.time else ""
    condition = f", on {join.on.of(text)}" if join.on else f", using {', '.join(t.name for t in join.using)}"
    options = ", ".join(clause.options) or "no options"
    return f"{join.relation.body.of(text)} ({clause.spelling}){time}{condition}, {options}"


def _deduplications(text: str, relation: Relation) -> list[tuple[int, str]]:
    found = []
    inner: Relation | None = relation
    while inner is not None and inner.deduplicate is not None:
        clause, inner = inner.deduplicate, inner.inner
        assert inner is not None
        found.append((clause.head.start, _deduplicate_clause(text, inner.span.of(text), clause)))
    return found


def _deduplicate_clause(text: str, what: str, clause: DeduplicateClause) -> str:
    by = ", ".join(span.of(text) for span in clause.by)
    time = f", time {clause.time.of(text)}" if clause.time else ""
    return f"{what} (deduplicate) within {duration(clause.interval_us)}, by {by}{time}, " + (
        ", ".join(clause.options) or "no options"
    )


def _tree(node: PlanNode, shown: Shown, depth: int = 0) -> list[str]:
    """One line a node, its facts indented below it, then its inputs."""
    indent = "   " * depth + ("+- " if depth else "")
    under = "   " * (depth + 1)
    explained = _explained(node, shown)
    lines = [indent + explained.title]
    lines += [f"{under}{name}: {value}" for name, value in explained.facts]
    for child in node.inputs:
        lines += _tree(child, shown, depth + 1)
    return lines


def _explained(node: PlanNode, shown: Shown) -> Explained:
    if isinstance(node, Operator):
        found: Explained = function_of(node, "explain")(node, shown)
        return found
    if isinstance(node, Source):
        return Explained(f"{node.entry.kind} {node.entry.name}", [])
    assert isinstance(node, Fragment), "nothing else is left"
    columns = ", ".join(f"{c.name} {c.type}" for c in node.columns)
    title = "Spark SQL" if node.inputs else "Spark SQL (no operator below)"
    return Explained(title, [("columns", columns)] if columns else [])


def deduplicate(node: Deduplicate, shown: Shown) -> Explained:
    """A deduplication: which row stays, what is late, and what its time and order are."""
    del shown
    config = node.config
    title = f"deduplicate {node.table}, the {config.keep} of rows within {duration(config.interval_us)}"
    late = {"forward": "forwarded", "drop": "dropped", "to": f"kept in {node.late_to}"}
    facts = [("late rows", late[config.late or ("drop" if config.keeps_last else "forward")])]
    facts += _idle(node.idle_us)
    if config.has_sequence:
        return Explained(title, [*facts, ("arrival", "by SEQUENCE BY; the same number again is the same row")])
    has_time = any(column.name == "__time" for column in node.input.columns)
    return Explained(title, [*facts, ("time", "of the clause or of the stream" if has_time else _EVENT_TIME)])


def table_lookup(node: TableLookup, shown: Shown) -> Explained:
    """A lookup in an upsert table."""
    del shown
    return Explained(f"lookup ({node.config.join}) of the current row of {node.table}", [])


def as_of_join(node: AsOfJoin, shown: Shown) -> Explained:
    """An AS OF join: which version is picked, and over bounded rows how it runs."""
    config = node.config
    facts = [("picks", _PICKS[config.direction, config.exclusive])]
    if config.tolerance_us is not None:
        facts.append(("tolerance", duration(config.tolerance_us)))
    facts.append(
        ("ties", "the last by TIES BY or SEQUENCE BY, then arrival, wins" if config.ties else "the last to arrive wins")
    )
    if config.has_known:
        facts.append(("known as of", "only versions that were known at that time take part"))
    if config.grace_us is not None:
        facts.append(("grace", duration(config.grace_us)))
    if node.idle_us is not None:
        facts.append(("idle timeout", f"{duration(node.idle_us)} on the wall clock, then what waits is answered"))
    if config.retention_us is not None:
        facts.append(("history retention", duration(config.retention_us)))
    if shown.spark is not None and not shown.plan.streaming:
        facts += _way(node, shown.spark)
    return Explained(f"AS OF join ({config.join}) with the versions of {node.table}", facts)


def corrected_join(node: CorrectedJoin, shown: Shown) -> Explained:
    """An AS OF join with corrections: until when a result may change."""
    found = as_of_join(node, shown)
    config, until = node.config, "the query ends"
    if config.retention_us is not None:
        ahead = "" if config.direction == "backward" else " and the tolerance"
        until = f"the history retention refuses versions of their time{ahead}"
    facts = [*found.facts, ("corrects", f"results that a late version changes; stream rows are kept until {until}")]
    return Explained(f"{found.title}, corrected; the result is a table with a row for each row of the stream", facts)


def _way(node: AsOfJoin, spark: SparkSession) -> list[tuple[str, str]]:
    found = estimated(node, spark)
    if found is None:
        return [("runs", "decided when its inputs, other operators, are there")]
    way, size, limit = found
    shown = f"{size / 2**20:,.1f} MB" if size < 2**60 else "unknown"
    if way == "mapped":
        return [
            ("runs", f"without a shuffle: every worker maps the right side (estimated {shown}, limit {limit >> 20} MB)")
        ]
    return [("runs", f"whole tasks: both sides shuffled by key (right side estimated {shown}, limit {limit >> 20} MB)")]
