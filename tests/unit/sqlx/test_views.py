from __future__ import annotations

import pytest

from sqlx.sessions.stored import stored_head
from sqlx.sql.tokens import tokenize

QUERY = "SELECT 1 AS x"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("CREATE VIEW v AS", "v"),
        ("CREATE OR REPLACE VIEW db.`my v` AS", "db.`my v`"),
        ("CREATE VIEW IF NOT EXISTS v (a COMMENT 'as', b) COMMENT 'AS SELECT' AS", "v"),
        ("create view v tblproperties ('as' = 'of') as", "v"),
    ],
)
@pytest.mark.parametrize("query", [QUERY, "WITH c AS (SELECT 1) SELECT * FROM c", "FROM t |> WHERE a", "(SELECT 1)"])
def test_the_head_of_a_view_is_kept_apart_from_its_query(head: str, name: str, query: str) -> None:
    text = f"{head} {query} ;\n"
    found = stored_head(text, tokenize(text))
    assert found is not None
    assert (found.before, ".".join(found.parts), found.query) == (head, name, f"{query} ")


@pytest.mark.parametrize(
    "text",
    [
        QUERY,
        "CREATE TEMPORARY VIEW v USING parquet OPTIONS (path 'p')",
        "CREATE METRIC VIEW v AS SELECT 1",
        "CREATE TABLE t AS SELECT 1",
    ],
)
def test_all_others_are_no_views_of_ours(text: str) -> None:
    assert stored_head(text, tokenize(text)) is None


@pytest.mark.parametrize(
    ("head", "temporary", "shared"),
    [
        ("CREATE VIEW v AS", False, False),
        ("CREATE TEMP VIEW v AS", True, False),
        ("CREATE OR REPLACE TEMPORARY VIEW v AS", True, False),
        ("CREATE OR REPLACE GLOBAL TEMPORARY VIEW v AS", True, True),
    ],
)
def test_a_head_says_where_its_view_lives(head: str, temporary: bool, shared: bool) -> None:
    text = f"{head} {QUERY}"
    found = stored_head(text, tokenize(text))
    assert found is not None
    assert (found.temporary, found.shared) == (temporary, shared)


@pytest.mark.parametrize(
    "text", ["CREATE VIEW", "CREATE VIEW v", "CREATE VIEW IF NOT EXISTS", "CREATE VIEW v (a", "CREATE VIEW v AS"]
)
def test_a_head_that_stops_in_the_middle_is_left_to_spark(text: str) -> None:
    assert stored_head(text, tokenize(text)) is None
