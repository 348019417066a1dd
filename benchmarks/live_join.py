"""The live AS OF join of the benchmarks that stop, kill and move drivers and workers: its files, and their check.

Orders come file by file; each key has one rate from long ago, so that every answer is known, whenever its order comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.harness.killing import listed_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCRIPT: Final = """
CREATE TEMPORARY STREAM orders (id BIGINT, k BIGINT, ts TIMESTAMP)
  USING parquet OPTIONS (path '{folder}/orders', maxFilesPerTrigger '1') TIMESTAMP BY ts;
CREATE TEMPORARY VERSIONED TABLE rates (k BIGINT, at TIMESTAMP, rate BIGINT)
  USING parquet OPTIONS (path '{folder}/rates') KEYS (k) TIMESTAMP BY at;
CREATE STREAMING TABLE joined USING parquet OPTIONS (path '{kept}/joined') CHECKPOINT '{kept}/checkpoint' AS
SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k;
"""
_LOOK_SECONDS: Final = 0.02
_MOST_SECONDS: Final = 300.0
_PRIME: Final = 7919


#: What is counted where a task's state was read from the checkpoint.
FROM_FILES: Final = ("restored_tail", "restored_snapshot")


def query_of(spark: SparkSession) -> StreamingQuery:
    """The query of the join, once it was started."""
    from sqlx.streaming.registry import registry

    running = registry(spark.sparkContext).find("joined")
    assert running is not None, "it was started"
    return running.query


class JoinFiles:
    """The files of the join, in one folder.

    Args:
        folder: an empty one, for sources, checkpoint and result.
        keys: of the versioned table.
        rows: of each file of orders.
        scheme: of another file system, on which checkpoint and result are at the same path.
    """

    def __init__(self, folder: Path, keys: int, rows: int = 1_000, scheme: str = "") -> None:
        self.folder, self.keys, self.rows, self.fed = folder, keys, rows, 0
        self.kept = f"{scheme}{folder}"
        for name in ("orders", "rates"):
            (folder / name).mkdir()
        times = pa.array([0] * keys, pa.timestamp("us", "UTC"))
        ids = pa.array(range(keys), pa.int64())
        pq.write_table(pa.table({"k": ids, "at": times, "rate": ids}), folder / "rates/0.parquet")

    @property
    def statements(self) -> list[str]:
        """What defines the sources and starts the query."""
        return [one.strip() for one in SCRIPT.format(folder=self.folder, kept=self.kept).split(";") if one.strip()]

    def feed(self) -> int:
        """One more file of orders; the number of its micro-batch where each has one file."""
        number, self.fed = self.fed, self.fed + 1
        ids = np.arange(number * self.rows, (number + 1) * self.rows)
        keys = ids * _PRIME % self.keys
        times = pa.array([number * 1_000_000 + 5] * self.rows, pa.timestamp("us", "UTC"))
        draft = self.folder / f"orders/.{number}"
        pq.write_table(pa.table({"id": ids, "k": keys, "ts": times}), draft)
        draft.rename(self.folder / f"orders/{number:05}.parquet")
        return number

    def answer_one_more(self, query: StreamingQuery) -> float:
        """A file of orders; seconds until its results are committed."""
        began = time.monotonic()
        self.feed()
        query.processAllAvailable()
        return time.monotonic() - began

    def committed(self, number: int) -> None:
        """Wait until a micro-batch was committed."""
        wait((self.folder / "checkpoint/commits" / str(number)).exists)

    def wrong(self) -> int:
        """How many rows are missing, too many, or wrong: each has the rate of its key."""
        import duckdb

        written = ", ".join(f"'{path}'" for path in listed_files(self.folder / "joined"))
        query = f"""
            SELECT count(*) FILTER (WHERE found.rate IS DISTINCT FROM wanted.rate), count(found.id)
            FROM (SELECT id, rate FROM read_parquet([{written}])) AS found
            FULL JOIN (SELECT id, k AS rate FROM '{self.folder}/orders/*.parquet') AS wanted USING (id)"""
        with duckdb.connect() as connection:
            row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0]) + abs(int(row[1]) - self.fed * self.rows)


def wait(is_so: Callable[[], bool]) -> None:
    """Look until it is so.

    Raises:
        TimeoutError: it is not so for five minutes.
    """
    ends = time.monotonic() + _MOST_SECONDS
    while not is_so():
        if time.monotonic() > ends:
            raise TimeoutError
        time.sleep(_LOOK_SECONDS)
