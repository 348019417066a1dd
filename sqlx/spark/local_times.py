"""Times without a zone in places that know instants only: by the same clock, whichever zone the session is in."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, TimestampNTZType

_EPOCH = "TIMESTAMP_NTZ'1970-01-01'"


def time_of(micros: Column, kind: DataType) -> Column:
    """Microseconds since 1970 as a time of a type: TIMESTAMP, or TIMESTAMP_NTZ.

    Args:
        micros: BIGINT.
        kind: the type.
    """
    if not isinstance(kind, TimestampNTZType):
        return F.timestamp_micros(micros)
    return F.expr(_EPOCH) + F.expr("INTERVAL '0.000001' SECOND") * micros


def instant_of(time: Column) -> Column:
    """The instant at which a clock in UTC shows a time without a zone."""
    since = (time - F.expr(_EPOCH)).cast("decimal(20, 6)")  # `unix_micros` does not take it before Spark 4.2
    return F.timestamp_micros((since * 1_000_000).cast("bigint"))
