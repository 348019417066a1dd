"""A small right side: one Arrow file that every worker maps; the left is answered where it lies, without a shuffle.

The whole of a left row goes through Python. Shipping only keys and times, as an Arrow UDF can, was measured: Spark
then queues a copy of each row beside the call, and takes longer: half as long again for rows of four columns, a tenth
for rows of twenty.
The versions are collected when the join is built, not when it is run, so the answer is as of then.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import uuid
from collections import OrderedDict
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from udtf.spark.batch import in_utc, named
from udtf.spark.workers import settle
from udtf.stream.blobs import gathered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from udtf.operators.as_of_join import AsOfJoinConfig
    from udtf.operators.as_of_tables import Versions

#: Left rows are answered so many at a time, or so many bytes: a look-up has a cost per call.
_ANSWERED_ROWS: Final = 1 << 16
_ANSWERED_BYTES: Final = 64 << 20
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
    answer = named("as_of_join", partial(_join_batches, path.name, sorted_config))
    return left.mapInArrow(answer, output_schema)


def _join_batches(name: str, config: AsOfJoinConfig, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One partition of the left side, in a worker."""
    settle()
    for held in gathered(batches, _ANSWERED_ROWS, _ANSWERED_BYTES):
        yield from in_utc(_versions(name, config).join(pa.Table.from_batches(held))).to_batches()


def _kept(versions: pa.Table) -> Path:
    """The versions as a file; the same ones are the same file, however often a long-lived driver is asked for them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, versions.schema) as out:
        out.write_table(versions)
    data = sink.getvalue()
    path = _directory() / f"as_of_{hashlib.sha256(data).hexdigest()[:32]}.arrow"
    if not path.exists():
        draft = path.with_suffix(f".{uuid.uuid4().hex}")
        draft.write_bytes(data)
        draft.replace(path)
    return path


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
