"""A session on a small cluster of this machine: what its statements say, as JSON. Run by test_cluster.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException

import sqlx
from sqlx.streaming.registry import registry

WAITS = ("spark.locality.wait", "spark.scheduler.revive.interval", "spark.shuffle.io.retryWait")
RESTORES = ("restored_cache", "restored_tail", "restored_snapshot")
JOIN = (
    "SELECT o.id, r.v FROM VALUES (1, TIMESTAMP'2026-01-02') o(id, ts) "
    "ASOF JOIN VALUES (1, TIMESTAMP'2026-01-01', 5) r(id, ts, v) MATCH_CONDITION (o.ts >= r.ts) ON o.id = r.id"
)
ROWS = "SELECT CAST(pmod(hash(id, {0}), 500) AS INT) AS k, TIMESTAMP_MICROS({0} + id) AS ts FROM range(400)"
LIVE = (
    "CREATE STREAMING TABLE seen USING noop CHECKPOINT '{0}/checkpoint' TRIGGER (AVAILABLE NOW) TASKS 8 "
    "AS SELECT k FROM s DEDUPLICATE WITHIN INTERVAL 1 DAY BY (k)"
)


def main(folder: Path, master: str, conf: dict[str, str]) -> dict[str, object]:
    """The answers of one bounded and one live statement, or the conditions with which they were refused.

    Where there is no master, what ``spark-submit`` was told is part of the answer.
    """
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    spark = sqlx.session(master=master or None, conf={"spark.ui.enabled": "false", **conf})
    found: dict[str, object] = {}
    if not master:
        context = spark.sparkContext
        found["told"] = [context.master, context.appName, spark.conf.get("spark.sql.shuffle.partitions")]
        found["waits"] = [context.getConf().get(name) for name in WAITS]
    try:
        found["bounded"] = [list(row) for row in spark.sql(JOIN).collect()]
    except PySparkException as error:
        found["bounded"] = error.getCondition()
    for number in range(4):
        spark.sql(ROWS.format(number)).coalesce(1).write.mode("append").parquet(f"{folder}/in")
    source = f"(k INT, ts TIMESTAMP) USING parquet OPTIONS (path '{folder}/in', maxFilesPerTrigger '1')"
    spark.sql(f"CREATE TEMPORARY STREAM s {source} TIMESTAMP BY ts")
    try:
        spark.sql(LIVE.format(folder))
    except PySparkException as error:
        found["live"] = error.getCondition()
    else:
        (running,) = registry(spark.sparkContext).all()
        observed = [one.observedMetrics for one in running.query.recentProgress]
        found["live"] = [[one["deduplicate_1"][name] for name in RESTORES] for one in observed if one]
        found["partitions"] = partitions(folder / "checkpoint")
    spark.stop()
    return found


def partitions(checkpoint: Path) -> str:
    """How many a query has for good."""
    facts = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])
    return str(facts["conf"]["spark.sql.shuffle.partitions"])


if __name__ == "__main__":
    sys.stdout.write(f"FOUND {json.dumps(main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))}\n")
