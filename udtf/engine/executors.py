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


class Executors:
    """The executors of a session.

    Args:
        spark: the session.
        cores: how many tasks they run at once, now.
    """

    def __init__(self, spark: SparkSession, cores: Callable[[], int]) -> None:
        self._spark, self._cores = spark, cores
        self._have_come = False

    @property
    def cores_in_the_end(self) -> int:
        """How many tasks they run at once when those that were on their way have come, which is waited for once."""
        if not self._have_come:
            self._wait()
            self._have_come = True
        return self._cores()

    def _wait(self) -> None:
        """Until all have come that were asked for where that is known, else until no more come for three seconds.

        Nothing says how many a standalone master will grant. On one machine there are none to wait for.
        """
        if is_local(self._spark):
            return
        wanted = _wanted(self._spark)
        quiet = _QUIET_SECONDS if wanted is None else _MOST_SECONDS
        seen, since, until = self._cores(), time.monotonic(), time.monotonic() + _MOST_SECONDS
        while (now := time.monotonic()) < until and now - since < quiet:
            if wanted is not None and seen >= wanted:
                return
            time.sleep(_LOOK_SECONDS)  # Spark calls nobody in Python when an executor registers
            found = self._cores()
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
