from __future__ import annotations

import pytest

from catalog.entries import Column
from sqlx.bind.scope import RelationScope, Scope, name_chains
from sqlx.errors import BindError
from sqlx.sql.tokens import tokenize


def visible(name: str, columns: str, **more: object) -> RelationScope:
    return RelationScope(name, tuple(Column(c, "int") for c in columns.split()), **more)  # type: ignore[arg-type]


def found(text: str, *left: RelationScope) -> list[str]:
    left = left or (visible("o", "id k day at s"), visible("i", "k title", merged=frozenset({"k"})))
    scope = Scope(text, left, visible("r", "rate at2 x"))
    return [f"{r.side} {r.relation.name}.{r.column.name}" for r in scope.references(tokenize(text))]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("o.id + R.RATE", ["left o.id", "right r.rate"]),
        ("id", ["left o.id"]),
        ("k", ["left o.k"]),
        ("i.k", ["left i.k"]),
        ("`o`.`id`", ["left o.id"]),
        ("s.field.inner", ["left o.s"]),
        ("o.s['a'].b", ["left o.s"]),
        ("upper(id) = 'id'", ["left o.id"]),
        ("CAST(id AS BIGINT) + INTERVAL 1 DAY", ["left o.id"]),
        ("CAST(day AS DATE)", ["left o.day"]),
        ("day + INTERVAL '1' DAY", ["left o.day"]),
        ("DATE '2020-01-01' + INTERVAL 1 DAY", []),
        ("at", ["left o.at"]),
        ("x", ["right r.x"]),
        ("extract(DAY FROM id)", ["left o.id"]),
        ("id NULLS FIRST", ["left o.id"]),
        ("transform(s, id -> id + 1)", ["left o.s"]),
        ("struct(id AS k).k", ["left o.id"]),
        ("id * 10L + 1e3 - 2BD", ["left o.id"]),
        ("aggregate(s, 0, (acc, y) -> acc + y)", ["left o.s"]),
        ("f(a => id)", ["left o.id"]),
        ("id::bigint", ["left o.id"]),
        ("current_timestamp", []),
        (":id + ?", []),
        ("id IN (SELECT id FROM nowhere WHERE b = o.k)", ["left o.id", "left o.k"]),
        ("id IN (SELECT o.id FROM other o)", ["left o.id"]),
        ("EXISTS (SELECT 1 FROM t WHERE t.id = r.rate)", ["right r.rate"]),
    ],
)
def test_names_belong_to_relations(text: str, names: list[str]) -> None:
    assert found(text) == names


def test_a_relation_without_alias_may_be_named_in_full() -> None:
    orders = visible("orders", "id", qualifiers=("cat", "db"))
    assert found("cat.db.orders.id = db.orders.id", orders) == ["left orders.id", "left orders.id"]


@pytest.mark.parametrize(
    ("text", "condition", "span"),
    [
        ("1 + nope", "BIND.UNKNOWN_COLUMN", (4, 8)),
        ("o.nope", "BIND.UNKNOWN_COLUMN", (0, 6)),
        ("z.id", "BIND.UNKNOWN_COLUMN", (0, 4)),
    ],
)
def test_what_is_nowhere_is_refused_where_it_stands(text: str, condition: str, span: tuple[int, int]) -> None:
    with pytest.raises(BindError) as refused:
        found(text)
    assert (refused.value.condition, refused.value.span) == (condition, span)


def test_what_is_in_two_relations_is_refused_with_both() -> None:
    with pytest.raises(BindError, match=r"a\.id or b\.id"):
        found("id", visible("a", "id"), visible("b", "id"))


def test_chains_are_dotted_names() -> None:
    assert [[t.name for t in c] for c in name_chains(tokenize("a.b.c + f(d) + `e f`"))] == [
        ["a", "b", "c"],
        ["d"],
        ["e f"],
    ]
