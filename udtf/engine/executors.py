"""Executors come after the driver that asked for them: what is decided for long waits for those on their way."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

#: Spark's own bound for executors that it waits for (``spark.scheduler.maxRegisteredResourcesWaitingTime``).
_MOST_SECONDS: Final = 30.0
_QUIET_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.2


def is_local(spark: SparkSession) -> bool:
    """Whether the driver is its own and only executor."""
    return re.match(r"local(\[|$)", spark.conf.get("spark.master", None) or "local") is not None


def come(spark: SparkSession, cores: Callable[[], int]) -> None:
    """Wait until executors have come: all that were asked for where that is known, else no more for three seconds.

    Nothing says how many a standalone master will grant. On one machine there are none to wait for.
    """
    if is_local(spark):
        return
    wanted = _wanted(spark)
    quiet = _QUIET_SECONDS if wanted is None else _MOST_SECONDS
    seen, since, until = cores(), time.monotonic(), time.monotonic() + _MOST_SECONDS
    while (now := time.monotonic()) < until and now - since < quiet:
        if wanted is not None and seen >= wanted:
            return
        time.sleep(_LOOK_SECONDS)  # Spark calls nobody in Python when an executor registers
        found = cores()
        if found != seen:
            seen, since = found, time.monotonic()


def _wanted(spark: SparkSession) -> int | None:
    """How many cores were asked for by number; None where the cluster gives what it has, or executors come and go."""

    def told(name: str) -> str | None:
        found: str | None = spark.conf.get(f"spark.{name}", None)
        return found

    if told("dynamicAllocation.enabled") == "true":
        return None
    most = told("cores.max") or told("default.parallelism")
    if most is not None:
        return int(most)
    count = told("executor.instances")
    return None if count is None else int(count) * int(told("executor.cores") or 1)
