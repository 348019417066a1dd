"""Spark's hash over columns is that of replay, value by value, which the Spark tests compare with Spark's own."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlx.replay.placement import xxhash64
from sqlx.replay.types import SparkType
from udtf.columns.arrays import can_hash
from udtf.columns.hashes import hashes_or_none, spark_hashes

LONG = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
DECIMALS = st.integers(-(10**17), 10**17).map(lambda n: Decimal(n).scaleb(-3))
#: Spark's type, Arrow's, values.
KINDS: dict[str, tuple[SparkType, pa.DataType, Any]] = {
    "tinyint": (SparkType("tinyint"), pa.int8(), st.integers(-128, 127)),
    "int": (SparkType("int"), pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "bigint": (SparkType("bigint"), pa.int64(), LONG),
    "boolean": (SparkType("boolean"), pa.bool_(), st.booleans()),
    "double": (SparkType("double"), pa.float64(), st.floats() | st.just(-0.0)),
    "float": (SparkType("float"), pa.float32(), st.floats(width=32)),
    "string": (SparkType("string"), pa.string(), st.text(max_size=80)),
    "binary": (SparkType("binary"), pa.binary(), st.binary(max_size=80)),
    "date": (SparkType("date"), pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "timestamp": (SparkType("timestamp"), pa.timestamp("us", "UTC"), TIMES.map(lambda t: t.replace(tzinfo=dt.UTC))),
    "timestamp_ntz": (SparkType("timestamp_ntz"), pa.timestamp("us"), TIMES),
    "decimal": (SparkType("decimal", precision=18, scale=3), pa.decimal128(18, 3), DECIMALS),
}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_hashes_are_those_of_replay(kind: str, data: st.DataObject) -> None:
    spark_type, arrow_type, values = KINDS[kind]
    column = data.draw(st.lists(st.none() | values, max_size=9))
    texts = data.draw(st.lists(st.none() | st.text(max_size=9), min_size=len(column), max_size=len(column)))
    start = data.draw(st.integers(0, len(column)))
    arrays = [pa.array(column, arrow_type).slice(start), pa.array(texts, pa.string()).slice(start)]
    wanted = [xxhash64(row, [spark_type, SparkType("string")]) for row in zip(column, texts, strict=True)][start:]
    assert can_hash(arrow_type)
    assert spark_hashes(arrays).tolist() == wanted


def test_what_cannot_be_hashed_has_one_hash() -> None:
    assert hashes_or_none([pa.array([[1], [2]])]).tolist() == [0, 0]
    assert hashes_or_none([]).tolist() == []
