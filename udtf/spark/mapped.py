"""A small right side: one Arrow file that every worker maps; the left is answered where it lies, without a shuffle.

Only what a look-up needs travels to Python: keys and times. The rest of a left row never leaves the JVM. The versions
are collected when the join is built, not when it is run, so the answer is as of then.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import uuid
from collections import OrderedDict
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField, StructType

    from udtf.operators.as_of_join import AsOfJoinConfig
    from udtf.operators.as_of_tables import Versions

_FOUND: Final = "__found"
_MATCHED: Final = "__matched"
#: A worker process outlives its queries; it keeps the index of the last few.
_KEPT_INDEXES: Final = 4
#: Spark looks whether a file is there and then copies it: two threads at once with the same versions would both.
_adding: Final = Lock()


def as_of_join(left: DataFrame, right: DataFrame, config: AsOfJoinConfig, output_schema: StructType | str) -> DataFrame:
    """Join two DataFrames that have the shapes of `udtf.operators.as_of_join.join_tables`; the right must be small.

    Args:
        left: the left side.
        right: the versions; collected to the driver now, and held by every worker.
        config: the join. `left_columns` may name `__k0 ..` and `__as_of`: nothing need travel twice.
        output_schema: the output's columns by name and type, as the shapes say.
    """
    from udtf.operators.as_of_tables import sort_versions  # numba costs a second to import

    sorted_config, versions = sort_versions(config, right.toArrow())
    path = _kept(versions)
    with _adding:
        left.sparkSession.sparkContext.addFile(str(path))
    found = left.withColumn(_FOUND, _looked_up(path.name, sorted_config, _fields(output_schema)))
    if not config.is_left:
        found = found.filter(f"{_FOUND}.{_MATCHED}")
    right_names = [*config.right_columns, *(["__reason"] if config.with_reason else [])]
    return found.select(*config.left_columns, *(f"{_FOUND}.{name}" for name in right_names))


def _fields(schema: StructType | str) -> list[StructField]:
    from pyspark.sql.types import StructType

    read: Any = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    return list(read.fields)


def _looked_up(name: str, config: AsOfJoinConfig, output: list[StructField]) -> Column:
    """The look-up as a column: a struct of the right payload, the reason where it is asked for, and whether it matched.

    It is called non-deterministic so that Spark evaluates it once, whatever filters and projections stand above.
    """
    from pyspark.sql.functions import arrow_udf, col  # type: ignore[attr-defined]
    from pyspark.sql.types import BooleanType, StructField, StructType

    left = set(config.left_columns)
    fields = [field for field in output if field.name not in left]
    returned = StructType([*fields, StructField(_MATCHED, BooleanType())])
    keys = [f"__k{number}" for number in range(config.n_keys)]
    shipped = [*keys, "__as_of", *(["__known"] if config.has_known else [])]

    def look_up(*columns: pa.Array) -> pa.Array:
        return _versions(name, config).look_up(pa.table(list(columns), names=shipped))

    function: Any = arrow_udf(look_up, returned)
    answer: Column = function.asNondeterministic()(*(col(column) for column in shipped))
    return answer


def _kept(versions: pa.Table) -> Path:
    """The versions as a file; the same ones are the same file, however often a long-lived driver is asked for them."""
    draft = _directory() / f"{uuid.uuid4().hex}.draft"
    with pa.ipc.new_file(draft, versions.schema) as out:
        out.write_table(versions)
    with draft.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return draft.replace(draft.with_name(f"as_of_{digest[:32]}.arrow"))


@cache
def _directory() -> Path:
    """Where the driver keeps the files that executors fetch; they must stay until the last of them has."""
    path = Path(tempfile.mkdtemp(prefix="sqlx-as-of-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


_indexes: OrderedDict[tuple[str, AsOfJoinConfig], Versions] = OrderedDict()


def _versions(name: str, config: AsOfJoinConfig) -> Versions:
    """The index of the mapped file, made once per worker process."""
    from pyspark import SparkFiles

    from udtf.operators.as_of_tables import Versions

    key = SparkFiles.get(name), config
    if key not in _indexes:
        _indexes[key] = Versions(config, pa.ipc.open_file(pa.memory_map(key[0])).read_all())
        if len(_indexes) > _KEPT_INDEXES:
            _indexes.popitem(last=False)
    _indexes.move_to_end(key)
    return _indexes[key]
