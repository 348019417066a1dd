"""What our functions do first when they run in a Python worker of Spark.

Why so: docs/design/20261122_workers.md.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_settled = 0


def freeze_loaded_modules() -> None:
    """Take what is loaded out of the garbage collector's sight, once and whenever more modules have come.

    Spark's daemon collects garbage after each task. With numba, pandas and pyarrow loaded that takes 60 ms, however
    little the task had to do, and a micro-batch has six to eight of them.
    """
    global _settled
    if len(sys.modules) != _settled:
        gc.freeze()
        _settled = len(sys.modules)


def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Load what operators of live queries need, with their compiled loops, and give back the rows."""
    import udtf.spark.logics  # noqa: F401

    yield from batches
