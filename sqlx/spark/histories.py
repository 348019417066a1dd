"""A source of a live query that begins with its history: what stands in its place until then, and what is left of it.

While a backfill runs, the slices of the history are read in place of the stream; from then on the stream, without the
rows that are history. Why so: docs/design/20261125_backfill.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import LongType, StructField, StructType

from catalog.definitions import name_parts
from catalog.entries import Entry
from catalog.relations import alias_text
from sqlx.bind.binder import NotLiveError, RowOrder
from udtf.stream.interleave import AT, LANE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from catalog.spark import SparkCatalog

#: From a definition, its rows as they are read live, and what says how they arrived, to what is read in their place,
#: and the condition of rows that are left out ("": none).
StandIn = Callable[[Entry, "DataFrame", RowOrder], "tuple[DataFrame, RowOrder, str]"]
#: By the place of a definition, see `place_of`.
Histories = Mapping[str, StandIn]

NO_HISTORIES: Final[Histories] = {}
#: The column of a slice that numbers the rows of a history in their order.
NUMBER: Final = "__n"
#: Whatever is read from a history came before every row of its stream.
_BEFORE: Final = {
    "timestamp": "TIMESTAMP '1970-01-01 00:00:00'",
    "string": "''",
    "bigint": NUMBER,
    f"struct<{LANE}:bigint,{AT}:bigint>": f"named_struct('{LANE}', -1L, '{AT}', {NUMBER})",
}


def place_of(catalog: SparkCatalog, name: str | tuple[str, ...]) -> str:
    """What tells a definition from all others, by whatever name it is read.

    Args:
        catalog: the session's definitions.
        name: the parts of a name, or its text.
    """
    parts = name_parts(name)
    if catalog.is_temporary(parts):
        return parts[-1].lower()
    database = parts[-2] if len(parts) > 1 else catalog.current_database()
    return f"{database}.{parts[-1]}".lower()


def event_time(entry: Entry) -> str:
    """The event time of a definition's rows, as SQL."""
    return f"CAST(({entry.timestamp_by}) AS TIMESTAMP)"


def of_slices(rows: StructType) -> StructType:
    """The columns of slices of such rows."""
    return StructType([*(StructField(one.name, one.dataType) for one in rows), StructField(NUMBER, LongType())])


def from_slices(folder: str, schema: StructType) -> StandIn:
    """The slices of a history, as they come into a folder."""
    return partial(_from_slices, folder, schema)


def _from_slices(
    folder: str, schema: StructType, entry: Entry, live: DataFrame, order: RowOrder
) -> tuple[DataFrame, RowOrder, str]:
    kinds = [field.dataType for field in shown(entry, live).selectExpr(*order.order).schema] if order.order else []
    reader = live.sparkSession.readStream.schema(schema).option("recursiveFileLookup", "true")
    frame = reader.option("maxFilesPerTrigger", 1).parquet(folder)  # a slice is a micro-batch
    return frame, RowOrder(None, tuple(map(_before, kinds))), ""


def _before(kind: DataType) -> str:
    """The order of a row of a history, in the type that those of its stream have."""
    found = _BEFORE.get(kind.simpleString())
    if found is None:
        reason = f"its rows arrive in an order of the type {kind.simpleString()}, in which a history has no place"
        raise NotLiveError(reason)
    return found


@dataclass(frozen=True)
class Cut:
    """Up to where the rows of a source are history.

    Attributes:
        sql: a time, or a condition over the columns of a definition.
        is_time: which of both; rows before a time are history, and a row without a time is not.
    """

    sql: str
    is_time: bool

    def condition(self, entry: Entry) -> str:
        """Of a row of a definition that is history."""
        return (
            f"coalesce({event_time(entry)} < {self.sql}, false)" if self.is_time else f"coalesce(({self.sql}), false)"
        )


def beyond(cuts: Mapping[str, Cut]) -> Histories:
    """What is left of each source when its history was read."""
    return {place: partial(_beyond, cut) for place, cut in cuts.items()}


def _beyond(cut: Cut, entry: Entry, live: DataFrame, order: RowOrder) -> tuple[DataFrame, RowOrder, str]:
    return live, order, cut.condition(entry)


def shown(entry: Entry, frame: DataFrame) -> DataFrame:
    """Rows under the name by which the expressions of a definition may qualify its columns."""
    return frame.alias(alias_text(entry).strip("`"))


def rows_of_history(entry: Entry, relation: str, cut: Cut | None, further: Mapping[str, str] | None = None) -> str:
    """A query of the rows of a relation that are the history of a definition.

    Args:
        entry: the definition.
        relation: where they are, as in a FROM clause.
        cut: up to where they are history; None: all of them.
        further: name to expression of columns that the rows are to show besides.
    """
    where = f" WHERE {cut.condition(entry)}" if cut is not None else ""
    items = ", ".join(["*", *(f"{expression} AS {name}" for name, expression in (further or {}).items())])
    return f"SELECT {items} FROM {relation} AS {alias_text(entry)}{where}"
