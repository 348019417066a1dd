"""Refused rows of live operators on their way to the tables of LATE TO (semantics.md B7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from catalog.entries import Entry
from sqlx.errors import UnsupportedError
from sqlx.plan import KeyedJoin, Operator, Plan, Source, Suppress
from sqlx.streaming.late import late_span
from udtf.spark.stream import rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LATE_COLUMNS = [
    StructField("_reason", StringType()),
    StructField("_operator", StringType()),
    StructField("_stream_time", TimestampType()),
    StructField("_lateness", LongType()),
]


@dataclass(frozen=True)
class LateOutput:
    """Refused rows on their way to a table.

    Attributes:
        table: the name behind LATE TO.
        schema: the columns of the input and the four of semantics.md B7.
        make: from a micro-batch of the fat frame to the rows.
    """

    table: str
    schema: StructType
    make: Callable[[DataFrame], DataFrame]


def of_ddl(ddl: str) -> StructType:
    """A list of columns with types as a schema."""
    schema = StructType.fromDDL(ddl) if ddl else StructType()
    assert isinstance(schema, StructType)
    return schema


def check_late(plan: Plan) -> None:
    """Only the last operator of a live query may have LATE TO: a batch function gets the rows of one frame.

    Raises:
        UnsupportedError: another one has.
    """
    for node in plan.operators()[:-1]:
        for table in late_tables(node):
            if table is not None:
                raise UnsupportedError("STREAMING.LATE_TO_INNER", plan.text, late_span(plan.text), table=table)


def late_tables(node: Operator) -> tuple[str | None, ...]:
    """Per input the table of its refused rows: of the clause, and of the table's definition."""
    if not isinstance(node, KeyedJoin):
        return (node.late_to,)
    entry: Entry | None = next((s.entry for s in node.right.walk() if isinstance(s, Source)), None)
    return node.late_to, entry.late_to if entry is not None else None


def late_output(table: str, side: int, node: Operator) -> LateOutput:
    """Refused rows of an input, under the names that the query knows."""
    assert not isinstance(node, Suppress), "its input was judged before"
    fragment, names = node.inputs[side], node.input_names[side]
    payload = [f"{'_r' if side else '_l'}{n}" for n in range(len(names))]
    types = {c.name: c.type for c in fragment.columns}
    fields = of_ddl(", ".join(f"`{name}` {types[name]}" for name in payload)).fields
    stored = StructType([*fields, *_LATE_COLUMNS])
    pairs = zip(names, fields, strict=True)
    shown = StructType([*(StructField(name, field.dataType) for name, field in pairs), *_LATE_COLUMNS])

    def make(batch: DataFrame) -> DataFrame:
        return rows_of(batch, f"late{side}", stored).toDF(*shown.names)

    return LateOutput(table, shown, make)
