"""Definitions over topics of a real broker: bounded and live, with every format, tombstones and change events."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming.registry import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.harness.topics import Record, Topics

pytestmark = pytest.mark.kafka

NOW = "TRIGGER (AVAILABLE NOW)"
Rows = Callable[[str], list[Any]]
Source = Callable[..., str]


def record(row: Any, key: str | None = None, **facts: int) -> Record:
    from tests.harness.topics import Record

    return Record(row if row is None or isinstance(row, str | bytes) else json.dumps(row), key, **facts)


def rate(value: float, second: int, key: str = "EUR", **facts: int) -> Record:
    return record({"rate": value, "ts": f"2024-01-01T00:00:{second:02}Z"}, key, **facts)


def at(second: int) -> datetime:
    return datetime(2024, 1, 1, 0, 0, second)


def test_a_stream_is_read_bounded_and_live(spark: SparkSession, topics: Topics, source: Source, rows: Rows) -> None:
    orders = topics.make(record({"id": 1, "note": "a"}, timestamp_ms=1000), record({"id": 2}), partitions=2)
    spark.sql(f"CREATE STREAM k_orders (id INT, note STRING) {source(orders)}")
    assert rows("SELECT * FROM k_orders") == [(1, "a"), (2, None)]
    spark.sql(f"CREATE STREAMING TABLE k_copied {NOW} AS SELECT * FROM k_orders")
    topics.write(orders, record({"id": 3}, partition=1))
    spark.sql(f"CREATE STREAMING TABLE k_copied {NOW} AS SELECT * FROM k_orders")
    assert rows("SELECT * FROM k_copied") == [(1, "a"), (2, None), (3, None)]
    listed = spark.sql("SHOW STREAMS").where("name = 'k_orders'").collect()[0]
    assert listed.timestamp_by == "__kafka.time"


def test_a_quiet_topic_does_not_wait_for_its_next_record_unless_it_is_told_to(
    spark: SparkSession, topics: Topics, source: Source
) -> None:
    orders = topics.make(record({"id": 1}))
    for options, expected in (({}, "5"), ({"kafka__Fetch__max__wait__ms": "70"}, "70")):
        spark.sql(f"CREATE OR REPLACE STREAM k_orders (id INT) {source(orders, **options)}")
        read: Any = spark.sql("SELECT * FROM STREAM k_orders")._jdf.queryExecution().analyzed().collectLeaves().head()
        assert read.extraOptions().get("kafka.fetch.max.wait.ms") == expected


@pytest.mark.full
def test_a_stream_without_timestamp_by_has_the_times_of_its_records(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    rates = topics.make(rate(1.1, 1), rate(1.2, 5))
    orders = topics.make(*(record({"id": n}, "EUR", timestamp_ms=1704067200000 + n * 1000) for n in (2, 4, 6)))
    spark.sql(
        f"CREATE VERSIONED TABLE k_rates (ccy STRING, rate DOUBLE, ts TIMESTAMP) {source(rates)}"
        " KEYS (ccy) TIMESTAMP BY ts"
    )
    spark.sql(f"CREATE STREAM k_sent (id INT, ccy STRING) {source(orders, key__columns='ccy')} TIMESTAMP BY timestamp")
    query = "SELECT o.id, r.rate FROM k_sent o JOIN k_rates r AS OF o.ts ON o.ccy = r.ccy"
    # The record's time is no column; a definition over the stream may name it.
    spark.sql(
        "CREATE STREAM k_timed TIMESTAMP BY ts AS SELECT id, ccy, timestamp_seconds(1704067200 + id) ts FROM k_sent"
    )
    assert rows(query.replace("k_sent", "k_timed")) == [(2, 1.1), (4, 1.1), (6, 1.2)]


@pytest.mark.full
def test_a_query_may_read_a_topic_more_than_once(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    """By itself, and through definitions: each reader counts what it passes over."""
    sent = topics.make(
        *(record({"id": n, "k": "a", "ts": f"2024-01-01T00:00:0{n}Z"}) for n in (1, 2, 3, 4)), record("{bad")
    )
    columns = "(id INT, k STRING, ts TIMESTAMP)"
    spark.sql(f"CREATE STREAM k_all {columns} {source(sent, mode='DROPMALFORMED')} TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE k_even KEYS (k) TIMESTAMP BY ts AS SELECT id, k, ts FROM k_all WHERE id % 2 = 0")
    query = "SELECT o.id, e.id AS even FROM k_all o LEFT JOIN k_even e AS OF o.ts ON o.k = e.k"
    spark.sql(f"CREATE STREAMING TABLE k_beside {NOW} AS {query}")
    assert rows("SELECT * FROM k_beside") == rows(query) == [(1, None), (2, 2), (3, 2), (4, 4)]


def test_a_live_as_of_join_into_parquet_sees_tombstones(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    rates = topics.make(
        rate(1.1, 10, timestamp_ms=1704067210000),
        record(None, "EUR", timestamp_ms=1704067220000),
        rate(1.3, 30, timestamp_ms=1704067230000),
        rate(9.0, 5, "USD", partition=1, timestamp_ms=1704067205000),
        partitions=2,
        **{"cleanup.policy": "compact"},
    )
    orders = topics.make(
        *(record({"id": n, "ccy": c, "ts": f"2024-01-01T00:00:{n:02}Z"}) for n, c in ((12, "EUR"), (25, "EUR"))),
        *(record({"id": n, "ccy": c, "ts": f"2024-01-01T00:00:{n:02}Z"}) for n, c in ((26, "USD"), (35, "EUR"))),
    )
    spark.sql(
        f"CREATE VERSIONED TABLE k_prices (ccy STRING, rate DOUBLE, ts TIMESTAMP) {source(rates)}"
        " KEYS (ccy) TIMESTAMP BY ts HISTORY RETENTION INTERVAL 1 DAY"
    )
    spark.sql(f"CREATE STREAM k_buys (id INT, ccy STRING, ts TIMESTAMP) {source(orders)} TIMESTAMP BY ts")
    query = (
        "SELECT o.id, r.rate, match_reason FROM k_buys o LEFT JOIN k_prices r AS OF o.ts ON o.ccy = r.ccy WITH REASON"
    )
    expected = [(12, 1.1, None), (25, None, "tombstone"), (26, 9.0, None), (35, 1.3, None)]
    spark.sql(f"CREATE STREAMING TABLE k_priced {NOW} AS {query}")
    assert rows("SELECT * FROM k_priced") == expected
    assert rows(query) == expected
    assert rows("SELECT ccy, rate FROM k_prices") == [("EUR", 1.3), ("USD", 9.0)]
    history = rows("SELECT ccy, rate, valid_from, valid_to FROM history(k_prices) WHERE ccy = 'EUR'")
    assert history == [("EUR", 1.1, at(10), at(20)), ("EUR", 1.3, at(30), None)]


@pytest.mark.full
def test_the_last_offset_wins_in_an_upsert_table(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    topic = topics.make(rate(2.0, 20), rate(1.0, 10), rate(5.0, 5, "USD", partition=1), partitions=2)
    spark.sql(
        f"CREATE UPSERT TABLE k_last (ccy STRING, rate DOUBLE, ts TIMESTAMP) {source(topic)} KEYS (ccy) TIMESTAMP BY ts"
    )
    assert rows("SELECT ccy, rate FROM k_last") == [("EUR", 1.0), ("USD", 5.0)]
    spark.sql(f"CREATE STREAMING TABLE k_changes {NOW} AS SELECT ccy, rate FROM k_last EMIT CHANGES AS CHANGELOG")
    assert rows("SELECT * FROM k_changes") == [
        ("EUR", 1.0, "update_after"),
        ("EUR", 2.0, "insert"),
        ("EUR", 2.0, "update_before"),
        ("USD", 5.0, "insert"),
    ]


def change(op: str, before: Any, after: Any, ms: int, **envelope: Any) -> Any:
    event = {"before": before, "after": after, "op": op, "ts_ms": ms + 7, "source": {"ts_ms": ms, "table": "t"}}
    return {"schema": {"type": "struct"}, "payload": event} if envelope else event


def test_change_events_of_debezium_are_a_table(spark: SparkSession, topics: Topics, source: Source, rows: Rows) -> None:
    one, two = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
    topic = topics.make(
        record(change("r", None, one, 1704067201000), '{"id": 1}'),
        record(change("c", None, two, 1704067202000, schema=True), '{"id": 2}'),
        record(change("u", one, {"id": 1, "name": "z"}, 1704067203000), '{"id": 1}'),
        record(change("d", two, None, 1704067204000, schema=True), '{"id": 2}'),
        record(None, '{"id": 2}'),
    )
    spark.sql(f"CREATE VERSIONED TABLE k_people (id INT, name STRING) {source(topic, 'debezium-json')} KEYS (id)")
    assert rows("SELECT * FROM k_people") == [(1, "z")]
    assert rows("SELECT id, name, valid_from, valid_to FROM history(k_people)") == [
        (1, "a", at(1), at(3)),
        (1, "z", at(3), None),
        (2, "b", at(2), at(4)),
    ]
    spark.sql(f"CREATE UPSERT TABLE k_now (id INT, name STRING) {source(topic, 'debezium-json')} KEYS (id)")
    spark.sql(f"CREATE STREAMING TABLE k_cdc {NOW} AS SELECT id, name FROM k_now EMIT CHANGES")
    assert [row[2] for row in rows("SELECT * FROM k_cdc WHERE id = 2")] == ["insert", "delete"]
    assert rows("SELECT name, _change_type FROM k_cdc WHERE id = 1") == [("a", "insert"), ("z", "update_after")]


@pytest.mark.full
def test_avro_and_text(spark: SparkSession, topics: Topics, source: Source, rows: Rows) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": ["null", "string"]}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    packed = spark.range(2).selectExpr(f"to_avro(named_struct('id', CAST(id AS INT), 'name', 'x'), '{schema}')")
    topic = topics.make(*(record(bytes(row[0]), str(n)) for n, row in enumerate(packed.collect())))
    options = {"value__schema": schema, "key__columns": "k"}
    spark.sql(f"CREATE TEMPORARY STREAM k_avro (k BIGINT, id BIGINT, name STRING) {source(topic, 'avro', **options)}")
    assert rows("SELECT * FROM k_avro") == [(0, 0, "x"), (1, 1, "x")]
    text = topics.make(record("5", "a"), record("7", "b"), record(None, "a"))
    spark.sql(f"CREATE TEMPORARY UPSERT TABLE k_text (k STRING, n INT) {source(text, 'string')} KEYS (k)")
    assert rows("SELECT * FROM k_text") == [("b", 7)]
    spark.sql(f"CREATE STREAMING TABLE k_both {NOW} AS SELECT k, n FROM k_text EMIT CHANGES")
    assert rows("SELECT * FROM k_both") == [("a", 5, "insert"), ("a", None, "delete"), ("b", 7, "insert")]


@pytest.mark.full
def test_offsets_may_be_the_sequence(spark: SparkSession, topics: Topics, source: Source, rows: Rows) -> None:
    topic = topics.make(rate(1.0, 1), rate(2.0, 1))
    spark.sql(
        f"CREATE STREAM k_numbered (rate DOUBLE, ts TIMESTAMP) {source(topic)} TIMESTAMP BY ts SEQUENCE BY offset"
    )
    query = "SELECT rate FROM k_numbered DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (ts)"
    assert rows(query) == [(1.0,)]
    spark.sql(f"CREATE STREAMING TABLE k_first {NOW} AS {query}")
    assert rows("SELECT * FROM k_first") == [(1.0,)]


@pytest.mark.full
def test_several_topics_are_one_stream(spark: SparkSession, topics: Topics, source: Source, rows: Rows) -> None:
    both = ",".join([topics.make(rate(1.0, 5)), topics.make(rate(2.0, 1), partitions=2)])
    spark.sql(f"CREATE TEMPORARY STREAM k_several (rate DOUBLE, ts TIMESTAMP) {source(both)} TIMESTAMP BY ts")
    query = "SELECT rate FROM k_several DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (rate > 0)"
    assert rows("SELECT rate FROM k_several") == [(1.0,), (2.0,)]
    spark.sql(f"CREATE STREAMING TABLE k_earliest {NOW} AS {query}")
    assert rows("SELECT * FROM k_earliest") == rows(query) == [(2.0,)]


@pytest.mark.full
def test_topics_in_a_union_are_merged_as_the_partitions_of_one(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    for name, topic in (
        ("k_one", topics.make(rate(1.0, 5), rate(3.0, 30))),
        ("k_two", topics.make(rate(2.0, 1), rate(4.0, 20))),
    ):
        spark.sql(f"CREATE STREAM {name} (rate DOUBLE, ts TIMESTAMP) {source(topic)} TIMESTAMP BY ts")
    both = "(SELECT rate FROM k_one UNION ALL SELECT rate FROM k_two)"
    query = f"SELECT rate FROM {both} DEDUPLICATE WITHIN INTERVAL 10 SECONDS BY (rate > 0)"
    spark.sql(f"CREATE STREAMING TABLE k_merged {NOW} AS {query}")
    assert rows("SELECT * FROM k_merged") == rows(query) == [(2.0,), (4.0,)]


BROKEN = [{"id": 1}, "{broken", {"id": "x"}, "[]", "5", {"id": 2}]


def test_a_record_that_cannot_be_read_stops_the_query(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    topic = topics.make(*(record(row) for row in BROKEN))
    spark.sql(f"CREATE TEMPORARY STREAM k_strict (id INT) {source(topic)}")
    with pytest.raises(TemporalSqlError) as failed:
        spark.sql(f"CREATE STREAMING TABLE k_never {NOW} AS SELECT id FROM k_strict")
    message = str(failed.value)
    assert failed.value.getCondition() == "KAFKA.MALFORMED_RECORD"
    assert f"topic {topic} partition 0 offset 1 is no json: {{broken" in message
    with pytest.raises(Exception, match=rf"topic {topic} partition 0 offset 1"):
        spark.sql("SELECT count(*) FROM k_strict").collect()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("DROPMALFORMED", [(1, None), (2, None)]),
        ("PERMISSIVE", [(1, None), (2, None), (None, "5"), (None, "[]"), (None, "{broken"), (None, '{"id": "x"}')]),
    ],
)
def test_records_that_cannot_be_read_are_counted(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows, mode: str, expected: list[Any]
) -> None:
    topic = topics.make(*(record(row) for row in BROKEN))
    name = f"k_{mode.lower()}"
    spark.sql(f"CREATE TEMPORARY STREAM {name} (id INT, _corrupt_record STRING) {source(topic, mode=mode)}")
    assert sorted(rows(f"SELECT * FROM {name}"), key=repr) == sorted(expected, key=repr)
    spark.sql(f"CREATE STREAMING TABLE {name}_copy {NOW} AS SELECT * FROM {name}")
    assert len(rows(f"SELECT * FROM {name}_copy")) == len(expected)
    query = registry(spark.sparkContext).find(f"{name}_copy")
    assert query is not None
    assert query.refresh().observed[f"kafka_{name}"] == {"read": 6, "malformed": 4}


def test_a_definition_is_dropped_with_what_was_made_for_it(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    topic = topics.make(record({"id": 1}))
    spark.sql(f"CREATE STREAM k_gone (id INT) {source(topic)}")
    spark.sql(f"CREATE OR REPLACE STREAM k_gone (id BIGINT) {source(topic)}")
    assert spark.table("k_gone").dtypes == [("id", "bigint")]
    assert rows("SHOW TABLES LIKE 'k_gone*'") == [("default", "k_gone", False), ("default", "k_gone__topic", False)]
    spark.sql("DROP STREAM k_gone")
    assert rows("SHOW TABLES LIKE 'k_gone*'") == []


def test_an_archive_then_the_topic_in_one_statement(
    spark: SparkSession, topics: Topics, source: Source, rows: Rows
) -> None:
    spark.sql(
        "CREATE TABLE k_archive USING parquet AS SELECT CAST(id AS INT) AS id, 'EUR' AS ccy,"
        " timestampadd(SECOND, id, TIMESTAMP'2024-01-01 00:00:00') AS ts FROM range(1, 20)"
    )
    rates = topics.make(rate(1.1, 1), record(None, "EUR", timestamp_ms=1704067210000), rate(1.3, 15))
    kept = [record({"id": n, "ccy": "EUR", "ts": f"2024-01-01T00:00:{n:02}Z"}, partition=n % 2) for n in range(12, 25)]
    orders = topics.make(*kept, partitions=2)
    spark.sql(
        f"CREATE VERSIONED TABLE k_old_rates (ccy STRING, rate DOUBLE, ts TIMESTAMP) {source(rates)}"
        " KEYS (ccy) TIMESTAMP BY ts HISTORY RETENTION INTERVAL 1 DAY"
    )
    spark.sql(f"CREATE STREAM k_later (id INT, ccy STRING, ts TIMESTAMP) {source(orders)} TIMESTAMP BY ts")
    query = "SELECT o.id, r.rate FROM k_later o LEFT JOIN k_old_rates r AS OF o.ts ON o.ccy = r.ccy"
    clause = "BACKFILL FROM k_archive UNTIL TIMESTAMP'2024-01-01 00:00:14'"
    spark.sql(f"CREATE STREAMING TABLE k_whole {NOW} {clause} AS {query}")
    topics.write(orders, record({"id": 30, "ccy": "EUR", "ts": "2024-01-01T00:00:30Z"}))
    spark.sql(f"CREATE STREAMING TABLE k_whole {NOW} {clause} AS {query}")
    versions = {range(1, 10): 1.1, range(10, 15): None, range(15, 31): 1.3}
    expected = [(n, next(v for span, v in versions.items() if n in span)) for n in (*range(1, 25), 30)]
    assert sorted(rows("SELECT * FROM k_whole")) == expected
