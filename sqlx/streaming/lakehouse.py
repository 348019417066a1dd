"""Tables of Delta and Iceberg, written by micro-batches whose number is in the table's own transaction.

A micro-batch that runs again after a crash finds its number there and leaves the table as it is: no second snapshot, no
second entry for readers of the table's changes. Why: docs/design/20261125_lakehouse.md.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import DataFrame

from catalog.statements import literal
from sqlx.connectors.jars import is_43
from sqlx.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from sqlx.streaming.tables import StreamTable, TableName

#: The formats whose tables keep the number of a micro-batch.
FORMATS: Final = frozenset({"delta", "iceberg"})
#: What Spark tells the threads of a query: the identity that its checkpoint keeps.
_QUERY_ID: Final = "sql.streaming.queryId"
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
        last = spark.sql(
            f"SELECT max(CAST(element_at(summary, {literal(_BATCH)}) AS BIGINT)) AS last FROM {self.table}.snapshots "
            f"WHERE element_at(summary, {literal(_QUERY)}) = {literal(query)}"
        ).collect()[0]["last"]
        return last is not None and last >= batch_id


def keeps_batches(form: str) -> bool:
    """Whether Spark can add rows to a table of a format under the number of a micro-batch; Delta not on PySpark 4.3."""
    return form in FORMATS and not (form == "delta" and is_43())


def check_catalog(text: str, span: tuple[int, int], form: str, name: TableName, session_catalog: str) -> None:
    """Refuse an Iceberg table in Spark's own catalog, which cannot hold one.

    Args:
        text: the statement.
        span: where it names the table.
        form: of USING.
        name: the table's.
        session_catalog: the class of ``spark_catalog``; Iceberg has one for it, too.

    Raises:
        UnsupportedError: it is one.
    """
    if form == "iceberg" and name.is_in_session_catalog and "iceberg" not in session_catalog.lower():
        raise UnsupportedError("ICEBERG.CATALOG", text, span, name=name.shown)


def query_id(spark: SparkSession) -> str:
    """The identity of the query whose micro-batch runs in this thread; its checkpoint keeps it."""
    return str(spark.sparkContext.getLocalProperty(_QUERY_ID) or "")


def transactions_of(table: StreamTable, form: str) -> Transactions:
    """How a table of a format keeps them."""
    return IcebergTransactions(table.name.text) if form == "iceberg" else DeltaTransactions()


@contextmanager
def once(spark: SparkSession, transactions: Transactions, batch_id: int) -> Iterator[bool]:
    """Within it what the session writes has the number of a micro-batch; False where the table has it already.

    Args:
        spark: the session of the micro-batch, which is its query's own.
        transactions: how the table keeps numbers.
        batch_id: the number.
    """
    query = query_id(spark)
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


def as_source(rows: DataFrame) -> DataFrame:
    """Rows that are kept, as a source without the way to them.

    Iceberg's MERGE reads them twice, and refuses a way that might number them differently the second time.
    """
    java: Any = rows.sparkSession._jsparkSession
    plan: Any = rows._jdf
    return DataFrame(
        java.internalCreateDataFrame(plan.queryExecution().toRdd(), plan.schema(), False), rows.sparkSession
    )


@dataclass(frozen=True)
class TableSink:
    """Adds the rows of each micro-batch to a table.

    Attributes:
        table: the table, which is there.
        transactions: how it keeps the numbers of micro-batches.
    """

    table: StreamTable
    transactions: Transactions

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Add the rows, unless they are there; they are computed whole in any case, for their operators' state."""
        if not rows.count():  # no transaction of nothing
            return
        with once(rows.sparkSession, self.transactions, batch_id) as is_new:
            if is_new:
                rows.writeTo(self.table.name.text).append()
