"""Replay: a script runs record by record in process, as a stream would see it; no Spark, milliseconds."""

from __future__ import annotations

import datetime as dt
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from catalog.entries import Entry
from sqlx.errors import BindError, RunError, did_you_mean
from sqlx.replay.script import plain, read_script
from sqlx.replay.topology import Topology
from sqlx.replay.types import EXPECTED, Misfit, from_micros, parse_type, reader_of

Op = Literal["insert", "update_before", "update_after", "delete"]
Record = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the query's result.

    Attributes:
        op: what happened.
        row: the query's columns; timestamps are aware UTC datetimes.
        time: the result's event time, an aware UTC datetime.
    """

    op: Op
    row: dict[str, Any]
    time: dt.datetime | None


class ReplayDriver:
    """Runs the definitions and the one query of a script, record by record: what TopologyTestDriver is to Kafka.

    Args:
        script: definitions and exactly one query, separated by semicolons.
        tasks: how many tasks each operator has; keys are placed as Spark places them.

    Attributes:
        late: the rows that were refused so far: the input's columns and ``_reason``, ``_operator``, ``_stream_time``,
            ``_lateness`` (microseconds).
        notes: what the compiler wants to say once, defaults that could surprise for instance.

    Raises:
        TemporalSqlError: the script is wrong, with condition name, line and caret.

    >>> driver = ReplayDriver('''
    ...   CREATE STREAM orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts;
    ...   CREATE VERSIONED TABLE rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts;
    ...   SELECT o.id, r.rate FROM STREAM orders o JOIN rates r AS OF o.ts ON o.ccy = r.ccy''')
    >>> driver.push([("rates", {"ccy": "EUR", "rate": 105, "ts": 10})])
    []
    >>> driver.push([("orders", {"id": 1, "ccy": "EUR", "ts": 25})])[0].row
    {'id': 1, 'rate': 105}
    """

    def __init__(self, script: str, tasks: int = 1) -> None:
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise RunError("REPLAY.TASKS", found=repr(tasks))
        compiled = read_script(script)
        self.notes = compiled.plan.notes
        self._inputs = compiled.pushed
        self._columns = [column.name for column in compiled.plan.root.columns]
        self._changes: list[Change] = []
        self._topology = Topology(compiled, tasks, self._on_change)

    def push(self, records: Sequence[Record]) -> list[Change]:
        """Take one micro-batch.

        Args:
            records: (name of a definition, row) in order of arrival, across inputs; a column left out is NULL.
                Timestamps are aware datetimes or int microseconds since the epoch.

        Returns:
            The changes of the result, in the order of emission.

        Raises:
            TemporalSqlError: a name, column or value does not fit (then nothing was taken), or a row fails; its
                ``changes`` are those that were emitted before.
        """
        checked = [self._checked(*_pair(record)) for record in records]
        self._changes = []
        try:
            for entry, values in checked:
                self._topology.process(entry, values)
        except Exception as error:
            error.changes = self._changes  # type: ignore[attr-defined]
            raise
        return self._changes

    def restart(self) -> None:
        """Snapshot every task of every operator, forget it, restore it; never visible in the answers."""
        self._topology.restart()

    def advance_processing_time(self, ms: int) -> list[Change]:
        """Let the wall clock go on by milliseconds.

        Returns:
            What that emits; nothing but IDLE TIMEOUT goes by the wall clock.
        """
        self._changes = []
        self._topology.advance(ms)
        return self._changes

    @property
    def metrics(self) -> dict[str, int]:
        """Counters, summed over operators and tasks; a copy."""
        return self._topology.metrics()

    @property
    def depends_on_tasks(self) -> bool:
        """Whether an answer may depend on the number of tasks: rows waited, or were late, or history had expired.

        Stream time is the task's own (semantics.md 1.2), so nothing else does.
        """
        return self._topology.depends_on_tasks

    @property
    def late(self) -> list[dict[str, Any]]:
        """The rows that were refused so far, in order; a copy."""
        return list(self._topology.late)

    def _on_change(self, op: str, values: tuple[Any, ...], time_us: int | None) -> None:
        row = dict(zip(self._columns, values, strict=True))
        self._changes.append(Change(cast(Op, op), row, None if time_us is None else from_micros(time_us)))

    def _checked(self, name: str, row: Mapping[str, Any]) -> tuple[Entry, tuple[Any, ...]]:
        entry = self._inputs.get(plain(name))
        if entry is None:
            suggestion = did_you_mean(name, [e.name for e in self._inputs.values()])
            raise BindError("REPLAY.UNKNOWN_INPUT", name=name, suggestion=suggestion)
        columns = {column.name.lower(): column for column in entry.columns}
        given = {column.lower(): value for column, value in row.items()}
        for unknown in row:
            if unknown.lower() not in columns:
                suggestion = did_you_mean(unknown, [c.name for c in entry.columns])
                raise BindError("REPLAY.UNKNOWN_COLUMN", name=entry.name, column=unknown, suggestion=suggestion)
        values = []
        for key, column in columns.items():
            kind = parse_type(column.type)
            try:
                values.append(reader_of(kind)(given.get(key)))
            except Misfit:
                _refuse_value(entry, column.name, kind.name, column.type, given[key])
        return entry, tuple(values)


def _pair(record: Any) -> Record:
    """A record of a micro-batch, as it was given.

    Raises:
        BindError: it is not the name of an input and a row.
    """
    if isinstance(record, (tuple, list)) and len(record) == 2:
        name, row = record
        if isinstance(name, str) and isinstance(row, Mapping) and all(isinstance(column, str) for column in row):
            return name, row
    raise BindError("REPLAY.RECORD", found=reprlib.repr(record))


def _refuse_value(entry: Entry, column: str, kind: str, type_text: str, value: object) -> NoReturn:
    expected = EXPECTED.get(kind, "an int in its range")
    raise BindError(
        "REPLAY.VALUE",
        name=entry.name,
        column=column,
        type=type_text.upper(),
        value=repr(value)[:80],
        expected=expected,
    )
