"""The running plan: records go in at sources and pass fragments and operators, one at a time to the end.

Source: semantics.md 1.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from catalog.definitions import name_text
from catalog.entries import Entry
from catalog.relations import alias_text
from sqlx.plan import Deduplicate, Fragment, Operator, PlanNode, Source
from sqlx.replay_deduplicate import DeduplicateHost
from sqlx.replay_fragments import FragmentRunner
from sqlx.replay_operators import ALWAYS_COUNTED, OperatorHost
from sqlx.replay_rows import Values
from sqlx.replay_script import Script
from sqlx.replay_values import from_micros, to_micros
from udtf.record import LateRow, Side
from udtf.time import Micros

Host = OperatorHost | DeduplicateHost
Sink = Callable[[Values, "Origin"], None]
OnChange = Callable[[str, Values, Micros | None], None]


@dataclass(frozen=True)
class Origin:
    """What a value was made from: the event time of the record, and its columns for the late rows."""

    time: Micros | None
    row: dict[str, Any]


@dataclass
class Outlet:
    """Who reads a live relation. Tables come first, so that a record that feeds both sides finds itself."""

    readers: list[tuple[bool, FragmentRunner, str, Sink]] = field(default_factory=list)

    def add(self, feeds_table: bool, runner: FragmentRunner, read: str, sink: Sink) -> None:
        """One more reader, behind those of its kind."""
        self.readers.append((feeds_table, runner, read, sink))
        self.readers.sort(key=lambda reader: not reader[0])

    def deliver(self, values: Values, origin: Origin) -> None:
        """Give one row to all readers, each to the end before the next."""
        for _, runner, read, sink in self.readers:
            for row in runner.run(read, values):
                sink(row, origin)


class Topology:
    """Builds and runs a plan.

    Args:
        script: the query and its definitions.
        tasks: how many tasks each operator has.
        on_change: is called with op, values and time of every change of the result.
    """

    def __init__(self, script: Script, tasks: int, on_change: OnChange) -> None:
        self.script, self.tasks = script, tasks
        self.outlets: dict[PlanNode, Outlet] = {}
        self.hosts: dict[PlanNode, Host] = {}
        self.sources: dict[str, tuple[Outlet, FragmentRunner]] = {}
        self.late: list[dict[str, Any]] = []
        self._read(script.plan.root, lambda values, origin: on_change("insert", values, origin.time))

    def process(self, entry: Entry, values: Values) -> None:
        """Take one record of a source."""
        if entry.name not in self.sources:
            return  # no part of the query reads it
        outlet, clock = self.sources[entry.name]
        (read,) = clock.reads
        ((time,),) = clock.run(read, values)
        names = [column.name for column in entry.columns]
        outlet.deliver(values, Origin(to_micros(time), dict(zip(names, values, strict=True))))

    def restart(self) -> None:
        """Snapshot all operators, forget them, and restore them."""
        for host in self.hosts.values():
            host.restart()

    def metrics(self) -> dict[str, int]:
        """The counters, summed over operators and tasks."""
        total: Counter[str] = Counter(dict.fromkeys(ALWAYS_COUNTED, 0))
        for host in self.hosts.values():
            total.update(host.metrics())
        return dict(total)

    @property
    def depends_on_tasks(self) -> bool:
        """Whether stream time, which is the task's own, has played a part."""
        return any(host.depends_on_tasks for host in self.hosts.values())

    # building

    def _read(self, fragment: Fragment, sink: Sink, feeds_table: bool = False) -> None:
        """Let a fragment read its relations, and give its rows to the sink."""
        runner = self.script.runner(fragment, feeds_table)
        for read, node in runner.reads.items():
            self._outlet(node).add(feeds_table, runner, read, sink)

    def _outlet(self, node: PlanNode) -> Outlet:
        if node not in self.outlets:
            self.outlets[node] = Outlet()
            if isinstance(node, Source):
                self._add_source(node)
            elif isinstance(node, Operator):
                self._add_operator(node)
        return self.outlets[node]

    def _add_source(self, node: Source) -> None:
        entry = node.entry
        parts = tuple(part.strip("`") for part in entry.name.split("."))
        sql = f"SELECT {entry.timestamp_by} AS __time FROM {name_text(parts)} AS {alias_text(entry)}"
        columns = self.script.engine.schema(sql)
        clock = Fragment(sql, columns, ((name_text(parts), node),))
        self.sources[entry.name] = self.outlets[node], self.script.runner(clock, reads_table=True)
        derived = self.script.derived.get(entry.name.lower())
        if derived is not None:
            self._read(derived, lambda values, _: self.process(entry, values), entry.is_table)

    def _add_operator(self, node: Operator) -> None:
        if isinstance(node, Deduplicate):
            self._feed(DeduplicateHost(node, self.tasks), node, node.input)
            return
        host = OperatorHost(node, self.tasks)
        self._feed(host, node, node.left)
        self._read(node.right, lambda values, origin: self._on_row(host, "R", values, origin, True), feeds_table=True)

    def _feed(self, host: Host, node: Operator, stream: Fragment) -> None:
        """Give the rows of an operator's stream to its host."""
        self.hosts[node] = host
        reads_source = any(isinstance(n, Source) for n in stream.inputs)
        self._read(stream, lambda values, origin: self._on_row(host, "L", values, origin, reads_source))

    # running

    def _on_row(self, host: Host, side: Side, values: Values, origin: Origin, reads_source: bool) -> None:
        changes, late = host.on_row(side, values, origin.time)
        for row in late:
            self.late.append(_late(row, origin.row if reads_source else host.shown(side, values)))
        outlet = self.outlets[host.node]
        for change in changes:
            outlet.deliver(change.values, Origin(change.time, {}))


def _late(late: LateRow, row: dict[str, Any]) -> dict[str, Any]:
    """The input's columns and the four of semantics.md B7; lateness in microseconds."""
    stream_time = None if late.stream_time is None else from_micros(late.stream_time)
    facts = {"_reason": late.reason, "_operator": late.operator, "_stream_time": stream_time}
    return {**row, **facts, "_lateness": late.lateness}
