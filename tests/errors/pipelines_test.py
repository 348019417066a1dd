"""What a declarative pipeline's statements are taken for, and a query of one that reads what is not there."""

from __future__ import annotations

import pytest

from sqlx.errors import BindError, UnsupportedError
from sqlx.sessions.pipelines import pipeline_plan
from sqlx.sql.tokens import tokenize


def asked(text: str) -> list[str]:
    """What of a statement is asked for as a temporal query: it stands where it stood in the statement."""
    found: list[str] = []
    assert pipeline_plan(None, text, tokenize(text), lambda _text: None, found.append) is None
    return found


@pytest.mark.parametrize(
    ("head", "query"),
    [
        ("CREATE STREAMING TABLE t AS ", "SELECT 1"),
        ("CREATE MATERIALIZED VIEW v COMMENT 'AS SELECT' AS\n", "WITH a AS (SELECT 1) SELECT * FROM a"),
        ("CREATE MATERIALIZED VIEW v (a INT) PARTITIONED BY (a) AS ", "(SELECT 1 AS a)"),
        ("CREATE FLOW f AS INSERT INTO t BY NAME ", "FROM s SELECT *"),
        ("CREATE TEMPORARY VIEW `as` AS ", "VALUES (1)"),
    ],
)
def test_the_query_of_a_statement(head: str, query: str) -> None:
    (found,) = asked(head + query)
    assert found.strip() == query
    assert len(found) == len(head + query)
    assert found.count("\n") == (head + query).count("\n")


@pytest.mark.parametrize("text", ["CREATE STREAMING TABLE t", "CREATE STREAMING TABLE t (a INT)", "CREATE VIEW"])
def test_statements_without_a_query(text: str) -> None:
    assert asked(text) == []


def test_a_query_that_reads_what_is_not_there() -> None:
    text = "CREATE MATERIALIZED VIEW once AS\nSELECT * FROM later DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id) ON TIME ts"

    def refuse(query: str) -> None:
        start = query.index("later")
        raise BindError("BIND.UNKNOWN_RELATION", query, (start, start + 5), name="later", suggestion="")

    with pytest.raises(UnsupportedError) as refused:
        pipeline_plan(None, text, tokenize(text), lambda _text: None, refuse)
    assert str(refused.value) == (
        "[UNSUPPORTED.PIPELINE_DATASET] There is no table, view or stream `later` that a temporal query of this "
        "pipeline could read. SQLSTATE: 0A000\n"
        "LINE 2: SELECT * FROM later DEDUPLICATE WITHIN INTERVAL 1 DAY BY (id) ON TIME ts\n"
        "                      ^^^^^\n"
        "HINT: If the same pipeline makes it, make it in one that runs before: a temporal query reads tables and "
        "definitions that are there."
    )
