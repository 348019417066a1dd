"""What starting a stream needs to know of a lowered query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_setting = RLock()


class Late(Protocol):
    """Rows that an operator refuses, on their way to a table."""

    @property
    def table(self) -> str:
        """The name behind LATE TO."""
        ...

    @property
    def schema(self) -> StructType:
        """The columns of the input and the four of semantics.md B7."""
        ...

    @property
    def make(self) -> Callable[[DataFrame], DataFrame]:
        """From a micro-batch of the fat frame to the refused rows."""
        ...


class Live(Protocol):
    """A streaming query, lowered to Spark (see :mod:`sqlx.lower_stream`)."""

    @property
    def frame(self) -> DataFrame:
        """The streaming result."""
        ...

    @property
    def conf(self) -> dict[str, str]:
        """The settings that the query wants when it starts."""
        ...

    @property
    def fingerprint(self) -> str:
        """What its operators, TASKS and state are, as text."""
        ...

    @property
    def late(self) -> Sequence[Late]:
        """The tables of its LATE TO clauses."""
        ...

    @property
    def fat(self) -> DataFrame | None:
        """With late rows: the frame whose micro-batches hold results and late rows."""
        ...

    @property
    def rows(self) -> Callable[[DataFrame], DataFrame] | None:
        """With late rows: from a micro-batch of the fat frame to the result."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the compiler wants to say once."""
        ...


@contextmanager
def settings(spark: SparkSession, wanted: dict[str, str]) -> Iterator[None]:
    """Within it the session has these settings: a query keeps a copy of those of its start."""
    with _setting:
        before: dict[str, Any] = {name: spark.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, value)
