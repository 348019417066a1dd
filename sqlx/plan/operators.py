"""What there is of each operator: its clauses, its node, and the function of each executor that runs it.

Executors dispatch through this table and nothing else, so that an operator is added by adding its descriptor and what
that names. An executor is named by an entry point, ``module:function``, because Spark is never imported where replay
runs, and replay never where Spark does.

Why so: docs/design/20261122_layout.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, get_args

from sqlx.errors import UnsupportedError
from sqlx.plan.nodes import (
    Aggregation,
    AsOfJoin,
    CorrectedJoin,
    Deduplicate,
    Operator,
    Suppress,
    TableAggregation,
    TableChanges,
    TableJoin,
    TableLookup,
)

Executor = Literal["batch", "text", "live", "replay", "explain"]


@dataclass(frozen=True)
class Missing:
    """An executor that an operator does not have.

    Attributes:
        kind: 'never' where it would have no meaning, 'notyet' where it is to come, 'notimpl' where it could come.
        reason: why, as the end of a sentence.
    """

    kind: Literal["never", "notyet", "notimpl"]
    reason: str


def _never(reason: str) -> Missing:
    return Missing("never", reason)


_LIVE_ONLY = _never("bounded rows have one current state, which plain Spark SQL reads")
_ALL_FINAL = _never("over bounded rows every result is final, and none waits")


@dataclass(frozen=True)
class Descriptor:
    """One operator.

    Attributes:
        name: of its folder in ``udtf/operators``, and of its page in ``docs/operators``.
        node: its node in the plan.
        clauses: the words that bring it in.
        batch: from the node and its frames to a DataFrame, over bounded rows.
        text: from the node to a table function call, as plain Spark SQL (`sqlx compile`).
        live: from the node to a picklable maker of its logic, over Structured Streaming.
        replay: from the node to the host that runs it record by record.
        explain: from the node to its title and facts.
    """

    name: str
    node: type[Operator]
    clauses: tuple[str, ...]
    batch: str | Missing
    text: str | Missing
    live: str | Missing
    replay: str | Missing
    explain: str | Missing


DESCRIPTORS = (
    Descriptor(
        name="as_of_join",
        node=AsOfJoin,
        clauses=("AS OF", "FOR SYSTEM_TIME AS OF", "ASOF JOIN", "MATCH_CONDITION"),
        batch="sqlx.spark.batch:as_of_join",
        text="sqlx.sessions.compile_text:as_of_call",
        live="sqlx.spark.stream:as_of_join",
        replay="sqlx.replay.hosts:as_of_join",
        explain="sqlx.sessions.explain:as_of_join",
    ),
    Descriptor(
        name="corrected_join",
        node=CorrectedJoin,
        clauses=("EMIT CORRECTIONS",),
        batch=_ALL_FINAL,
        text=_ALL_FINAL,
        live="sqlx.spark.stream:corrected_join",
        replay="sqlx.replay.hosts:corrected_join",
        explain="sqlx.sessions.explain:corrected_join",
    ),
    Descriptor(
        name="table_lookup",
        node=TableLookup,
        clauses=("JOIN",),
        batch=_LIVE_ONLY,
        text=_LIVE_ONLY,
        live="sqlx.spark.stream:table_lookup",
        replay="sqlx.replay.hosts:table_lookup",
        explain="sqlx.sessions.explain:table_lookup",
    ),
    Descriptor(
        name="deduplicate",
        node=Deduplicate,
        clauses=("DEDUPLICATE WITHIN",),
        batch="sqlx.spark.batch:deduplicated",
        text="sqlx.sessions.compile_text:deduplicate_call",
        live="sqlx.spark.stream:deduplicated",
        replay="sqlx.replay.hosts:deduplicate",
        explain="sqlx.sessions.explain:deduplicate",
    ),
    Descriptor(
        name="window_aggregate",
        node=Aggregation,
        clauses=("GROUP BY", "EMIT FINAL", "EMIT CHANGES", "GRACE PERIOD"),
        batch="sqlx.spark.batch:sliding_aggregation",
        text="sqlx.sessions.compile_text:sliding_call",
        live="sqlx.spark.stream:window_aggregate",
        replay="sqlx.replay.hosts:window_aggregate",
        explain="sqlx.sessions.explain:window_aggregate",
    ),
    Descriptor(
        name="table_changes",
        node=TableChanges,
        clauses=("AS UPSERT", "AS CHANGELOG"),
        batch=_LIVE_ONLY,
        text=_LIVE_ONLY,
        live="sqlx.spark.stream:table_changes",
        replay="sqlx.replay.hosts:table_changes",
        explain="sqlx.sessions.explain:table_changes",
    ),
    Descriptor(
        name="table_join",
        node=TableJoin,
        clauses=("JOIN", "LEFT JOIN", "FULL JOIN"),
        batch=_LIVE_ONLY,
        text=_LIVE_ONLY,
        live="sqlx.spark.stream:table_join",
        replay="sqlx.replay.hosts:table_join",
        explain="sqlx.sessions.explain:table_join",
    ),
    Descriptor(
        name="table_aggregate",
        node=TableAggregation,
        clauses=("GROUP BY",),
        batch=_LIVE_ONLY,
        text=_LIVE_ONLY,
        live="sqlx.spark.stream:table_aggregate",
        replay="sqlx.replay.hosts:table_aggregate",
        explain="sqlx.sessions.explain:table_aggregate",
    ),
    Descriptor(
        name="suppress",
        node=Suppress,
        clauses=("EMIT EVERY",),
        batch=_ALL_FINAL,
        text=_ALL_FINAL,
        live="sqlx.spark.stream:suppress",
        replay="sqlx.replay.hosts:suppress",
        explain="sqlx.sessions.explain:suppress",
    ),
)

EXECUTORS: tuple[Executor, ...] = get_args(Executor)
_BY_NODE = {descriptor.node: descriptor for descriptor in DESCRIPTORS}


def descriptor_of(node: Operator) -> Descriptor:
    """The descriptor of a node's operator."""
    return _BY_NODE[type(node)]


def function_of(node: Operator, executor: Executor) -> Callable[..., Any]:
    """The function by which an executor runs a node.

    Args:
        node: the operator.
        executor: 'batch', 'text', 'live', 'replay' or 'explain'.

    Raises:
        UnsupportedError: the operator has none there.
    """
    descriptor = descriptor_of(node)
    found: str | Missing = getattr(descriptor, executor)
    if isinstance(found, Missing):
        raise UnsupportedError("UNSUPPORTED.EXECUTOR", operator=descriptor.name, executor=executor, reason=found.reason)
    return _loaded(found)


@cache
def _loaded(entry_point: str) -> Callable[..., Any]:
    module, _, name = entry_point.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function
