"""The fake session as Spark would read it live: rows carry event time and order of arrival along in a hidden column.

``clicks`` arrives as its files were written, ``rates`` by its SEQUENCE BY; ``prices`` cannot be read live.
"""

from __future__ import annotations

from catalog.entries import Column, Entry
from sqlx.bind.binder import ROW, LiveRead, NotLiveError, RowOrder
from sqlx.plan.compiler import compile_query
from sqlx.plan.nodes import Plan
from tests.harness.fake_binder import FakeBinder

_FILES = (("o0", "timestamp"), ("o1", "string"), ("o2", "bigint"))


class LiveBinder(FakeBinder):
    """Binds live queries."""

    carries_row_order = True

    def live(self, entry: Entry) -> LiveRead:
        if entry.name == "prices":
            reason = "it reads a temporary view of rows that are no stream"
            raise NotLiveError(reason)
        order = (("o0", "timestamp"),) if entry.sequence_by else _FILES
        fields = ", ".join(f"{name}: {kind}" for name, kind in (("time", "timestamp"), *order))
        name = f"__sqlx_live_{entry.name}"
        self.announce(name, (*entry.columns, Column(ROW, f"struct<{fields}>")))
        shown = tuple(f"{ROW}.{place}" for place, _ in order)
        return LiveRead(name, RowOrder(f"{ROW}.time", shown, entry.sequence_by is not None))


BINDER = LiveBinder()


def live(text: str) -> Plan:
    """The plan of a live query over these names."""
    return compile_query(text, BINDER, streaming=True)
