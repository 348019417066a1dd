"""How tables of Delta and Iceberg keep the number of the micro-batch that wrote them.

A micro-batch that runs again after a crash finds its number in the table's own transaction and leaves the table as it
is: no second snapshot, no second entry for readers of the table's changes. Why: docs/design/20261125_lakehouse.md.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_QUERY, _BATCH = "sqlx.query", "sqlx.batch"


class Transactions(Protocol):
    """How a table keeps the number of the micro-batch that wrote it."""

    def settings(self, query: str, batch_id: int) -> dict[str, str]:
        """What a session has to be told while it writes."""
        ...

    def has(self, spark: SparkSession, query: str, batch_id: int) -> bool:
        """Whether the table has a micro-batch, where its format does not see to that itself."""
        ...


@dataclass(frozen=True)
class DeltaTransactions:
    """Delta keeps the last version of each application, and passes over what it has."""

    def settings(self, query: str, batch_id: int) -> dict[str, str]:
        """The application is the query, its version the micro-batch."""
        name = "spark.databricks.delta.write."
        return {f"{name}txnAppId": query, f"{name}txnVersion": str(batch_id)}

    def has(self, spark: SparkSession, query: str, batch_id: int) -> bool:
        """Delta sees to it."""
        del spark, query, batch_id
        return False


@dataclass(frozen=True)
class IcebergTransactions:
    """Iceberg keeps properties of each snapshot.

    Attributes:
        table: the table, as SQL.
    """

    table: str

    def settings(self, query: str, batch_id: int) -> dict[str, str]:
        """Properties of the snapshot that is written."""
        name = "spark.sql.iceberg.snapshot-property."
        return {f"{name}{_QUERY}": query, f"{name}{_BATCH}": str(batch_id)}

    def has(self, spark: SparkSession, query: str, batch_id: int) -> bool:
        """Whether a snapshot has it: those that nobody has expired, and the newest is never expired."""
        written = spark.table(f"{self.table}.snapshots").where(F.element_at("summary", F.lit(_QUERY)) == F.lit(query))
        number = F.element_at("summary", F.lit(_BATCH)).cast("bigint")
        last = written.select(F.max(number).alias("last")).collect()[0]["last"]
        return last is not None and last >= batch_id


@contextmanager
def once(spark: SparkSession, transactions: Transactions, query: str, batch_id: int) -> Iterator[bool]:
    """Within it what the session writes has the number of a micro-batch; False where the table has it already.

    Args:
        spark: a session that nobody else uses meanwhile.
        transactions: how the table keeps numbers.
        query: the identity that the query's checkpoint keeps.
        batch_id: the number.
    """
    wanted = transactions.settings(query, batch_id)
    if transactions.has(spark, query, batch_id):
        yield False
        return
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield True
    finally:
        for name in wanted:
            spark.conf.unset(name)
