"""Tests of Spark share one session; what one module leaves in it is not the next one's business."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.server import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _clean_session(spark: SparkSession) -> Iterator[None]:
    """No temporary views, and the default database, before and after each module."""
    _clean(spark)
    yield
    _clean(spark)


def _clean(spark: SparkSession) -> None:
    spark.sql("USE default")
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(table.name)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One server for what it answers and what it refuses: it takes longer to start than most tests of it."""
    found = Home(tmp_path_factory.mktemp("serve"))
    yield found
    found.server.stop()
