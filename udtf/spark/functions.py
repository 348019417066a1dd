"""Operators as table functions that plain Spark SQL calls by name: `as_of` and `deduplicate`."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StringType, StructField, StructType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult, UserDefinedTableFunction
from pyspark.util import PythonEvalType

from udtf.errors import OperatorError
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import join_tables
from udtf.operators.deduplicate.config import DeduplicateConfig
from udtf.operators.deduplicate.logic import deduplicate_table
from udtf.spark.arrow_types import in_utc
from udtf.spark.workers import begin_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession


# Deduplication as a table function that plain Spark SQL calls by name.
#
# ```sql
# SELECT * FROM deduplicate(TABLE(orders) PARTITION BY id ORDER BY ts,
#                           within => INTERVAL '10' MINUTES, by => 'id', on_time => 'ts')
# ```
#
# Rows arrive in the order of ORDER BY. The partition must be a function of the key: the BY columns themselves, or a
# task computed from them. Further options: `sequence` (a column), `keep` ('first', 'last'), `late` ('forward', 'drop').


DEDUPLICATE: Final = "deduplicate"
_US: Final = dt.timedelta(microseconds=1)


@dataclass
class Analyzed(AnalyzeResult):
    """What a call was found to be.

    Attributes:
        config: the deduplication, as JSON.
        renamed: column of the input to the name that the logic knows it by, as pairs.
    """

    config: str = ""
    renamed: tuple[tuple[str, str], ...] = ()


class DeduplicateFunction:
    """One partition: holds its batches, answers at its end."""

    def __init__(self, analyzed: Analyzed) -> None:
        """Start a partition."""
        self._analyzed = analyzed
        self._batches: list[pa.RecordBatch] = []

    @staticmethod
    def analyze(  # noqa: PLR0913  # an argument of the SQL function each
        input: AnalyzeArgument,  # its name in SQL
        within: AnalyzeArgument | None = None,
        by: AnalyzeArgument | None = None,
        on_time: AnalyzeArgument | None = None,
        sequence: AnalyzeArgument | None = None,
        keep: AnalyzeArgument | None = None,
        late: AnalyzeArgument | None = None,
        options: AnalyzeArgument | None = None,
    ) -> Analyzed:
        """The output's columns: those of the input."""
        if not isinstance(input.dataType, StructType):
            raise OperatorError.invalid_option("input", input.dataType, "a table: TABLE(…) PARTITION BY …")
        written = {"within": within, "by": by, "on_time": on_time, "sequence": sequence, "keep": keep, "late": late}
        written["options"] = options
        given = {name: _constant(name, option) for name, option in written.items() if option is not None}
        config, renamed = _read(given, input.dataType.names)
        return Analyzed(
            schema=StructType([StructField(name, input.dataType[name].dataType) for name in config.columns]),
            config=config.to_json(),
            renamed=renamed,
        )

    def eval(self, input: pa.RecordBatch, *_: pa.Array, **__: pa.Array) -> Iterator[pa.Table]:  # its name in SQL
        """Hold a batch of the partition."""
        if input.num_rows:
            self._batches.append(input)
        return iter(())

    def terminate(self) -> Iterator[pa.Table]:
        """Answer the partition. NB: also called without input, and a row yielded then fails inside Spark 4.3."""
        import pyarrow as pa  # the driver may plan without it

        begin_task()
        if self._batches:
            rows = pa.Table.from_batches(self._batches)
            for name, known in self._analyzed.renamed:
                rows = rows.append_column(known, rows[name])
            found = deduplicate_table(DeduplicateConfig.from_json(self._analyzed.config), rows, is_ordered=True)
            # NB: Spark writes the empty partitions beside it, whose columns may all be NULL.
            nullable = pa.schema([field.with_nullable(True) for field in found.schema])
            yield in_utc(pa.table(found.columns, schema=nullable))


def register_deduplicate(spark: SparkSession) -> None:
    """Make `deduplicate` known to a session."""
    _register(spark, DEDUPLICATE, DeduplicateFunction)


def _constant(name: str, option: AnalyzeArgument) -> Any:
    if option.isTable or not option.isConstantExpression:
        raise OperatorError.invalid_option(name, option.dataType, "a constant")
    return option.value


def _read(options: dict[str, Any], columns: list[str]) -> tuple[DeduplicateConfig, tuple[tuple[str, str], ...]]:
    """The configuration, and which columns of the input are key, time and sequence.

    Raises:
        OperatorError: an option is missing or wrong.
    """
    if "options" in options:  # the input has the logic's own shape
        return DeduplicateConfig.from_json(str(options["options"])), ()
    by = options.get("by")
    keys = [part.strip() for part in by.split(",")] if isinstance(by, str) else list(by or ())
    named = [(key, f"__k{number}") for number, key in enumerate(keys)] + [(options.get("on_time"), "__time")]
    named += [(options["sequence"], "__seq")] if options.get("sequence") else []
    shown = {column.lower(): column for column in columns}
    for name, known in named:
        if not isinstance(name, str) or name.lower() not in shown:
            option = {"__time": "on_time", "__seq": "sequence"}.get(known, "by")
            raise OperatorError.invalid_option(option, name, f"a column of the input ({', '.join(columns)})")
    if not keys:
        raise OperatorError.invalid_option("by", by, "the columns that make two rows duplicates")
    config = DeduplicateConfig(
        interval_us=_microseconds(options.get("within")),
        keep=str(options.get("keep") or "first").lower(),
        late=str(options["late"]).lower() if options.get("late") else None,
        n_keys=len(keys),
        columns=tuple(columns),
        has_sequence=bool(options.get("sequence")),
    )
    return config, tuple((shown[str(name).lower()], known) for name, known in named)


def _microseconds(within: Any) -> int:
    if isinstance(within, dt.timedelta):
        return within // _US
    if isinstance(within, int) and not isinstance(within, bool):
        return within
    raise OperatorError.invalid_option("within", within, "an interval of days to seconds, or microseconds")


# Both sides of a join as one relation: the tagged union, and its way back into two tables.
#
# `__side` is 'L' or 'R'. The key columns are shared, and so are the times: the left's `__as_of` travels as `__time` and
# its `__known` as `__seq`, so that a row is not wider than it must be.


SIDE: Final = "__side"
#: The left's name of a column, and the name it has in the union.
SHARED: Final = {"__as_of": "__time", "__known": "__seq"}


def tagged_union(left: DataFrame, right: DataFrame) -> DataFrame:
    """One DataFrame of both; columns of the other side are NULL."""
    from pyspark.sql import functions as F  # its usual name

    lefts = left.withColumnsRenamed(SHARED).withColumn(SIDE, F.lit("L"))
    return lefts.unionByName(right.withColumn(SIDE, F.lit("R")), allowMissingColumns=True)


def split_union(batches: Sequence[pa.RecordBatch]) -> tuple[pa.Table, pa.Table]:
    """The left and the right table of a union's batches (at least one), each in the order given."""
    union = pa.Table.from_batches(batches)
    is_left = pc.equal(union[SIDE], "L")
    left, right = union.filter(is_left), union.filter(pc.invert(is_left))
    own = {shared: name for name, shared in SHARED.items() if name not in left.column_names}
    return left.rename_columns([own.get(name, name) for name in left.column_names]), right


AS_OF = "as_of"


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
        begin_task()
        if self._options is not None:
            yield join_tables(AsOfJoinConfig.from_json(self._options), *split_union(self._batches))


def register_as_of(spark: SparkSession) -> None:
    """Make `as_of` known to a session."""
    _register(spark, AS_OF, AsOfFunction)


def _register(spark: SparkSession, name: str, handler: type) -> None:
    """A table function that gets Arrow batches; on PySpark 4.0, which has none, one that says so.

    PySpark's own decorator refuses an `analyze` on Arrow functions (SPARK-53286), its engine does not.
    """
    arrow = getattr(PythonEvalType, "SQL_ARROW_UDTF", None)
    if arrow is None:
        absent = type(handler.__name__, (), {"analyze": staticmethod(partial(_refused, name)), "eval": _refused})
        function = UserDefinedTableFunction(absent, None, name)
    else:
        function = UserDefinedTableFunction(handler, None, name, evalType=arrow)
    spark.udtf.register(name, function)


def _refused(name: str, *_: Any, **__: Any) -> AnalyzeResult:
    raise OperatorError.needs_arrow_functions(name)


def _output_schema(config: AsOfJoinConfig, union: StructType) -> StructType:
    schema = StructType()
    for name in (*config.left_columns, *config.right_columns):
        found = name if name in union.names else SHARED.get(name, name)
        if found not in union.names:
            raise OperatorError.invalid_option("left_columns and right_columns", name, "columns of the input")
        schema = schema.add(name, union[found].dataType)
    return schema.add("__reason", StringType()) if config.with_reason else schema
