"""VERIFY BATCH = STREAM in a session, and `sqlx verify`: over rows as they were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import sqlx.cli.start
from sqlx.cli.app import app
from sqlx.errors import TemporalSqlError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOIN = "SELECT o.id, r.rate FROM STREAM vf_orders o LEFT JOIN vf_rates r AS OF o.ts ON o.ccy = r.ccy"
DROPS = (
    "STREAM vf_orders",
    "VERSIONED TABLE vf_rates",
    "VERSIONED TABLE vf_totals",
    "VERSIONED TABLE vf_counts",
    "STREAM vf_places",
    "STREAM vf_kinds",
)


@pytest.fixture(scope="module")
def recorded(spark: SparkSession) -> Iterator[SparkSession]:
    """Orders and rates in their order of arrival; the second rate comes two minutes late, behind two orders."""
    spark.sql("CREATE STREAM vf_orders (id INT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts")
    spark.sql("CREATE VERSIONED TABLE vf_rates (ccy STRING, rate INT, ts TIMESTAMP) KEYS (ccy) TIMESTAMP BY ts")
    for table, values in (
        ("vf_rates", "('EUR', 110, TIMESTAMP'2026-01-01 10:00:00')"),
        ("vf_orders", "(1, 'EUR', TIMESTAMP'2026-01-01 10:05:00')"),
        ("vf_orders", "(2, 'EUR', TIMESTAMP'2026-01-01 10:06:00')"),
        ("vf_rates", "('EUR', 120, TIMESTAMP'2026-01-01 10:04:00')"),
        ("vf_orders", "(3, 'EUR', TIMESTAMP'2026-01-01 10:08:00')"),
    ):
        spark.sql(f"INSERT INTO {table} VALUES {values}")
    yield spark
    for name in DROPS:
        spark.sql(f"DROP {name.rsplit(' ', 1)[0]} IF EXISTS {name.rsplit(' ', 1)[1]}")


def verified(spark: SparkSession, query: str) -> list[tuple[str, str, int, str | None]]:
    found = spark.sql(f"VERIFY BATCH = STREAM {query}").collect()
    return [(row.arrivals, row.verdict, row.rows, row.row) for row in found]


def test_a_late_version_is_found_and_a_grace_takes_it(recorded: SparkSession) -> None:
    assert verified(recorded, JOIN) == [
        ("as recorded", "only in batch", 1, '{"id": 1, "rate": 120}'),
        ("as recorded", "only in batch", 1, '{"id": 2, "rate": 120}'),
        ("as recorded", "only in stream", 1, '{"id": 1, "rate": 110}'),
        ("as recorded", "only in stream", 1, '{"id": 2, "rate": 110}'),
    ]
    why = recorded.sql(f"VERIFY BATCH = STREAM {JOIN}").first().why
    assert why.endswith("They came up to 2 minutes late: GRACE PERIOD INTERVAL '2' MINUTES waits.")
    same = verified(recorded, f"{JOIN} GRACE PERIOD INTERVAL '2' MINUTES SHUFFLE ARRIVALS 2;")
    assert same == [(order, "same", 3, None) for order in ("as recorded", "shuffled 1", "shuffled 2")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ccy, count(*) AS n FROM default.vf_orders GROUP BY ccy, window(ts, '1 minute')"
        " GRACE PERIOD INTERVAL 1 MINUTE EMIT FINAL",
        "SELECT ccy, count(*) AS n, max(ts) AS last FROM vf_orders GROUP BY ccy EMIT CHANGES",
        pytest.param("SELECT ccy, avg(rate) AS mean FROM vf_rates GROUP BY ccy", marks=pytest.mark.full),
        pytest.param("SELECT * FROM vf_orders DEDUPLICATE WITHIN INTERVAL 1 DAY BY (ccy)", marks=pytest.mark.full),
        pytest.param(
            "WITH big AS (SELECT * FROM vf_orders WHERE id > 1) SELECT b.id, r.rate FROM big b JOIN vf_rates r"
            " AS OF b.ts ON b.ccy = r.ccy GRACE PERIOD INTERVAL 2 MINUTES",
            marks=pytest.mark.full,
        ),
    ],
)
def test_other_operators_answer_alike(recorded: SparkSession, query: str) -> None:
    assert {verdict for _, verdict, _, _ in verified(recorded, f"{query} SHUFFLE ARRIVALS 2")} == {"same"}


def test_definitions_over_others_and_with_a_sequence(recorded: SparkSession) -> None:
    recorded.sql(
        "CREATE VERSIONED TABLE vf_totals KEYS (ccy) TIMESTAMP BY ts AS "
        "SELECT ccy, rate * 2 AS rate, ts FROM vf_rates WHERE rate > 0"
    )
    recorded.sql("CREATE STREAM vf_places (id INT, n BIGINT, ccy STRING, ts TIMESTAMP) TIMESTAMP BY ts SEQUENCE BY n")
    recorded.sql(
        "INSERT INTO vf_places VALUES (1, 2, 'EUR', TIMESTAMP'2026-01-01 10:05:00'),"
        " (2, 1, 'EUR', TIMESTAMP'2026-01-01 10:05:00')"
    )
    join = "SELECT p.id, t.rate FROM vf_places p JOIN vf_totals t AS OF p.ts ON p.ccy = t.ccy"
    assert verified(recorded, join) == [("by event time", "same", 2, None)]  # no clock is common to both
    once = "SELECT id FROM vf_places DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (ccy)"
    assert verified(recorded, once) == [("as recorded", "same", 1, None)]


def test_groups_behind_a_definition_change_while_the_stream_goes_on(recorded: SparkSession) -> None:
    recorded.sql(
        "CREATE VERSIONED TABLE vf_counts KEYS (ccy) TIMESTAMP BY at AS "
        "SELECT ccy, count(*) AS n, max(ts) AS at FROM vf_orders GROUP BY ccy"
    )
    found = verified(recorded, "SELECT o.id, c.n FROM vf_orders o JOIN vf_counts c AS OF o.ts ON o.ccy = c.ccy")
    assert ("as recorded", "only in stream", 1, '{"id": 1, "n": 1}') in found  # bounded there is the last version alone
    counted = "SELECT n, count(*) AS currencies FROM vf_counts GROUP BY n EMIT CHANGES"
    assert verified(recorded, counted) == [("as recorded", "same", 1, None)]


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT * FROM range(3)", "VERIFY.READS_NOTHING"),
        ("SELECT * FROM vf_orders o JOIN vf_orders__log l ON o.id = l.id", "VERIFY.NOT_RECORDED"),
        (JOIN.replace("o.id", "o.nope"), "BIND.UNKNOWN_COLUMN"),
        (JOIN.replace("vf_rates", "vf_rate"), "BIND.UNKNOWN_RELATION"),
    ],
)
def test_what_cannot_be_verified_has_a_caret(recorded: SparkSession, query: str, condition: str) -> None:
    with pytest.raises(TemporalSqlError) as refused:
        recorded.sql(f"VERIFY BATCH = STREAM {query}")
    assert refused.value.condition == condition
    assert "LINE 1: VERIFY BATCH = STREAM" in str(refused.value)
    assert "^^^" in str(refused.value)


def test_how_many_rows_are_replayed_is_bounded(recorded: SparkSession) -> None:
    recorded.conf.set("sqlx.verify.rows", "2")
    try:
        with pytest.raises(TemporalSqlError, match=r"VERIFY\.TOO_MANY_ROWS.*at most 2 rows"):
            recorded.sql(f"VERIFY BATCH = STREAM {JOIN}")
    finally:
        recorded.conf.unset("sqlx.verify.rows")


def test_the_command(recorded: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "stop", lambda: None)
    monkeypatch.setattr(sqlx.cli.start, "_start", lambda *_: recorded)
    script = tmp_path / "verified.sql"
    script.write_text(
        f"SET x = 1;\nCREATE STREAMING TABLE vf_t AS {JOIN} GRACE PERIOD INTERVAL '2' MINUTES;\n", encoding="utf-8"
    )
    same = CliRunner().invoke(app, ["verify", str(script), "--shuffle", "1"])
    assert (same.exit_code, same.stdout.count(" same ")) == (0, 2), same.output
    differs = CliRunner().invoke(app, ["verify", "-e", JOIN, "--shuffle", "0"])
    assert (differs.exit_code, differs.stdout.count("only in batch")) == (1, 2), differs.output
    nothing = CliRunner().invoke(app, ["verify", "-e", "SET x = 1"])
    assert (nothing.exit_code, "There is nothing to verify" in nothing.stderr) == (1, True)
