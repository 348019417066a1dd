"""The process that is killed: one streaming table over folders of Parquet files, from its checkpoint on.

``python kill_driver.py FOLDER [now] [upsert=FORMAT] [slow] [store]``: ``now`` reads what is there and ends; ``upsert``
applies the changes of groups to a table of that format, in the place of a join whose rows are added; ``slow`` keeps its
tables and checkpoint on a file system that renames by copying; ``store`` keeps its state in Spark's state store. It
prints READY when its query runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import sqlx
from sqlx.streaming.registry import registry
from tests.harness import keyed
from tests.harness.slow import slow_conf

DEFINITIONS = (
    "CREATE TEMPORARY STREAM orders (id BIGINT, k BIGINT, ts TIMESTAMP) "
    "USING parquet OPTIONS (path '{folder}/orders', maxFilesPerTrigger '1') TIMESTAMP BY ts",
    "CREATE TEMPORARY VERSIONED TABLE rates (k BIGINT, at TIMESTAMP, rate BIGINT) "
    "USING parquet OPTIONS (path '{folder}/rates', maxFilesPerTrigger '1') "
    "KEYS (k) TIMESTAMP BY at HISTORY RETENTION INTERVAL 30 DAYS",
)
QUERY = (
    "CREATE STREAMING TABLE joined CHECKPOINT '{kept}/checkpoint' {trigger} TASKS 4 AS "
    "SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k"
)
GROUPS = (
    "CREATE STREAMING TABLE {name} USING {format} OPTIONS (write.mode 'upsert') CHECKPOINT '{kept}/checkpoint' "
    "{trigger} TASKS 2 AS " + keyed.QUERY
)


def main(folder: Path, *, now: bool, upsert: str = "", slow: bool = False, store: bool = False) -> None:
    """Run the query until it ends, or this process does."""
    kept = f"slow://{folder}" if slow else str(folder)
    conf = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{kept}/warehouse",
        "spark.ui.enabled": "false",
    }
    if slow:
        (folder / "classes").mkdir(exist_ok=True)
        conf |= slow_conf(folder / "classes")
    if store:
        conf["sqlx.state_backend"] = "store"
    if upsert in ("delta", "iceberg"):
        conf["sqlx.connectors"] = upsert
    # One task at a time, since each life starts its own workers: of two partitions one has written its state when the
    # other dies. A task may fail, as on a cluster: a worker that was killed costs a retry, not the query.
    spark = sqlx.session(master="local[1,8]", conf=conf)
    for definition in (keyed.DEFINITION,) if upsert else DEFINITIONS:
        spark.sql(definition.format(folder=folder))
    trigger = "TRIGGER (AVAILABLE NOW)" if now else ""
    name = "iceberg.db.joined" if upsert == "iceberg" else "joined"
    spark.sql((GROUPS if upsert else QUERY).format(kept=kept, trigger=trigger, format=upsert, name=name))
    print("READY", flush=True)  # noqa: T201 - the one who kills reads it
    (query,) = registry(spark.sparkContext).all()
    query.wait()


if __name__ == "__main__":
    formats = [given.partition("=")[2] for given in sys.argv[2:] if given.startswith("upsert=")]
    given = sys.argv[2:]
    upserted = formats[0] if formats else ""
    main(Path(sys.argv[1]), now="now" in given, upsert=upserted, slow="slow" in given, store="store" in given)
