"""The process that is killed: one streaming table over folders of Parquet files, from its checkpoint on.

``python kill_driver.py FOLDER [now] [upsert=FORMAT] [slow] [hdfs=URL] [store]``: ``now`` reads what is there and ends;
``upsert`` applies the changes of groups to a table of that format, in the place of a join whose rows are added;
``slow`` keeps its tables and checkpoint on a file system that renames by copying, ``hdfs`` on an HDFS; ``store`` keeps
its state in Spark's state store. It prints READY when its query runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

import sqlx
from sqlx.streaming.registry import registry
from tests.harness import keyed
from tests.harness.slow import slow_conf

if TYPE_CHECKING:
    from sqlx.streaming.registry import RunningQuery

#: What the last life writes where the table is on no disk.
ANSWER = "answer.parquet"
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


def main(folder: Path, *, now: bool, upsert: str = "", slow: bool = False, hdfs: str = "", store: bool = False) -> None:
    """Run the query until it ends, or this process does."""
    kept = f"slow://{folder}" if slow else f"{hdfs}{folder}"
    conf = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{kept}/warehouse",
        "spark.ui.enabled": "false",
        "sqlx.blob_file_bytes": "0",  # whatever goes between workers has a file that a kill may leave half written
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
    if hdfs:
        note_commits(folder / "checkpoint/commits", query)
    query.wait()
    if hdfs and now:
        pq.write_table(spark.table("joined").toArrow(), folder / ANSWER)


def note_commits(folder: Path, query: RunningQuery) -> None:
    """Until the query ends, tell by files on the disk which micro-batches are done: whoever kills looks there."""
    folder.mkdir(parents=True, exist_ok=True)
    while query.query.isActive:
        for progress in query.query.recentProgress:
            (folder / str(progress.batchId)).touch()
        query.query.awaitTermination(0.05)


if __name__ == "__main__":
    given = dict(argument.partition("=")[::2] for argument in sys.argv[2:])
    words = {word: word in given for word in ("now", "slow", "store")}
    main(Path(sys.argv[1]), upsert=given.get("upsert", ""), hdfs=given.get("hdfs", ""), **words)
