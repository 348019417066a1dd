"""Aggregation of a table whose rows change: an update takes its old row out of its group and puts the new one in.

A group keeps its rows and is computed again from them, in the order in which they came into it, so that every aggregate
can be subtracted from.

Source: KIP-914 ("aggregations"), semantics.md 10, B10, B11.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from udtf.aggregates import Aggregate, Aggregates, Arguments, Evaluate
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.record import Key, Update, canonical_key
from udtf.state.snapshot import seal, unseal
from udtf.time import Micros


@dataclass(frozen=True)
class TableAggregateConfig:
    """Everything that is to be known of an aggregation.

    Attributes:
        n_keys: how many grouping columns there are; none is one group of all rows.
        aggregates: in the order of the output.
        name: the operator's name in messages.
    """

    n_keys: int = 0
    aggregates: tuple[Aggregate, ...] = ()
    name: str = "table_aggregate"


class Grouped(NamedTuple):
    """A row of the table as it is grouped: its group, and the arguments of all aggregates."""

    group: Key
    arguments: Arguments


class GroupedUpdate(NamedTuple):
    """An update of the table: the key of its row, its time, and how the row was grouped and is."""

    key: Key
    time: Micros
    old: Grouped | None
    new: Grouped | None


class _Group:
    """The rows of a group by their keys, the greatest time that it has seen, and its result."""

    __slots__ = ("key", "rows", "shown", "time")

    def __init__(self, key: Key, time: Micros) -> None:
        self.key, self.time = key, time
        self.rows: dict[Key, tuple[Key, Arguments]] = {}
        self.shown: tuple[Any, ...] | None = None


class TableAggregateLogic:
    """The groups of a table; the old group of a row gives its update before the new one (10.2)."""

    def __init__(self, config: TableAggregateConfig, evaluate: Evaluate | None = None) -> None:
        """Start without groups; `evaluate` is for aggregates of kind 'rows'."""
        self.config = config
        self.metrics = Metrics()
        self._aggregates = Aggregates(config.aggregates, evaluate)
        # NB: one that has lost its last row is kept for its time, which never goes back (10.5).
        self._groups: dict[Key, _Group] = {}

    def on_batch(self, updates: Sequence[GroupedUpdate]) -> Emission:
        """Take updates in arrival order; a result row is the grouping columns, then the aggregates."""
        before, emission = dict(self.metrics), Emission()
        for update in updates:
            self.metrics.add("records")
            emission.updates += self._on_update(update)
        self.metrics.add("emitted", len(emission.updates))
        emission.metrics = self.metrics.since(before)
        return emission

    def snapshot(self) -> bytes:
        """The rows of all groups, their times and metrics."""
        groups = [(group.key, group.time, list(group.rows.values())) for group in self._groups.values()]
        return seal(self.config.name, {"groups": groups, "metrics": self.metrics.snapshot()})

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._groups = {}
        for key, time, rows in parts["groups"]:
            group = self._groups[canonical_key(key)] = _Group(key, time)
            group.rows = {canonical_key(row): (row, arguments) for row, arguments in rows}
            group.shown = self._result(group)
        self.metrics = Metrics(parts["metrics"])

    def _on_update(self, update: GroupedUpdate) -> list[Update]:
        changed: dict[Key, _Group] = {}
        row = canonical_key(update.key)
        if update.old is not None:
            group = self._group(update.old.group, update.time)
            changed[canonical_key(group.key)] = group
            group.rows.pop(row, None)
        if update.new is not None:
            group = self._group(update.new.group, update.time)
            changed[canonical_key(group.key)] = group
            group.rows[row] = (update.key, update.new.arguments)
        return [self._update(group) for group in changed.values()]

    def _group(self, key: Key, time: Micros) -> _Group:
        group = self._groups.setdefault(canonical_key(key), _Group(key, time))
        group.time = max(group.time, time)
        return group

    def _update(self, group: _Group) -> Update:
        old, group.shown = group.shown, self._result(group)
        return Update(group.key, group.time, old, group.shown)

    def _result(self, group: _Group) -> tuple[Any, ...] | None:
        if not group.rows and self.config.n_keys:  # without GROUP BY there is always one row, as in SQL
            return None
        states = self._aggregates.new()
        for _, arguments in group.rows.values():
            self._aggregates.add(states, arguments)
        return (*group.key, *self._aggregates.values(states))
