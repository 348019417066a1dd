"""What EXPLAIN TEMPORAL says of a live query: state, order of arrival, and how inputs interleave."""

from __future__ import annotations

from catalog.entries import Entry
from sqlx.operators.as_of_join import duration
from sqlx.plan import AsOfJoin, KeyedJoin, Operator, Plan, Source


def live_facts(plan: Plan, tasks: int) -> list[str]:
    """One line a fact.

    Args:
        plan: a live query's.
        tasks: TASKS of its operators.
    """
    sources = dict.fromkeys(node.entry for node in plan.root.walk() if isinstance(node, Source))
    lines = [f"- {entry.kind} {entry.name}: {_arrival(entry)}" for entry in sources]
    lines += [line for number, node in enumerate(plan.operators(), 1) for line in _operator(node, number, tasks)]
    return lines or ["- no definition of ours is read live: Spark runs the query as it is"]


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
