"""Hosts of the operators whose results are tables, in replay: aggregation, the changes of a table, suppression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from sqlx.plan import Aggregation, Suppress, TableChanges
from sqlx.replay_aggregates import Evaluator
from sqlx.replay_duckdb import Engine
from sqlx.replay_operators import TaskHost, visible_names
from sqlx.replay_placement import task_of
from sqlx.replay_rows import Values
from sqlx.replay_types import parse_type
from sqlx.replay_values import from_micros, to_micros
from udtf.logic import Emission, Logic
from udtf.operators.suppress import SuppressLogic
from udtf.operators.table_changes import TableChangesLogic
from udtf.operators.window_aggregate import WindowAggregateLogic
from udtf.record import Change, Row, Side, Update
from udtf.time import Micros

_BY_STREAM_TIME = ("late", "expired_window_record_drop", "future", "idle_closed")


TableLogic = TypeVar("TableLogic", bound=Logic)


class TableHost(TaskHost[TableLogic]):
    """All tasks of one operator of which the result is a table.

    Args:
        node: the operator.
        new_logic: makes the logic of a task.
        tasks: how many tasks there are.
    """

    def __init__(self, node: Aggregation | TableChanges, new_logic: Callable[[], TableLogic], tasks: int) -> None:
        self.node = node
        columns = node.input.columns
        places = {column.name: n for n, column in enumerate(columns)}
        self._keys = [places[f"__k{n}"] for n in range(node.config.n_keys)]
        self.key_types = [parse_type(columns[n].type) for n in self._keys]
        self._time, self._deleted = places.get("__time"), places.get("__deleted")
        self._payload = [n for n, c in enumerate(columns) if c.name.startswith("__a")]
        self._shown = [n for n, c in enumerate(columns) if c.name.startswith("_l")]
        super().__init__(new_logic, tasks)

    def on_row(self, side: Side, values: Values, event_time: Micros | None) -> Emission:
        """Give one row to its task; what it emits has the operator's columns."""
        row = self._row(side, values, event_time)
        task = self.tasks[task_of(row.key, self.key_types, len(self.tasks))]
        return self._with_columns(task.on_batch([row]))

    def _row(self, side: Side, values: Values, event_time: Micros | None) -> Row:
        time = event_time if self._time is None else to_micros(values[self._time])
        key = tuple([values[n] for n in self._keys])
        places = self._shown if isinstance(self.node, TableChanges) else self._payload
        gone = self._deleted is not None and values[self._deleted] is True
        return Row(side, key, time, tuple([values[n] for n in places]), event_time=time, is_tombstone=gone)

    def _with_columns(self, emission: Emission) -> Emission:
        return emission

    def shown(self, side: Side, values: Values) -> dict[str, Any]:
        """A row under the names that the query knows, as far as the operator has it."""
        del side
        names = self.node.names or tuple(visible_names(self.node.input).values())
        return dict(zip(names, (values[n] for n in self._shown), strict=False))


class AggregationHost(TableHost[WindowAggregateLogic]):
    """All tasks of one aggregation."""

    node: Aggregation

    def __init__(self, node: Aggregation, tasks: int, engine: Engine) -> None:
        evaluator = Evaluator(engine, node)
        super().__init__(node, partial(WindowAggregateLogic, node.config, evaluator), tasks)
        self._bounds = [n for n, c in enumerate(node.columns) if c.name in ("__ws", "__we")]

    @property
    def depends_on_tasks(self) -> bool:
        """Whether stream time has played a part: final results wait for it, late rows are refused by it."""
        return self.node.config.is_final or any(self.metrics()[name] for name in _BY_STREAM_TIME)

    def close_idle(self) -> Emission:
        """Close everything that is open, task by task."""
        return _together([self._with_columns(task.close_idle()) for task in self.tasks])

    def _with_columns(self, emission: Emission) -> Emission:
        """Bounds of windows as times; what a deleted row shows of its key."""
        emission.rows = [change._replace(values=self._values(change.values)) for change in emission.rows]
        emission.updates = [self._update(update) for update in emission.updates]
        return emission

    def _update(self, update: Update) -> Update:
        gone = update.key + (None,) * (len(self.node.columns) - len(update.key))
        old, new = (None if row is None else self._values(row) for row in (update.old, update.new))
        return update._replace(old=old, new=new, gone=self._values(gone))

    def _values(self, values: Values) -> Values:
        if not self._bounds:
            return values
        found = list(values)
        for place in self._bounds:
            found[place] = from_micros(found[place])
        return tuple(found)


class TableChangesHost(TableHost[TableChangesLogic]):
    """All tasks of a table whose changes are read."""

    node: TableChanges
    depends_on_tasks = False

    def __init__(self, node: TableChanges, tasks: int) -> None:
        super().__init__(node, partial(TableChangesLogic, node.config), tasks)

    def _with_columns(self, emission: Emission) -> Emission:
        """What a deleted row shows of its key."""
        emission.updates = [update._replace(gone=self._gone(update)) for update in emission.updates]
        return emission

    def _gone(self, update: Update) -> Values:
        values: list[Any] = [None] * len(self.node.columns)
        for place, value in zip(self.node.keys, update.key, strict=True):
            values[place] = value
        return tuple(values)


class SuppressHost(TaskHost[SuppressLogic]):
    """All tasks of one suppression; a key's updates are those of one task of the operator before it."""

    depends_on_tasks = True

    def __init__(self, node: Suppress, before: AggregationHost | TableChangesHost, tasks: int) -> None:
        self.node, self._before = node, before
        super().__init__(partial(SuppressLogic, node.config), tasks)

    def on_updates(self, updates: Sequence[Update]) -> Emission:
        """Give updates to their tasks, in order."""
        found = []
        for update in updates:
            key = update.key[: self._before.node.config.n_keys]
            task = self.tasks[task_of(key, self._before.key_types, len(self.tasks))]
            found.append(task.on_batch([update]))
        return _together(found)

    def close_idle(self) -> Emission:
        """Send everything that waits, task by task."""
        return _together([task.close_idle() for task in self.tasks])


def _together(emissions: Sequence[Emission]) -> Emission:
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
