"""EMIT CORRECTIONS live on Spark: replay's changes one by one, and sums of changes with several tasks."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.replay.script import read_script
from tests.harness.marks import gated
from tests.harness.slt_live import SETTINGS, check_live, run_live
from tests.properties.test_corrections import DEFINITIONS, KEYS, QUERIES, Record, expected

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GATE = "deep"
queries = pytest.mark.parametrize("name", gated(QUERIES, [GATE]))


def drawn(seed: str) -> list[Record]:
    """Rows of all inputs in a random order."""
    dice = random.Random(seed)
    found: list[Record] = [
        ("s", {"ts": dice.randrange(20) * 1000, "k": dice.choice(["a", "b", None]), "f": dice.choice([1, 2, None]),
               "v": dice.randrange(1, 4)})
        for _ in range(14)
    ]  # fmt: skip
    for name, key in KEYS.items():
        places = [(time, at) for time in range(20) for at in (["a", "b"] if key == "k" else [1, 2, 3])]
        for time, at in dice.sample(places, 10):
            shown = dice.choice(["x", "y", None]) if name == "g" else dice.choice([None, 1, 2, 3])
            found.append((name, {"ts": time * 1000, key: at, "name" if name == "g" else "w": shown}))
    dice.shuffle(found)
    return found


def summed(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """What changes add up to, taken in any order within their micro-batch."""
    table: Counter[tuple[Any, ...]] = Counter()
    for *row, kind in rows:
        table[tuple(row)] += -1 if kind in ("delete", "update_before") else 1
    assert min(table.values(), default=0) >= 0
    return +table


@queries
def test_live_changes_are_those_of_replay(spark: SparkSession, name: str) -> None:
    check_live(spark, f"{DEFINITIONS}{QUERIES[name][0]} EMIT CORRECTIONS", drawn(name), [15, 15, 14])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_states_read_again_add_up_to_the_answer(spark: SparkSession, seed: int) -> None:
    """Without memory for states each micro-batch is as after a restart."""
    name = GATE if seed % 2 == 0 else random.Random(seed).choice(list(QUERIES))
    query, over_all = QUERIES[name]
    text, arrived = f"{query} EMIT CORRECTIONS", drawn(f"{name} {seed}")
    cuts = random.Random(seed).choices(range(1, 20), k=3)
    conf = {**SETTINGS, "sqlx.stream.cache_bytes": "0"}
    answer = run_live(spark, read_script(DEFINITIONS + text), arrived, [*cuts, 44], text, tasks=3, conf=conf)
    assert summed(answer.rows) == expected(over_all, arrived)


def test_what_is_refused_after_a_second_start_is_seen_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """The start looks at the table of LATE TO, and Spark keeps what it has read of a table of files."""

    def arrives(name: str, rows: str, columns: str) -> None:
        frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t ({columns})")
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / name))

    arrives("s", "(1, 'a', timestamp_seconds(3000))", "id, k, ts")
    arrives("r", "('a', 1, timestamp_seconds(0)), ('a', 2, timestamp_seconds(2700))", "k, w, ts")
    spark.sql(f"CREATE TEMPORARY STREAM late_s USING parquet OPTIONS (path '{tmp_path}/s') TIMESTAMP BY ts")
    spark.sql(
        f"CREATE TEMPORARY VERSIONED TABLE late_r USING parquet OPTIONS (path '{tmp_path}/r') KEYS (k) TIMESTAMP BY ts"
        " HISTORY RETENTION INTERVAL 10 MINUTES LATE TO refused_versions"
    )
    statement = (
        "CREATE STREAMING TABLE corrected_twice TASKS 1 TRIGGER (AVAILABLE NOW) AS"
        " SELECT s.id, r.w FROM late_s s JOIN late_r r AS OF s.ts ON s.k = r.k EMIT CORRECTIONS"
    )
    spark.sql(statement)
    arrives("r", "('a', 9, timestamp_seconds(60)), ('a', 3, timestamp_seconds(2900))", "k, w, ts")
    spark.sql(statement)
    found = spark.table("corrected_twice").collect()
    refused = spark.table("refused_versions").selectExpr("w", "_reason", "_operator").collect()
    for table in ("corrected_twice", "refused_versions"):
        spark.sql(f"DROP TABLE {table}")
    assert sorted(map(tuple, found)) == [(1, 2, "insert"), (1, 2, "update_before"), (1, 3, "update_after")]
    assert [tuple(row) for row in refused] == [(9, "expired", "corrected_join")]
