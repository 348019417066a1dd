"""Tables of Delta and Iceberg, written by micro-batches whose number is in the table's own transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame

from sqlx.connectors.jars import is_43
from sqlx.errors import UnsupportedError
from udtf.engine.sent_plans import sent
from udtf.spark.served_batches import BatchTable
from udtf.spark.transactions import DeltaTransactions, IcebergTransactions, Transactions, once

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlx.streaming.tables import StreamTable, TableName

#: The formats whose tables keep the number of a micro-batch.
FORMATS: Final = frozenset({"delta", "iceberg"})
#: What Spark tells the threads of a query: the identity that its checkpoint keeps.
_QUERY_ID: Final = "sql.streaming.queryId"


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
        spark = rows.sparkSession
        with once(spark, self.transactions, query_id(spark), batch_id) as is_new:
            if is_new:
                rows.writeTo(self.table.name.text).append()

    def on_server(self, rows: DataFrame) -> BatchTable:
        """The same as a server of Spark Connect does it."""
        return BatchTable(sent(rows), self.table.name.text, self.transactions)
