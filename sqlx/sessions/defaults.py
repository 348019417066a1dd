"""Settings of every session that is made here, with a JVM or of Spark Connect."""

from __future__ import annotations

from typing import Final

DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # With a bound in bytes Spark adds up the sizes of all columns for every row that it writes, a fifth of the time
    # of a deduplication: batches are bounded by rows only, few enough for rows of many kilobytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    # Spark's own default, INT96, is deprecated: dear to write, and without the statistics by which readers skip.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
