"""From a record's arrival to that of its result: Kafka, a live AS OF join, Kafka, at a steady rate.

    python -m benchmarks.kafka_latency                     five thousand orders a second, each way for a minute
    python -m benchmarks.kafka_latency --rows 1000 --seconds 30

Both topics stamp records with the broker's clock when they come (``LogAppendTime``), so that one clock measures both.
Beside ours runs what Spark takes for the same records without us: passed on as they are, and through its own operator
with state.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.kafka_broker import ROOT, Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OURS, PASSED_ON, YARDSTICK = "sqlx: AS OF join", "Spark: passed on", "Spark: dropDuplicatesWithinWatermark"
_KEYS = 1_000
_RATES_PER_SECOND = 50
_TICK_S = 0.01
#: Orders of so many seconds at the beginning are not measured: Java compiles what it runs.
_WARM_S = 20
_SECONDS = 120.0
#: Where the time of a micro-batch goes, as Spark reports it.
_STEPS = {
    "queryPlanning": "planning",
    "walCommit": "log of offsets",
    "addBatch": "rows",
    "commitOffsets": "log of commits",
    "triggerExecution": "all",
}
out = Console(highlight=False)


@dataclass(frozen=True)
class Topics:
    """The topics of one way."""

    orders: str
    rates: str
    results: str


@dataclass
class Found:
    """What one way took.

    Attributes:
        latencies_ms: of each order that was measured.
        steps_ms: per step of a micro-batch how long it took, each time.
        rows: of each micro-batch.
    """

    latencies_ms: np.ndarray[Any, np.dtype[np.int64]]
    steps_ms: dict[str, list[float]] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        """Milliseconds below which this share of the orders is."""
        return float(np.percentile(self.latencies_ms, share))


def rate_of(key: int) -> float:
    """A key's rate never changes, so that every answer is known, whenever its order comes."""
    return key / 100 + 1


def produce(address: str, topics: Topics, rows: int, seconds: float) -> None:
    """Write orders, and rates now and then, in even steps; in a process of its own."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 1})
    started, number, rates = time.time(), 0, 0
    while (passed := time.time() - started) < seconds:
        while rates < passed * _RATES_PER_SECOND:
            key = rates % _KEYS
            producer.produce(topics.rates, key=str(key), value=json.dumps({"rate": rate_of(key)}))
            rates += 1
        while number < passed * rows:
            now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000 % 1_000_000:06d}Z"
            value = f'{{"id": {number}, "key": {number % _KEYS}, "ts": "{now}"}}'
            producer.produce(topics.orders, key=str(number), value=value)
            number += 1
        producer.poll(0)
        time.sleep(_TICK_S)
    producer.flush()


class Run:
    """All ways against one broker.

    Args:
        spark: the session.
        broker: where records go through.
        folder: of checkpoints.
    """

    def __init__(self, spark: SparkSession, broker: Broker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.options = f"'kafka.bootstrap.servers' '{broker.address}'"

    def measure(self, way: str, rows: int, seconds: float) -> Found:
        """One way, at a rate of orders, for some seconds after it is warm.

        Raises:
            AssertionError: a result is missing, there twice, or wrong.
        """
        slug = {OURS: "ours", PASSED_ON: "passed", YARDSTICK: "yardstick"}[way]
        topics = self._make_topics(slug)
        query = self._start(way, topics, slug)
        producer = multiprocessing.get_context("spawn").Process(
            target=produce, args=(self.broker.address, topics, rows, seconds + _WARM_S)
        )
        producer.start()
        found: dict[int, dict[str, Any]] = {}
        while producer.is_alive():
            producer.join(1.0)
            found |= {one["batchId"]: one for one in _progress(query)}
        orders = self._read(topics.orders)
        self._await(lambda: self._count(topics.results) >= len(orders), query)
        found |= {one["batchId"]: one for one in _progress(query)}
        query.stop()
        results = self._read(topics.results)
        check(orders, results, has_rates=way == OURS)
        first = min(stamp for stamp, _ in orders.values()) + _WARM_S * 1000
        taken = [results[i][0] - stamp for i, (stamp, _) in orders.items() if stamp >= first]
        warm = [one for _, one in sorted(found.items()) if one["numInputRows"]][_WARM_S:]
        steps = {step: [one["durationMs"].get(step, 0) for one in warm] for step in _STEPS}
        return Found(np.array(taken), steps, [one["numInputRows"] for one in warm])

    def _start(self, way: str, topics: Topics, slug: str) -> StreamingQuery:
        checkpoint = str(self.folder / slug)
        if way == OURS:
            return self._ours(topics, checkpoint)
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.broker.address)
        orders = reader.option("subscribe", topics.orders).option("startingOffsets", "earliest").load()
        if way == YARDSTICK:
            orders = orders.withWatermark("timestamp", "10 seconds").dropDuplicatesWithinWatermark(["key"])
        writer = orders.select("key", "value").writeStream.format("kafka").option("topic", topics.results)
        writer = writer.option("kafka.bootstrap.servers", self.broker.address)
        return writer.option("checkpointLocation", checkpoint).start()

    def _ours(self, topics: Topics, checkpoint: str) -> StreamingQuery:
        from sqlx.streaming.registry import registry

        read = f"{self.options}, 'value.format' 'json', startingOffsets 'earliest'"
        for statement in (
            "CREATE OR REPLACE TEMPORARY STREAM orders (id BIGINT, key BIGINT, ts TIMESTAMP)"
            f" USING kafka OPTIONS ({read}, subscribe '{topics.orders}') TIMESTAMP BY ts",
            "CREATE OR REPLACE TEMPORARY VERSIONED TABLE rates (key BIGINT, rate DOUBLE)"
            f" USING kafka OPTIONS ({read}, subscribe '{topics.rates}') KEYS (key)",
            f"CREATE STREAMING TABLE priced USING kafka OPTIONS ({self.options}, topic '{topics.results}',"
            f" 'value.format' 'json', 'key.columns' 'id') CHECKPOINT '{checkpoint}' AS"
            " SELECT o.id, r.rate FROM orders o LEFT JOIN rates r AS OF o.ts ON o.key = r.key",
        ):
            self.spark.sql(statement)
        found = registry(self.spark.sparkContext).find("priced")
        assert found is not None, "it was started"
        return found.query

    def _make_topics(self, slug: str) -> Topics:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        topics = Topics(*(f"latency_{name}_{slug}" for name in ("orders", "rates", "results")))
        stamped = {"message.timestamp.type": "LogAppendTime"}
        made = [NewTopic(topics.orders, 2, 1, config=stamped), NewTopic(topics.results, 2, 1, config=stamped)]
        admin = AdminClient({"bootstrap.servers": self.broker.address})  # what it makes goes with it
        for done in admin.create_topics([*made, NewTopic(topics.rates, 2, 1)]).values():
            done.result(_SECONDS)
        self._write_first_rates(topics)
        return topics

    def _write_first_rates(self, topics: Topics) -> None:
        """Every key has a rate from long ago."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.broker.address})
        long_ago = int(time.time() * 1000) - 3_600_000
        for key in range(_KEYS):
            value = json.dumps({"rate": rate_of(key)})
            producer.produce(topics.rates, key=str(key), value=value, timestamp=long_ago)
        producer.flush(_SECONDS)

    def _read(self, topic: str) -> dict[int, tuple[int, bytes]]:
        """All records of a topic: id to the broker's time and the value; those of an id that came twice are refused."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": topic})
        partitions = [TopicPartition(topic, number, 0) for number in range(2)]
        consumer.assign(partitions)
        left, records = self._count(topic), {}
        while left:
            for message in consumer.consume(10_000, timeout=1.0):
                number = int(message.key() or b"-1")
                assert number not in records, f"{number} is in {topic} twice"
                records[number] = (message.timestamp()[1], message.value() or b"{}")
                left -= 1
        consumer.close()
        return records

    def _count(self, topic: str) -> int:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": topic})
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, number))[1] for number in range(2)]
        consumer.close()
        return sum(ends)

    def _await(self, condition: Callable[[], bool], query: StreamingQuery) -> None:
        waited, left = Event(), _SECONDS
        while not condition():
            assert query.isActive, query.exception()
            assert left > 0, "it does not come"
            waited.wait(0.5)
            left -= 0.5


def _progress(query: StreamingQuery) -> list[dict[str, Any]]:
    return [json.loads(one.json) for one in query.recentProgress]


def check(orders: dict[int, tuple[int, bytes]], results: dict[int, tuple[int, bytes]], *, has_rates: bool) -> None:
    """Every order has its result.

    Raises:
        AssertionError: one is missing, too many, or wrong.
    """
    assert orders.keys() == results.keys(), "orders and results differ"
    if has_rates:
        wrong = [n for n, (_, value) in results.items() if json.loads(value).get("rate") != rate_of(n % _KEYS)]
        assert not wrong, f"{len(wrong)} results are wrong, such as that of order {wrong[0]}"


def tables(found: dict[str, Found], rows: int) -> tuple[Table, Table]:
    """How long orders took, and where the time of a micro-batch goes."""
    latencies = Table("way", "p50", "p95", "p99", "orders a micro-batch", title=f"{rows:,} orders a second, ms")
    steps = Table("way", *_STEPS.values(), title="median of each step of a micro-batch, ms")
    for way, one in found.items():
        latencies.add_row(way, *(f"{one.percentile(share):,.0f}" for share in (50, 95, 99)), _median(one.rows))
        steps.add_row(way, *(_median(one.steps_ms[step]) for step in _STEPS))
    return latencies, steps


def _median(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.0f}" if values else ""


def bars(found: dict[str, Found]) -> list[report.Bar]:
    """What the join should take."""
    ours = found[OURS]
    return [
        report.Bar("from an order to its result, p50", ours.percentile(50), -300, "ms"),
        report.Bar("from an order to its result, p99", ours.percentile(99), -800, "ms"),
    ]


def main(
    rows: Annotated[int, typer.Option(help="Orders a second.")] = 5_000,
    seconds: Annotated[float, typer.Option(help="How long each way is measured, after it is warm.")] = 60.0,
    only_ours: Annotated[bool, typer.Option(help="Without what is beside it.")] = False,
) -> None:
    """Write at a steady rate, measure each way, compare."""
    import os

    import sqlx
    from sqlx.connectors.jars import CONNECTORS, fetch

    os.environ.setdefault("SQLX_JARS", str(ROOT / ".cache" / "jars"))
    fetch(CONNECTORS["kafka"].artifacts, Path(os.environ["SQLX_JARS"]))
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(Path(folder, "broker")).start()
        conf = {
            "sqlx.connectors": "kafka",
            "spark.driver.memory": "3g",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.providerClass": (
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
            ),
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
        }
        spark = sqlx.session(app="benchmark latency", master="local[2]", conf=conf)
        try:
            run = Run(spark, broker, Path(folder))
            ways = (OURS,) if only_ours else (PASSED_ON, YARDSTICK, OURS)
            found = {way: run.measure(way, rows, seconds) for way in ways}
        finally:
            spark.stop()
            broker.remove()
    for shown in tables(found, rows):
        out.print(shown)
    out.print(report.bars_table(bars(found)))


if __name__ == "__main__":
    typer.run(main)
