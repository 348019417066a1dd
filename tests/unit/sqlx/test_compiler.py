from __future__ import annotations

from contextlib import suppress

import pytest

from sqlx.errors import TemporalSqlError
from sqlx.plan.nodes import AsOfJoin, TableLookup
from sqlx.sql.tokens import tokenize
from tests.harness.fake_binder import BINDER, compiled, joins
from tests.unit.sqlx.test_scanner import FULL, JOIN, PLACES, QUERY

# The types of the whole statement are asked of DuckDB here, which knows neither these tables nor all of Spark.
DUCKDB_REFUSES = ("scalar", "in a condition", "values", "pipe set operation")
PLAIN = [
    "SELECT * FROM orders o JOIN quotes q ON o.k = q.k",
    "SELECT  1  -- as it is\r\n",
    "SELECT id AS of FROM orders AS of",
    "SELECT asof.id FROM orders asof JOIN quotes q ON asof.k = q.k",
    "FROM orders |> WHERE id > 1",
    "INSERT INTO sink SELECT * FROM orders",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_sql_stays_byte_for_byte(text: str) -> None:
    plan = compiled(text)
    assert (plan.root.sql, plan.operators()) == (text, ())


@pytest.mark.parametrize("place", [p for p in PLACES if p not in DUCKDB_REFUSES])
def test_only_the_join_is_replaced_wherever_it_stands(place: str) -> None:
    head, _, tail = PLACES[place].partition("{q}")
    text = f"{head}{QUERY}{tail}".replace(" a ", " orders ").replace(" a,", " orders,")
    sql = compiled(text).root.sql
    before, _, after = text.partition(JOIN)
    assert sql.startswith(before)
    assert sql.endswith(after)
    assert " AS OF " not in sql.removeprefix(before).removesuffix(after)


@pytest.mark.parametrize("column", ["l0", "r0", "l1"])
def test_a_column_may_be_called_as_one_might_call_the_result_s_own(column: str) -> None:
    orders = f"(SELECT id, k, ts, n AS {column} FROM orders) o"
    plan = compiled(f"SELECT id, {column} FROM {orders} LEFT JOIN rates r AS OF o.ts ON o.k = r.k AND {column} > rate")
    assert [c.name for c in plan.root.columns] == ["id", column]
    with pytest.raises(TemporalSqlError, match=column):
        compiled(f"SELECT id, {column} FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k")


def test_braces_in_the_text_stay_what_they_are() -> None:
    (join,) = joins(
        "WITH c AS (SELECT id, k, ts, '{}' AS j FROM orders) SELECT c.j FROM c JOIN rates r AS OF c.ts ON c.k = r.k"
    )
    assert join.left.sql == (
        "WITH c AS (SELECT id, k, ts, '{}' AS j FROM orders) SELECT c.k AS __k0, c.ts AS __as_of, `c`.`j` AS _l0 FROM c"
    )


@pytest.mark.parametrize(
    ("on", "keys"),
    [
        ("o.k = r.k", ("o.k", "r.k")),
        ("r.k = o.k", ("o.k", "r.k")),
        ("(((o.k)) = (r.k))", ("((o.k))", "(r.k)")),
        ("upper(o.k) = r.k", ("upper(o.k)", "r.k")),
        ("r.k = concat(o.k, o.name)", ("concat(o.k, o.name)", "r.k")),
        ("`r`.`K` = `o`.`k`", ("`o`.`k`", "`r`.`K`")),
        ("r.k = 'EUR'", ("'EUR'", "r.k")),
        ("o.k == r.k AND true", ("o.k", "r.k")),
    ],
)
def test_a_key_is_the_column_compared_with_the_left_in_either_order(on: str, keys: tuple[str, str]) -> None:
    (join,) = joins(f"SELECT o.id FROM orders o JOIN rates r AS OF o.ts ON {on}")
    assert join.left.sql.startswith(f"SELECT {keys[0]} AS __k0,")
    assert join.right.sql.startswith(f"SELECT {keys[1]} AS __k0,")
    assert join.config.n_keys == 1


def test_keys_are_cast_to_the_type_in_which_spark_compares_them() -> None:
    (join,) = joins("SELECT o.ts FROM maps o ASOF JOIN fills f MATCH_CONDITION (o.ts >= f.ts) ON o.k = f.id")
    assert "CAST(o.k AS bigint) AS __k0" in join.left.sql
    assert "SELECT f.id AS __k0" in join.right.sql


@pytest.mark.parametrize(
    ("condition", "direction", "exclusive"),
    [
        ("o.ts >= q.ts", "backward", False),
        ("o.ts > q.ts", "backward", True),
        ("q.ts <= o.ts", "backward", False),
        ("q.ts < o.ts", "backward", True),
        ("o.ts <= q.ts", "forward", False),
        ("q.ts > o.ts", "forward", True),
    ],
)
def test_a_comparison_says_the_direction(condition: str, direction: str, exclusive: bool) -> None:
    for text in (
        f"SELECT 1 FROM orders o ASOF JOIN quotes q MATCH_CONDITION ({condition}) ON o.k = q.k",
        f"SELECT 1 FROM orders ASOF JOIN quotes q ON orders.k = q.k AND {condition.replace('o.', 'orders.')}",
    ):
        (join,) = joins(text)
        assert (join.config.direction, join.config.exclusive) == (direction, exclusive)


def test_columns_that_are_not_read_are_not_shipped() -> None:
    (join,) = joins("SELECT o.id FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k AND r.rate > 1 WHERE o.n > 1")
    assert [c.name for c in join.left.columns] == ["__k0", "__as_of", "_l0", "_l1"]
    assert "`o`.`id` AS _l0, `o`.`n` AS _l1" in join.left.sql
    assert [c.name for c in join.right.columns if c.name.startswith("_r")] == ["_r0"]


def test_something_is_shipped_where_rows_are_only_counted() -> None:
    (join,) = joins("SELECT count(*) FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k")
    assert [c.name for c in join.columns] == ["_l0"]
    assert "`o`.`id` AS _l0" in join.left.sql


def test_a_star_ships_all_and_shows_what_it_showed() -> None:
    plan = compiled("SELECT * FROM orders o LEFT JOIN rates r AS OF o.ts USING (k)")
    assert [c.name for c in plan.root.columns] == "k id ts day n name rate at seq known".split()
    plan = compiled("SELECT r.*, o.id FROM orders o LEFT JOIN rates r AS OF o.ts ON o.k = r.k WITH REASON AS why")
    assert [c.name for c in plan.root.columns] == "k rate at seq known why id".split()


def test_a_merged_name_is_the_left_one_but_not_in_lists_and_aliases() -> None:
    sql = compiled("SELECT k, o.id k, k k FROM orders o LEFT JOIN rates r AS OF o.ts USING (k) WHERE k > ''").root.sql
    assert sql.startswith("SELECT `o`.`k`, o.id k, `o`.`k` k FROM")
    assert sql.endswith("WHERE `o`.`k` > ''")


def test_a_subquery_in_a_condition_keeps_its_own_names() -> None:
    on = "o.k = r.k AND r.rate > (SELECT max(n) FROM fills f WHERE f.k = r.k AND id > 0)"
    sql = compiled(f"SELECT o.id FROM orders o JOIN rates r AS OF o.ts ON {on}").root.sql
    assert "(SELECT max(n) FROM fills f WHERE f.k = r.k AND id > 0)" in sql


def test_a_table_expression_is_brought_along_where_an_input_reads_it() -> None:
    text = "WITH a AS (SELECT * FROM orders), m AS (SELECT max(ts) AS t FROM a), z AS (SELECT 1) "
    (join,) = joins(text + "SELECT f.id FROM fills f JOIN rates r AS OF (SELECT t FROM m) ON f.k = r.k")
    assert join.left.sql.startswith("WITH a AS (SELECT * FROM orders), m AS (SELECT max(ts) AS t FROM a) SELECT")


def test_joins_in_one_from_clause_read_each_other() -> None:
    first, second = joins(
        f"SELECT p.price FROM {JOIN} LEFT JOIN prices p AS OF o.ts ON p.k = r.k AND p.region = o.name"
    )
    assert first.name in second.left.sql
    assert [name for name, _ in second.left.reads] == [first.name]


def test_a_stream_meets_both_kinds_of_tables() -> None:
    plan = compiled(
        "SELECT c.id, r.rate, i.title FROM clicks c JOIN rates r AS OF c.ts ON c.k = r.k JOIN items i ON c.k = i.k",
        streaming=True,
    )
    assert [type(node) for node in plan.operators()] == [AsOfJoin, TableLookup]


@pytest.mark.parametrize(
    "table",
    [
        "items",
        "(SELECT * FROM items WHERE title <> '')",
        "items JOIN (SELECT k, at AS told FROM items) b USING (k)",
        "items a LEFT JOIN rates b USING (k)",
        "(SELECT k, count(*) AS c FROM items GROUP BY k)",
    ],
)
def test_updates_of_every_table_can_wait_and_are_its_rows_in_a_bounded_query(table: str) -> None:
    plan = compiled(f"WITH t AS (SELECT k FROM {table}) SELECT k FROM t EMIT EVERY INTERVAL 2 SECONDS PER KEY")
    assert plan.root.sql.strip().endswith("SELECT k, 'insert' AS _change_type FROM t")


def test_defaults_that_could_surprise_are_said() -> None:
    (note,) = compiled(f"SELECT 1 FROM {JOIN} WITH REASON").notes
    assert "NULL throughout" in note


def test_a_statement_cut_anywhere_is_compiled_or_refused() -> None:
    text = FULL.split(" JOIN items")[0]
    for token in tokenize(text):
        with suppress(TemporalSqlError):
            compiled(text[: token.end])


def test_types_are_asked_and_never_guessed() -> None:
    BINDER.asked.clear()
    compiled(f"SELECT o.id, r.rate FROM {JOIN}")
    assert 0 < len(BINDER.asked) < 12
