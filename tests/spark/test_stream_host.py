"""Live operators on Spark: whatever the partitions, restarts, caches and re-runs, the rows of one run in memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from tests.harness import counting
from udtf.spark.stream import rows_of, stream_operator
from udtf.spark.tasks import stream_conf
from udtf.stream.spec import StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SPEC = StreamSpec("count_1", counting.Counting, "counting", tasks=4, order_columns=(2,))
OUTPUT = "k long, o long, n long"
BATCHES = [[1, 2, 1], [3, 1, -1, 2], [1, 1], [2, 3, 4, 5, 6, 7, 8, 9]]


@pytest.fixture(scope="module", autouse=True)
def _settings(spark: SparkSession) -> Iterator[None]:
    cloudpickle.register_pickle_by_value(counting)  # workers cannot import the tests
    settings = stream_conf(spark, 4)
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    cloudpickle.unregister_pickle_by_value(counting)
    for name, old in before.items():
        spark.conf.unset(name) if old is None else spark.conf.set(name, old)


class Query:
    """A query over a folder of files, one micro-batch each."""

    def __init__(self, spark: SparkSession, folder: Path, spec: StreamSpec = SPEC) -> None:
        self.spark, self.folder, self.spec = spark, folder, spec
        self.written = 0
        self.rows: list[tuple[int, ...]] = []
        self.progress: list[Any] = []

    def add(self, batches: list[list[int]]) -> None:
        for keys in batches:
            rows = [(key, self.written + place) for place, key in enumerate(keys)]
            self.written += len(keys)
            frame = self.spark.createDataFrame(rows, "k long, o long").coalesce(1)
            frame.write.mode("append").parquet(str(self.folder / "in"))
            time.sleep(0.01)  # files count in the order of their times

    def source(self) -> DataFrame:
        reader = self.spark.readStream.schema("k long, o long").option("maxFilesPerTrigger", 1)
        columns = ("k AS __k0", "timestamp_micros(o) AS __event_time", "o AS __o0", "_metadata.file_path AS __o1")
        return reader.parquet(str(self.folder / "in")).selectExpr(*columns)

    def frame(self) -> DataFrame:
        return stream_operator([self.source()], self.spec)

    def run(self, each: Callable[[DataFrame, int], None] | None = None) -> list[tuple[int, ...]]:
        writer = self.frame().writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = writer.foreachBatch(each or self.collect).trigger(availableNow=True).start()
        query.awaitTermination()
        self.progress += [one for one in query.recentProgress if one.numInputRows]
        return self.rows

    def collect(self, fat: DataFrame, _batch: int) -> None:
        self.rows += sorted(tuple(row) for row in rows_of(fat, "rows", schema(OUTPUT)).collect())


def schema(text: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(text)


def expected(batches: list[list[int]]) -> list[tuple[int, int, int]]:
    keys = [key for keys in batches for key in keys]
    rows = [(key, place, keys[: place + 1].count(key)) for place, key in enumerate(keys) if key != -1]
    return sorted(rows)


def test_answers_and_metrics_across_micro_batches_and_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.add(BATCHES[:2])
    query.run()
    query.add(BATCHES[2:])
    assert sorted(query.run()) == expected(BATCHES)
    observed = [one.observedMetrics["count_1"].asDict() for one in query.progress]
    assert [one["rows_in"] for one in observed] == [3, 4, 2, 8]
    assert [one["matched"] for one in observed] == [3, 3, 2, 8]
    assert [one["late"] for one in observed] == [0, 1, 0, 0]
    assert [one["max_event_time"] for one in observed] == [2, 6, 8, 16]
    assert all(one["restored_cache"] > 0 for one in observed[1:]), "the worker that has the state answers"
    assert all(one["restored_tail"] + one["restored_snapshot"] == 0 for one in observed)


@pytest.mark.full
def test_partitions_and_caches_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    try:
        query = Query(spark, tmp_path, replace(SPEC, cache_bytes=0))
        query.add(BATCHES)
        assert sorted(query.run()) == expected(BATCHES)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
    observed = [one.observedMetrics["count_1"] for one in query.progress]
    assert [one["restored_cache"] + one["restored_tail"] for one in observed] == [0] * 4
    assert observed[1]["restored_snapshot"] > 0


@pytest.mark.full
def test_workers_that_are_killed_cost_a_restore_and_no_answer(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.add(BATCHES)

    def then_kill(fat: DataFrame, batch: int) -> None:
        query.collect(fat, batch)
        if batch == 1:
            killed = workers_with_states(spark)
            for worker in killed:
                os.kill(worker, signal.SIGKILL)
            until_gone(killed)

    assert sorted(query.run(then_kill)) == expected(BATCHES)
    observed = [one.observedMetrics["count_1"] for one in query.progress]
    assert [one["restored_snapshot"] > 0 for one in observed[:3]] == [False, False, True]


def until_gone(workers: list[int]) -> None:
    """Until their daemon has seen their end: before that Spark takes them for idle ones and gives them a task."""
    waited, deadline = Event(), time.monotonic() + 30
    while any(Path("/proc", str(worker)).exists() for worker in workers) and time.monotonic() < deadline:
        waited.wait(0.02)


def workers_with_states(spark: SparkSession) -> list[int]:
    """The processes of this session that have said that they keep a state: their sockets are named so.

    The socket of one that has ended stays, and its number may have come to another process, or to a thread of one.
    """
    jvm: Any = spark.sparkContext._jvm
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    daemons = [(folder, folder.name.rpartition("-")[2]) for folder in Path(gettempdir()).glob("sqlx-workers-*")]
    named = [
        (daemon, at.name.partition("-")[0])
        for folder, daemon in daemons
        if parent(daemon) == java
        for at in folder.glob("*.socket")
    ]
    return [int(worker) for daemon, worker in named if parent(worker) == int(daemon)]


def parent(process: str) -> int:
    """The process that has started one; 0 where it is gone."""
    try:
        return int(Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def test_a_batch_that_is_read_twice_answers_the_same(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.add(BATCHES[:3])
    late: list[Any] = []

    def twice(fat: DataFrame, batch: int) -> None:
        late.extend(rows_of(fat, "late0", schema("__k0 long, __o0 long")).collect())
        query.collect(fat, batch)

    assert sorted(query.run(twice)) == expected(BATCHES[:3])
    assert [tuple(row) for row in late] == [(-1, 5)]


def test_the_checkpoint_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    query = Query(spark, tmp_path)
    query.add(BATCHES[:1])
    query.run()
    query.add(BATCHES[1:2])
    query.spec = replace(SPEC, fingerprint="counting otherwise")
    with pytest.raises(Exception, match=r"\[STATE.OTHER_QUERY\] the state of operator count_1, task"):
        query.run()


@pytest.mark.full
def test_an_operator_follows_another(spark: SparkSession, tmp_path: Path) -> None:
    class Chained(Query):
        def frame(self) -> DataFrame:
            first = rows_of(super().frame(), "rows", schema(OUTPUT))
            columns = ("n AS __k0", "timestamp_micros(o) AS __event_time", "o AS __o0")
            second = replace(self.spec, operator="count_2", order_columns=(1,))
            return stream_operator([first.selectExpr(*columns)], second)

    query = Chained(spark, tmp_path)
    query.add(BATCHES)
    counts = [row[2] for row in sorted(expected(BATCHES), key=lambda row: row[1])]
    orders = sorted(row[1] for row in expected(BATCHES))
    again = [
        (n, order, counts[: place + 1].count(n)) for place, (n, order) in enumerate(zip(counts, orders, strict=True))
    ]
    assert sorted(query.run()) == sorted(again)
    assert set(query.progress[0].observedMetrics) == {"count_1", "count_2"}


@pytest.mark.full
def test_two_inputs_interleave_by_their_common_sequence(spark: SparkSession, tmp_path: Path) -> None:
    class Both(Query):
        def frame(self) -> DataFrame:
            source = self.source().selectExpr("*", "__event_time AS __time")
            odd, even = source.where("__o0 % 2 = 1"), source.where("__o0 % 2 = 0")
            return stream_operator([odd, even], replace(self.spec, order_columns=(1, 1), common_sequence=True))

    query = Both(spark, tmp_path)
    query.add(BATCHES)
    assert sorted(query.run()) == expected(BATCHES)
