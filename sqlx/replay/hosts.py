"""Hosts an operator in replay: its rows are placed on tasks, each task has its own logic, one row at a time."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from catalog.entries import Column
from sqlx.plan.nodes import (
    Aggregation,
    AsOfJoin,
    CorrectedJoin,
    Deduplicate,
    Fragment,
    KeyedJoin,
    Operator,
    Suppress,
    TableAggregation,
    TableChanges,
    TableJoin,
    TableLookup,
)
from sqlx.replay.aggregates import Evaluator
from sqlx.replay.duckdb import Engine, parse_sql
from sqlx.replay.placement import task_of
from sqlx.replay.types import SparkType, Values, from_micros, parse_type, to_micros
from udtf.logic import Emission
from udtf.metrics import ALWAYS
from udtf.operators.as_of_join.logic import AsOfJoinLogic
from udtf.operators.corrected_join.logic import CorrectedJoinLogic, LeftChange
from udtf.operators.deduplicate.logic import DeduplicateLogic
from udtf.operators.suppress.logic import SuppressLogic
from udtf.operators.table_aggregate.logic import Grouped, GroupedUpdate, TableAggregateLogic
from udtf.operators.table_changes.logic import TableChangesLogic
from udtf.operators.table_join.foreign_key import ForeignKeyJoinLogic, LeftUpdate, Pointing, RightUpdate
from udtf.operators.table_join.logic import SideUpdate, TableJoinLogic
from udtf.operators.table_lookup.logic import TableLookupLogic
from udtf.operators.window_aggregate.logic import WindowAggregateLogic
from udtf.record import Change, Key, Row, Side, Update
from udtf.time import Micros

# From the rows of an operator's input fragment to the rows of its logic, by the column names of the plan.


class RowShape:
    """Where an input's fragment has key, times, order and payload.

    Args:
        side: "L" or "R".
        columns: the fragment's columns, as the nodes of :mod:`sqlx.plan.nodes` name them.
        payload: names of the columns that the logic hands on.
        shown: names of the columns of refused rows; None is the payload.
        time: the column of the time; where there is none the event time of the record is.
        ties: names of the columns that break ties; None are ``__tie0 …`` and ``__arrival``.
    """

    def __init__(
        self,
        side: Side,
        columns: Sequence[Column],
        payload: Sequence[str],
        shown: Sequence[str] | None = None,
        time: str = "__time",
        ties: Sequence[str] | None = None,
    ) -> None:
        self.side: Side = side
        names = [column.name for column in columns]
        self._keys = [n for n, name in enumerate(names) if name.startswith("__k") and name[3:].isdigit()]
        self.key_types: list[SparkType] = [parse_type(columns[n].type) for n in self._keys]
        self._time = _place(names, time)
        self._sequence = None if ties is not None else _place(names, "__known" if time == "__as_of" else "__seq")
        broken_by = [name for name in names if name.startswith("__tie") or name == "__arrival"]
        self._ties = [names.index(name) for name in (broken_by if ties is None else ties)]
        self._deleted, self._pass = _place(names, "__deleted"), _place(names, "__pass")
        self._payload = [names.index(name) for name in payload]
        self.shown = self._payload if shown is None else [names.index(name) for name in shown]

    def row(self, values: Values, event_time: Micros | None) -> Row:
        """The logic's row.

        Args:
            values: one row of the fragment.
            event_time: of the record that it came from, microseconds.
        """
        return Row(
            self.side,
            tuple([values[n] for n in self._keys]),
            event_time if self._time is None else to_micros(values[self._time]),
            tuple([values[n] for n in self._payload]),
            event_time=event_time,
            sequence=None if self._sequence is None else to_micros(values[self._sequence]),
            ties=tuple([values[n] for n in self._ties]),
            is_tombstone=self._deleted is not None and values[self._deleted] is True,
            passes=self._pass is None or values[self._pass] is True,
        )


def _place(names: list[str], name: str) -> int | None:
    return names.index(name) if name in names else None


def _named(columns: Sequence[Column], prefix: str) -> list[str]:
    return [column.name for column in columns if column.name.startswith(prefix)]


ALWAYS_COUNTED = tuple(dict.fromkeys((*ALWAYS, "future", "matched", "unmatched")))
_BY_STREAM_TIME = (
    "late",
    "expired",
    "expired_window_record_drop",
    "future",
    "unmatched_beyond_retention",
    "idle_closed",
)

NewLogic = Callable[[], Any]


class Host:
    """All tasks of one operator: each has its own logic, and gets one row at a time.

    Args:
        node: the operator.
        new_logic: makes the logic of a task.
        tasks: how many tasks there are.
        shapes: of its inputs; "R" only where there are two.
        waits: results wait for stream time, so that they depend on the tasks whatever comes.
    """

    def __init__(
        self, node: Operator, new_logic: NewLogic, tasks: int, shapes: Mapping[Side, RowShape], waits: bool = False
    ) -> None:
        self.node, self.new_logic, self.shapes, self._waits = node, new_logic, shapes, waits
        self.tasks = [new_logic() for _ in range(tasks)]

    def on_row(self, side: Side, values: Values, event_time: Micros | None, *, is_deletion: bool = False) -> Emission:
        """Give one row of an input to its task, or a deletion of it; what it emits has the operator's columns."""
        shape = self.shapes[side]
        row = self.row(shape, values, event_time)
        if is_deletion:
            row = row._replace(time=event_time, event_time=event_time, is_tombstone=True)
        task = self.tasks[task_of(row.key, shape.key_types, len(self.tasks))]
        return self.shown_as(task.on_batch([row]))

    def row(self, shape: RowShape, values: Values, event_time: Micros | None) -> Row:
        """The logic's row."""
        return shape.row(values, event_time)

    def shown_as(self, emission: Emission) -> Emission:
        """What a logic emits with the operator's columns."""
        emission.updates = [update._replace(gone=self.gone(update)) for update in emission.updates]
        return emission

    def gone(self, update: Update) -> Values | None:
        """What a deleted row shows: its key where that is in the operator's columns, NULL in all others."""
        return update.gone

    @property
    def depends_on_tasks(self) -> bool:
        """Whether stream time has played a part: rows waited for it, or were refused or answered by it."""
        return self._waits or any(self.metrics()[name] for name in _BY_STREAM_TIME)

    def shown(self, side: Side, values: Values) -> dict[str, Any]:
        """A row of an input under the names that the query knows, as far as the operator has it."""
        fragment = self.node.inputs[1 if side == "R" else 0]
        names = visible_names(fragment)
        return {names.get(fragment.columns[n].name, ""): values[n] for n in self.shapes[side].shown}

    def close_idle(self) -> Emission:
        """Give out everything that waits, task by task; most operators let nothing wait."""
        return together([self.shown_as(task.close_idle()) for task in self.tasks if hasattr(task, "close_idle")])

    def restart(self) -> None:
        """Snapshot every task, forget it, and restore it."""
        snapshots = [task.snapshot() for task in self.tasks]
        self.tasks = [self.new_logic() for _ in snapshots]
        for task, snapshot in zip(self.tasks, snapshots, strict=True):
            task.restore(snapshot)

    def metrics(self) -> Counter[str]:
        """The counters, summed over the tasks."""
        total: Counter[str] = Counter(dict.fromkeys(ALWAYS_COUNTED, 0))
        for task in self.tasks:
            total.update(task.metrics)
        return total


def visible_names(fragment: Fragment) -> dict[str, str]:
    """Payload column to the name that the query knows it by: ``o.id AS _l0`` is ``id``."""
    tree = parse_sql(fragment.sql)
    found = {}
    for item in tree.expressions if isinstance(tree, exp.Select) else []:
        if isinstance(item, exp.Alias):
            inner = item.unalias()
            found[item.alias] = inner.name if isinstance(inner, exp.Column) else item.alias
    return found


# The hosts of each operator, by its descriptor.


class _JoinHost(Host):
    """A stream row of a record without event time has no place in time either (semantics.md A)."""

    def row(self, shape: RowShape, values: Values, event_time: Micros | None) -> Row:
        row = shape.row(values, event_time)
        return row._replace(time=None) if shape.side == "L" and event_time is None else row


def _join_host(
    node: KeyedJoin, new_logic: NewLogic, tasks: int, waits: bool, host: type[_JoinHost] = _JoinHost
) -> Host:
    left, right = ([c.name for c in side.columns if not c.name.startswith("__")] for side in node.inputs)
    shapes: dict[Side, RowShape] = {
        "L": RowShape("L", node.left.columns, left, time="__as_of"),
        "R": RowShape("R", node.right.columns, right),
    }
    return host(node, new_logic, tasks, shapes, waits)


def as_of_join(node: AsOfJoin, tasks: int, engine: Engine) -> Host:
    """All tasks of an AS OF join."""
    del engine
    config = node.live_config
    return _join_host(node, partial(AsOfJoinLogic, config), tasks, config.wait_us is not None)


class CorrectedJoinHost(_JoinHost):
    """No column of the result is its key: a deleted row shows nothing. Left rows may be changed themselves."""

    node: CorrectedJoin

    def on_updates(self, side: Side, updates: Sequence[Update]) -> Emission:
        """Give changes of left rows to their tasks, in order."""
        shape = self.shapes[side]
        found = []
        for update in updates:
            old, new = (None if v is None else self.row(shape, v, update.time) for v in (update.old, update.new))
            shown = new or old
            if shown is not None:
                task = self.tasks[task_of(shown.key, shape.key_types, len(self.tasks))]
                found.append(self.shown_as(task.on_batch([LeftChange(update.key, old, new)])))
        return together(found)

    def gone(self, update: Update) -> Values:
        return (None,) * len(self.node.columns)


def corrected_join(node: CorrectedJoin, tasks: int, engine: Engine) -> Host:
    """All tasks of an AS OF join with corrections."""
    del engine
    return _join_host(node, partial(CorrectedJoinLogic, node.live_config), tasks, waits=False, host=CorrectedJoinHost)


def table_lookup(node: TableLookup, tasks: int, engine: Engine) -> Host:
    """All tasks of a lookup in an upsert table."""
    del engine
    return _join_host(node, partial(TableLookupLogic, node.live_config), tasks, waits=False)


class _DeduplicateHost(Host):
    """Out of order, what other keys have done to stream time plays a part, and so do the tasks."""

    _newest_us: Micros | None = None

    def row(self, shape: RowShape, values: Values, event_time: Micros | None) -> Row:
        row = shape.row(values, event_time)
        if row.time is not None:
            self._waits |= self._newest_us is not None and row.time < self._newest_us
            self._newest_us = row.time if self._newest_us is None else max(row.time, self._newest_us)
        return row


def deduplicate(node: Deduplicate, tasks: int, engine: Engine) -> Host:
    """All tasks of a deduplication."""
    del engine
    config = node.live_config
    shape = RowShape("L", node.input.columns, config.columns, ties=("__seq",) if config.has_sequence else ())
    return _DeduplicateHost(node, partial(DeduplicateLogic, config), tasks, {"L": shape}, config.keeps_last)


class _TableHost(Host):
    """An operator of which the result is a table."""

    def row(self, shape: RowShape, values: Values, event_time: Micros | None) -> Row:
        row = shape.row(values, event_time)
        return row._replace(event_time=row.time)

    def shown(self, side: Side, values: Values) -> dict[str, Any]:
        (fragment,) = self.node.inputs
        names = self.node.input_names[0] or tuple(visible_names(fragment).values())
        return dict(zip(names, (values[n] for n in self.shapes[side].shown), strict=False))


def _key_first(update: Update, node: Operator) -> Values:
    """The key of an aggregation, with which its columns begin."""
    return update.key + (None,) * (len(node.columns) - len(update.key))


class _AggregationHost(_TableHost):
    """Bounds of windows as times."""

    node: Aggregation

    def shown_as(self, emission: Emission) -> Emission:
        emission.rows = [change._replace(values=self._values(change.values)) for change in emission.rows]
        emission.updates = [self._update(update) for update in emission.updates]
        emission = super().shown_as(emission)
        emission.updates = [update._replace(key=self._known_by(update.key)) for update in emission.updates]
        return emission

    def _known_by(self, key: Key) -> Key:
        """The key of an update; within a query one bound of a window is part of it, as it is shown."""
        if len(self.node.bounds) != 1:
            return key
        (bound,), first = self.node.bounds, self.node.config.n_keys
        kind = next(column.type for column in self.node.columns if column.name == bound)
        return (*key[:first], _as_time(key[first + ("__ws", "__we").index(bound)], kind))

    def gone(self, update: Update) -> Values:
        return self._values(_key_first(update, self.node))

    def _update(self, update: Update) -> Update:
        old, new = (None if row is None else self._values(row) for row in (update.old, update.new))
        return update._replace(old=old, new=new)

    def _values(self, values: Values) -> Values:
        found = list(values)
        for place, column in enumerate(self.node.columns):
            if column.name in ("__ws", "__we"):
                found[place] = _as_time(found[place], column.type)
        return tuple(found)


def _as_time(micros: int, kind: str) -> dt.datetime:
    """A bound of a window, without a zone where it is one of times without a zone."""
    found = from_micros(micros)
    return found.replace(tzinfo=None) if kind == "timestamp_ntz" else found


def window_aggregate(node: Aggregation, tasks: int, engine: Engine) -> Host:
    """All tasks of an aggregation; its final results wait for stream time."""
    columns = node.input.columns
    shape = RowShape("L", columns, _named(columns, "__a"), _named(columns, "_l"))
    new_logic = partial(WindowAggregateLogic, node.config, Evaluator(engine, node))
    return _AggregationHost(node, new_logic, tasks, {"L": shape}, node.config.is_final)


class _TableChangesHost(_TableHost):
    """Its tasks play no part."""

    node: TableChanges
    depends_on_tasks = False

    def gone(self, update: Update) -> Values:
        values: list[Any] = [None] * len(self.node.columns)
        for place, value in zip(self.node.keys, update.key, strict=True):
            values[place] = value
        return tuple(values)


def table_changes(node: TableChanges, tasks: int, engine: Engine) -> Host:
    """All tasks of a table whose changes are read."""
    del engine
    shape = RowShape("L", node.input.columns, _named(node.input.columns, "_l"))
    return _TableChangesHost(node, partial(TableChangesLogic, node.config), tasks, {"L": shape})


class UpdateHost(Host):
    """An operator that reads updates of tables. Nothing goes by stream time, so that one task answers as many."""

    def on_updates(self, side: Side, updates: Sequence[Update]) -> Emission:
        """Give it the updates of one record, in order; their rows are those of the input's fragment."""
        (task,) = self.tasks
        return self.shown_as(task.on_batch([self.update(side, update) for update in updates]))

    def update(self, side: Side, update: Update) -> Any:
        """The logic's own kind of update."""
        raise NotImplementedError


class _TableJoinHost(UpdateHost):
    """Where the sides meet."""

    node: TableJoin

    def update(self, side: Side, update: Update) -> Any:
        assert update.time is not None, "updates of tables have a time"
        if self.node.config.is_foreign and side == "L":
            old, new = (None if row is None else self._pointing(row) for row in (update.old, update.new))
            return LeftUpdate(update.key, update.time, old, new)
        shape = self.shapes[side]
        shown = next(row for row in (update.new, update.old, update.gone) if row is not None)
        key = shape.row(shown, update.time).key
        row = None if update.new is None else shape.row(update.new, update.time).payload
        if self.node.config.is_foreign:
            return RightUpdate(key, update.time, row)
        return SideUpdate(side, update.time, key, row)

    def _pointing(self, values: Values) -> Pointing:
        row = self.shapes["L"].row(values, None)
        return Pointing(None if row.has_null_key else row.key, row.payload)

    def gone(self, update: Update) -> Values:
        values: list[Any] = [None] * len(self.node.columns)
        for place, number in self.node.keys:
            values[place] = update.key[number]
        return tuple(values)


def table_join(node: TableJoin, tasks: int, engine: Engine) -> Host:
    """A join of two tables."""
    del tasks, engine
    shapes: dict[Side, RowShape] = {
        "L": RowShape("L", node.left.columns, node.config.left_columns),
        "R": RowShape("R", node.right.columns, node.config.right_columns),
    }
    logic = ForeignKeyJoinLogic if node.config.is_foreign else TableJoinLogic
    return _TableJoinHost(node, partial(logic, node.config), 1, shapes)


class _TableAggregationHost(UpdateHost):
    """How the rows of an update are grouped."""

    def update(self, side: Side, update: Update) -> GroupedUpdate:
        old, new = (None if row is None else self._grouped(row) for row in (update.old, update.new))
        assert update.time is not None, "updates of tables have a time"
        return GroupedUpdate(update.key, update.time, old, new)

    def _grouped(self, values: Values) -> Grouped:
        row = self.shapes["L"].row(values, None)
        return Grouped(row.key, row.payload)

    def gone(self, update: Update) -> Values:
        return _key_first(update, self.node)


def table_aggregate(node: TableAggregation, tasks: int, engine: Engine) -> Host:
    """An aggregation of a table."""
    del tasks
    shape = RowShape("L", node.input.columns, _named(node.input.columns, "__a"))
    new_logic = partial(TableAggregateLogic, node.config, Evaluator(engine, node))
    return _TableAggregationHost(node, new_logic, 1, {"L": shape})


class SuppressHost(Host):
    """A key's updates are those of one task of the operator before it."""

    node: Suppress

    def on_updates(self, side: Side, updates: Sequence[Update]) -> Emission:
        """Give updates to their tasks, in order."""
        del side
        types = [parse_type(column.type) for column in self.node.updates_of.result_keys]
        found = []
        for update in updates:
            task = self.tasks[task_of(update.key[: len(types)], types, len(self.tasks))]
            found.append(task.on_batch([update]))
        return together(found)


def suppress(node: Suppress, tasks: int, engine: Engine) -> Host:
    """All tasks of a suppression."""
    del engine
    return SuppressHost(node, partial(SuppressLogic, node.config), tasks, {}, waits=True)


def together(emissions: Sequence[Emission]) -> Emission:
    """What several tasks have emitted."""
    total = Emission()
    for emission in emissions:
        total.rows += emission.rows
        total.updates += emission.updates
        total.late += emission.late
    return total


def changes_of(updates: Sequence[Update], shape: str, keys: tuple[int, ...]) -> list[Change]:
    """Updates as the changes that a result shows (semantics.md A).

    Args:
        updates: of one record, in order, as rows of the result.
        shape: 'upsert' or 'changelog'.
        keys: places of the columns that a deleted row keeps.
    """
    if shape == "changelog":
        return [change for update in updates for change in _exact(update)]
    return [_upsert(update, keys) for update in updates]


def _upsert(update: Update, keys: tuple[int, ...]) -> Change:
    if update.new is not None:
        return Change("insert" if update.old is None else "update_after", update.time, update.new)
    shown = update.gone if update.gone is not None else update.old or ()
    return Change("delete", update.time, tuple(v if n in keys else None for n, v in enumerate(shown)))


def _exact(update: Update) -> list[Change]:
    if update.old is None:
        return [] if update.new is None else [Change("insert", update.time, update.new)]
    if update.new is None:
        return [Change("delete", update.time, update.old)]
    if update.old == update.new:
        return []
    return [Change("update_before", update.time, update.old), Change("update_after", update.time, update.new)]
