"""What `sqlx.plot` refuses, in words: PLOT.UNKNOWN_COLUMN, PLOT.NO_NUMBERS, PLOT.OF_A_STREAM, PLOT.NO_MATPLOTLIB."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import sqlx
from sqlx.errors import TemporalSqlError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def message(frame: DataFrame, x: str, y: str) -> str:
    with pytest.raises(TemporalSqlError) as error:
        sqlx.plot(frame, x, y)
    return str(error.value)


def test_a_picture_that_cannot_be_drawn_says_why(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.sql("SELECT 1 AS price, 'a' AS symbol")
    assert message(frame, "prices", "price") == (
        "[PLOT.UNKNOWN_COLUMN] The query has no column `prices` to draw. SQLSTATE: 42703\n"
        "HINT: Did you mean `price`? Name a column of the query."
    )
    assert message(frame, "price", "symbol") == (
        "[PLOT.NO_NUMBERS] Column `symbol` is drawn upwards, so it has to hold numbers; it is a string. "
        "SQLSTATE: 42804\nHINT: Draw a column of numbers upwards, or CAST it to DOUBLE in the query."
    )
    stream = spark.readStream.format("rate").load()
    assert "[PLOT.OF_A_STREAM]" in message(stream, "timestamp", "value")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert message(frame, "symbol", "price") == (
        "[PLOT.NO_MATPLOTLIB] A picture needs matplotlib, and it is not installed. SQLSTATE: 58000\n"
        "HINT: pip install 'sqlx-temporal[notebook]'"
    )
