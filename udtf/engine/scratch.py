"""Where a driver keeps files that workers read, and that nobody needs once it has ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from udtf.engine import is_remote
from udtf.local_folder import first_folder, scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def scratch_of(spark: SparkSession) -> Path:
    """A folder in the first one of the driver's ``spark.local.dir``; for a client without a driver, in the system's."""
    local = None if is_remote(spark) else first_folder(spark.conf.get("spark.local.dir", None) or "")
    return Path(scratch_folder(local))
