"""A streaming query in a notebook: how far it is and its latest rows, again and again until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING

from sqlx.cli.output import Result, count, fetch
from sqlx.cli.streams import size, span, summary
from sqlx.failures import interrupts
from sqlx.notebook.tables import html_table, text_table
from sqlx.streaming.registry import RunningQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Shows a view in the place of the one before; and whether it is the last one.
Show = Callable[["LiveView", bool], None]
_NONE_YET = "no rows yet"


@dataclass
class Latest:
    """A sink that keeps the last rows of a stream, for a view of it.

    Attributes:
        limit: how many.
        count: how many there were in all.
        last: the last micro-batch that was taken.
        kept: the last rows; None before the first micro-batch.
    """

    limit: int
    count: int = 0
    last: int = -1
    kept: Result | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Take a micro-batch; all of it is computed, since an operator's state belongs to whole micro-batches."""
        if batch_id <= self.last:
            return
        whole = rows.persist()
        new = whole.count()
        found = fetch(whole.offset(max(0, new - self.limit)), self.limit)
        whole.unpersist()
        with self._lock:
            before = () if self.kept is None else self.kept.rows
            self.kept = replace(found, rows=(*before, *found.rows)[-self.limit :], has_more=False)
            self.count += new
            self.last = batch_id

    def result(self) -> tuple[Result | None, int]:
        """The last rows, and how many there were in all."""
        with self._lock:
            return self.kept, self.count


class LiveView:
    """How far a query is now, as a notebook shows it.

    Args:
        query: the query.
        latest: what keeps its rows; None where they go into a table.
    """

    def __init__(self, query: RunningQuery, latest: Latest | None = None) -> None:
        self.query, self._latest = query, latest
        totals = query.refresh()
        self.status, self.batches, self.line = query.status, totals.batches, summary(totals)
        lag_us = totals.lag_us()
        self.facts = {
            "status": self.status,
            "rows": f"{totals.rows:,}",
            "rows/s": f"{totals.rows_per_second:,.0f}",
            "lag": "" if lag_us is None else span(lag_us),
            "late": f"{totals.sum('late'):,}",
            "state": f"{totals.state_rows:,} rows ({size(totals.state_bytes)})",
            "micro-batches": f"{totals.batches:,}",
        }
        self.rows, self.count = (None, 0) if latest is None else latest.result()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.facts)
        body = "".join(f"<td>{escape(value)}</td>" for value in self.facts.values())
        rows = self._shown_rows(html_table, "<small>", "</small>")
        return f"<b>{escape(self.query.name)}</b><table><tr>{head}</tr><tr>{body}</tr></table>{rows}"

    def __repr__(self) -> str:
        """The same as text."""
        return f"{self.query.name}: {self.status}, {self.line}\n{self._shown_rows(text_table)}".rstrip()

    def _shown_rows(self, table: Callable[[Result], str], before: str = "", behind: str = "") -> str:
        if self._latest is None:
            return ""
        if self.rows is None or not self.rows.rows:
            return f"{before}{_NONE_YET}{behind}"
        text = table(self.rows)
        if self.count == len(self.rows.rows):
            return text
        return text.replace(count(self.rows), f"the last {count(self.rows)} of {self.count:,}")


def follow(query: RunningQuery, latest: Latest | None, show: Show, refresh: float) -> bool:
    """Show a query until it ends, or until somebody interrupts the cell.

    Args:
        query: the query.
        latest: what keeps its rows, if they go nowhere else.
        show: shows a view.
        refresh: seconds between two views.

    Returns:
        Whether the cell was interrupted.

    Raises:
        TemporalSqlError: the query failed.
    """
    interrupted = False
    waited = threading.Event()
    try:
        with interrupts():
            while query.query.isActive:
                show(LiveView(query, latest), False)
                waited.wait(refresh)
    except KeyboardInterrupt:
        interrupted = True
    if latest is not None:  # nobody else can see its rows: it ends with the view
        query.stop()
    show(LiveView(query, latest), True)
    error = query.error()
    if error is not None:
        raise error
    return interrupted
