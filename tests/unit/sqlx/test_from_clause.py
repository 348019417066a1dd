from __future__ import annotations

import pytest

from sqlx.sql.parser import scan
from sqlx.sql.structure import Relation


def relation_of(text: str) -> Relation:
    return scan(f"SELECT * FROM {text}").blocks[0].items[0].relation


RELATIONS = {
    "t": ("name", "t"),
    "a.b.`c d` x": ("name", "x"),
    "`a.b` AS `x y`": ("name", "x y"),
    "STREAM t AS x": ("name", "x"),
    "stream": ("name", "stream"),
    "stream x": ("name", "x"),
    "t TABLESAMPLE (10 ROWS) x": ("name", "x"),
    "t VERSION AS OF 3 AS x": ("name", "x"),
    "t FOR SYSTEM_TIME AS OF '2020-01-01' x": ("name", "x"),
    "t WITH ('split-size' = 5) x": ("name", "x"),
    "(SELECT 1) x": ("query", "x"),
    "((SELECT 1) UNION SELECT 2) AS x (a)": ("query", "x"),
    "(WITH c AS (SELECT 1) FROM c) x": ("query", "x"),
    "(VALUES (1)) AS x": ("query", "x"),
    "(TABLE t) x": ("query", "x"),
    "(a JOIN b USING (k)) AS x": ("group", "x"),
    "range(1, 10) AS x (id)": ("function", "x"),
    "history(db.t) x": ("function", "x"),
    "VALUES (1, 'a'), (2, 'b') AS x (n, s)": ("values", "x"),
    "VALUES 1, 2 x": ("values", "x"),
    "LATERAL (SELECT 1) x": ("query", "x"),
    "t emit": ("name", "emit"),
    "t of": ("name", "of"),
    "t `left`": ("name", "left"),
    "größe": ("name", "größe"),
}


@pytest.mark.parametrize("text", RELATIONS)
@pytest.mark.parametrize(
    "tail", ["", ";", ", b", " JOIN b ON 1 = 1", " WHERE true", " LATERAL VIEW explode(a) y AS z", " UNION SELECT 1"]
)
def test_every_relation_has_its_kind_and_name(text: str, tail: str) -> None:
    relation = relation_of(text + tail)
    assert (relation.kind, relation.visible_name) == RELATIONS[text]
    assert relation.span.of(f"SELECT * FROM {text}{tail}") == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a JOIN b ON a.k = b.k AND (a.x OR b.y) WHERE c", [("", "a.k = b.k AND (a.x OR b.y)")]),
        ("a JOIN b USING (k, `l m`) LEFT ANTI JOIN c ON a.k = c.k", [("", ""), ("LEFT ANTI", "a.k = c.k")]),
        ("a NATURAL FULL OUTER JOIN b CROSS JOIN c", [("NATURAL FULL OUTER", ""), ("CROSS", "")]),
        ("a JOIN b ON a.left = b.where JOIN c", [("", "a.left = b.where"), ("", "")]),
        ("a JOIN b ON a.x IS NOT DISTINCT FROM b.x LIMIT 3", [("", "a.x IS NOT DISTINCT FROM b.x")]),
        ("a JOIN LATERAL (SELECT a.x) b ON true", [("", "true")]),
    ],
)
def test_plain_joins_have_their_kind_and_condition(text: str, found: list[tuple[str, str]]) -> None:
    statement = f"SELECT * FROM {text}"
    joins = scan(statement).blocks[0].items[0].joins
    assert [(j.kind, j.on.of(statement) if j.on else "") for j in joins] == found


def test_what_follows_a_name_is_kept_apart() -> None:
    text = "SELECT * FROM t TIMESTAMP AS OF '2020-01-01' WITH (a = 1) TABLESAMPLE (5 ROWS) AS x"
    relation = scan(text).blocks[0].items[0].relation
    assert (relation.travel_kind, relation.body.of(text)) == ("TIMESTAMP", "t")
    assert relation.travel is not None
    assert relation.travel.of(text) == "TIMESTAMP AS OF '2020-01-01'"
    assert relation.extra is not None
    assert relation.extra.of(text) == "WITH (a = 1) TABLESAMPLE (5 ROWS)"


def test_a_list_that_is_no_list_of_names_is_left_to_spark() -> None:
    assert relation_of("t AS x (a + 1)").columns == ()
    assert relation_of("t AS x ()").columns == ()
    assert relation_of("t AS x (a,)").columns == ()
