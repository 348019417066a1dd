"""Aggregation of a table whose rows change: an update takes its old row out of its group and puts the new one in.

A group keeps the rows that an aggregate needs which cannot be subtracted from; that is computed again from them, in the
order in which they came into the group.

Source: KIP-914 ("aggregations"), semantics.md 10, B10, B11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from udtf.aggregates import Aggregate, Aggregates, Arguments, Evaluate
from udtf.logic import Emission
from udtf.metrics import Metrics
from udtf.operators.table_aggregate.subtracting import Subtracting, subtracting
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


_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATING = ("float", "double")
_NUMBERS = (*_WHOLE, *_FLOATING, "boolean", "date", "timestamp", "timestamp_ntz")
_LONG_DIGITS = 18


def is_compiled(aggregates: Sequence[Aggregate], arguments: Sequence[Sequence[str]]) -> bool:
    """Whether all aggregates are of those that `CompiledTableAggregate` has.

    Args:
        aggregates: of the query.
        arguments: of each the types of its arguments, as Spark names them.
    """
    return all(_is_compiled(aggregate, types) for aggregate, types in zip(aggregates, arguments, strict=True))


def _is_compiled(aggregate: Aggregate, types: Sequence[str]) -> bool:
    if aggregate.distinct and not all(map(_is_hashed, types)):
        return False
    if aggregate.function in ("count", "count_if"):
        return True
    if aggregate.function in ("sum", "avg"):
        return types[0] in (*_WHOLE, *_FLOATING) or _is_long(types[0])
    return aggregate.function in ("min", "max") and (types[0] in _NUMBERS or _is_long(types[0]))


def _is_hashed(name: str) -> bool:
    return name in (*_NUMBERS, "string", "binary") or _is_long(name)


def _is_long(name: str) -> bool:
    """Whether it is a decimal of so few digits that it is one."""
    found = re.fullmatch(r"decimal\((\d+),\d+\)", name)
    return found is not None and int(found[1]) <= _LONG_DIGITS


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
    """What a group knows: the greatest time that it has seen, how many rows it has, and its result.

    Attributes:
        key: as it came.
        time: microseconds.
        count: of rows.
        states: per aggregate what rows are added to and taken out of; None where it needs the rows.
        rows: by their keys, where an aggregate needs them.
        shown: the result, None where the group shows none.
    """

    __slots__ = ("count", "key", "rows", "shown", "states", "time")

    def __init__(self, key: Key, time: Micros, states: list[Subtracting | None]) -> None:
        self.key, self.time, self.states = key, time, states
        self.count = 0
        self.rows: dict[Key, tuple[Key, Arguments]] = {}
        self.shown: tuple[Any, ...] | None = None


class TableAggregateLogic:
    """The groups of a table; the old group of a row gives its update before the new one (10.2)."""

    def __init__(self, config: TableAggregateConfig, evaluate: Evaluate | None = None) -> None:
        """Start without groups; `evaluate` is for aggregates of kind 'rows'."""
        self.config = config
        self.metrics = Metrics()
        self._aggregates = Aggregates(config.aggregates, evaluate)
        self._keeps_rows = any(subtracting(aggregate) is None for aggregate in config.aggregates)
        # NB: one that has lost its last row is kept for its time, which never goes back (10.5).
        self._groups: dict[Key, _Group] = {}

    def on_batch(self, updates: Sequence[GroupedUpdate]) -> Emission:
        """Take updates in arrival order; a result row is the grouping columns, then the aggregates."""
        before, emission = dict(self.metrics), Emission()
        for update in updates:
            emission.updates += self.on_update(update)
        self.metrics.add("emitted", len(emission.updates))
        emission.metrics = self.metrics.since(before)
        return emission

    def on_update(self, update: GroupedUpdate) -> list[Update]:
        """Take one update: those of the groups that it is about."""
        self.metrics.add("records")
        changed: dict[Key, _Group] = {}
        row = canonical_key(update.key) if self._keeps_rows else ()
        if update.old is not None:
            key = canonical_key(update.old.group)
            group = changed[key] = self._group(key, update.old.group, update.time)
            group.count -= 1
            for state, arguments in self._counting(group, update.old):
                state.subtract(arguments)
            group.rows.pop(row, None)
        if update.new is not None:
            key = canonical_key(update.new.group)
            group = changed[key] = self._group(key, update.new.group, update.time)
            group.count += 1
            for state, arguments in self._counting(group, update.new):
                state.add(arguments)
            if self._keeps_rows:
                group.rows[row] = (update.key, update.new.arguments)
        return [self._update(group) for group in changed.values()]

    def snapshot(self) -> bytes:
        """All groups, their times, and metrics."""
        groups = [(g.key, g.time, g.count, g.states, list(g.rows.values())) for g in self._groups.values()]
        return seal(self.config.name, {"groups": groups, "metrics": self.metrics.snapshot()})

    def restore(self, state: bytes) -> None:
        """Replace everything by a snapshot of the same configuration."""
        parts = unseal(self.config.name, state)
        self._groups = {}
        for key, time, count, states, rows in parts["groups"]:
            group = self._groups[canonical_key(key)] = _Group(key, time, states)
            group.count, group.rows = count, {canonical_key(row): (row, arguments) for row, arguments in rows}
            group.shown = self._result(group)
        self.metrics = Metrics(parts["metrics"])

    def _counting(self, group: _Group, row: Grouped) -> Iterator[tuple[Subtracting, Arguments]]:
        """The aggregates that a row counts for, of those that can be subtracted from, with its arguments."""
        for number, state in enumerate(group.states):
            arguments = self._aggregates.arguments(number, row.arguments)
            if state is not None and arguments is not None:
                yield state, arguments

    def _group(self, canonical: Key, key: Key, time: Micros) -> _Group:
        group = self._groups.get(canonical)
        if group is None:
            states = [subtracting(aggregate) for aggregate in self.config.aggregates]
            group = self._groups[canonical] = _Group(key, time, states)
        group.time = max(group.time, time)
        return group

    def _update(self, group: _Group) -> Update:
        old, group.shown = group.shown, self._result(group)
        return Update(group.key, group.time, old, group.shown)

    def _result(self, group: _Group) -> tuple[Any, ...] | None:
        if not group.count and self.config.n_keys:  # without GROUP BY there is always one row, as in SQL
            return None
        rows = [arguments for _, arguments in group.rows.values()]
        states = enumerate(group.states)
        return (*group.key, *(self._aggregates.of_rows(n, rows) if s is None else s.value() for n, s in states))
