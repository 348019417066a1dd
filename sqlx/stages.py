"""EXPLAIN TEMPORAL: every stage of a statement, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlx.clauses import AsOfClause, DeduplicateClause
from sqlx.live_facts import live_facts
from sqlx.lower import estimated
from sqlx.lower_native import SETTING
from sqlx.operators.as_of_join import duration
from sqlx.plan import (
    Aggregation,
    AsOfJoin,
    Deduplicate,
    Fragment,
    Plan,
    PlanNode,
    Source,
    Suppress,
    TableChanges,
    TableLookup,
)
from sqlx.scanner import scan
from sqlx.stage_tables import bounded_facts, facts, tail_clauses, title
from sqlx.structure import Join, Relation
from udtf.spark.stream_conf import configured_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    stages += [("Temporal plan", "\n".join(_tree(plan.root, plan, None if plan.streaming else spark)))]
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
    """One line a clause of ours, as the parser read it: where it stands, and what it says."""
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


def _tree(node: PlanNode, plan: Plan, spark: SparkSession | None, depth: int = 0) -> list[str]:
    """One line a node, its facts indented below it, then its inputs."""
    indent = "   " * depth + ("+- " if depth else "")
    under = "   " * (depth + 1)
    lines = [indent + _title(node)]
    lines += [f"{under}{name}: {value}" for name, value in _facts(node, plan, spark)]
    for child in node.inputs:
        lines += _tree(child, plan, spark, depth + 1)
    return lines


def _title(node: PlanNode) -> str:
    if isinstance(node, AsOfJoin):
        return f"AS OF join ({node.config.join}) with the versions of {node.table}"
    if isinstance(node, TableLookup):
        return f"lookup ({node.config.join}) of the current row of {node.table}"
    if isinstance(node, Deduplicate):
        return f"deduplicate {node.table}, the {node.config.keep} of rows within {duration(node.config.interval_us)}"
    if isinstance(node, (Aggregation, TableChanges, Suppress)):
        return title(node)
    if isinstance(node, Source):
        return f"{node.entry.kind} {node.entry.name}"
    return "Spark SQL" if node.inputs or not isinstance(node, Fragment) else "Spark SQL (no operator below)"


def _facts(node: PlanNode, plan: Plan, spark: SparkSession | None) -> list[tuple[str, str]]:
    if isinstance(node, AsOfJoin):
        return _as_of_facts(node, spark)
    if isinstance(node, Deduplicate):
        return _deduplicate_facts(node)
    if isinstance(node, (Aggregation, TableChanges, Suppress)):
        if isinstance(node, Aggregation) and not plan.streaming:
            return bounded_facts(node)
        return facts(node, plan.text, None if spark is None else spark.conf.get(SETTING, None))
    if isinstance(node, Fragment) and node.columns:
        return [("columns", ", ".join(f"{c.name} {c.type}" for c in node.columns))]
    return []


def _deduplicate_facts(node: Deduplicate) -> list[tuple[str, str]]:
    config = node.config
    late = {"forward": "forwarded", "drop": "dropped", "to": f"kept in {node.late_to}"}
    facts = [("late rows", late[config.late or ("drop" if config.keeps_last else "forward")])]
    if config.has_sequence:
        return [*facts, ("arrival", "by SEQUENCE BY; the same number again is the same row")]
    has_time = any(column.name == "__time" for column in node.input.columns)
    return [*facts, ("time", "of the clause or of the stream" if has_time else "the event time of each row")]


def _as_of_facts(node: AsOfJoin, spark: SparkSession | None) -> list[tuple[str, str]]:
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
    if config.retention_us is not None:
        facts.append(("history retention", duration(config.retention_us)))
    return facts + (_way(node, spark) if spark is not None else [])


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
