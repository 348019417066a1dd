"""Brokers that go and come back: nothing is lost, nothing is there twice, and what is wrong is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sqlx.errors import TemporalSqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.kafka_broker import Broker
    from tests.harness.topics import Topics

pytestmark = pytest.mark.kafka

NOW = "TRIGGER (AVAILABLE NOW)"
#: How long Spark waits for a broker that is away: as short as it may be, the test waits as long.
IMPATIENT = {
    "kafka__request__timeout__ms": "1000",
    "kafka__default__api__timeout__ms": "2000",
    "fetchOffset__numRetries": "1",
}
IMPATIENT_TO_WRITE = {
    "kafka__delivery__timeout__ms": "3000",
    "kafka__request__timeout__ms": "1000",
    "kafka__max__block__ms": "3000",
}


@pytest.mark.full
def test_every_row_is_there_once_over_crashes_of_the_broker_and_the_query(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    from benchmarks.kafka import Run

    run = Run(spark, broker, 50_000, tmp_path)
    run.run()
    assert run.starts == 2


def test_a_lost_broker_is_said_and_nothing_is_lost(
    spark: SparkSession, broker: Broker, topics: Topics, source: Callable[..., str]
) -> None:
    from tests.harness.topics import Record

    topic = topics.make(Record('{"id": 1}'))
    text = f"CREATE STREAMING TABLE kf_rows {NOW} AS SELECT id FROM kf_stream"
    spark.sql(f"CREATE TEMPORARY STREAM kf_stream (id INT) {source(topic, **IMPATIENT)}")
    spark.sql(text)
    topics.write(topic, Record('{"id": 2}'))
    broker.kill()
    try:
        with pytest.raises(TemporalSqlError) as failed:
            spark.sql(text)
    finally:
        broker.start()
    assert failed.value.getCondition() == "KAFKA.UNREACHABLE"
    assert "HINT: Start the same statement again" in str(failed.value)
    spark.sql(text)
    assert sorted(row[0] for row in spark.sql("SELECT id FROM kf_rows").collect()) == [1, 2]


@pytest.mark.full
@pytest.mark.parametrize("late", ["", " LATE TO kf_late"])
def test_a_lost_broker_of_a_sink_is_said_and_nothing_is_lost(
    spark: SparkSession, broker: Broker, topics: Topics, late: str
) -> None:
    topic, name = topics.make(), f"kf_sent{len(late)}"
    spark.sql(f"CREATE TABLE {name}_source (id INT, ts TIMESTAMP) USING parquet")
    spark.sql(f"CREATE STREAM {name}_rows FROM {name}_source TIMESTAMP BY ts")
    text = (
        f"CREATE STREAMING TABLE {name} {topics.into(topic, **IMPATIENT_TO_WRITE)} {NOW} TASKS 1 AS "
        f"SELECT id FROM {name}_rows DEDUPLICATE WITHIN INTERVAL 10 SECONDS BY (id){late}"
    )
    spark.sql(f"INSERT INTO {name}_source VALUES (1, TIMESTAMP'2024-01-01 00:00:01')")
    spark.sql(text)
    spark.sql(f"INSERT INTO {name}_source VALUES (2, TIMESTAMP'2024-01-01 00:00:02')")
    broker.kill()
    try:
        with pytest.raises(TemporalSqlError) as failed:
            spark.sql(text)
    finally:
        broker.start()
    assert failed.value.getCondition() == "KAFKA.UNREACHABLE"
    spark.sql(text)
    assert [record.value for record in topics.read(topic)] == ['{"id":1}', '{"id":2}']


def test_a_topic_that_is_not_there_is_said(spark: SparkSession, source: Callable[..., str]) -> None:
    spark.sql(f"CREATE TEMPORARY STREAM kf_none (id INT) {source('nothing', **IMPATIENT)}")
    with pytest.raises(TemporalSqlError) as failed:
        spark.sql(f"CREATE STREAMING TABLE kf_never {NOW} AS SELECT id FROM kf_none")
    assert failed.value.getCondition() == "KAFKA.NO_TOPIC"
