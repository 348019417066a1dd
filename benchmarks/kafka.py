"""Records through a real Kafka broker into Parquet, with crashes on the way: is every row there, exactly once?

    python -m benchmarks.kafka                   a million orders
    python -m benchmarks.kafka --rows 50000      what the gate runs

Orders and exchange rates are written to two topics while a live AS OF join reads them. The broker is killed and started
again twice, and the query is stopped in the middle of a micro-batch once in between. At the end the table is compared
with DuckDB's ASOF join over all that was written: not one row more, less or different.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import duckdb
import numpy as np
import pyarrow as pa
import typer
from rich.console import Console

from benchmarks.kafka_broker import ROOT, Broker

if TYPE_CHECKING:
    from confluent_kafka import Producer
    from pyspark.sql import SparkSession

    from sqlx.streaming.registry import RunningQuery

PHASES = 4
_KEYS = 200
_START_US = 1_704_067_200_000_000
_PHASE_US = 600_000_000
_SECONDS = 300.0
_LOOK_SECONDS = 0.05
_TABLE = "bench_priced"
out = Console(highlight=False)


@dataclass(frozen=True)
class Phase:
    """The records of one phase; rates without a value are tombstones.

    Attributes:
        rates: key, ts, rate (NaN is a tombstone).
        orders: id, key, ts; up to 30 seconds out of order.
    """

    rates: pa.Table
    orders: pa.Table


def phases(rows: int, seed: int = 7) -> Iterator[Phase]:
    """What is written, phase by phase; the times of a phase are all after those of the one before."""
    random = np.random.default_rng(seed)
    each, n_rates = rows // PHASES, max(_KEYS, rows // 40)
    for number in range(PHASES):
        start, count = _START_US + number * _PHASE_US, each + (rows % PHASES if number == PHASES - 1 else 0)
        rate_ts = np.sort(random.choice(_PHASE_US // 1000, n_rates, replace=False)) * 1000 + start
        values = np.where(random.random(n_rates) < 0.05, np.nan, np.round(random.random(n_rates) * 2, 6))
        rates = {"key": random.integers(0, _KEYS, n_rates), "ts": rate_ts, "rate": values}
        ts = np.linspace(0, _PHASE_US - 1, count).astype(np.int64) - random.integers(0, 30_000_000, count)
        orders = {
            "id": np.arange(number * each, number * each + count),
            "key": random.integers(0, _KEYS, count),
            "ts": np.maximum(ts, 0) // 1000 * 1000 + start,
        }
        yield Phase(pa.table(rates), pa.table(orders))


@dataclass
class Run:
    """One run.

    Args:
        spark: the session.
        broker: where records go through.
        rows: how many orders.
        folder: of the checkpoint.
    """

    spark: SparkSession
    broker: Broker
    rows: int
    folder: Path
    written: list[Phase] = field(default_factory=list)
    starts: int = 0

    def run(self) -> float:
        """All phases; the seconds that they took.

        Raises:
            AssertionError: the result is not what was written.
        """
        self._make_topics()
        self._define()
        started = time.perf_counter()
        self._start()
        for number, phase in enumerate(phases(self.rows)):
            self.written.append(phase)
            self._write("bench_rates", _rate_records(phase.rates))
            self._await(lambda: self._has_read("bench_rates"))
            middle = phase.orders.num_rows // 2
            self._write("bench_orders", _order_records(phase.orders.slice(0, middle)), flush=False)
            self._crash(number)
            self._write("bench_orders", _order_records(phase.orders.slice(middle)))
        self._await(lambda: self._has_read("bench_orders"))
        took = time.perf_counter() - started
        self._query.stop()
        check(self._result(), self.written)
        return took

    def _crash(self, number: int) -> None:
        """The broker goes and comes back in phases 1 and 3; the query in phase 2."""
        if number in (1, 3):
            self.broker.restart()
        if number == 2:
            self._await(self._query.is_in_batch)
            self._query.query.stop()  # in the middle of its micro-batch
            self._start()

    @property
    def _query(self) -> RunningQuery:
        from sqlx.streaming.registry import registry

        found = registry(self.spark.sparkContext).find(_TABLE)
        assert found is not None, "it was started"
        return found

    def _start(self) -> None:
        self.starts += 1
        self.spark.sql(
            f"CREATE STREAMING TABLE {_TABLE} CHECKPOINT '{self.folder}/checkpoint' AS"
            " SELECT o.id, r.rate FROM bench_orders o LEFT JOIN bench_rates r AS OF o.ts ON o.key = r.key"
        )

    def _define(self) -> None:
        options = f"'kafka.bootstrap.servers' '{self.broker.address}', 'value.format' 'json'"
        self.spark.sql(
            "CREATE OR REPLACE TEMPORARY STREAM bench_orders (id BIGINT, key BIGINT, ts TIMESTAMP)"
            f" USING kafka OPTIONS ({options}, subscribe 'bench_orders', maxOffsetsPerTrigger '100000') TIMESTAMP BY ts"
        )
        self.spark.sql(
            "CREATE OR REPLACE TEMPORARY VERSIONED TABLE bench_rates (key BIGINT, rate DOUBLE, ts TIMESTAMP)"
            f" USING kafka OPTIONS ({options}, subscribe 'bench_rates') KEYS (key)"
        )

    def _make_topics(self) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self.broker.address})
        for made in admin.create_topics([NewTopic(name, 2, 1) for name in ("bench_orders", "bench_rates")]).values():
            made.result(_SECONDS)
        # A record that was sent twice over a crash is stored once: what is checked is how it is read.
        self.producer: Producer = Producer(
            {"bootstrap.servers": self.broker.address, "enable.idempotence": True, "linger.ms": 20}
        )
        self.sent = {"bench_orders": 0, "bench_rates": 0}

    def _write(self, topic: str, records: Iterator[dict[str, Any]], flush: bool = True) -> None:
        for record in records:
            self.sent[topic] += 1
            while True:
                try:
                    self.producer.produce(topic, **record)
                    break
                except BufferError:
                    self.producer.poll(0.05)
            self.producer.poll(0)
        if flush:
            assert self.producer.flush(_SECONDS) == 0, "the broker takes no records"

    def _has_read(self, topic: str) -> bool:
        """Whether a micro-batch that is committed has read all that was sent."""
        error = self._query.error()
        if error is not None:
            raise error
        progress = self._query.query.lastProgress
        sources = json.loads(progress.json)["sources"] if progress else []
        ends = [end for source in sources if isinstance(end := source.get("endOffset"), dict)]
        return any(sum(end[topic].values()) >= self.sent[topic] for end in ends if topic in end)

    def _await(self, condition: Callable[[], bool]) -> None:
        waited, left = Event(), _SECONDS
        while not condition():
            assert left > 0, "it does not come"
            waited.wait(_LOOK_SECONDS)
            left -= _LOOK_SECONDS

    def _result(self) -> pa.Table:
        return self.spark.sql(f"SELECT id, rate FROM {_TABLE}").toArrow()


def check(result: pa.Table, written: list[Phase]) -> None:
    """Compare with DuckDB's ASOF join.

    Raises:
        AssertionError: a row is missing, wrong or there twice.
    """
    engine = duckdb.connect()
    engine.register("result", result)
    engine.register("orders", pa.concat_tables([phase.orders for phase in written]))
    engine.register("rates", pa.concat_tables([phase.rates for phase in written]))
    engine.execute(
        "CREATE TABLE expected AS SELECT o.id, if(isnan(r.rate), NULL, r.rate) AS rate"
        " FROM orders o ASOF LEFT JOIN rates r ON o.key = r.key AND o.ts >= r.ts"
    )
    for name, query in {
        "missing": "SELECT * FROM expected EXCEPT ALL SELECT id, rate FROM result",
        "too many": "SELECT id, rate FROM result EXCEPT ALL SELECT * FROM expected",
    }.items():
        found = engine.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0]
        assert found == 0, f"{found} rows are {name}, of {result.num_rows}"


def _rate_records(rates: pa.Table) -> Iterator[dict[str, Any]]:
    """The time of a rate is that of its record, as of a tombstone."""
    for key, ts, rate in zip(*(rates[name].to_pylist() for name in ("key", "ts", "rate")), strict=True):
        value = None if rate != rate else f'{{"rate": {rate!r}}}'
        yield {"key": str(key), "value": value, "timestamp": ts // 1000}


def _order_records(orders: pa.Table) -> Iterator[dict[str, Any]]:
    times = np.datetime_as_string(orders["ts"].to_numpy().astype("datetime64[us]"), unit="ms")
    for number, key, ts in zip(orders["id"].to_pylist(), orders["key"].to_pylist(), times, strict=True):
        yield {"key": str(number), "value": f'{{"id": {number}, "key": {key}, "ts": "{ts}Z"}}'}


def main(rows: Annotated[int, typer.Option(help="How many orders are written.")] = 1_000_000) -> None:
    """Write, crash, read, compare."""
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
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
        }
        spark = sqlx.session(app="benchmark kafka", master="local[2]", conf=conf)
        try:
            run = Run(spark, broker, rows, Path(folder))
            seconds = run.run()
        finally:
            spark.stop()
            broker.remove()
    out.print(
        f"{rows:,} orders in {seconds:.1f} s ({rows / seconds:,.0f} rows/s), written and read at the same time;"
        f" the broker was killed 2 times, the query started {run.starts} times: exactly the rows that were expected.",
        soft_wrap=True,
    )


if __name__ == "__main__":
    typer.run(main)
