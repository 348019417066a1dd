"""A session with all connectors, and a real broker. `make kafka` fetches what both need."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from benchmarks.kafka_broker import Broker
    from tests.harness.topics import Topics

JARS = Path(__file__).parents[2] / ".cache" / "jars"


@pytest.fixture(scope="session")
def connectors() -> str:
    """The names of those that there are for this PySpark; their jars are fetched, for processes of their own, too."""
    from sqlx.connectors.jars import CONNECTORS, fetch

    there = [connector for connector in CONNECTORS.values() if connector.is_available]
    for connector in there:
        fetch(connector.artifacts, JARS)
    os.environ["SQLX_JARS"] = str(JARS)
    return ",".join(connector.name for connector in there)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connectors: str) -> Iterator[SparkSession]:
    import sqlx

    home = tmp_path_factory.mktemp("spark")
    session = sqlx.session(
        app="sqlx connector tests",
        master="local[2]",
        conf={
            "sqlx.connectors": connectors,
            "spark.databricks.delta.snapshotPartitions": "1",  # of small tables: fifty cost a second a version
            "spark.driver.memory": "2g",
            "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Dderby.system.home={home}",
            "spark.local.dir": str(home / "local"),
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.ui.enabled": "false",
            "sqlx.tasks": "2",
        },
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    from benchmarks.kafka_broker import Broker

    started = Broker(tmp_path_factory.mktemp("broker")).start()
    yield started
    started.remove()


@pytest.fixture(scope="session")
def topics(broker: Broker) -> Topics:
    from tests.harness.topics import Topics

    return Topics(broker.address)


@pytest.fixture
def source(broker: Broker) -> Callable[..., str]:
    """The text of USING kafka OPTIONS (…) for a topic."""

    def text(topic: str, value_format: str = "json", **options: str) -> str:
        pairs = {"kafka.bootstrap.servers": broker.address, "subscribe": topic, "value.format": value_format}
        pairs |= {name.replace("__", "."): value for name, value in options.items()}
        listed = ", ".join(f"'{name}' = '{option}'" for name, option in pairs.items())
        return f"USING kafka OPTIONS ({listed})"

    return text


@pytest.fixture
def rows(spark: SparkSession) -> Callable[[str], list[Any]]:
    """The rows of a query as tuples, sorted."""

    def run(query: str) -> list[Any]:
        return sorted((tuple(row) for row in spark.sql(query).collect()), key=repr)

    return run
