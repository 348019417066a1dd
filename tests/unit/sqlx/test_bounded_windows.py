"""Sliding windows of bounded queries: which blocks they are taken from, and what is in their place."""

from __future__ import annotations

import pytest

from sqlx.errors import BindError, UnsupportedError
from sqlx.plan.nodes import Aggregation, Result
from sqlx.sessions.explain import explain_plan
from sqlx.sessions.statements import may_be_ours
from tests.harness.fake_binder import compiled
from udtf.operators.window_aggregate.config import Window

BY = "sliding_window(ts, '10 minutes')"


def aggregation(text):
    (node,) = compiled(text).operators()
    assert isinstance(node, Aggregation)
    return node


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT k, count(*) AS c FROM orders GROUP BY k, {BY}",
        f"SELECT k, {BY} AS w, count(*) AS c FROM orders GROUP BY k, w",
        f"SELECT k, {BY}.end AS we, count(*) AS c FROM orders GROUP BY 1, 2",
        f"SELECT k, {BY}, count(*) AS c FROM orders GROUP BY ALL",
        f"SELECT k, c FROM (SELECT k, count(*) AS c FROM orders GROUP BY k, {BY})",
        f"WITH w AS (SELECT k, count(*) AS c FROM orders GROUP BY k, {BY}) SELECT * FROM w",
        f"CREATE TABLE t AS SELECT k, count(*) AS c FROM orders GROUP BY k, {BY}",
    ],
)
def test_blocks_that_group_by_them_become_an_operator(text):
    assert may_be_ours(text)
    node = aggregation(text)
    assert node.config.window == Window("sliding", 600_000_000)
    assert (node.config.n_keys, node.config.is_final) == (1, True)
    assert compiled(text).result == Result()
    assert compiled(text).notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, count(*) FROM orders GROUP BY k, window(ts, '10 minutes')",
        "SELECT k AS sliding_window, count(*) FROM orders GROUP BY k",
        "SELECT sliding_window FROM (SELECT k AS sliding_window FROM orders)",
        "FROM orders |> AGGREGATE count(*) GROUP BY k",
    ],
)
def test_others_are_spark_s(text):
    plan = compiled(text)
    assert (plan.operators(), plan.root.sql) == ((), text)


def test_input_and_result_are_those_of_a_live_aggregation():
    text = f"SELECT o.k, sum(n) FILTER (WHERE id > 1) FROM orders o WHERE n > 0 GROUP BY o.k, {BY} HAVING count(*) > 1"
    node = aggregation(text)
    assert node.input.sql == (
        "SELECT o.k AS __k0, ts AS __time, n AS __a0_0, id > 1 AS __a0_f FROM orders o WHERE n > 0"
    )
    assert [(c.name, c.type) for c in node.columns] == [
        ("__k0", "string"), ("__ws", "timestamp"), ("__we", "timestamp"), ("__a0", "bigint"), ("__a1", "bigint"),
    ]  # fmt: skip
    assert compiled(text).root.sql == (
        "SELECT __k0 AS `k`, __a0 AS `sum(n) FILTER (WHERE id > 1)` FROM __sqlx_agg1 WHERE __a1 > 1"
    )


def test_bounds_are_of_the_type_of_the_time():
    node = aggregation("SELECT k FROM orders GROUP BY k, sliding_window(day, '2 days')")
    assert [c.type for c in node.columns if c.name in ("__ws", "__we")] == ["timestamp_ntz"] * 2


def test_changes_are_inserts():
    plan = compiled(f"SELECT k, count(*) AS n FROM orders GROUP BY k, {BY} EMIT CHANGES")
    assert plan.root.sql == "SELECT __k0 AS `k`, __a0 AS n, 'insert' AS _change_type FROM __sqlx_agg1"
    assert plan.result == Result()


def test_clauses_that_play_no_part_are_noted():
    text = f"SELECT k FROM orders GROUP BY k, {BY} GRACE PERIOD INTERVAL '1' HOUR LATE TO late EMIT FINAL"
    plan = compiled(text)
    assert [note.split(" plays")[0] for note in plan.notes] == ["GRACE PERIOD", "LATE TO"]
    assert "FROM __sqlx_agg1" in plan.root.sql
    assert aggregation(text).names == ()


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("ORDER BY sliding_window.start DESC, o.k", "ORDER BY __ws DESC, __k0"),
        ("ORDER BY total, k LIMIT 3", "ORDER BY total, k LIMIT 3"),
        ("ORDER BY max(n) + count(*), lower(k)", "ORDER BY __a1 + __a2, lower(k)"),
    ],
)
def test_order_by_reads_the_groups_or_the_select_list(written, found):
    plan = compiled(f"SELECT k, sum(n) AS total FROM orders o GROUP BY k, {BY} {written}")
    assert plan.root.sql == f"SELECT __k0 AS `k`, __a0 AS total FROM __sqlx_agg1 {found}"


def test_over_an_as_of_join():
    plan = compiled(f"SELECT r.rate, count(*) FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k GROUP BY r.rate, {BY}")
    assert [type(node).__name__ for node in plan.operators()] == ["AsOfJoin", "Aggregation"]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        (f"SELECT k, n FROM orders GROUP BY k, {BY}", "AGGREGATE.NOT_GROUPED"),
        (f"SELECT k FROM orders GROUP BY k, {BY}, sliding_window(ts, '1 hour')", "WINDOW.TWICE"),
        ("SELECT k FROM orders GROUP BY k, sliding_window(n, '1 hour')", "WINDOW.TIME_TYPE"),
        (f"SELECT k FROM orders GROUP BY ROLLUP(k), {BY}", "AGGREGATE.GROUPING_SETS"),
        (f"SELECT k FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL 1 DAY)) GROUP BY k, {BY}", "WINDOW.TWICE"),
        (f"SELECT k FROM (SELECT k FROM orders GROUP BY k, {BY} EMIT CHANGES)", "EMIT.INNER"),
    ],
)
def test_what_is_wrong_has_a_name(text, condition):
    with pytest.raises((BindError, UnsupportedError)) as caught:
        compiled(text)
    assert caught.value.getCondition() == condition


def test_explain_says_nothing_of_streams():
    stages = explain_plan(compiled(f"SELECT k, count(*), max(name) FROM orders GROUP BY k, {BY}"))
    assert "runs: Spark aggregates the members of each window, which whole tasks list, for max as string" in stages
    assert "strategy" not in stages
    assert "late: " not in stages


def test_sessions_may_be_named_window_too():
    text = "SELECT k, window.start AS ws FROM orders GROUP BY k, session_window(ts, '1 minute') EMIT FINAL"
    assert "SELECT k, session_window.start AS ws FROM orders" in compiled(text).root.sql
