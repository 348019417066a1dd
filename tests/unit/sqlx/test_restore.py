from __future__ import annotations

import pytest

from tests.harness.fake_binder import compiled

JOIN = "orders o JOIN rates r AS OF o.ts ON o.k = r.k"
USING = "orders o LEFT JOIN rates r AS OF o.ts USING (k)"


def sql(text: str) -> str:
    return compiled(text).root.sql


def test_every_relation_gets_its_columns_back_under_its_name() -> None:
    found = sql(f"SELECT o.id, r.rate FROM {JOIN}")
    assert found == (
        "SELECT o.id, r.rate FROM __sqlx_rel1 AS __sqlx_op1"
        " CROSS JOIN LATERAL (SELECT __sqlx_op1._l0 AS `id`) AS `o`"
        " CROSS JOIN LATERAL (SELECT __sqlx_op1._r0 AS `rate`) AS `r`"
    )


@pytest.mark.parametrize(
    ("select", "begins"),
    [
        ("*", "SELECT `o`.*, `r`.* FROM"),
        ("1, *", "SELECT 1, `o`.*, `r`.* FROM"),
        ("* EXCEPT (rate)", "SELECT * EXCEPT (__sqlx_op1._l0,"),
        ("o.*", "SELECT o.* FROM"),
        ("count(*)", "SELECT count(*) FROM"),
        ("o.n * 2", "SELECT o.n * 2 FROM"),
    ],
)
def test_a_star_shows_nothing_of_ours(select: str, begins: str) -> None:
    plan = compiled(f"SELECT {select} FROM {JOIN}")
    assert plan.root.sql.startswith(begins)
    assert not [c.name for c in plan.root.columns if c.name.startswith("__")]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT k FROM {}", "SELECT `o`.`k` FROM"),
        ("SELECT o.k, r.k FROM {}", "SELECT o.k, r.k FROM"),
        ("SELECT o.id AS k FROM {}", "SELECT o.id AS k FROM"),
        ("SELECT o.id k FROM {}", "SELECT o.id k FROM"),
        ("SELECT max(k) k FROM {} GROUP BY o.id", "SELECT max(`o`.`k`) k FROM"),
        ("SELECT NOT k = 'a', k || k FROM {}", "SELECT NOT `o`.`k` = 'a', `o`.`k` || `o`.`k` FROM"),
    ],
)
def test_a_merged_name_stands_for_the_left_column(query: str, wanted: str) -> None:
    found = sql(query.format(USING))
    assert found.startswith(wanted)


def test_qualified_names_of_tables_are_shortened() -> None:
    join = "db.orders JOIN rates AS OF db.orders.ts ON db.orders.k = rates.k"
    text = f"SELECT db.orders.id FROM {join} WHERE db.orders.n > 1"
    assert sql(text).startswith("SELECT `orders`.id FROM")
    assert sql(text).endswith("WHERE `orders`.n > 1")


def test_from_before_select_shows_its_columns_too() -> None:
    plan = compiled(f"FROM {JOIN} SELECT *, o.id WHERE r.rate > 1")
    assert " SELECT `o`.*, `r`.*, o.id WHERE" in plan.root.sql


@pytest.mark.parametrize(
    "after",
    [", orders x", " JOIN orders x ON x.id = o.id", " LATERAL VIEW explode(array(1)) x AS y", " CROSS JOIN orders"],
)
def test_a_star_shows_what_is_beside_the_operator_too(after: str) -> None:
    assert "SELECT * EXCEPT (__sqlx_op1._l0," in sql(f"SELECT * FROM {JOIN}{after}")


def test_reasons_and_further_conditions_stand_on_the_picked_version() -> None:
    found = sql(f"SELECT o.id, why FROM {JOIN.replace('JOIN', 'LEFT JOIN')} AND r.rate > o.n WITH REASON AS why")
    assert "__sqlx_op1.__reason IS NULL AND coalesce(((r.rate > o.n)), false)) AS __sqlx_ok" in found
    assert "coalesce(__sqlx_op1.__reason, 'condition')" in found
    assert "__sqlx_op1.__reason AS `why`" in found
