"""Hosts an operator in replay: its rows are placed on tasks, each task has its own logic, one row at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from sqlglot import exp

from sqlx.input_facts import join_config
from sqlx.plan import AsOfJoin, Fragment, TableLookup
from sqlx.replay_duckdb import parse_sql
from sqlx.replay_placement import task_of
from sqlx.replay_rows import RowShape, Values
from udtf.logic import Emission, Kept, Logic
from udtf.metrics import ALWAYS
from udtf.operators.as_of_join import AsOfJoinConfig, AsOfJoinLogic
from udtf.operators.table_lookup import TableLookupLogic
from udtf.record import Side
from udtf.time import Micros

_BY_STREAM_TIME = ("late", "expired", "future", "unmatched_beyond_retention")
ALWAYS_COUNTED = tuple(dict.fromkeys((*ALWAYS, "future", "matched", "unmatched")))


LogicT = TypeVar("LogicT", bound=Kept)


class TaskHost(Generic[LogicT]):
    """All tasks of one operator.

    Args:
        new_logic: makes the logic of a task.
        tasks: how many tasks there are.
    """

    def __init__(self, new_logic: Callable[[], LogicT], tasks: int) -> None:
        self.new_logic = new_logic
        self.tasks = [new_logic() for _ in range(tasks)]

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


class OperatorHost(TaskHost[Logic]):
    """All tasks of one join.

    Args:
        node: the operator.
        tasks: how many tasks there are.
    """

    def __init__(self, node: AsOfJoin | TableLookup, tasks: int) -> None:
        self.node = node
        self.shapes = {"L": RowShape("L", node.left.columns), "R": RowShape("R", node.right.columns)}
        self.config = join_config(node)
        super().__init__(self._new_logic, tasks)

    def _new_logic(self) -> Logic:
        if isinstance(self.config, AsOfJoinConfig):
            return AsOfJoinLogic(self.config)
        return TableLookupLogic(self.config)

    def on_row(self, side: Side, values: Values, event_time: Micros | None) -> Emission:
        """Give one row of an input to its task."""
        shape = self.shapes[side]
        row = shape.row(values, event_time)
        task = self.tasks[task_of(row.key, shape.key_types, len(self.tasks))]
        return task.on_batch([row])

    @property
    def depends_on_tasks(self) -> bool:
        """Whether stream time has played a part: rows waited for it, or were refused or answered by it."""
        waits = isinstance(self.config, AsOfJoinConfig) and self.config.wait_us is not None
        return waits or any(self.metrics()[name] for name in _BY_STREAM_TIME)

    def shown(self, side: Side, values: Values) -> dict[str, Any]:
        """A row of an input under the names that the query knows, as far as the operator has it."""
        fragment = self.node.left if side == "L" else self.node.right
        names = visible_names(fragment)
        return {names.get(fragment.columns[n].name, ""): values[n] for n in self.shapes[side].payload}


def visible_names(fragment: Fragment) -> dict[str, str]:
    """Payload column to the name that the query knows it by: ``o.id AS _l0`` is ``id``."""
    tree = parse_sql(fragment.sql)
    found = {}
    for item in tree.expressions if isinstance(tree, exp.Select) else []:
        if isinstance(item, exp.Alias):
            inner = item.unalias()
            found[item.alias] = inner.name if isinstance(inner, exp.Column) else item.alias
    return found
