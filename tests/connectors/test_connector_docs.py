"""The SQL of docs/kafka.md, docs/delta.md and docs/iceberg.md runs, with a broker and with tables of both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sqlx.sql.tokens import statement_spans
from tests.harness.doc_blocks import SQL_BLOCKS
from tests.harness.topics import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.kafka_broker import Broker
    from tests.harness.topics import Topics

ORDER = '{"id": 1, "currency": "EUR", "amount": 2.0, "ordered_at": "2030-01-01T00:00:00Z"}'
RECORDS = {
    "orders": [Record(ORDER)],
    "rates": [Record('{"rate": 1.5}', "EUR")],
    "inventory.customers": [Record('{"after": {"id": 1, "name": "a", "city": "b"}, "op": "c", "ts_ms": 1}')],
    "totals": [],
}


def run(spark: SparkSession, kind: str, address: str = "") -> SparkSession:
    """All blocks of a kind, in a database of their own."""
    session = spark.newSession()
    session.sql(f"CREATE DATABASE docs_{kind}")
    session.sql(f"USE docs_{kind}")
    for block in SQL_BLOCKS:
        if block.kind == kind:
            text = block.text.replace("localhost:9092", address)
            for span in statement_spans(text):
                session.sql(span.of(text)).collect()
    return session


@pytest.mark.full
@pytest.mark.kafka
def test_the_examples_of_kafka_run(spark: SparkSession, broker: Broker, topics: Topics) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in RECORDS]).values():
        made.result(60)
    for name, records in RECORDS.items():
        topics.write(name, *records)
    session = run(spark, "kafka", broker.address)
    assert [tuple(row) for row in session.sql("SELECT * FROM priced").collect()] == [(1, 3.0)]
    assert [tuple(row) for row in session.sql("SELECT * FROM customers").collect()] == [(1, "a", "b")]
    assert [record.key for record in topics.read("totals")] == ["EUR"]


@pytest.mark.full
@pytest.mark.delta
def test_the_examples_of_delta_run(spark: SparkSession) -> None:
    session = run(spark, "delta")
    assert session.sql("SELECT * FROM priced").count() == 0


@pytest.mark.full
@pytest.mark.iceberg
def test_the_examples_of_iceberg_run(spark: SparkSession) -> None:
    session = run(spark, "iceberg")
    assert session.sql("SELECT * FROM iceberg.shop.priced").count() == 0
