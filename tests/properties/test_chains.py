"""Every operator behind every other, with options drawn at random: live on Spark answers as replay does.

The gate runs some seeds, `make test-all` five hundred, and a third of them on each
older PySpark. Source: the law of the house; semantics.md 1.1.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.functions import timestamp_micros

from tests.harness.chains import GATE, INNER, OUTER, deduplicate, program, program_of_groups, sliding, windows
from tests.harness.marks import seeds
from tests.harness.slt_live import check_live

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = 500


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(SEEDS, GATE))
def test_live_is_replay(spark: SparkSession, seed: int) -> None:
    chain = program(seed)
    check_live(spark, chain.text, chain.records, chain.sizes)


#: One for each first operator; both kinds of windows are final results, each in its own way.
THROUGH_DEFINITIONS = (3, 6, 12, 15, 24)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(SEEDS, THROUGH_DEFINITIONS))
def test_a_definition_hands_on_what_its_query_does(spark: SparkSession, seed: int) -> None:
    chain = program(seed, defined=True)
    check_live(spark, chain.text, chain.records, chain.sizes)


#: One for each operator that reads groups, of windows and without.
OF_GROUPS = (0, 1, 2, 74)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", seeds(SEEDS, OF_GROUPS))
def test_groups_of_a_stream_are_a_table(spark: SparkSession, seed: int) -> None:
    chain = program_of_groups(seed)
    check_live(spark, chain.text, chain.records, chain.sizes)


#: A deduplication behind a lookup and behind another one: by time, they would keep other rows.
BOUNDED = (11, 12)
_SCHEMAS = {"s": "id INT, k STRING, v INT, ts LONG", "t": "k STRING, x STRING, rate INT, ts LONG"}
_SOURCE = re.compile(r"CREATE (?P<kind>STREAM|VERSIONED TABLE|UPSERT TABLE) (?P<name>[stu]) \([^)]*\)(?P<rest>[^;]*)")


def _has_another_time(seed: int) -> bool:
    """Whether final results are deduplicated: by the time of their newest row, or the definition's TIMESTAMP BY."""
    return INNER[seed % len(INNER)] in (windows, sliding) and OUTER[seed // len(INNER) % len(OUTER)] is deduplicate


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [seed for seed in seeds(SEEDS, BOUNDED) if not _has_another_time(seed.values[0])])
def test_a_definition_in_batch_is_the_subquery_that_it_stands_for(spark: SparkSession, seed: int) -> None:
    """Its rows keep the sequence of the stream that they are made of, wherever they stand in its files."""
    session = spark.newSession()
    session.conf.set("sqlx.tasks", "1")
    by_subqueries, by_definitions = program(seed), program(seed, defined=True)
    for name in "stu":
        rows = [record for into, record in by_subqueries.records if into == name]
        if name == "s":
            Random(seed).shuffle(rows)
        schema = _SCHEMAS.get(name, _SCHEMAS["t"])
        values = [tuple(row[column.split()[0]] for column in schema.split(", ")) for row in rows]
        frame = session.createDataFrame(values, schema).coalesce(1).withColumn("ts", timestamp_micros("ts"))
        frame.createOrReplaceTempView(f"raw_{name}")
    *definitions, query = by_definitions.text.split(";\n")
    for statement in definitions:
        session.sql(_SOURCE.sub(_bounded, statement).replace("CREATE STREAM", "CREATE TEMPORARY STREAM"))
    found, expected = session.sql(query), session.sql(by_subqueries.text.split(";\n")[-1])
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))


def _bounded(source: re.Match[str]) -> str:
    """A source over the rows of a view."""
    sequence = " SEQUENCE BY id" if source["kind"] == "STREAM" else ""
    rest = source["rest"].partition("TIMESTAMP BY ts")
    return (
        f"CREATE TEMPORARY {source['kind']} {source['name']} FROM raw_{source['name']}"
        f"{rest[0]}TIMESTAMP BY ts{sequence}{rest[2]}"
    )
