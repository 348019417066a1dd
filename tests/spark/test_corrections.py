"""EMIT CORRECTIONS live on Spark: replay's changes one by one, and sums of changes with several tasks."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.replay.script import read_script
from tests.harness.slt_live import SETTINGS, check_live, run_live
from tests.properties.test_corrections import DEFINITIONS, KEYS, QUERIES, Record, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GATE = "deep"
queries = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == GATE else [pytest.mark.full]) for name in QUERIES]
)


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


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.full] if n else []) for n in range(20)])
def test_states_read_again_add_up_to_the_answer(spark: SparkSession, seed: int) -> None:
    """Without memory for states each micro-batch is as after a restart."""
    name = GATE if seed % 2 == 0 else random.Random(seed).choice(list(QUERIES))
    query, over_all = QUERIES[name]
    text, arrived = f"{query} EMIT CORRECTIONS", drawn(f"{name} {seed}")
    cuts = random.Random(seed).choices(range(1, 20), k=3)
    conf = {**SETTINGS, "sqlx.stream.cache_bytes": "0"}
    answer = run_live(spark, read_script(DEFINITIONS + text), arrived, [*cuts, 44], text, tasks=3, conf=conf)
    assert summed(answer.rows) == expected(over_all, arrived)
