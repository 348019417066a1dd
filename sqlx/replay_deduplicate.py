"""Hosts a deduplication in replay: its rows are placed on tasks by key, each task has its own logic."""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlx.input_facts import deduplicate_config
from sqlx.plan import Deduplicate
from sqlx.replay_operators import TaskHost, visible_names
from sqlx.replay_placement import task_of
from sqlx.replay_rows import Values
from sqlx.replay_types import parse_type
from sqlx.replay_values import to_micros
from udtf.logic import Emission
from udtf.operators.deduplicate import DeduplicateLogic
from udtf.record import Row, Side
from udtf.time import Micros


class DeduplicateHost(TaskHost[DeduplicateLogic]):
    """All tasks of one deduplication.

    Args:
        node: the operator.
        tasks: how many tasks there are.
    """

    def __init__(self, node: Deduplicate, tasks: int) -> None:
        self.node = node
        columns = node.input.columns
        places = {column.name: n for n, column in enumerate(columns)}
        self._keys = [places[f"__k{n}"] for n in range(node.config.n_keys)]
        self._key_types = [parse_type(columns[n].type) for n in self._keys]
        self._time, self._sequence = places.get("__time"), places.get("__seq")
        self._payload = [places[name] for name in node.config.columns]
        self._newest_us: Micros | None = None
        self._has_disorder = node.config.keeps_last
        super().__init__(partial(DeduplicateLogic, deduplicate_config(node)), tasks)

    def on_row(self, side: Side, values: Values, event_time: Micros | None) -> Emission:
        """Give one row to its task."""
        row = self._row(side, values, event_time)
        self._notice(row.time)
        return self.tasks[task_of(row.key, self._key_types, len(self.tasks))].on_batch([row])

    def _row(self, side: Side, values: Values, event_time: Micros | None) -> Row:
        time = event_time if self._time is None else to_micros(values[self._time])
        ties = () if self._sequence is None else (values[self._sequence],)
        key, payload = (tuple([values[n] for n in places]) for places in (self._keys, self._payload))
        return Row(side, key, time, payload, event_time=event_time, ties=ties)

    def _notice(self, time_us: Micros | None) -> None:
        """Out of order, what other keys have done to stream time plays a part, and so do the tasks."""
        if time_us is None:
            return
        self._has_disorder |= self._newest_us is not None and time_us < self._newest_us
        self._newest_us = time_us if self._newest_us is None else max(time_us, self._newest_us)

    @property
    def depends_on_tasks(self) -> bool:
        """Whether stream time has played a part."""
        return self._has_disorder or self.metrics()["future"] > 0

    def shown(self, side: Side, values: Values) -> dict[str, Any]:
        """A row under the names that the query knows, as far as the operator has it."""
        del side
        names = visible_names(self.node.input)
        columns = self.node.input.columns
        return {names.get(columns[n].name, ""): values[n] for n in self._payload}
