from __future__ import annotations

import pytest

from sqlx.plan.payload import spelled_names
from sqlx.sql.tokens import tokenize
from tests.harness.fake_binder import joins

ALL_LEFT, ALL_RIGHT = "id k ts day n name", "k rate at seq known"


@pytest.mark.parametrize(
    ("select", "tail", "left", "right"),
    [
        ("o.id", "", "id", ""),
        ("o.id, r.rate", "", "id", "rate"),
        ("ID, `Rate`", "", "id", "rate"),
        ("1", "", "id", ""),
        ("count(*)", "", "id", ""),
        ("count(*)", "WHERE r.rate > 1", "", "rate"),
        ("o.*", "", ALL_LEFT, ""),
        ("r.*, o.n", "", "n", ALL_RIGHT),
        ("*", "", ALL_LEFT, ALL_RIGHT),
        ("* EXCEPT (id)", "", ALL_LEFT, ALL_RIGHT),
        ("o.n * 2 AS x", "", "n", ""),
        ("o.k", "", "k", ""),
        ("r.K", "WHERE `O`.n > 1", "n", "k"),
        ("o.id, (SELECT max(x.k) FROM quotes x)", "", "id k", "k"),
        ("o.id", "GROUP BY o.id, o.day HAVING max(r.at) > min(o.ts) ORDER BY max(r.seq)", "id ts day", "at seq"),
        ("o.id", "AND r.seq > o.n", "id n", "seq"),
        ("(SELECT max(f.id) FROM fills f WHERE f.name = o.name)", "", "id name", ""),
        ("o.id", "JOIN quotes q ON q.k = r.k AND q.day = o.day", "id k day", "k"),
    ],
)
def test_only_columns_that_the_block_can_name_are_shipped(select: str, tail: str, left: str, right: str) -> None:
    text = f"SELECT {select} FROM orders o JOIN rates r AS OF o.ts ON o.k = r.k {tail}"
    (join,) = joins(text)
    shipped = [sql.split(" FROM ")[0] for sql in (join.left.sql, join.right.sql)]
    for sql, wanted, every in zip(shipped, (left, right), (ALL_LEFT, ALL_RIGHT), strict=True):
        assert {c for c in every.split() if f"`{c}` AS " in sql} == set(wanted.split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("r.k", {("", "r"), ("r", "k")}),
        ("main.db.R.`K`", {("", "main"), ("", "db"), ("", "r"), ("r", "k")}),
        ("address.k", {("", "address"), ("", "k")}),
        ("o.address.k", {("", "o"), ("o", "address"), ("", "k")}),
        ("other.o", {("", "other"), ("", "o")}),
        ("xs[0].k, f(r).k", {("", "xs"), ("", "k"), ("", "f"), ("", "r")}),
    ],
)
def test_only_a_name_of_a_relation_says_whose_column_is_meant(text: str, wanted: set[tuple[str, str]]) -> None:
    assert spelled_names(tuple(tokenize(text)), {"o", "r"}) == wanted
