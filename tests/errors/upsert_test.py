"""What a table of current rows needs, and what is said where it is missing."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sqlx.errors import TemporalSqlError, UnsupportedError
from sqlx.plan.nodes import Result
from sqlx.sql.definitions import StreamingTable, parse_streaming
from sqlx.sql.tokens import tokenize
from sqlx.streaming import upsert
from sqlx.streaming.lakehouse import check_catalog
from sqlx.streaming.sinks import Sink
from sqlx.streaming.tables import TableName

KEYED = Result("upsert", (0,))


def _refusal(result: Result, using: str = "delta", mode: str = "upsert") -> str:
    """The message; "" where nothing is wrong."""
    text = f"CREATE STREAMING TABLE t USING {using} OPTIONS (write.mode '{mode}') AS SELECT 1"
    statement = parse_streaming(text, tokenize(text))
    assert isinstance(statement, StreamingTable)
    live: Any = SimpleNamespace(plan=SimpleNamespace(result=result))
    try:
        assert upsert.is_upsert(statement)
        upsert.check_upsert(statement, Sink(using, "table"), live)
    except TemporalSqlError as error:
        line, caret = str(error).splitlines()[1:3]
        assert line[caret.index("^") : caret.rindex("^") + 1] == f"write.mode '{mode}'"
        return str(error)
    return ""


def test_a_merge_into_delta_needs_its_package_where_spark_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upsert, "is_43", lambda: True)
    assert _refusal(KEYED) == ""
    monkeypatch.setitem(sys.modules, "deltalake", None)
    message = _refusal(KEYED)
    assert message.startswith("[STREAMING.UPSERT_DELTALAKE]")
    assert "pip install 'sqlx-temporal[delta]'" in message
    monkeypatch.setattr(upsert, "is_43", lambda: False)
    assert _refusal(KEYED) == ""


@pytest.mark.parametrize(
    ("result", "using", "mode", "condition", "what"),
    [
        (KEYED, "parquet", "upsrt", "STREAMING.WRITE_MODE", "Did you mean `upsert`?"),
        (KEYED, "csv", "upsert", "STREAMING.UPSERT_SINK", "format `csv` cannot be upserted"),
        (Result("changelog"), "orc", "upsert", "STREAMING.UPSERT_NO_KEY", "no column says which row a change is about"),
        (Result(), "parquet", "upsert", "STREAMING.UPSERT_NO_KEY", "the rows of this query never change"),
    ],
)
def test_what_cannot_be_upserted_says_why(result: Result, using: str, mode: str, condition: str, what: str) -> None:
    message = _refusal(result, using, mode)
    assert message.startswith(f"[{condition}]")
    assert what in message


def test_an_iceberg_table_needs_a_catalog_of_icebergs() -> None:
    text = "CREATE STREAMING TABLE t USING iceberg AS SELECT 1"
    name = TableName(("spark_catalog", "default", "t"))
    with pytest.raises(UnsupportedError) as refused:
        check_catalog(text, (23, 24), "iceberg", name, "")
    assert refused.value.getCondition() == "ICEBERG.CATALOG"
    assert "iceberg.shop.orders" in str(refused.value)
    check_catalog(text, (23, 24), "iceberg", name, "org.apache.iceberg.spark.SparkSessionCatalog")
    check_catalog(text, (23, 24), "iceberg", TableName(("iceberg", "shop", "t")), "")
    check_catalog(text, (23, 24), "delta", name, "")
