"""A small session without Spark: tables and definitions given by hand, types from DuckDB.

What every test of the front end sees::

    orders (id, k, ts, day, n, name)      a plain table, also as db.orders; fills is another of the same columns
    rates  (k, rate, at, seq, known)      a versioned table: KEYS (k), TIMESTAMP BY at, SEQUENCE BY known, 1 day
    prices (k, region, price, at)         a versioned table of two keys, kept for ever, without SEQUENCE BY
    items  (k, title)                     an upsert table
    halved (k, rate, ts)                  a versioned table that is derived from rates, by another time
    clicks (id, k, ts)                    a stream
"""

from __future__ import annotations

from catalog import MemoryCatalog
from catalog.entries import Column, Entry
from sqlx.bind.right_side import quoted_path
from sqlx.plan.compiler import compile_query
from sqlx.plan.nodes import AsOfJoin, Plan
from sqlx.replay.duckdb import DuckDbBinder, Engine

DAY_US = 86_400_000_000


def columns(text: str) -> tuple[Column, ...]:
    """``"id bigint, ts timestamp"`` as columns."""
    pairs = (item.strip().split(" ", 1) for item in text.split(","))
    return tuple(Column(name.strip("`"), kind) for name, kind in pairs)


ORDERS = columns("id bigint, k string, ts timestamp, day date, n int, name string")
RATES = columns("k string, rate double, at timestamp, seq bigint, known timestamp")
PRICES = columns("k string, region string, price double, at timestamp")
ITEMS = columns("k string, title string, at timestamp")
CLICKS = columns("id bigint, k string, ts timestamp")
TABLES = {
    "orders": ORDERS,
    "fills": ORDERS,
    "db.orders": ORDERS,
    "quotes": columns("k string, bid double, ts timestamp, day date"),
    "odd": columns("as bigint, of timestamp, asof string, k string"),
    "größe": columns("größe bigint, k string, ts timestamp"),
    "maps": columns("k int, ts timestamp"),
}
ENTRIES = (
    Entry("versioned", "rates", RATES, "`rates__log`", "at", ("k",), "known", retention_us=DAY_US),
    Entry("versioned", "prices", PRICES, "`prices__log`", "at", ("k", "region"), delete_when="price < 0"),
    Entry("versioned", "numbered", RATES, "`rates__log`", "at", ("k",), "seq"),
    Entry("upsert", "items", ITEMS, "`items__log`", "at", ("k",)),
    Entry("versioned", "halved", columns("k string, rate double, ts timestamp"), "`halved__source`", "ts", ("k",)),
    Entry("stream", "clicks", CLICKS, "`clicks__log`", "ts"),
)
VIEWS = {
    "cheap": "SELECT k, rate FROM rates WHERE rate < 1",
    "halved__source": "SELECT k, rate / 2 AS rate, known AS ts FROM rates",
    "totals": "SELECT k, sum(rate) AS rate FROM rates GROUP BY k",
}


class FakeBinder(DuckDbBinder):
    """Binds against tables, definitions and views that are given by hand."""

    def __init__(self) -> None:
        super().__init__(Engine(), MemoryCatalog(ENTRIES))
        for entry in ENTRIES:
            self.engine.define((entry.name,), entry.columns)
            self.engine.define((entry.relation.strip("`"),), entry.columns)
        for name, shape in TABLES.items():
            self.engine.define(tuple(name.split(".")), shape)
        self.asked: list[str] = []

    def columns(self, query: str) -> tuple[Column, ...] | None:
        self.asked.append(query)
        return super().columns(query)

    def insert_target(self, entry: Entry) -> str | None:
        return quoted_path(f"{entry.name}__log") if entry.name in ("rates", "clicks") else None

    def names(self) -> tuple[str, ...]:
        return (*super().names(), *TABLES, *VIEWS)

    def view_text(self, parts: tuple[str, ...]) -> str | None:
        return VIEWS.get(".".join(parts))


BINDER = FakeBinder()


def compiled(text: str, streaming: bool = False) -> Plan:
    """The plan of a statement over these names."""
    return compile_query(text, BINDER, streaming)


def joins(text: str) -> list[AsOfJoin]:
    """The AS OF joins of a statement, inputs first."""
    return [node for node in compiled(text).operators() if isinstance(node, AsOfJoin)]
