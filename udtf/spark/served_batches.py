"""Micro-batches of a client's live query, written to tables of Delta and Iceberg by a server of Spark Connect.

The server runs what a client gives to `foreachBatch` in a Python process of its own, which is a client of the same
session. It has PySpark and what the function brings along, this package, and nothing that reads SQL: so what each table
gets of a micro-batch was made before, over a view of a name that stands for the micro-batch, and comes as a plan.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from udtf.engine.sent_plans import received
from udtf.spark.transactions import Transactions, once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

#: The view that a statement of `BatchTable` reads: the rows of the micro-batch.
CHANGED: Final = "__changed"


@dataclass(frozen=True)
class BatchTable:
    """A table that gets something of each micro-batch.

    Attributes:
        plan: the rows that it gets, see `udtf.engine.sent_plans`.
        table: the table, as SQL.
        transactions: how it keeps the numbers of micro-batches.
        statement: what writes the view `CHANGED` into it; "" adds the rows.
    """

    plan: bytes
    table: str
    transactions: Transactions
    statement: str = ""


@dataclass(frozen=True)
class ServedWriter:
    """What the server calls for each micro-batch.

    Attributes:
        tables: in the order in which they are written.
        view: the name that stands for the micro-batch in their plans.
        checkpoint: the query's, which keeps its identity.
    """

    tables: Sequence[BatchTable]
    view: str
    checkpoint: str

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch to all tables that do not have it."""
        spark = batch.sparkSession
        query = query_of(spark, self.checkpoint)
        batch.persist()  # operators with state step forward at each reading
        try:
            with named(batch, self.view):
                for table in self.tables:
                    self._write(spark, table, query, batch_id)
        finally:
            batch.unpersist()

    def _write(self, spark: SparkSession, table: BatchTable, query: str, batch_id: int) -> None:
        """Write what a table gets of a micro-batch, unless it has it; it is computed whole in any case.

        The rows are kept without the way to them, which is the client's: Iceberg's MERGE reads them twice, and refuses
        a way that might number them differently the second time.
        """
        rows = received(spark, table.plan).localCheckpoint()
        if rows.isEmpty():
            return
        kept = f"{self.view}_rows"
        with named(rows, kept), _of_its_own(spark) as own, once(own, table.transactions, query, batch_id) as is_new:
            if is_new and table.statement:
                own.table(kept).createOrReplaceTempView(CHANGED)
                own.sql(table.statement)
            elif is_new:
                own.table(kept).writeTo(table.table).append()


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """The identity of the query that goes on from a checkpoint; Spark writes it before the first micro-batch."""
    (row,) = spark.read.text(f"{checkpoint}/metadata", wholetext=True).collect()
    return str(json.loads(row[0])["id"])


@contextmanager
def named(rows: DataFrame, view: str) -> Iterator[None]:
    """Within it a frame can be read by a name."""
    rows.createOrReplaceTempView(view)
    try:
        yield
    finally:
        rows.sparkSession.catalog.dropTempView(view)


@contextmanager
def _of_its_own(spark: SparkSession) -> Iterator[SparkSession]:
    """Within it a session with the settings and views of another one.

    The number of a micro-batch is a setting, and must not meet statements that the user runs meanwhile.
    """
    client: Any = spark
    own = client.cloneSession()
    try:
        yield own
    finally:
        own.client.release_session()
        own.client.close()
