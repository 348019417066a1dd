"""The running plan: records go in at sources and pass fragments and operators, one at a time to the end.

Source: semantics.md 1.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from sqlglot import exp

from catalog.definitions import name_text
from catalog.entries import Entry
from catalog.relations import alias_text
from sqlx.errors import RunError
from sqlx.plan.nodes import (
    Fragment,
    Operator,
    PlanNode,
    Source,
    TableChanges,
    TableJoin,
    TableOperator,
    reads_changes,
)
from sqlx.plan.operators import function_of
from sqlx.replay.fragments import FragmentRunner, refuse
from sqlx.replay.hosts import ALWAYS_COUNTED, CorrectedJoinHost, Host, SuppressHost, UpdateHost, changes_of
from sqlx.replay.script import Script
from sqlx.replay.types import Values, from_micros, to_micros
from udtf.errors import OperatorError
from udtf.logic import Emission
from udtf.metrics import MAXIMA
from udtf.record import LateRow, Side, Update
from udtf.time import Micros

# A fragment over a table that changes: it shows what became of the old row and of the new one.


@dataclass(frozen=True)
class UpdateReader:
    """One reader of an operator whose result is a table.

    Attributes:
        runner: the fragment.
        bare: the fragment without its condition, for what a deletion shows.
        read: the operator's name in both.
        filters: whether there is a condition.
        sink: what the updates go to.
    """

    runner: FragmentRunner
    bare: FragmentRunner
    read: str
    filters: bool
    sink: Callable[[list[Update]], None]

    def deliver(self, updates: Sequence[Update]) -> None:
        """Hand the updates of one record on: one that shows nothing before and after is dropped (semantics.md 5.2)."""
        found = [self._through(update) for update in updates]
        kept = [update for update in found if not self.filters or update.old is not None or update.new is not None]
        if kept:
            self.sink(kept)

    def _through(self, update: Update) -> Update:
        old, new = (self._row(self.runner, row) for row in (update.old, update.new))
        return update._replace(old=old, new=new, gone=self._row(self.bare, update.gone))

    def _row(self, runner: FragmentRunner, values: Values | None) -> Values | None:
        rows = [] if values is None else runner.run(self.read, values)
        if len(rows) > 1:
            refuse("A query that makes several rows of one row of a table")
        return rows[0] if rows else None


ReadsUpdates = CorrectedJoinHost | SuppressHost | UpdateHost
Sink = Callable[[Values, "Origin"], None]
UpdateSink = Callable[[list[Update]], None]
OnChange = Callable[[str, Values, Micros | None], None]


@dataclass(frozen=True)
class Origin:
    """What a value was made from.

    Attributes:
        time: the event time of the record.
        row: its columns, for the late rows.
        is_deletion: it says that the table behind it has the row no longer; nothing but its key is known.
    """

    time: Micros | None
    row: dict[str, Any]
    is_deletion: bool = False


@dataclass
class Outlet:
    """Who reads a live relation. Tables come first, so that a record that feeds both sides finds itself."""

    readers: list[tuple[bool, FragmentRunner, str, Sink]] = field(default_factory=list)
    of_updates: list[UpdateReader] = field(default_factory=list)

    def add(self, feeds_table: bool, runner: FragmentRunner, read: str, sink: Sink) -> None:
        """One more reader, after those of its kind."""
        self.readers.append((feeds_table, runner, read, sink))
        self.readers.sort(key=lambda reader: not reader[0])

    def deliver(self, values: Values, origin: Origin) -> None:
        """Give one row to all readers, each to the end before the next."""
        for _, runner, read, sink in self.readers:
            for row in runner.run(read, values):
                sink(row, origin)

    def deliver_all(self, emission: Emission) -> None:
        """Give what an operator emitted to all readers: the rows one by one, the updates of one record together."""
        for change in emission.rows:
            self.deliver(change.values, Origin(change.time, {}))
        for reader in self.of_updates:
            reader.deliver(emission.updates)


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
        self._on_change = on_change
        self._now_ms = 0
        self._last_ms: dict[PlanNode, int] = {}
        self._feeds_table: set[PlanNode] = set()
        self._find_feeding(script.plan.root)
        if reads_changes(script.plan.root):
            self._read_updates(script.plan.root, self._on_result)
        else:
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

    def advance(self, ms: int) -> None:
        """Let the wall clock go on: what IDLE TIMEOUT is given for closes when nothing came for so long."""
        self._now_ms += ms
        for node, host in self.hosts.items():
            idle_us = host.node.idle_us
            last_ms = self._last_ms.get(node)
            if idle_us is None or last_ms is None or (self._now_ms - last_ms) * 1000 < idle_us:
                continue
            del self._last_ms[node]
            self.outlets[node].deliver_all(host.close_idle())

    def finish(self) -> None:
        """Give out all that waits for stream time, as where the input ends: operators close after those they read."""
        closed = True
        while closed:  # in any order: what one gives out may wait in the next
            closed = False
            for node, host in reversed(self.hosts.items()):
                emission = host.close_idle()
                closed |= bool(emission.rows or emission.updates)
                self.outlets[node].deliver_all(emission)

    def restart(self) -> None:
        """Snapshot all operators, forget them, and restore them."""
        for host in self.hosts.values():
            host.restart()

    def metrics(self) -> dict[str, int]:
        """The counters, summed over operators and tasks."""
        total: Counter[str] = Counter(dict.fromkeys(ALWAYS_COUNTED, 0))
        for host in self.hosts.values():
            found = host.metrics()
            for name in MAXIMA & found.keys():
                total[name] = max(total[name], found.pop(name))
            total.update(found)
        return dict(total)

    @property
    def depends_on_tasks(self) -> bool:
        """Whether stream time, which is the task's own, has played a part."""
        return any(host.depends_on_tasks for host in self.hosts.values())

    # building

    def _find_feeding(self, fragment: Fragment, feeds_table: bool = False) -> None:
        """Find what is behind a table, so that a record which is a row of it, too, comes to it first."""
        for node in fragment.inputs:
            if feeds_table:
                self._feeds_table.add(node)
            if isinstance(node, Source):
                derived = self.script.derived.get(node.entry.name.lower())
                if derived is not None:
                    self._find_feeding(derived, feeds_table or node.entry.is_table)
            elif isinstance(node, Operator):
                is_table = isinstance(node, (TableJoin, TableOperator)) and node.gives_changes
                for number, side in enumerate(node.inputs):
                    self._find_feeding(side, feeds_table or is_table or number > 0)

    def _read(self, fragment: Fragment, sink: Sink, reads_table: bool = False, is_behind: bool = False) -> None:
        """Let a fragment read its relations, and give its rows to the sink.

        Args:
            fragment: a query.
            sink: what takes its rows.
            reads_table: its relations may be tables.
            is_behind: its rows become those of a table, by way of an operator or a definition.
        """
        runner = self.script.runner(fragment, reads_table)
        for read, node in runner.reads.items():
            self._outlet(node).add(reads_table or is_behind, runner, read, sink)

    def _read_updates(self, fragment: Fragment, sink: UpdateSink) -> None:
        """Let a fragment read the one table whose updates it shows."""
        runner, bare = self.script.runner(fragment), self.script.runner(fragment, is_bare=True)
        if len(runner.reads) != 1:
            refuse("A query over a table that changes and something else beside it")
        ((read, node),) = runner.reads.items()
        drops_nothing = isinstance(node, TableChanges) and node.config.is_versioned  # 5.4
        filters = runner.tree.find(exp.Where) is not None and not drops_nothing
        self._outlet(node).of_updates.append(UpdateReader(runner, bare, read, filters, sink))

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
            if reads_changes(derived):
                self._read_updates(derived, partial(self._on_derived, entry))
                return
            is_behind = node in self._feeds_table
            self._read(derived, lambda values, _: self.process(entry, values), entry.is_table, is_behind)

    def _add_operator(self, node: Operator) -> None:
        """Make the operator's host, and let its inputs be read: the stream first, of two tables the right one."""
        with self.script.pointing():
            host = self.hosts[node] = function_of(node, "replay")(node, self.tasks, self.script.engine)
        inputs = list(enumerate(node.inputs))
        for number, fragment in inputs[::-1] if isinstance(host, UpdateHost) else inputs:
            is_table = number > 0
            is_changed = isinstance(host, CorrectedJoinHost) and host.node.is_changed and not is_table
            if is_changed or isinstance(host, (SuppressHost, UpdateHost)):
                self._read_updates(fragment, partial(self._on_updates, host, "R" if is_table else "L"))
                continue
            if reads_changes(fragment):
                refuse("A read of a table that changes as if its rows were those of a stream")
            sink = partial(
                self._on_row,
                host,
                "R" if is_table else "L",
                reads_source=is_table or any(isinstance(n, Source) for n in fragment.inputs),
            )
            reads_table = is_table or isinstance(node, TableChanges)
            self._read(fragment, sink, reads_table, is_behind=node in self._feeds_table)

    # running

    def _on_row(self, host: Host, side: Side, values: Values, origin: Origin, reads_source: bool) -> None:
        self._last_ms[host.node] = self._now_ms
        try:
            emission = host.on_row(side, values, origin.time, is_deletion=origin.is_deletion)
        except OperatorError as error:
            self._refuse(error, host.node)
        for row in emission.late:
            self.late.append(_late(row, origin.row if reads_source else host.shown(side, values)))
        self.outlets[host.node].deliver_all(emission)

    def _on_derived(self, entry: Entry, updates: list[Update]) -> None:
        """Put the updates of a query into the table that is derived from it; one without a row now deletes its key."""
        for update in updates:
            if update.new is not None:
                self.process(entry, update.new)
            elif update.gone is not None:
                row = dict(zip((column.name for column in entry.columns), update.gone, strict=True))
                self.sources[entry.name][0].deliver(update.gone, Origin(update.time, row, is_deletion=True))

    def _on_updates(self, host: ReadsUpdates, side: Side, updates: list[Update]) -> None:
        self._last_ms[host.node] = self._now_ms
        try:
            emission = host.on_updates(side, updates)
        except OperatorError as error:
            self._refuse(error, host.node)
        self.outlets[host.node].deliver_all(emission)

    def _refuse(self, error: OperatorError, node: PlanNode) -> NoReturn:
        """What was emitted before the error still goes out.

        Raises:
            RunError: always.
        """
        before: Emission | None = getattr(error, "emission", None)
        if before is not None:
            self.outlets[node].deliver_all(before)
        raise RunError("REPLAY.OPERATOR", reason=error.message) from error

    def _on_result(self, updates: list[Update]) -> None:
        result = self.script.plan.result
        for change in changes_of(updates, result.shape, result.keys):
            self._on_change(change.op, change.values, change.time)


def _late(late: LateRow, row: dict[str, Any]) -> dict[str, Any]:
    """The input's columns and the four of semantics.md B7; lateness in microseconds."""
    stream_time = None if late.stream_time is None else from_micros(late.stream_time)
    facts = {"_reason": late.reason, "_operator": late.operator, "_stream_time": stream_time}
    return {**row, **facts, "_lateness": late.lateness}
