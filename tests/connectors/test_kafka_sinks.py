"""Streaming tables that are topics: keys, values, tombstones, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming.sinks import FileSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.topics import Record, Topics

pytestmark = pytest.mark.kafka

NOW = "TRIGGER (AVAILABLE NOW)"
Source = Callable[..., str]


def rows_of(*rows: tuple[str, str | None]) -> list[Record]:
    from tests.harness.topics import Record

    return [Record(value, key) for key, value in rows]


@pytest.fixture
def people(spark: SparkSession, topics: Topics, source: Source) -> str:
    """An upsert table with one row changed and one deleted."""
    topic = topics.make(*rows_of(("1", '{"name": "a"}'), ("2", '{"name": "b"}'), ("1", '{"name": "z"}'), ("2", None)))
    spark.sql(f"CREATE OR REPLACE UPSERT TABLE ks_people (id INT, name STRING) {source(topic)} KEYS (id)")
    return "ks_people"


def test_an_upsert_result_has_its_keys_and_tombstones(spark: SparkSession, topics: Topics, people: str) -> None:
    target = topics.make()
    spark.sql(
        f"CREATE STREAMING TABLE ks_upsert {topics.into(target)} {NOW}"
        f" AS SELECT id, name FROM {people} EMIT CHANGES AS UPSERT"
    )
    found = [(record.key, record.value and json.loads(record.value)) for record in topics.read(target)]
    assert [row for row in found if row[0] == "1"] == [("1", {"id": 1, "name": "a"}), ("1", {"id": 1, "name": "z"})]
    assert [row for row in found if row[0] == "2"] == [("2", {"id": 2, "name": "b"}), ("2", None)]
    assert len(found) == 4


@pytest.mark.full
def test_what_was_written_can_be_read_as_a_table(
    spark: SparkSession, topics: Topics, people: str, source: Source
) -> None:
    target = topics.make()
    options = {"key__format": "json", "key__columns": "id", "value__format": "string"}
    spark.sql(
        f"CREATE STREAMING TABLE ks_text {topics.into(target, **options)} {NOW}"
        f" AS SELECT id, name FROM {people} EMIT CHANGES AS UPSERT"
    )
    back = source(target, "string", key__format="json")
    spark.sql(f"CREATE TEMPORARY UPSERT TABLE ks_back (id INT, name STRING) {back} KEYS (id)")
    assert [tuple(row) for row in spark.sql("SELECT * FROM ks_back").collect()] == [(1, "z")]


@pytest.mark.full
def test_rows_of_a_stream_are_appended_without_a_key(spark: SparkSession, topics: Topics, source: Source) -> None:
    origin, target = topics.make(*rows_of(("k", '{"id": 1}'))), topics.make()
    spark.sql(f"CREATE TEMPORARY STREAM ks_rows (id INT, note STRING) {source(origin)}")
    spark.sql(f"CREATE STREAMING TABLE ks_plain {topics.into(target)} {NOW} AS SELECT id, note FROM ks_rows")
    (record,) = topics.read(target)
    assert (record.key, record.value) == (None, '{"id":1,"note":null}')


def test_a_changelog_says_what_each_record_is(spark: SparkSession, topics: Topics, people: str) -> None:
    target = topics.make()
    spark.sql(
        f"CREATE STREAMING TABLE ks_log {topics.into(target)} {NOW}"
        f" AS SELECT id, name FROM {people} EMIT CHANGES AS CHANGELOG"
    )
    found = [json.loads(str(record.value))["_change_type"] for record in topics.read(target) if record.key == "1"]
    assert found == ["insert", "update_before", "update_after"]


def test_refused_rows_are_kept_once_beside_a_topic(
    spark: SparkSession, topics: Topics, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A micro-batch that fails between the topic and the table is written again: the topic has its records twice."""
    seconds = "2024-01-01T00:00:{:02}Z"
    rows = [("", json.dumps({"id": n, "ts": seconds.format(at)})) for n, at in ((1, 50), (2, 5), (3, 45))]
    origin, target = topics.make(*rows_of(*rows)), topics.make()
    spark.sql(f"CREATE TEMPORARY STREAM ks_clicks (id INT, ts TIMESTAMP) {source(origin)} TIMESTAMP BY ts")
    text = (
        f"CREATE STREAMING TABLE ks_once {topics.into(target)} {NOW} TASKS 1 AS SELECT id FROM ks_clicks "
        "DEDUPLICATE WITHIN INTERVAL 10 SECONDS BY (id) LATE TO ks_late"
    )

    def die(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(FileSink, "write", die)
    with pytest.raises(TemporalSqlError, match="no space left"):
        spark.sql(text)
    monkeypatch.undo()
    spark.sql(text)
    topics.write(origin, *rows_of(("", json.dumps({"id": 4, "ts": seconds.format(9)}))))
    spark.sql(text)
    assert [json.loads(str(record.value))["id"] for record in topics.read(target)] == [1, 3, 1, 3]
    kept = spark.sql("SELECT id, _reason FROM ks_late ORDER BY id").collect()
    assert [tuple(row) for row in kept] == [(2, "late"), (4, "late")]


@pytest.mark.full
def test_avro_values_are_read_back(spark: SparkSession, topics: Topics, people: str, source: Source) -> None:
    target = topics.make()
    fields = [{"name": "id", "type": ["null", "int"]}, {"name": "name", "type": ["null", "string"]}]
    schema = json.dumps({"type": "record", "name": "person", "fields": fields})
    options = {"value__format": "avro", "value__schema": schema}
    spark.sql(
        f"CREATE STREAMING TABLE ks_avro {topics.into(target, **options)} {NOW}"
        f" AS SELECT id, name FROM {people} EMIT CHANGES AS UPSERT"
    )
    back = source(target, "avro", value__schema=schema)
    spark.sql(f"CREATE TEMPORARY UPSERT TABLE ks_packed (id INT, name STRING) {back} KEYS (id)")
    assert [tuple(row) for row in spark.sql("SELECT * FROM ks_packed").collect()] == [(1, "z")]


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ("'topic' 't', 'value.format' 'json'", "KAFKA.OPTION_MISSING"),
        ("'kafka.bootstrap.servers' 'x:1', 'value.format' 'json'", "KAFKA.OPTION_MISSING"),
        ("'kafka.bootstrap.servers' 'x:1', 'topic' 't'", "KAFKA.OPTION_MISSING"),
        ("'kafka.bootstrap.servers' 'x:1', 'topic' 't', 'value.format' 'xml'", "KAFKA.OPTION_VALUE"),
        ("'kafka.bootstrap.servers' 'x:1', 'topic' 't', 'value.format' 'string'", "KAFKA.ONE_COLUMN"),
        ("'kafka.bootstrap.servers' 'x:1', 'topic' 't', 'value.format' 'json', 'key.columns' 'i'", "KAFKA.KEY_COLUMN"),
    ],
)
def test_a_topic_that_cannot_be_written_is_refused(spark: SparkSession, options: str, condition: str) -> None:
    spark.readStream.format("rate").load().createOrReplaceTempView("ks_rate")
    rows = "SELECT value AS id, 1 AS n FROM ks_rate"
    with pytest.raises(TemporalSqlError) as refused:
        spark.sql(f"CREATE STREAMING TABLE ks_never USING kafka OPTIONS ({options}) {NOW} AS {rows}")
    assert refused.value.getCondition() == condition
    assert "HINT: " in str(refused.value)
