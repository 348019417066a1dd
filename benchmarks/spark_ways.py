"""The ways to join AS OF on Spark, in one session: ours, what people write today, Spark's own join, and the floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from benchmarks.data import Inputs
from benchmarks.measure import Measured, measure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAPPED, SHUFFLED, WINDOW, FLOOR, NATIVE = (
    "ours, mapped",
    "ours, shuffled",
    "union + window",
    "scan + write",
    "Spark ASOF",
)
DRIVER_MEMORY = "4g"

AS_OF_SQL = """
SELECT l.k, l.ts, l.id, l.qty, r.rate
FROM l LEFT ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k"""

WINDOW_SQL = """
SELECT k, ts, id, qty, rate FROM (
  SELECT k, ts, id, qty, is_left, last_value(r_rate) IGNORE NULLS OVER (
    PARTITION BY k ORDER BY ts, is_left ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS rate
  FROM (
    SELECT k, ts, id, qty, true AS is_left, CAST(NULL AS DOUBLE) AS r_rate FROM l
    UNION ALL
    SELECT k, ts, NULL, NULL, false, rate FROM r))
WHERE is_left"""

FLOOR_SQL = "SELECT k, ts, id, qty, qty * 2 AS rate FROM l"

_MAPPED_BYTES = "sqlx.as_of.mapped_bytes"
_NATIVE_ENABLED = "spark.sql.join.asofJoin.enabled"
_FORCED = {MAPPED: str(1 << 40), SHUFFLED: "0"}


def session(further: Mapping[str, str] | None = None) -> SparkSession:
    """Our session, as the bars want it: two cores, a driver of 4 GB, what is said further; else Spark's defaults."""
    import sqlx

    conf = {"spark.driver.memory": DRIVER_MEMORY, "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    conf |= further or {}
    return sqlx.session(app="benchmark", master="local[2]", conf=conf)


def plain(spark: SparkSession, text: str) -> DataFrame:
    """A statement as Spark alone understands it: its own parser makes the plan."""
    from pyspark.sql import DataFrame

    jvm: Any = spark._jvm
    plan = jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


class SparkWays:
    """The ways to answer the same question in one session.

    Args:
        spark: a sqlx session.
        inputs: the case.
    """

    def __init__(self, spark: SparkSession, inputs: Inputs) -> None:
        self.spark = spark
        spark.read.parquet(str(inputs.left)).createOrReplaceTempView("l")
        spark.read.parquet(str(inputs.right)).createOrReplaceTempView("r")
        self.ways: dict[str, Callable[[Path], None]] = {
            FLOOR: lambda output: self._write(spark.sql(FLOOR_SQL), output),
            WINDOW: lambda output: self._write(spark.sql(WINDOW_SQL), output),
            MAPPED: lambda output: self._ours(MAPPED, output),
            SHUFFLED: lambda output: self._ours(SHUFFLED, output),
        }

    def measure(self, way: str, output: Path, warm: int, runs: int) -> Measured:
        """Measure one of the ways."""
        return measure(self.ways[way], output, warm, runs)

    def chosen(self) -> str:
        """The way that a session takes by itself: which of ours, by Spark's estimate of the right side."""
        import sqlx

        return SHUFFLED if "whole tasks" in sqlx.explain(self.spark, AS_OF_SQL) else MAPPED

    def measure_native(self, output: Path, cut_off_s: float) -> Measured:
        """Spark's own ASOF JOIN, once, cancelled after a time: it is quadratic in the rows of a key."""
        with self._conf(_NATIVE_ENABLED, "true"), self._cancelled_after(cut_off_s) as is_cancelled:
            self.spark.sparkContext.setLogLevel("OFF")  # being cancelled is no news
            try:
                found = measure(lambda folder: self._write(plain(self.spark, AS_OF_SQL), folder), output, 0, 1)
            except Exception:
                if not is_cancelled():
                    raise
                return Measured(note=f"cut off after {cut_off_s:.0f} s")
            finally:
                self.spark.sparkContext.setLogLevel("ERROR")
        return found

    def _ours(self, way: str, output: Path) -> None:
        with self._conf(_MAPPED_BYTES, _FORCED[way]):
            self._write(self.spark.sql(AS_OF_SQL), output)

    def _write(self, frame: DataFrame, output: Path) -> None:
        frame.write.parquet(str(output))

    @contextmanager
    def _conf(self, name: str, value: str) -> Iterator[None]:
        self.spark.conf.set(name, value)
        try:
            yield
        finally:
            self.spark.conf.unset(name)

    @contextmanager
    def _cancelled_after(self, seconds: float) -> Iterator[Callable[[], bool]]:
        context, group = self.spark.sparkContext, "cut off"
        context.setJobGroup(group, "Spark's native ASOF JOIN", interruptOnCancel=True)
        timer = Timer(seconds, lambda: context.cancelJobGroup(group))
        timer.start()
        try:
            yield lambda: not timer.is_alive()
        finally:
            timer.cancel()
            context._jsc.clearJobGroup()
