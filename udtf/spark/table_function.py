"""The AS OF join as a table function that plain Spark SQL calls by name.

```sql
SELECT * FROM as_of('{"left_columns": ["id"], "right_columns": ["rate"]}', TABLE(union) PARTITION BY task)
```

The input is the tagged union of `udtf.spark.union`, the options are those of `AsOfJoinConfig` as JSON, named `options`
and `input`. The partition must be a function of the key: the key columns themselves, or a task computed from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction
from pyspark.util import PythonEvalType

from udtf.errors import OperatorError
from udtf.operators.as_of_join import AsOfJoinConfig, join_tables
from udtf.spark.union import SHARED, SIDE, split_union
from udtf.spark.workers import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

NAME = "as_of"


class AsOfFunction:
    """One partition: holds its batches, answers at its end."""

    def __init__(self, *_: Any) -> None:
        """Start a partition."""
        self._options: str | None = None
        self._batches: list[pa.RecordBatch] = []

    @staticmethod
    def analyze(options: AnalyzeArgument, input: AnalyzeArgument) -> AnalyzeResult:  # its name in SQL
        """The output's columns: the payload of both sides, then the reason where it is asked for."""
        if not isinstance(options.value, str) or not options.isConstantExpression:
            raise OperatorError.invalid_option("options", options.value, "a constant JSON string")
        if not isinstance(input.dataType, StructType) or SIDE not in input.dataType.names:
            raise OperatorError.invalid_option("input", input.dataType, f"a table with the column {SIDE}")
        return AnalyzeResult(_output_schema(AsOfJoinConfig.from_json(options.value), input.dataType))

    def eval(self, options: pa.Array, input: pa.RecordBatch) -> Iterator[pa.Table]:  # its name in SQL
        """Hold a batch of the partition."""
        if input.num_rows:
            self._options = self._options or options[0].as_py()
            self._batches.append(input)
        return iter(())

    def terminate(self) -> Iterator[pa.Table]:
        """Answer the partition. NB: also called without input, and a row yielded then fails inside Spark 4.3."""
        settle()
        if self._options is not None:
            yield join_tables(AsOfJoinConfig.from_json(self._options), *split_union(self._batches))


def register(spark: SparkSession) -> None:
    """Make `as_of` known to a session.

    PySpark's own decorator refuses an `analyze` on Arrow functions (SPARK-53286), its engine does not.
    """
    function = UserDefinedTableFunction(AsOfFunction, None, NAME, evalType=PythonEvalType.SQL_ARROW_UDTF)
    spark.udtf.register(NAME, function)


def _output_schema(config: AsOfJoinConfig, union: StructType) -> StructType:
    schema = StructType()
    for name in (*config.left_columns, *config.right_columns):
        found = name if name in union.names else SHARED.get(name, name)
        if found not in union.names:
            raise OperatorError.invalid_option("left_columns and right_columns", name, "columns of the input")
        schema = schema.add(name, union[found].dataType)
    return schema.add("__reason", StringType()) if config.with_reason else schema
