"""The SQL of definitions on DuckDB, against answers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import pytest
import sqlglot

from catalog.entries import Column, Entry
from catalog.relations import as_of_sql, current_rows_sql, history_sql, versions_sql

ARRIVAL = ("n",)
COLUMNS = tuple(Column(name, "int") for name in ("k", "v", "ts", "seq", "n"))
# k, v, ts, seq, arrival; v < 0 is a tombstone. Times are plain numbers here: only their order counts.
ROWS = [
    (1, 10, 100, 1, 1),
    (1, 11, 100, 2, 2),  # the same time: replaces
    (1, 12, 90, 3, 3),  # older, arrives later
    (1, -1, 110, 4, 4),  # ends the key
    (2, 20, 100, 9, 5),
    (2, 21, 100, 8, 6),  # the same time, the earlier sequence
    (3, -1, 100, 1, 7),  # a tombstone before any row …
    (3, 30, 50, 2, 8),  # … and an older row after it
    (None, 40, 100, 1, 9),
    (4, 41, None, 1, 10),
]
TABLE = Entry("versioned", "db.rates", COLUMNS, "raw", "rates.ts", keys=("k",), delete_when="v < 0")
SEQUENCED = replace(TABLE, sequence_by="seq")
UPSERT = replace(TABLE, kind="upsert")


@pytest.fixture
def db() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE raw (k INT, v INT, ts INT, seq INT, n INT)")
    connection.executemany("INSERT INTO raw VALUES (?, ?, ?, ?, ?)", ROWS)
    connection.execute("CREATE TABLE dim (k INT, v VARCHAR, valid_from DATE, until DATE)")
    connection.execute(
        "INSERT INTO dim VALUES (1, 'a', '2024-01-01', '2024-01-05'), (1, 'b', '2024-01-05', '2024-01-07'),"
        " (1, 'c', '2024-01-09', NULL), (2, 'x', '2024-01-01', '2024-01-01'), (3, 'y', '2024-01-01', '9999-12-31'),"
        " (4, 'z', '2024-01-01', '2024-01-02'), (NULL, 'n', '2024-01-01', NULL)"
    )
    return connection


def answer(db: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return sorted(db.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall(), key=repr)


def shown(db: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    return answer(db, f"SELECT k, v FROM ({sql}) AS q")


def test_a_versioned_table_shows_the_greatest_time_per_key(db: duckdb.DuckDBPyConnection) -> None:
    assert shown(db, current_rows_sql(TABLE, ARRIVAL)) == [(2, 21)]
    assert shown(db, current_rows_sql(SEQUENCED, ARRIVAL)) == [(2, 20)]


def test_an_upsert_table_shows_the_last_arrival_per_key(db: duckdb.DuckDBPyConnection) -> None:
    assert shown(db, current_rows_sql(UPSERT, ARRIVAL)) == [(2, 21), (3, 30)]
    assert shown(db, current_rows_sql(replace(UPSERT, sequence_by="seq"), ARRIVAL)) == [(2, 20), (3, 30)]
    without_tombstones = replace(UPSERT, delete_when=None)
    assert shown(db, current_rows_sql(without_tombstones, ARRIVAL)) == [(1, -1), (2, 21), (3, 30)]


def test_a_stream_shows_all_rows(db: duckdb.DuckDBPyConnection) -> None:
    stream = Entry("stream", "orders", COLUMNS, "raw", "ts")
    assert len(answer(db, current_rows_sql(stream))) == len(ROWS)


def test_history_has_validity_without_tombstones(db: duckdb.DuckDBPyConnection) -> None:
    history = f"SELECT k, v, valid_from, valid_to FROM ({history_sql(TABLE, ARRIVAL)}) AS q"
    assert answer(db, history) == [(1, 11, 100, 110), (1, 12, 90, 100), (2, 21, 100, None), (3, 30, 50, 100)]
    history = f"SELECT k, v, valid_from, valid_to FROM ({history_sql(SEQUENCED, ARRIVAL)}) AS q"
    assert (2, 20, 100, None) in answer(db, history)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("49", []),
        ("50", [(3, 30)]),
        ("99", [(1, 12), (3, 30)]),
        ("100", [(1, 11), (2, 21)]),
        ("109", [(1, 11), (2, 21)]),
        ("110", [(2, 21)]),
        ("50 + 50", [(1, 11), (2, 21)]),
        ("NULL", []),
    ],
)
def test_rows_as_of_a_time(db: duckdb.DuckDBPyConnection, time: str, expected: list[tuple[int, int]]) -> None:
    assert shown(db, as_of_sql(TABLE, time, ARRIVAL)) == expected


def test_history_and_rows_as_of_a_time_agree(db: duckdb.DuckDBPyConnection) -> None:
    for time in range(40, 121):
        valid = f"valid_from <= {time} AND (valid_to IS NULL OR valid_to > {time})"
        from_history = answer(db, f"SELECT k, v FROM ({history_sql(TABLE, ARRIVAL)}) AS q WHERE {valid}")
        assert from_history == shown(db, as_of_sql(TABLE, str(time), ARRIVAL))


DIMENSION = Entry(
    "versioned",
    "d",
    (Column("k", "int"), Column("v", "string"), Column("valid_from", "date"), Column("until", "date")),
    "dim",
    "valid_from",
    keys=("k",),
    valid_from="valid_from",
    valid_to="until",
)


def test_an_scd2_row_ends_where_no_other_begins(db: duckdb.DuckDBPyConnection) -> None:
    assert shown(db, current_rows_sql(DIMENSION)) == [(1, "c"), (3, "y")]
    assert shown(db, as_of_sql(DIMENSION, "DATE'2024-01-05'")) == [(1, "b"), (3, "y")]
    assert shown(db, as_of_sql(DIMENSION, "DATE'2024-01-08'")) == [(3, "y")]
    history = f"SELECT v, CAST(valid_from AS STRING), CAST(valid_to AS STRING) FROM ({history_sql(DIMENSION)}) AS q"
    assert answer(db, history) == [
        ("a", "2024-01-01", "2024-01-05"),
        ("b", "2024-01-05", "2024-01-07"),
        ("c", "2024-01-09", None),
        ("y", "2024-01-01", None),
        ("z", "2024-01-01", "2024-01-02"),
    ]


def test_versions_have_the_hidden_columns_that_the_definition_calls_for(db: duckdb.DuckDBPyConnection) -> None:
    def hidden(sql: str) -> list[str]:
        described = db.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).description or []
        return [column[0] for column in described if column[0].startswith("__")]

    assert hidden(versions_sql(replace(TABLE, delete_when=None))) == ["__time"]
    assert hidden(versions_sql(SEQUENCED)) == ["__time", "__seq", "__deleted"]
    assert hidden(versions_sql(TABLE, ARRIVAL)) == ["__time", "__deleted", "__order0"]
    assert hidden(versions_sql(DIMENSION)) == ["__time", "__deleted", "__arrival"]
    assert len(answer(db, versions_sql(TABLE))) == len(ROWS)


def test_a_condition_that_is_null_is_no_tombstone(db: duckdb.DuckDBPyConnection) -> None:
    entry = replace(TABLE, delete_when="nullif(v, v) < 0")
    assert shown(db, current_rows_sql(entry, ARRIVAL)) == [(1, -1), (2, 21), (3, -1)]


def test_expressions_may_use_the_alias_of_the_source(db: duckdb.DuckDBPyConnection) -> None:
    entry = replace(TABLE, timestamp_by="r.ts", alias="r")
    assert shown(db, current_rows_sql(entry, ARRIVAL)) == [(2, 21)]
