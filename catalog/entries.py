"""What a definition says, as frozen facts: a stream, a versioned table or an upsert table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["stream", "versioned", "upsert"]


@dataclass(frozen=True)
class Column:
    """A column: its name and its Spark type as DDL text (``bigint``, ``struct<a:int>``).

    Attributes:
        char_length: of a CHAR column its length: Spark shows it as a string, and compares it padded. Else 0.
    """

    name: str
    type: str
    char_length: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True)
class Entry:
    """One definition of the catalog.

    Attributes:
        kind: "stream", "versioned" (KIP-914) or "upsert" (last arrival wins).
        name: as the user qualified it, e.g. ``rates`` or ``db.rates``.
        columns: the columns a read of the relation shows, in order.
        relation: text that is in a FROM clause and yields the rows as they arrived: a quoted name, or ``(query)``.
            "" for a definition without source in replay: rows are pushed.
        keys: KEYS columns (tables only).
        timestamp_by: SQL expression over the row: its event time.
        sequence_by: SQL expression over the row: its arrival order, or None (order of the source).
        delete_when: SQL condition that makes a row a tombstone, or None.
        retention_us: HISTORY RETENTION in microseconds; None = for ever (batch) or the default of a stream.
        late_to: table that keeps refused rows, or None.
        max_future_us: TBLPROPERTIES 'max_future' in microseconds, or None.
        valid_from, valid_to: columns of an SCD2 source (FROM SCD2 TABLE), else None.
        temporary: lives in the session only.
        properties: other TBLPROPERTIES, as written.
        alias: the name that FROM relation AS gave its source, by which the expressions may qualify columns.
        from_stream: FROM STREAM was written: the source itself is a stream.
        arrival: ORDER BY expressions over the rows of the relation that say how they arrived; () where it is not known.
        topic: the relation of raw Kafka records that ``relation`` is a query over, or "".
    """

    kind: Kind
    name: str
    columns: tuple[Column, ...]
    relation: str
    timestamp_by: str
    keys: tuple[str, ...] = ()
    sequence_by: str | None = None
    delete_when: str | None = None
    retention_us: int | None = None
    late_to: str | None = None
    max_future_us: int | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    temporary: bool = False
    properties: tuple[tuple[str, str], ...] = field(default=())
    alias: str = ""
    from_stream: bool = False
    arrival: tuple[str, ...] = ()
    topic: str = ""

    @property
    def is_table(self) -> bool:
        """Whether rows replace each other by key (versioned or upsert)."""
        return self.kind != "stream"
