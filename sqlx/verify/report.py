"""Compares a stream with the bounded query in several orders of arrival, and says where each difference is from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from catalog.entries import Column
from sqlx.streaming.commands import rows_sql
from sqlx.verify.orders import (
    allowed_us,
    as_they_replace,
    has_grace,
    lateness_us,
    shuffled,
    with_ties_in_order,
)
from sqlx.verify.recording import Arrival, Recording, in_event_time
from sqlx.verify.runs import Rows, Streamed, bounded_rows, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How many rows that differ are shown of each order.
_SHOWN: Final = 10
_MISSING: Final = "only in batch"
_EXTRA: Final = "only in stream"
SAME: Final = "same"
_UNITS: Final = (
    ("days", 86_400_000_000), ("hours", 3_600_000_000), ("minutes", 60_000_000), ("seconds", 1_000_000),
    ("milliseconds", 1000), ("microseconds", 1),
)  # fmt: skip
#: Makes a context in which a callable hears how many more rows were replayed, of how many in all.
Watch = Callable[[int], AbstractContextManager[Callable[[int], None]]]


@contextmanager
def unwatched(rows: int) -> Iterator[Callable[[int], None]]:
    """Shows nobody how far a verification is."""
    del rows
    yield lambda _: None


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        arrivals: the order of arrival.
        verdict: `same`, `only in batch` or `only in stream`.
        rows: how many rows it is about.
        row: the row as JSON; None where all are the same.
        why: where the difference is from, or what else is to be known.
    """

    arrivals: str
    verdict: str
    rows: int
    row: str | None
    why: str | None


def findings_sql(findings: Sequence[Finding]) -> str:
    """A query that shows them."""
    rows = [(f.arrivals, f.verdict, str(f.rows), f.row, f.why) for f in findings]
    shown = "arrivals, verdict, CAST(rows AS BIGINT) AS rows, row, why"
    return f"SELECT {shown} FROM ({rows_sql(('arrivals', 'verdict', 'rows', 'row', 'why'), rows)})"


def compare(
    recording: Recording, batch: Callable[[str], DataFrame], shuffles: int, watch: Watch
) -> tuple[Finding, ...]:
    """Compare the bounded query with its stream.

    Args:
        recording: what it reads.
        batch: runs the bounded query.
        shuffles: in how many orders beside the recorded one.
        watch: shows how far it is.

    Returns:
        Of each order one line where all is the same, else one for each of the first rows that differ.
    """
    expected = bounded_rows(batch(recording.bounded), recording.script)
    late_us = allowed_us(recording.script.plan)
    first = "as recorded" if recording.is_known else "by event time"
    orders = [(first, recording.arrivals)]
    orders += [(f"shuffled {n}", shuffled(recording.arrivals, late_us, n)) for n in range(1, shuffles + 1)]
    with watch(len(orders) * len(recording.arrivals)) as step:
        comparison = _Comparison(recording, expected, step)
        return tuple(finding for name, arrivals in orders for finding in comparison.of(name, arrivals))


@dataclass
class _Comparison:
    """The bounded answer, and what explains others.

    Attributes:
        recording: the rows.
        expected: the bounded answer.
        step: hears of replayed rows.
    """

    recording: Recording
    expected: Rows
    step: Callable[[int], None]

    def of(self, name: str, arrivals: Sequence[Arrival]) -> Iterator[Finding]:
        """The lines of one order."""
        found = self._streamed(arrivals, self.step)
        missing, extra = self.expected - found.rows, found.rows - self.expected
        if not missing and not extra:
            yield Finding(name, SAME, found.rows.total(), None, _notes(found, arrivals))
            return
        causes = _Causes(self, arrivals, found)
        columns = self.recording.script.plan.root.columns
        for verdict, rows in ((_MISSING, missing), (_EXTRA, extra)):
            for row, count in sorted(rows.items(), key=lambda item: repr(item[0]))[:_SHOWN]:
                yield Finding(name, verdict, count, _as_json(columns, row), causes.of(row))
            left = rows.total() - sum(n for _, n in sorted(rows.items(), key=lambda item: repr(item[0]))[:_SHOWN])
            if left:
                yield Finding(name, verdict, left, None, f"and {left:,} more")

    @cached_property
    def in_order(self) -> Streamed:
        """The answer where every row comes in the order of event time."""
        arrivals = self.recording.arrivals
        return self._streamed(as_they_replace(in_event_time(arrivals), arrivals), lambda _: None)

    @cached_property
    def goes_by_arrival(self) -> bool:
        """Whether an upsert table is read, whose rows replace each other as they arrive."""
        return any(row.entry.kind == "upsert" for row in self.recording.arrivals)

    def with_ties(self, arrivals: Sequence[Arrival]) -> Streamed:
        """The answer where only rows of equal event time come in another order."""
        return self._streamed(with_ties_in_order(arrivals), lambda _: None)

    def _streamed(self, arrivals: Sequence[Arrival], step: Callable[[int], None]) -> Streamed:
        return stream(self.recording.script, arrivals, step)


class _Causes:
    """Why rows differ in one order: what does not differ in a better order is from what is better there."""

    def __init__(self, comparison: _Comparison, arrivals: Sequence[Arrival], found: Streamed) -> None:
        self._comparison, self._arrivals, self._found = comparison, arrivals, found
        self._ties = comparison.with_ties(arrivals)

    def of(self, row: tuple[Any, ...]) -> str:
        """The cause, in words."""
        wanted = self._comparison.expected[row]
        if self._ties.rows[row] == wanted:
            return "tie: rows of equal event time came in another order. TIES BY, or SEQUENCE BY of the table, decides."
        metrics = self._found.metrics
        if metrics.get("future"):
            return f"future: {metrics['future']:,} rows were further ahead than max_future allows."
        is_by_time = self._comparison.in_order.rows[row] == wanted
        if self._comparison.goes_by_arrival and not (is_by_time and self._refused()):
            return "moment: the stream saw the row that an UPSERT TABLE had then, the bounded query its last one."
        if not is_by_time:
            return "not by the order of arrival: it differs also where all rows come in the order of event time."
        gone = metrics.get("expired", 0) + metrics.get("unmatched_beyond_retention", 0)
        return self._retention(gone) if gone else self._late()

    def _refused(self) -> int:
        """How many rows were refused since they came late."""
        return Counter(str(row["_reason"]) for row in self._found.late)["late"]

    def _retention(self, gone: int) -> str:
        late_us = lateness_us(self._arrivals)
        return (
            f"retention: {gone:,} rows came when the history that they belong to was given up. They came up to "
            f"{spoken(late_us)} late: HISTORY RETENTION INTERVAL {spelled(late_us)} keeps it."
        )

    def _late(self) -> str:
        late_us = lateness_us(self._arrivals)
        refused = self._refused()
        what = f"rows were refused ({refused:,} late)" if refused else "a row that it needs came after the answer"
        if not has_grace(self._comparison.recording.script.plan):
            return f"late: {what}, and the answer goes by the order of arrival, where the bounded one goes by time."
        return f"late: {what}. They came up to {spoken(late_us)} late: GRACE PERIOD INTERVAL {spelled(late_us)} waits."


def _notes(found: Streamed, arrivals: Sequence[Arrival]) -> str | None:
    late_us = lateness_us(arrivals)
    notes = [f"rows came up to {spoken(late_us)} late"] if late_us else []
    notes += [f"{found.waiting:,} still waiting for stream time when the input ends"] if found.waiting else []
    return "; ".join(notes) or None


def _as_json(columns: Sequence[Column], row: tuple[Any, ...]) -> str:
    named = {column.name: value for column, value in zip(columns, row, strict=True)}
    return json.dumps(named, ensure_ascii=False, default=str)


def spelled(length_us: int) -> str:
    """A length of time as SQL takes it behind INTERVAL.

    >>> spelled(120_000_000), spelled(1_500_000), spelled(7)
    ("'2' MINUTES", "'1500' MILLISECONDS", "'7' MICROSECONDS")
    """
    count, unit = _in_units(length_us)
    return f"'{count}' {unit.upper()}"


def spoken(length_us: int) -> str:
    """The same for people.

    >>> spoken(120_000_000), spoken(1_000_000)
    ('2 minutes', '1 second')
    """
    count, unit = _in_units(length_us)
    return f"{count:,} {unit.removesuffix('s') if count == 1 else unit}"


def _in_units(length_us: int) -> tuple[int, str]:
    """In the largest unit of which it is a whole number."""
    return next((length_us // size, unit) for unit, size in _UNITS if length_us % size == 0)
