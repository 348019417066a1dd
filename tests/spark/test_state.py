"""state('query'): what a streaming query keeps, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlx.errors import TemporalSqlError
from sqlx.streaming.registry import registry
from tests.harness.releases import since

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = "TRIGGER (AVAILABLE NOW)"


def _times(*seconds: int) -> pa.Array:
    return pa.array([second * 1_000_000 for second in seconds], pa.timestamp("us", tz="UTC"))


def _at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC).replace(tzinfo=None)


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("state")
    (made / "orders").mkdir()
    (made / "rates").mkdir()
    orders = {"id": [1, 2], "ccy": ["EUR", "USD"], "ts": _times(3, 40)}
    pq.write_table(pa.table(orders), made / "orders/a.parquet")
    rates = {
        "ccy": ["EUR", "EUR", "USD", "USD"],
        "rate": [1.1, 1.2, 0.9, None],
        "gone": [False, False, False, True],
        "ts": _times(1, 5, 2, 4),
    }
    pq.write_table(pa.table(rates), made / "rates/a.parquet")
    spark.sql(
        "CREATE TEMPORARY STREAM state_orders (id BIGINT, ccy STRING, ts TIMESTAMP) USING parquet "
        f"OPTIONS (path '{made}/orders') TIMESTAMP BY ts"
    )
    for kind, name in (("VERSIONED", "state_rates"), ("UPSERT", "state_latest")):
        spark.sql(
            f"CREATE TEMPORARY {kind} TABLE {name} (ccy STRING, rate DOUBLE, gone BOOLEAN, ts TIMESTAMP) "
            f"USING parquet OPTIONS (path '{made}/rates') KEYS (ccy) TIMESTAMP BY ts APPLY AS DELETE WHEN gone"
        )
    yield made
    spark.sql("DROP STREAM state_orders")
    for name in ("VERSIONED TABLE state_rates", "UPSERT TABLE state_latest"):
        spark.sql(f"DROP {name}")


def _started(spark: SparkSession, folder: Path, name: str, query: str) -> str:
    checkpoint = str(folder / f"checkpoint_{name}")
    spark.sql(f"CREATE STREAMING TABLE {name} USING noop CHECKPOINT '{checkpoint}' {NOW} AS {query}")
    return checkpoint


def _state(spark: SparkSession, name: str) -> list[Any]:
    rows = spark.sql(f"SELECT operator, kept, key, value, valid_from, valid_to FROM state('{name}')").collect()
    return sorted((tuple(row) for row in rows), key=str)


JOIN = (
    "SELECT o.id, r.rate FROM state_orders o JOIN state_rates r AS OF o.ts ON o.ccy = r.ccy "
    "GRACE PERIOD INTERVAL 20 SECONDS"
)
VERSIONS = [
    ("as_of_join_1", "versions", '{"ccy": "EUR"}', '{"rate": 1.1}', _at(1), _at(5)),
    ("as_of_join_1", "versions", '{"ccy": "EUR"}', '{"rate": 1.2}', _at(5), None),
    ("as_of_join_1", "versions", '{"ccy": "USD"}', '{"rate": 0.9}', _at(2), _at(4)),
]
WAITING = [
    ("as_of_join_1", "waiting", '{"ccy": "EUR"}', '{"id": 1}', _at(3), None),
    ("as_of_join_1", "waiting", '{"ccy": "USD"}', '{"id": 2}', _at(40), None),
]


@since((4, 1), "fields of a VARIANT after a colon")
def test_versions_of_a_join_end_when_the_next_begins(spark: SparkSession, folder: Path) -> None:
    checkpoint = _started(spark, folder, "state_join", JOIN)
    assert _state(spark, "state_join") == [*VERSIONS, *WAITING]
    registry(spark.sparkContext).forget("state_join")  # as of a process that has gone
    assert _state(spark, checkpoint) == [*VERSIONS, *WAITING]
    found = spark.sql(
        f"SELECT s.operator, parse_json(s.value):rate::double FROM state('{checkpoint}') AS s "
        "JOIN state_orders o ON parse_json(s.key):ccy::string = o.ccy AND s.valid_to IS NULL AND s.kept = 'versions'"
    )
    assert [tuple(row) for row in found.collect()] == [("as_of_join_1", 1.2)]


QUERIES = {
    "state_lookup": (
        "SELECT o.id, u.rate FROM state_orders o JOIN state_latest u ON o.ccy = u.ccy",
        [("table_lookup_1", "rows", '{"ccy": "EUR"}', '{"rate": 1.2}', None, None)],
    ),
    "state_once": (
        "SELECT * FROM state_orders DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (ccy)",
        [
            ("deduplicate_1", "entries", '{"ccy": "EUR"}', None, _at(3), None),
            ("deduplicate_1", "entries", '{"ccy": "USD"}', None, _at(40), None),
        ],
    ),
    "state_both": (
        "SELECT r.ccy, r.rate, u.rate AS latest FROM state_rates r JOIN state_latest u ON r.ccy = u.ccy",
        [
            ("table_join_3", "left", '{"ccy": "EUR"}', '{"ccy": "EUR", "rate": 1.2}', _at(5), None),
            ("table_join_3", "right", '{"ccy": "EUR"}', '{"rate": 1.2}', _at(5), None),
        ],
    ),
}


@pytest.mark.parametrize(
    "name",
    ["state_once", *(pytest.param(name, marks=pytest.mark.full) for name in QUERIES if name != "state_once")],
)
def test_each_operator_shows_what_it_keeps(spark: SparkSession, folder: Path, name: str) -> None:
    query, expected = QUERIES[name]
    _started(spark, folder, name, query)
    assert _state(spark, name) == expected


@pytest.mark.full
def test_what_is_kept_record_by_record_is_one_text_a_task(spark: SparkSession, folder: Path) -> None:
    query = "SELECT ccy, count(*) AS n, stddev(rate) AS m FROM state_latest GROUP BY ccy EMIT CHANGES"
    _started(spark, folder, "state_groups", query)
    found = spark.sql("SELECT key, value FROM state('state_groups') WHERE kept = 'state'").collect()
    groups = [group for key, value in found for group in json.loads(value)["groups"] if key is None]
    assert sorted((key, count) for (key,), _, count, *_ in groups) == [("EUR", 1), ("USD", 0)]


def test_a_state_that_cannot_be_shown_says_why(spark: SparkSession, folder: Path) -> None:
    checkpoint = _started(spark, folder, "state_other", JOIN.replace("20 SECONDS", "30 SECONDS"))
    for text, condition in (
        ("SELECT * FROM state('state_othre')", "STREAMING.NO_STATE"),
        ("SELECT * FROM state(state_other)", "BIND.STATE_NAME"),
        ("SELECT * FROM state('/nowhere/at/all')", "STREAMING.NO_STATE"),
    ):
        with pytest.raises(TemporalSqlError) as refused:
            spark.sql(text)
        assert refused.value.getCondition() == condition
        assert "^^^" in str(refused.value)
    stored = Path(checkpoint) / "_sqlx.json"
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "fingerprint": "another"}))
    with pytest.raises(TemporalSqlError, match="Checksum error") as refused:
        spark.sql(f"SELECT * FROM state('{checkpoint}')")
    assert refused.value.getCondition() == "STREAMING.CHECKPOINT_CORRUPT"
    (stored.parent / "._sqlx.json.crc").unlink()
    with pytest.raises(TemporalSqlError, match="belongs to other operators"):
        spark.sql(f"SELECT * FROM state('{checkpoint}')")


def test_a_column_or_function_of_that_name_stays_what_it_is(spark: SparkSession) -> None:
    assert spark.sql("SELECT state FROM VALUES ('ok') AS t(state)").first() == ("ok",)
    with pytest.raises(Exception, match=r"UNRESOLVED_ROUTINE|cannot be resolved|Cannot resolve"):
        spark.sql("SELECT state('x')").collect()
