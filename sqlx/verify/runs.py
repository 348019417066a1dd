"""The answers that are compared: of the bounded query, and of its replay in an order of arrival."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlx.replay.script import Script
from sqlx.replay.topology import Topology
from sqlx.replay.types import Values, parse_type, reader_of
from sqlx.verify.recording import Arrival, rows_of, utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = Counter[tuple[Any, ...]]
_OP = "_change_type"
_DIGITS = 12


@dataclass(frozen=True)
class Streamed:
    """What a stream gave.

    Attributes:
        rows: its rows at the end; of a result that is a table the current ones.
        waiting: of them those that were given out only because the input ended.
        late: the refused rows: the input's columns and ``_reason``, ``_operator``, ``_stream_time``, ``_lateness``.
        metrics: the counters.
    """

    rows: Rows
    waiting: int
    late: tuple[dict[str, Any], ...]
    metrics: dict[str, int]


def bounded_rows(frame: DataFrame, script: Script) -> Rows:
    """The answer of the bounded query, as replay writes values."""
    kinds = [reader_of(parse_type(column.type)) for column in script.plan.root.columns]
    found = rows_of(frame.drop(_OP))
    return Counter(comparable(read(utc(value)) for read, value in zip(kinds, row, strict=True)) for row in found)


def stream(script: Script, arrivals: Sequence[Arrival], step: Callable[[int], None]) -> Streamed:
    """Replay the rows in an order, and give out what waits at the end.

    Args:
        script: the definitions and the query.
        arrivals: the rows, in order.
        step: is told how many rows were taken.
    """
    result = _Result(script)
    topology = Topology(script, 1, result.change)
    for number, row in enumerate(arrivals):
        topology.process(row.entry, row.values)
        if number % 1000 == 999:
            step(1000)
    step(len(arrivals) % 1000)
    before = result.rows
    topology.finish()
    waiting = sum((result.rows - before).values())
    return Streamed(result.rows, waiting, tuple(topology.late), topology.metrics())


class _Result:
    """The rows that the changes of a result add up to."""

    def __init__(self, script: Script) -> None:
        self._shape, self._keys = script.plan.result.shape, script.plan.result.keys
        self._added: Rows = Counter()
        self._current: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def change(self, op: str, values: Values, time_us: int | None) -> None:
        """Take one change."""
        del time_us
        row = comparable(values)
        if self._shape == "upsert":
            key = tuple(row[place] for place in self._keys)
            self._current.pop(key, None)
            if op != "delete":
                self._current[key] = row
        elif op in ("insert", "update_after"):
            self._added[row] += 1
        else:
            self._added[row] -= 1

    @property
    def rows(self) -> Rows:
        """A copy of them."""
        return Counter(self._current.values()) if self._shape == "upsert" else +self._added


def comparable(values: Iterable[Any]) -> tuple[Any, ...]:
    """A row that can be counted. Floating-point sums depend on their order, so 12 digits of them count.

    >>> comparable([0.1 + 0.2, float("nan"), [1, {"a": None}], -0.0])
    ('0.3', 'nan', (1, (('a', None),)), '0')
    """
    return tuple(map(_comparable, values))


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value + 0.0:.{_DIGITS}g}"
    if isinstance(value, dict):
        return tuple((_comparable(name), _comparable(item)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_comparable, value))
    if isinstance(value, dt.datetime):
        return str(value)
    return value
