"""A small right side: one Arrow file that every worker maps; the left is answered where it lies, without a shuffle.

The versions are collected when the join is built, not when it is run, so the answer is as of then.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections import OrderedDict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from udtf.operators.as_of_join import AsOfJoinConfig
    from udtf.operators.as_of_tables import Versions

#: Left rows are answered so many at a time: a look-up has a cost per call.
_ANSWERED_ROWS: Final = 1 << 18
#: A worker process outlives its queries; it keeps the index of the last few.
_KEPT_INDEXES: Final = 4


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
    path = _directory() / f"as_of_{uuid.uuid4().hex}.arrow"
    with pa.ipc.new_file(path, versions.schema) as file:
        file.write_table(versions)
    left.sparkSession.sparkContext.addFile(str(path))
    return left.mapInArrow(partial(_join_batches, path.name, sorted_config), output_schema)


@cache
def _directory() -> Path:
    """Where the driver keeps the files that executors fetch; they must stay until the last of them has."""
    path = Path(tempfile.mkdtemp(prefix="sqlx-as-of-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


_indexes: OrderedDict[tuple[str, AsOfJoinConfig], Versions] = OrderedDict()


def _join_batches(name: str, config: AsOfJoinConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of the left side, in a worker."""
    for rows in _coalesced(batches):
        yield from _versions(name, config).join(rows).to_batches()


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


def _coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ANSWERED_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)
