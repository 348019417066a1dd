"""The statements about running streams, read."""

from __future__ import annotations

import pytest

from sqlx.sql.definitions import QueryCommand, ShowQueries, Statement, StreamingTable, Trigger, parse_streaming
from sqlx.sql.tokens import tokenize


def read(text: str) -> Statement | None:
    return parse_streaming(text, tokenize(text))


def created(text: str) -> StreamingTable:
    statement = read(text)
    assert isinstance(statement, StreamingTable)
    return statement


def test_all_clauses_are_read_in_any_order() -> None:
    first = created(
        "CREATE STREAMING TABLE db.t USING json OPTIONS (compression 'gzip') CHECKPOINT '/c' "
        "TRIGGER (EVERY INTERVAL 2 SECONDS) TASKS 4 TBLPROPERTIES ('a' = 'b') AS SELECT * FROM STREAM s;"
    )
    second = created(
        "CREATE STREAMING TABLE db.t TBLPROPERTIES ('a' = 'b') TASKS 4 TRIGGER (EVERY INTERVAL 2 SECONDS) "
        "CHECKPOINT '/c' USING json OPTIONS (compression 'gzip') AS SELECT * FROM STREAM s"
    )
    for statement in (first, second):
        assert statement.name == ("db", "t")
        assert statement.format == "json"
        assert statement.options == (("compression", "gzip"),)
        assert statement.checkpoint == "/c"
        assert statement.trigger == Trigger(every_us=2_000_000)
        assert statement.tasks == 4
        assert statement.properties == (("a", "b"),)
        assert statement.query == "SELECT * FROM STREAM s"
        assert statement.text[statement.query_start :].startswith("SELECT * FROM STREAM s")


def test_what_is_left_out_has_a_default() -> None:
    statement = created("create streaming table t as select 1")
    assert (statement.format, statement.checkpoint, statement.tasks) == ("parquet", "", None)
    assert statement.trigger == Trigger()
    assert (statement.replace, statement.if_not_exists) == (False, False)


def test_or_replace_and_if_not_exists_are_read() -> None:
    assert created("CREATE OR REPLACE STREAMING TABLE t AS SELECT 1").replace
    assert created("CREATE STREAMING TABLE IF NOT EXISTS t AS SELECT 1").if_not_exists


@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("", "as fast as possible"),
        ("TRIGGER (AVAILABLE NOW)", "AVAILABLE NOW"),
        ("TRIGGER (EVERY INTERVAL '1.5' SECOND)", "EVERY 1.5 SECONDS"),
    ],
)
def test_a_trigger_is_shown_as_it_was_meant(clause: str, shown: str) -> None:
    assert str(created(f"CREATE STREAMING TABLE t {clause} AS SELECT 1").trigger) == shown


def test_words_of_ours_are_plain_names_inside_of_the_query() -> None:
    query = "SELECT tasks, trigger AS checkpoint, a AS upsert FROM using AS changelog"
    assert created(f"CREATE STREAMING TABLE t AS {query}").query == query


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE streaming (id INT)",
        "CREATE VIEW v AS SELECT 1",
        "DESCRIBE STREAMING QUERY",  # the column `query` of a table `streaming`
        "SHOW TABLES",
        "SELECT 'CREATE STREAMING TABLE'",
        "CREATE",
    ],
)
def test_other_statements_are_none_of_these(text: str) -> None:
    assert read(text) is None


def test_queries_are_listed_described_and_stopped() -> None:
    assert read("SHOW STREAMING QUERIES;") == ShowQueries()
    described, stopped = read("DESC STREAMING QUERY db.t"), read("STOP STREAMING QUERY `my t`")
    assert isinstance(described, QueryCommand)
    assert isinstance(stopped, QueryCommand)
    assert (described.action, described.name) == ("DESCRIBE", ("db", "t"))
    assert (stopped.action, stopped.name) == ("STOP", ("my t",))
