"""Live queries: what rows carry along reaches every operator, through subqueries and others, and no star shows it."""

from __future__ import annotations

import pytest

from sqlx.bind.binder import ROW
from sqlx.errors import BindError
from sqlx.plan.compiler import compile_query
from sqlx.plan.nodes import AsOfJoin, Deduplicate
from tests.harness.live_binder import BINDER, live

ORDER = ["__o0", "__o1", "__o2"]


def left_columns(text: str, operator: int = -1) -> list[str]:
    node = live(text).operators()[operator]
    side = node.input if isinstance(node, Deduplicate) else node.left
    return [column.name for column in side.columns]


@pytest.mark.parametrize(
    "left",
    [
        "STREAM clicks c",
        "(SELECT id, k, ts FROM STREAM clicks WHERE id > 1) c",
        "(SELECT * FROM STREAM clicks) c",
        "(SELECT x.* FROM (SELECT * FROM STREAM clicks) x) c",
        "(SELECT id + 1 AS id, k, ts FROM (SELECT * FROM STREAM clicks) y) c",
        "(SELECT c.*, o.name FROM STREAM clicks c JOIN orders o ON c.k = o.k) c",
        "STREAM clicks DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) c",
        "(SELECT * FROM STREAM clicks DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)) c",
        "(SELECT c.id, c.k, c.ts FROM STREAM clicks c JOIN items i ON c.k = i.k) c",
        "(FROM STREAM clicks |> WHERE id > 1 |> SELECT id, k, ts) c",
        "(SELECT * FROM STREAM clicks |> EXTEND id + 1 AS n |> SELECT n, id, k, ts) c",
        "(SELECT * FROM STREAM clicks UNION ALL SELECT id, k, ts FROM (SELECT * FROM STREAM clicks WHERE id > 1)) c",
    ],
)
def test_every_way_to_a_stream_brings_time_and_order_along(left: str) -> None:
    names = left_columns(f"SELECT c.id, r.rate FROM {left} JOIN rates r AS OF c.ts ON c.k = r.k")
    assert names[2] == "__event_time"
    assert names[3:6] == ORDER


@pytest.mark.parametrize(
    "text",
    [
        "FROM STREAM clicks |> WHERE id > 1 |> {}",
        "FROM STREAM clicks |> SELECT id, k |> {}",
        "SELECT id FROM STREAM clicks |> EXTEND id + 1 AS n |> {}",
        "FROM STREAM clicks |> DEDUPLICATE WITHIN INTERVAL 1 DAY BY (k) |> WHERE id > 1 |> {}",
        "SELECT id FROM (SELECT id, k FROM STREAM clicks UNION ALL SELECT 0 AS id, k FROM STREAM clicks) {}",
    ],
)
def test_a_deduplication_knows_the_time_of_rows_that_other_queries_have_read(text: str) -> None:
    names = left_columns(text.format("DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)"))
    at = names.index("__event_time")
    assert names[at + 1 : at + 4] == ORDER


def test_the_result_of_a_join_in_pipes_has_the_time_of_its_row() -> None:
    text = """FROM STREAM clicks c |> JOIN rates r AS OF c.ts ON c.k = r.k |> SELECT id
              |> DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)"""
    names = left_columns(text)
    assert names[names.index("__event_time") + 1 :] == [*ORDER, "__o3"]


def test_a_pipe_hands_them_on_once_to_a_join_and_to_the_groups_of_its_result() -> None:
    text = """SELECT c.k, count(*) AS n FROM (FROM STREAM clicks |> SELECT k, ts) c
              JOIN rates r AS OF c.ts ON c.k = r.k GROUP BY c.k"""
    assert "|> SELECT k, ts, __row) c" in live(text).operators()[0].left.sql


def test_what_ends_before_a_later_pipe_reaches_the_first_one() -> None:
    once = "DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (k)"
    with pytest.raises(BindError) as caught:
        live(f"FROM STREAM clicks |> WHERE id > 1 |> {once} |> LIMIT 3 |> {once}")
    assert caught.value.getCondition() == "DEDUPLICATE.NO_TIME"
    _, line, caret, *_ = caught.value.getMessage().splitlines()
    assert line[: caret.index("^")].endswith("LIMIT 3 |> ")


def test_a_common_table_expression_that_is_read_once_brings_them_along() -> None:
    query = "SELECT c.id, r.rate FROM c JOIN rates r AS OF c.ts ON c.k = r.k"
    assert left_columns(f"WITH c AS (SELECT * FROM STREAM clicks) {query}")[3:6] == ORDER
    twice = f"WITH c AS (SELECT * FROM STREAM clicks) {query} WHERE c.id IN (SELECT id FROM c)"
    assert [name for name in left_columns(twice) if name.startswith("__o")] == []


def test_a_query_that_mixes_rows_leaves_the_order_to_its_delivery() -> None:
    grouped = "(SELECT DISTINCT k, ts FROM STREAM clicks) c"
    names = left_columns(f"SELECT c.k, r.rate FROM {grouped} JOIN rates r AS OF c.ts ON c.k = r.k")
    assert [name for name in names if name.startswith("__o")] == []


def test_a_second_operator_takes_rows_in_the_order_of_those_that_caused_them() -> None:
    text = """SELECT c.id, r.rate, s.rate FROM STREAM clicks c JOIN rates r AS OF c.ts ON c.k = r.k
              JOIN rates s AS OF c.ts ON c.k = s.k"""
    assert [name for name in left_columns(text) if name.startswith("__o")] == [*ORDER, "__o3"]


def test_only_two_sequences_of_one_type_are_common() -> None:
    text = "SELECT c.id FROM STREAM {} c JOIN rates r AS OF c.ts ON c.k = r.k"
    (join,) = live(text.format("clicks")).operators()
    assert isinstance(join, AsOfJoin)
    assert not join.common_sequence


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM STREAM clicks",
        "SELECT * FROM STREAM clicks c JOIN rates r AS OF c.ts ON c.k = r.k",
        "SELECT * FROM STREAM clicks DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)",
        "SELECT * FROM (SELECT * FROM STREAM clicks) c JOIN rates r AS OF c.ts ON c.k = r.k",
        "SELECT c.* FROM STREAM clicks DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id) c JOIN items i ON c.k = i.k",
    ],
)
def test_no_star_shows_what_rows_carry_along(text: str) -> None:
    shown = [column.name for column in live(text).root.columns]
    assert shown[:3] == ["id", "k", "ts"]
    assert [name for name in shown if name.startswith("__")] == []


def test_a_subquery_without_a_name_brings_them_along_to_a_window() -> None:
    joined = "(SELECT c.ts, r.rate FROM STREAM clicks c JOIN rates r AS OF c.ts ON c.k = r.k)"
    window = live(f"SELECT count(*) AS n FROM {joined} GROUP BY window(ts, '1 hour') EMIT FINAL").operators()[-1]
    assert "``" not in window.input.sql
    assert "__row.time AS __event_time" in window.input.sql


def test_the_name_of_a_stream_stands_behind_its_sample() -> None:
    text = "SELECT count(*) AS n FROM STREAM clicks TABLESAMPLE (50 PERCENT) GROUP BY window(ts, '1 hour') EMIT FINAL"
    (window,) = live(text).operators()
    assert "TABLESAMPLE (50 PERCENT) AS `clicks`" in window.input.sql


@pytest.mark.parametrize(
    ("query", "orders"),
    [
        ("SELECT id, k, ts FROM STREAM clicks WHERE id > 1", 3),
        ("WITH c AS (SELECT * FROM STREAM clicks) SELECT id + 1 AS id, ts FROM c", 3),
        ("FROM STREAM clicks |> WHERE id > 1 |> SELECT id, ts", 3),
        ("SELECT * FROM STREAM clicks UNION ALL SELECT * FROM STREAM clicks", 3),
        ("SELECT c.id, c.ts, r.rate FROM STREAM clicks c JOIN rates r AS OF c.ts ON c.k = r.k", 4),
        ("SELECT * FROM STREAM clicks DEDUPLICATE WITHIN INTERVAL 1 HOUR BY (id)", 4),
        ("SELECT k, window.start AS ts FROM STREAM clicks GROUP BY k, window(ts, '1 hour') EMIT FINAL", 4),
        ("SELECT DISTINCT k, ts FROM STREAM clicks", None),
    ],
)
def test_a_definition_over_a_query_has_what_its_rows_carry_along(query: str, orders: int | None) -> None:
    plan = compile_query(query, BINDER, streaming=True, hands_on=True)
    shown = BINDER.columns(plan.root.sql) or ()
    assert ROW in [column.name for column in shown] or orders is None
    assert plan.root.columns == shown[: len(plan.root.columns)]
    assert (plan.carried and len(plan.carried.order)) == orders
    assert ROW not in [column.name for column in plan.root.columns]


def test_a_query_that_is_run_by_itself_hands_nothing_on() -> None:
    plan = live("SELECT id, k, ts FROM STREAM clicks WHERE id > 1")
    assert (plan.carried, ROW in plan.root.sql) == (None, False)


@pytest.mark.parametrize("written", ["TUMBLE(TABLE STREAM clicks", "STREAM TUMBLE(TABLE STREAM clicks"])
def test_the_table_of_a_window_function_may_be_a_stream(written: str) -> None:
    query = (
        "SELECT k, count(*) AS n FROM {}, DESCRIPTOR(ts), INTERVAL 1 HOUR) GROUP BY k, window_start, window_end"
        " EMIT FINAL"
    )
    assert live(query.format(written)).operators() == live(query.format("STREAM TUMBLE(TABLE clicks")).operators()
