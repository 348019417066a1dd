"""The product in one script, for every place where Spark runs: what each operator answers, bounded and live, as JSON.

It draws its own input, so that any two places can be compared. Run through `tests/harness/places.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

import sqlx
from sqlx.streaming.registry import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 3
#: Rows of one file: keys, a time that is up to a minute behind, now and then ten, and a value.
ROWS = (
    "SELECT CAST(pmod(hash(id, {0}, 'key'), 7) AS INT) AS k, CAST(pmod(hash(id, {0}), 90) AS INT) AS v, "
    "TIMESTAMP_SECONDS({0} * 300 + id - IF(pmod(hash(id, {0}, 'late'), 20) = 0, 600, pmod(hash(id, {0}), 60))) AS ts, "
    "{0} * 1000 + id AS seq FROM range({1})"
)
COLUMNS = "(k INT, v INT, ts TIMESTAMP, seq BIGINT)"
JOIN = (
    "SELECT s.seq, s.k, t.v AS known FROM {} s LEFT JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k "
    "TOLERANCE INTERVAL 5 MINUTES"
)
JOIN_LIVE = (
    "SELECT s.seq, s.k, t.v AS known FROM STREAM s LEFT JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k "
    "TOLERANCE INTERVAL 5 MINUTES GRACE PERIOD INTERVAL 2 MINUTES LATE TO late_orders"
)
DEDUPLICATE = "SELECT seq FROM {} DEDUPLICATE WITHIN INTERVAL 1 MINUTE BY (k, v)"
WINDOWS = (
    "SELECT k, window.start AS ws, count(*) AS n, max_by(v, seq) AS last FROM {} "
    "GROUP BY k, window(ts, '1 minute') GRACE INTERVAL 2 MINUTES"
)
LIVE = {
    "live_join": JOIN_LIVE,
    "live_deduplicate": DEDUPLICATE.format("STREAM s"),
    "live_windows": WINDOWS.format("STREAM s") + " LATE TO late_windows EMIT FINAL",
    "live_spilled": WINDOWS.format("STREAM s") + " EMIT FINAL BUFFER MAX 3 ROWS WHEN FULL SPILL",
}
SETTINGS = {"mapped": {}, "shuffled": {"sqlx.as_of.mapped_bytes": "0"}}


def write(spark: SparkSession, folder: Path, name: str, rows: int) -> None:
    """The files of a stream, each with a time of its own: they are read in that order."""
    for number in range(FILES):
        frame = spark.sql(ROWS.format(number, rows)).coalesce(1)
        frame.write.mode("append").parquet(str(folder / f"{name}.{number}"))
        (written,) = (folder / f"{name}.{number}").glob("*.parquet")
        (folder / name).mkdir(exist_ok=True)
        written.rename(folder / name / f"{number}.parquet")
        os.utime(folder / name / f"{number}.parquet", (1_700_000_000 + number,) * 2)


def define(spark: SparkSession, folder: Path) -> None:
    """The stream and the versioned table, by their files."""
    for kind, name, more in (
        ("STREAM", "s", ""),
        ("VERSIONED TABLE", "t", "KEYS (k) HISTORY RETENTION INTERVAL 1 DAY "),
    ):
        options = f"USING parquet OPTIONS (path '{folder / name}', maxFilesPerTrigger '1')"
        spark.sql(f"CREATE TEMPORARY {kind} {name} {COLUMNS} {options} {more}TIMESTAMP BY ts SEQUENCE BY seq")


def answered(spark: SparkSession, text: str) -> list[str]:
    """The rows of a statement, in an order of theirs."""
    return sorted(json.dumps([str(value) for value in row]) for row in spark.sql(text).collect())


def main(spark: SparkSession, folder: Path) -> dict[str, list[str]]:
    """Per statement its rows."""
    write(spark, folder, "s", 300)
    write(spark, folder, "t", 40)
    define(spark, folder)
    found = {}
    for way, settings in SETTINGS.items():
        for name, value in settings.items():
            spark.conf.set(name, value)
        found[f"join_{way}"] = answered(spark, JOIN.format("s"))
    found["deduplicate"] = answered(spark, DEDUPLICATE.format("s"))
    found["windows"] = answered(spark, WINDOWS.format("s"))
    for name, query in LIVE.items():
        spark.sql(f"CREATE STREAMING TABLE {name} TASKS 4 TRIGGER (AVAILABLE NOW) AS {query}")
        took = [
            one.durationMs["triggerExecution"] for one in registry(spark.sparkContext).all()[-1].query.recentProgress
        ]
        sys.stderr.write(f"TOOK {name} {took} ms a micro-batch\n")
        found[name] = answered(spark, f"SELECT * FROM {name}")
    for late in ("late_orders", "late_windows"):
        found[late] = answered(spark, f"SELECT * FROM {late}")
    return found


if __name__ == "__main__":
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--master")
    parser.add_argument("--conf", type=json.loads, default={})
    given = parser.parse_args()
    session = sqlx.session(master=given.master, conf=given.conf)
    sys.stdout.write(f"FOUND {json.dumps(main(session, given.folder))}\n")
    session.stop()
