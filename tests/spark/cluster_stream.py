"""A live query on a cluster until it is told to end; a line of JSON for each micro-batch. Run by test_standalone.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from threading import Event

import pyspark

import sqlx
from sqlx.streaming.registry import registry
from tests.spark.cluster import RESTORES

LIVE = (
    "CREATE STREAMING TABLE once USING parquet OPTIONS (path '{0}/out') CHECKPOINT '{0}/checkpoint' TASKS {1} "
    "AS SELECT id FROM s DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id)"
)


def main(folder: Path, master: str, tasks: int) -> None:
    """Run it; the file `stop` ends it."""
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    conf = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": str(tasks)}
    spark = sqlx.session(master=master, conf=conf | {"spark.sql.warehouse.dir": f"{folder}/warehouse"})
    source = f"(id BIGINT, ts TIMESTAMP) USING parquet OPTIONS (path '{folder}/in', maxFilesPerTrigger '1')"
    spark.sql(f"CREATE TEMPORARY STREAM s {source} TIMESTAMP BY ts")
    spark.sql(LIVE.format(folder, tasks))
    (running,) = registry(spark.sparkContext).all()
    looking, told = Event(), -1
    while running.query.isActive and not (folder / "stop").exists():
        for one in running.query.recentProgress:
            observed = one.observedMetrics.get("deduplicate_1")
            if one.batchId > told and one.numInputRows and observed is not None:
                told = one.batchId
                seen = {"batch": told, "restores": [observed[name] for name in RESTORES]}
                sys.stdout.write(f"BATCH {json.dumps(seen)}\n")
                sys.stdout.flush()
        looking.wait(0.1)
    running.query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
