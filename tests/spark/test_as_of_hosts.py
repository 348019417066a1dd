"""The three ways Spark runs the AS OF join give the answer that the tables themselves give."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkContext

import udtf
from tests.harness.releases import since
from udtf.operators.as_of_join.config import AsOfJoinConfig
from udtf.operators.as_of_join.logic import join_tables
from udtf.spark import batch
from udtf.spark import batch as mapped
from udtf.spark.functions import tagged_union

if TYPE_CHECKING:
    import pyarrow as pa

CONFIG = AsOfJoinConfig(
    join="left",
    ties=(("asc", "first"),),
    with_reason=True,
    n_keys=2,
    left_columns=("l0", "__as_of"),
    right_columns=("r0",),
)
SCHEMA = "l0 int, __as_of timestamp, r0 string, __reason string"
LEFT = "__k0 string, __k1 int, __as_of timestamp, l0 int"
RIGHT = "__k0 string, __k1 int, __time timestamp, __tie0 int, __deleted boolean, r0 string"


def made(spark, rows, schema):
    stamped = [[f"{value}" if isinstance(value, float) else value for value in row] for row in rows]
    frame = spark.createDataFrame(stamped, schema.replace("timestamp", "string"))
    for name in ("__as_of", "__time"):
        if name in frame.columns:
            frame = frame.withColumn(name, frame[name].cast("double").cast("timestamp"))
    return frame


@pytest.fixture(scope="module")
def sides(spark):
    dice = random.Random(4)
    keys = [("a", 1), ("a", 2), ("b", 1), (None, 1), ("b", None), ("only left", 3)]
    lefts = [(*dice.choice(keys), float(dice.randint(-5, 50)) if dice.random() < 0.9 else None, n) for n in range(300)]
    rights = [(*dice.choice(keys[:-1]), float(dice.randint(0, 40)), n, dice.random() < 0.2, f"r{n}") for n in range(60)]
    return made(spark, lefts, LEFT), made(spark, rights, RIGHT)


@pytest.fixture(scope="module")
def expected(sides):
    return answer(join_tables(CONFIG, sides[0].toArrow(), sides[1].toArrow()))


def answer(table: pa.Table):
    assert table.column_names == ["l0", "__as_of", "r0", "__reason"]
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("tasks", [1, 3, 7])
def test_whole_tasks(sides, expected, tasks):
    assert answer(batch.as_of_join(*sides, CONFIG, SCHEMA, tasks=tasks).toArrow()) == expected


def test_a_hot_key_is_split_without_changing_an_answer(sides, expected, monkeypatch):
    monkeypatch.setattr(batch, "is_worth_sampling", lambda _: True)
    monkeypatch.setattr(batch, "estimated_bytes", lambda _: 1)  # all keys are counted
    found = []
    split = batch.split_hot_keys
    monkeypatch.setattr(batch, "split_hot_keys", lambda *args: found.extend(split(*args)) or found)
    assert answer(batch.as_of_join(*sides, CONFIG, SCHEMA, tasks=16).toArrow()) == expected
    assert found


def test_the_mapped_file(sides, expected):
    assert answer(mapped.as_of_join_mapped(*sides, CONFIG, SCHEMA).toArrow()) == expected


def test_threads_with_the_same_versions_give_spark_their_file_one_after_the_other(sides, expected, monkeypatch):
    give, inside, most, met = SparkContext.addFile, [], [], Event()

    def watched(self, path):
        inside.append(path)
        most.append(len(inside))
        if len(inside) > 1:
            met.set()
        met.wait(0.3)  # time for another to come in
        give(self, path)
        inside.pop()

    monkeypatch.setattr(SparkContext, "addFile", watched)
    with ThreadPoolExecutor(4) as threads:
        frames = list(threads.map(lambda _: mapped.as_of_join_mapped(*sides, CONFIG, SCHEMA), range(8)))
    assert most == [1] * 8
    assert answer(frames[-1].toArrow()) == expected


@since((4, 1), "table functions that read Arrow batches")
@pytest.mark.parametrize("call", ["'{options}', {union}", "options => '{options}', input => {union}"])
def test_the_table_function(spark, sides, expected, call):
    udtf.register(spark)
    tagged_union(*sides).createOrReplaceTempView("both_sides")
    union = "TABLE(SELECT *, pmod(xxhash64(__k0, __k1), 5) AS task FROM both_sides) PARTITION BY task"
    text = call.format(options=CONFIG.to_json(), union=union)
    assert answer(spark.sql(f"SELECT * FROM as_of({text})").toArrow()) == expected


def test_empty_sides(spark, sides):
    left, right = sides
    for host in (batch, mapped):
        alone = host.as_of_join(left, right.limit(0), CONFIG, SCHEMA).toArrow()
        assert set(alone["__reason"].to_pylist()) == {"no_key", "null_time"}
        assert host.as_of_join(left.limit(0), right, CONFIG, SCHEMA).count() == 0


@since((4, 1), "table functions that read Arrow batches")
def test_the_table_function_of_empty_sides(spark, sides):
    left, right = sides
    udtf.register(spark)
    tagged_union(left.limit(0), right.limit(0)).createOrReplaceTempView("nothing")
    call = f"as_of('{CONFIG.to_json()}', TABLE(nothing) PARTITION BY __k0)"
    assert spark.sql(f"SELECT * FROM {call}").count() == 0
