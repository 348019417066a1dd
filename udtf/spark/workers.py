"""What our functions do first when they run in a Python worker of Spark.

Why so: docs/design/20261122_workers.md, docs/design/20261127_small_waits.md.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

_OPEN_FILES: Final = "/proc/self/fd"
_settled = 0


def begin_task() -> None:
    """Do what each function of ours does first."""
    acknowledge_now()
    freeze_loaded_modules()


def acknowledge_now() -> None:
    """Tell Spark's Java process that this worker has what came so far, instead of 40 ms later.

    Spark writes to a worker what to run and then the rows, and its kernel holds back the rows as long as the worker's
    kernel has not acknowledged what came before, which that one puts off (`TCP_QUICKACK` in tcp(7)). Where a kernel
    has no such option, rows come when they come.
    """
    try:
        names = os.listdir(_OPEN_FILES) if hasattr(socket, "TCP_QUICKACK") else []
    except OSError:
        return
    for name in names:
        try:
            if stat.S_ISSOCK(os.stat(f"{_OPEN_FILES}/{name}").st_mode):
                _acknowledge(int(name))
        except OSError:  # it is no connection over TCP, or closed by now
            continue


def _acknowledge(number: int) -> None:
    connection = socket.socket(fileno=number)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    finally:
        connection.detach()  # it stays open


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
