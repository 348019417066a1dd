"""The query of a streaming statement, compiled for live rows; its carets stand in the whole statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlx.errors import RefusedBySpark, TemporalSqlError
from sqlx.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sqlx.streaming.live import Late


@dataclass(frozen=True)
class PlainStream:
    """A streaming query without an operator of ours: Spark runs it as it is."""

    frame: DataFrame
    fingerprint: str
    notes: tuple[str, ...] = ()
    late: tuple[Late, ...] = ()
    fat: DataFrame | None = None
    rows: Callable[[DataFrame], DataFrame] | None = None

    @property
    def conf(self) -> dict[str, str]:
        """Nothing: Spark's own settings."""
        return {}


def plain_stream(plan: Plan, spark: SparkSession) -> PlainStream:
    """A plan that reads nothing of ours, as Spark's own stream."""
    fingerprint = " ".join(plan.root.sql.split())
    return PlainStream(spark.sql(plan.root.sql), fingerprint, plan.notes)


@contextmanager
def carets_in(text: str, start: int) -> Iterator[None]:
    """Let errors about a query point into the statement around it.

    Args:
        text: the statement.
        start: where the query begins in it.

    Raises:
        TemporalSqlError: as it was, with the statement's line and caret.
    """
    try:
        yield
    except RefusedBySpark:
        raise
    except TemporalSqlError as error:
        if error.span is None or error.text is None or not text.startswith(error.text, start):
            raise
        span = (error.span[0] + start, error.span[1] + start)
        raise type(error)(error.condition, text, span, **error.parameters) from error.__cause__
