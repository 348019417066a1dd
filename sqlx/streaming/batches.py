"""Several tables under one batch id: the result of a stream, and the rows that its operators refused.

A micro-batch is computed once and kept while it is written; each table's own log knows which batch ids it has, so a
micro-batch that runs again after a crash writes what is missing and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class BatchSink(Protocol):
    """Takes the rows of one micro-batch; those of a batch id that it has are passed over."""

    def write(self, batch_id: int, rows: DataFrame) -> None:
        """Write the rows of a micro-batch."""
        ...


@dataclass(frozen=True)
class Output:
    """One of the tables: what of a micro-batch goes there.

    Attributes:
        rows: from the micro-batch to its rows.
        sink: where they go.
        table: database and name of their table, as SQL.
    """

    rows: Callable[[DataFrame], DataFrame]
    sink: BatchSink
    table: str = ""


@dataclass(frozen=True)
class BatchWriter:
    """What Spark calls for each micro-batch.

    Attributes:
        outputs: in the order in which they are written.
        failures: gets what goes wrong, with its own type: Java would only see text.
    """

    outputs: Sequence[Output]
    failures: list[Exception]

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Write a micro-batch to all outputs."""
        try:
            self._write(batch, batch_id)
        except (PySparkException, Py4JJavaError) as error:
            self.failures.append(error)
            origin = getattr(error, "_origin", None)
            raise (Py4JJavaError(str(error), origin) if origin is not None else error) from error
        except Exception as error:
            self.failures.append(error)
            raise

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        kept = batch.persist() if len(self.outputs) > 1 else batch
        try:
            for output in self.outputs:
                output.sink.write(batch_id, output.rows(kept))
        finally:
            if len(self.outputs) > 1:
                kept.unpersist()


def united(makes: Sequence[Callable[[DataFrame], DataFrame]]) -> Callable[[DataFrame], DataFrame]:
    """Rows of several origins as one, for operators that refuse rows to the same table."""

    def unite(batch: DataFrame) -> DataFrame:
        first, *others = (make(batch) for make in makes)
        for other in others:
            first = first.unionByName(other)
        return first

    return unite
