from __future__ import annotations

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.plan.nodes import AsOfJoin
from tests.harness.fake_binder import VIEWS, joins


def joined(right: str, on: str = "o.k = c.k", before: str = "") -> AsOfJoin:
    (join,) = joins(f"{before}SELECT o.id, c.* FROM orders o JOIN {right} AS OF o.ts ON {on}")
    return join


def payload(join: AsOfJoin) -> int:
    return sum(not c.name.startswith("__") for c in join.right.columns)


@pytest.mark.parametrize(
    ("right", "columns", "passes"),
    [
        ("rates c", 5, False),
        ("(SELECT * FROM rates) c", 5, False),
        ("(SELECT k, rate FROM rates) c", 2, False),
        ("(SELECT k, rate * 2 AS twice, upper(k) u FROM rates r WHERE r.rate > 1) c", 3, True),
        ("(SELECT k FROM (SELECT k, rate FROM rates WHERE rate > 0) x WHERE rate < 9) c", 1, True),
        ("(SELECT r.* FROM rates AS r) c", 5, False),
        ("(SELECT k, b FROM rates AS r (k, b, x, y, z)) AS c", 2, False),
        ("cheap c", 2, True),
        ("(SELECT k FROM cheap) c", 1, True),
    ],
)
def test_projections_and_filters_over_one_table(right: str, columns: int, passes: bool) -> None:
    join = joined(right)
    assert payload(join) == columns
    assert ("__pass" in [c.name for c in join.right.columns]) == passes
    assert "__time" in [c.name for c in join.right.columns]


def test_a_filter_is_tested_on_the_version_that_was_picked() -> None:
    sql = joined("(SELECT k, rate FROM rates WHERE rate > 1) c").right.sql
    assert "coalesce((rate > 1), false) AS __pass" in sql
    assert " WHERE " not in sql


def test_both_filters_of_nested_queries_are_tested() -> None:
    sql = joined("(SELECT k FROM (SELECT k, rate FROM rates WHERE rate > 0) x WHERE rate < 9) c").right.sql
    assert "coalesce(x.__pass, true) AND coalesce((rate < 9), false) AS __pass" in sql


@pytest.mark.parametrize(
    ("before", "right", "on"),
    [
        ("WITH c AS (SELECT k, rate FROM rates) ", "c", "o.k = c.k"),
        ("WITH c (key, v) AS (SELECT k, rate FROM rates) ", "c", "o.k = c.key"),
        ("WITH rates AS (SELECT k FROM rates) ", "rates c", "o.k = c.k"),
        ("WITH a AS (SELECT * FROM rates), b AS (SELECT k AS x FROM a) ", "b AS c", "o.k = c.x"),
        ("", "(SELECT k AS key FROM rates) c", "o.k = c.key"),
        ("", "(SELECT k FROM rates) AS c (a)", "o.k = c.a"),
        ("", "rates AS c (a, b, x, y, z)", "o.k = c.a"),
    ],
)
def test_the_key_is_followed_through_names(before: str, right: str, on: str) -> None:
    assert joined(right, on, before).config.n_keys == 1


@pytest.mark.parametrize(
    ("right", "on"),
    [
        ("(SELECT upper(k) AS k, rate FROM rates) c", "o.k = c.k"),
        ("(SELECT rate AS k FROM rates) c", "o.n = c.k"),
        ("prices c", "o.k = c.k"),
    ],
)
def test_what_is_no_key_of_the_table_does_not_cover_it(right: str, on: str) -> None:
    with pytest.raises(TemporalSqlError, match="KEYS_NOT_COVERED"):
        joined(right, on)


@pytest.mark.parametrize(
    "right",
    [
        "(SELECT * FROM rates TIMESTAMP AS OF '2020-01-01') c",
        "(SELECT * FROM rates TABLESAMPLE (5 ROWS)) c",
        "(SELECT k, count(*) OVER () AS n FROM rates) c",
        "(SELECT k, explode(array(1, 2)) AS n FROM rates) c",
        "(SELECT k, Posexplode_Outer (array(1)) AS (at, n) FROM rates) c",
        "(SELECT k FROM rates ORDER BY k) c",
        "(FROM rates |> SELECT k) c",
        "(SELECT a.k FROM rates a, rates b) c",
        "(SELECT 1 AS k) c",
    ],
)
def test_more_than_projections_and_filters_is_refused(right: str) -> None:
    with pytest.raises(TemporalSqlError, match="RIGHT_SIDE"):
        joined(right)


def test_a_column_may_be_called_like_a_generator() -> None:
    assert payload(joined("(SELECT k, rate AS stack, rate AS inline FROM rates) c")) == 3


def test_tombstones_and_arrival_are_carried_along() -> None:
    text = "SELECT o.id FROM orders o JOIN prices p AS OF o.ts ON o.k = p.k AND o.name = p.region"
    names = [c.name for c in joins(text)[0].right.columns]
    assert names == ["__k0", "__k1", "__time", "__arrival", "__deleted"]


def test_a_view_without_a_versioned_table_is_a_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VIEWS, "quotes", "SELECT * FROM quotes__data")
    with pytest.raises(TemporalSqlError) as caught:
        joined("quotes c")
    assert caught.value.condition == "AS_OF_JOIN.TABLE_NOT_VERSIONED"
